// A folder of profiles instead of the usual one, while a test runs.
//
//   const TemporaryFolder folder;
//   const DataFolder data(folder.path());  // load_profile("x") reads x/profile.json of it
//
// Profiles of the source tree's data/ stay visible behind it: names of tests begin with "zz-".
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace pdl {

/// Sets PDL_DATA while it lives.
class DataFolder {
 public:
  explicit DataFolder(const std::string& path) {
    if (const char* before = std::getenv("PDL_DATA")) before_ = before;
    setenv("PDL_DATA", path.c_str(), 1);
  }
  ~DataFolder() { before_ ? setenv("PDL_DATA", before_->c_str(), 1) : unsetenv("PDL_DATA"); }
  DataFolder(const DataFolder&) = delete;

 private:
  std::optional<std::string> before_;
};

}  // namespace pdl
