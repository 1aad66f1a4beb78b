// Numbers as text: std::to_chars everywhere, because it knows no locale.
#include "sim/io/number_text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace pdl {
namespace {

std::string with_decimal_unit(double value, const char* unit) {
  constexpr std::array<const char*, 7> prefixes = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  while (value >= 999.5 && prefix + 1 < prefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  const int digits = prefix == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fixed(value, digits) + " " + prefixes[prefix] + unit;
}

}  // namespace

std::string fixed(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 400> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, digits);
  std::string text(buffer.data(), end.ptr);
  if (text[0] == '-' && text.find_first_of("123456789") == std::string::npos) text.erase(0, 1);
  return text;
}

std::string signed_fixed(double value, int digits) {
  const std::string text = fixed(value, digits);
  const bool zero = text.find_first_of("123456789naif") == std::string::npos;
  return zero || text[0] == '-' ? text : "+" + text;
}

std::string percent(double fraction) {
  return fixed(fraction * 100, 1) + " %";
}

std::string grouped(std::int64_t value) {
  std::string text = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string decimal_bytes(std::int64_t bytes) {
  return with_decimal_unit(static_cast<double>(bytes), "B");
}

std::string decimal_flops(double flops) {
  return with_decimal_unit(flops, "FLOP");
}

std::string gib(std::int64_t bytes) {
  return fixed(static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0), 2);
}

std::string mib(std::int64_t bytes) {
  return fixed(static_cast<double>(bytes) / (1024.0 * 1024.0), 2);
}

std::string binary_bytes(std::int64_t bytes) {
  return bytes < 1 << 30 ? mib(bytes) + " MiB" : gib(bytes) + " GiB";
}

std::string milliseconds(std::int64_t ns) {
  return fixed(static_cast<double>(ns) / 1e6, 3);
}

}  // namespace pdl
