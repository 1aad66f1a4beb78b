// Text compared with a file under tests/golden. A mismatch writes what came out beside it, as NAME.new: look at it, and
// rename it if it is right.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/catch.hpp"

namespace pdl {

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void check_golden(const std::string& name, const std::string& actual) {
  const std::string path = PDL_SOURCE_DIR "/tests/golden/" + name;
  const std::string expected = read_text(path);
  if (actual != expected) std::ofstream(path + ".new", std::ios::binary) << actual;
  if (actual == expected) std::filesystem::remove(path + ".new");
  INFO("golden file " << path << " (what came out is beside it, .new)");
  CHECK(actual == expected);
}

}  // namespace pdl
