// Numbers as text: std::to_chars everywhere, because it knows no locale.
#include "sim/io/number_text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace pdl {

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
  constexpr std::array<const char*, 7> units = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fixed(value, digits) + " " + units[unit];
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
