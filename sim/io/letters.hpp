// Indices of a list as three letters each, for long lists of them in a file: 0 is "AAA", 1 "AAB", none "---".
//
//   letters_of(17) + letters_of(std::nullopt)   // "AAR---"
//   index_of_letters("AAR---", 3)               // none
//
// Base 64: A-Z, a-z, 0-9, +, /. Not here: what the list is, or whether it has so many.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace pdl {

inline constexpr std::size_t kLetters = 3;
inline constexpr std::size_t kMostIndices = 64 * 64 * 64;

/// index < kMostIndices.
std::string letters_of(std::optional<std::size_t> index);

/// Of the three letters that begin there. kMostIndices if they are no letters of an index.
std::optional<std::size_t> index_of_letters(std::string_view text, std::size_t begin);

}  // namespace pdl
