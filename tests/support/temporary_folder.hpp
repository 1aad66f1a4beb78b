// A folder of its own for a test, gone with it. POSIX calls only: programs that link LibTorch's wheel have two
// std::filesystem in them, and which one is called depends on the order of linking.
#pragma once

#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <stdexcept>
#include <string>

namespace pdl {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* place = std::getenv("TMPDIR");
    path_ = std::string(place && *place ? place : "/tmp") + "/pdl-test-XXXXXX";
    if (!mkdtemp(path_.data())) throw std::runtime_error("no folder can be made as " + path_);
  }
  ~TemporaryFolder() {
    const auto remove_one = [](const char* name, const struct stat*, int, struct FTW*) { return ::remove(name); };
    nftw(path_.c_str(), remove_one, 16, FTW_DEPTH | FTW_PHYS);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

  /// Writes a file, its folders too; returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
      mkdir((*this / name.substr(0, slash)).c_str(), 0777);
    }
    std::ofstream(*this / name, std::ios::binary) << text;
    return *this / name;
  }

 private:
  std::string path_;
};

}  // namespace pdl
