#include "sim/io/installation.hpp"

#include <filesystem>

namespace pdl {
namespace {

namespace fs = std::filesystem;

/// Empty where the system does not say.
fs::path program_folder() {
  std::error_code unknown;
  return fs::read_symlink("/proc/self/exe", unknown).parent_path();
}

/// That was set; empty: none. A function's, so that it is there before any other static of the program.
fs::path& set_folder() {
  static fs::path folder;
  return folder;
}

}  // namespace

std::string project_version() {
  return PDL_VERSION;
}

void set_bundled_folder(const std::string& folder) {
  set_folder() = folder;
}

std::string version_text(const std::string& program) {
  return program + " " + project_version();
}

std::string bundled_folder(const std::string& name) {
  const fs::path program = program_folder();
  std::error_code ignored;
  for (const fs::path& place :
       {set_folder(), program.empty() ? program : program.parent_path() / "share" / "pdl", fs::path(PDL_SOURCE_DIR)}) {
    if (!place.empty() && fs::is_directory(place / name, ignored)) return (place / name).string();
  }
  return "";
}

}  // namespace pdl
