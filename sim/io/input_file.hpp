// Files that are read whole: all that this program reads from the user.
//
//   read_input_file("a.json", 1 << 30, "a JSON file")    -> its bytes
//   read_input_file("/dev/zero", 1 << 30, "a JSON file")
//   -> InputError "/dev/zero: found a device, no regular file, expected a JSON file"
//
// A device may have no end, and opening a named pipe waits for somebody who writes: neither is opened. A pipe that is
// open already (/dev/stdin, the /dev/fd/63 of a shell's process substitution) is read. Not here: what is in the file.
#pragma once

#include <cstdint>
#include <string>

namespace pdl {

/// Throws InputError naming the file, with `expected`: no such file, a folder, no regular file, none that can be read,
/// more than `most_bytes` (of a pipe: as soon as that is known).
std::string read_input_file(const std::string& path, std::uintmax_t most_bytes, const std::string& expected);

/// The file has been read by read_input_file(), under this name or another one (a link, "./a.json"): an output must not
/// replace it.
bool was_read_as_input(const std::string& path);

}  // namespace pdl
