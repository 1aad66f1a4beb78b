#include "sim/io/letters.hpp"

namespace pdl {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string letters_of(std::optional<std::size_t> index) {
  if (!index) return "---";
  return {kDigits[*index / 4096], kDigits[*index / 64 % 64], kDigits[*index % 64]};
}

std::optional<std::size_t> index_of_letters(std::string_view text, std::size_t begin) {
  if (text.substr(begin, kLetters) == "---") return std::nullopt;
  std::size_t index = 0;
  for (const char letter : text.substr(begin, kLetters)) {
    const std::size_t digit = kDigits.find(letter);
    if (digit == kDigits.npos) return kMostIndices;
    index = index * 64 + digit;
  }
  return index;
}

}  // namespace pdl
