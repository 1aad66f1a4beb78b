#include "sim/io/input_file.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "sim/io/error.hpp"

namespace pdl {
namespace {

namespace fs = std::filesystem;

/// What is there instead of a file that can be read to its end; empty: it is one.
std::string other_than_a_file(const std::string& path, fs::file_type type) {
  const bool is_open = path.starts_with("/dev/") || path.starts_with("/proc/self/fd/");
  switch (type) {
    case fs::file_type::regular: return "";
    case fs::file_type::directory: return "a folder";
    case fs::file_type::fifo: return is_open ? "" : "a named pipe, no regular file";
    case fs::file_type::socket: return "a socket, no regular file";
    case fs::file_type::character:
    case fs::file_type::block: return "a device, no regular file";
    case fs::file_type::not_found: return "no such file";
    default: return "a file that cannot be read";
  }
}

/// The files that this program has read, for was_read_as_input().
struct InputsRead {
  std::mutex mutex;
  std::set<fs::path> paths;
};

InputsRead& inputs_read() {
  static InputsRead read;
  return read;
}

}  // namespace

bool was_read_as_input(const std::string& path) {
  InputsRead& read = inputs_read();
  const std::lock_guard lock(read.mutex);
  return std::any_of(read.paths.begin(), read.paths.end(), [&](const fs::path& input) {
    std::error_code not_there;
    return fs::equivalent(input, path, not_there) && !not_there;
  });
}

std::string read_input_file(const std::string& path, std::uintmax_t most_bytes, const std::string& expected) {
  std::error_code unknown;
  const fs::file_type type = fs::status(path, unknown).type();
  if (const std::string other = other_than_a_file(path, type); !other.empty()) throw InputError(path, other, expected);
  const auto refuse_larger = [&](std::uintmax_t bytes) {
    if (bytes > most_bytes)
      throw InputError(path, "more than " + std::to_string(most_bytes) + " bytes", expected + " of at most that");
  };
  const std::uintmax_t expected_bytes = type == fs::file_type::regular ? fs::file_size(path, unknown) : 0;
  refuse_larger(expected_bytes);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(path, "a file that cannot be read", expected);
  std::string text;
  text.reserve(static_cast<std::size_t>(expected_bytes));
  std::array<char, 1 << 16> part;
  while (file.read(part.data(), part.size()) || file.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
    refuse_larger(text.size());
  }
  if (file.bad()) throw InputError(path, "an error while reading it", expected);
  InputsRead& read = inputs_read();
  const std::lock_guard lock(read.mutex);
  read.paths.emplace(path);
  return text;
}

}  // namespace pdl
