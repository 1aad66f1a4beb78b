// Catch2, version 2 (Debian 12) or 3 (Ubuntu 24.04): the same macros from either.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>
using Catch::Matchers::Contains;
inline auto ContainsSubstring(const std::string& text) {
  return Contains(text);
}
#endif
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
