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

}  // namespace

std::string version_text(const std::string& program) {
  return program + " " PDL_VERSION;
}

std::string bundled_folder(const std::string& name) {
  const fs::path program = program_folder();
  std::error_code ignored;
  if (!program.empty()) {
    const fs::path installed = program.parent_path() / "share" / "pdl" / name;
    if (fs::is_directory(installed, ignored)) return installed.string();
  }
  const fs::path source = fs::path(PDL_SOURCE_DIR) / name;
  return fs::is_directory(source, ignored) ? source.string() : "";
}

}  // namespace pdl
