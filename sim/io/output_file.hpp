// Output files are written whole or not at all.
//
//   write_output("run.json", [&](std::ostream& out) { out << text; });    // "-": standard output
#pragma once

#include <functional>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>

namespace pdl {

/// Before work that takes long. Throws InputError naming `flag`: nothing can be written there, as far as that is known.
void check_writable(const std::string& flag, const std::string& path);

/// Writes to a temporary name in the same folder, then renames. Throws InputError naming the file and the reason
/// (no such folder, read-only, disk full); then the old file, if any, is still there and the temporary one is gone.
void write_output(const std::string& path, const std::function<void(std::ostream&)>& write);

/// The same of a JSON document, a space a level. A name that is no UTF-8 has replacement characters.
void write_json(const std::string& path, const nlohmann::ordered_json& document);

}  // namespace pdl
