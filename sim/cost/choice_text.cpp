#include "sim/cost/choice_text.hpp"

#include <algorithm>
#include <utility>

#include "sim/io/letters.hpp"

namespace pdl {
namespace {

constexpr std::size_t kMostAgain = 64;

/// The last of three letters alone.
char letter_of(std::size_t number) {
  return letters_of(number).back();
}

std::optional<std::size_t> number_of(char letter) {
  const std::optional<std::size_t> number = index_of_letters(std::string("AA") + letter, 0);
  return number && *number < kMostAgain ? number : std::nullopt;
}

}  // namespace

std::string choice_text(const KernelIndices& indices, const KernelIndices& before) {
  const auto token = [&](std::size_t i) {
    return before.size() == indices.size() && before[i] == indices[i] ? std::string("=") : letters_of(indices[i]);
  };
  std::string text;
  for (std::size_t i = 0; i < indices.size();) {
    const std::string first = token(i);
    text += first;
    std::size_t again = 0;
    for (++i; i < indices.size() && again < kMostAgain && token(i) == first; ++i) ++again;
    if (again > 0) text += std::string("*") + letter_of(again - 1);
  }
  return text;
}

std::optional<KernelIndices> read_choice_text(std::string_view text, std::size_t count, std::size_t limit,
                                              const KernelIndices& before) {
  KernelIndices indices;
  indices.reserve(count);
  for (std::size_t at = 0; at < text.size();) {
    const bool as_before = text[at] == '=';
    std::optional<std::size_t> index;
    if (!as_before) {
      if (at + kLetters > text.size()) return std::nullopt;
      index = index_of_letters(text, at);
      if (index && *index >= limit) return std::nullopt;
    }
    at += as_before ? 1 : kLetters;
    std::size_t times = 1;
    if (at < text.size() && text[at] == '*') {
      const std::optional<std::size_t> more = at + 1 < text.size() ? number_of(text[at + 1]) : std::nullopt;
      if (!more) return std::nullopt;
      times += *more + 1;
      at += 2;
    }
    if (indices.size() + times > count || (as_before && before.size() != count)) return std::nullopt;
    for (std::size_t i = 0; i < times; ++i) indices.push_back(as_before ? before[indices.size()] : index);
  }
  return indices.size() == count ? std::optional(std::move(indices)) : std::nullopt;
}

}  // namespace pdl
