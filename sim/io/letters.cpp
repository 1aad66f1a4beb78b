#include "sim/io/letters.hpp"

#include <array>
#include <cstdint>

namespace pdl {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::uint8_t kNoDigit = 255;
constexpr std::array<std::uint8_t, 256> kDigitOf = [] {
  std::array<std::uint8_t, 256> digits{};
  digits.fill(kNoDigit);
  for (std::size_t d = 0; d < kDigits.size(); ++d)
    digits[static_cast<unsigned char>(kDigits[d])] = static_cast<std::uint8_t>(d);
  return digits;
}();

}  // namespace

std::string letters_of(std::optional<std::size_t> index) {
  if (!index) return "---";
  return {kDigits[*index / 4096], kDigits[*index / 64 % 64], kDigits[*index % 64]};
}

std::optional<std::size_t> index_of_letters(std::string_view text, std::size_t begin) {
  if (text.substr(begin, kLetters) == "---") return std::nullopt;
  std::size_t index = 0;
  for (const char letter : text.substr(begin, kLetters)) {
    const std::uint8_t digit = kDigitOf[static_cast<unsigned char>(letter)];
    if (digit == kNoDigit) return kMostIndices;
    index = index * 64 + digit;
  }
  return index;
}

}  // namespace pdl
