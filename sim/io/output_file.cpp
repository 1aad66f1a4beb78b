#include "sim/io/output_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "sim/io/error.hpp"

namespace pdl {
namespace {

[[noreturn]] void refuse(const std::string& path, int error) {
  throw InputError(path, "a file that cannot be written (" + std::string(std::strerror(error)) + ")",
                   "a writable place");
}

}  // namespace

void check_writable(const std::string& flag, const std::string& path) {
  if (path.empty() || path == "-") return;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const std::string in = folder.empty() ? "." : folder.string();
  if (std::filesystem::is_directory(path)) throw InputError(flag, path + ", a folder", "the name of a file");
  if (!std::filesystem::is_directory(in))
    throw InputError(flag, path + " in a folder that is not there", "a folder that is");
  if (access(in.c_str(), W_OK) != 0)
    throw InputError(flag, path + " in a folder that cannot be written", "another folder");
}

void write_output(const std::string& path, const std::function<void(std::ostream&)>& write) {
  if (path == "-") {
    write(std::cout);
    if (!std::cout.flush()) refuse("standard output", EIO);
    return;
  }
  if (std::filesystem::is_directory(path)) throw InputError(path, "a folder", "the name of a file");
  // Devices and pipes (/dev/stdout) are written to, not replaced.
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  const bool replace = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
  const std::string target = replace ? path + ".tmp" + std::to_string(getpid()) : path;
  errno = 0;
  std::ofstream file(target, std::ios::binary | std::ios::trunc);
  if (!file) refuse(path, errno);
  errno = 0;
  try {
    write(file);
  } catch (...) {
    if (replace) std::filesystem::remove(target, ignored);
    throw;
  }
  file.close();
  if (!file) {
    const int error = errno;
    if (replace) std::filesystem::remove(target, ignored);
    refuse(path, error == 0 ? EIO : error);
  }
  if (!replace) return;
  std::error_code renamed;
  std::filesystem::rename(target, path, renamed);
  if (renamed) {
    std::filesystem::remove(target, ignored);
    refuse(path, renamed.value());
  }
}

void write_json(const std::string& path, const nlohmann::ordered_json& document) {
  write_output(path, [&](std::ostream& out) {
    out << document.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
  });
}

}  // namespace pdl
