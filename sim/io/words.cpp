#include "sim/io/words.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/io/error.hpp"

namespace pdl {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

/// The dashes that a flag begins with are no letters of it.
std::size_t letters(std::string_view word) {
  return word.size() - std::min(word.find_first_not_of('-'), word.size());
}

/// Optimal string alignment: Levenshtein's distance, with two neighbours exchanged as one edit.
std::size_t edits_between(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1), last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::int64_t parse_whole(std::string_view place, std::string_view text, std::int64_t least, std::int64_t largest) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > largest) {
    throw InputError(place, text.empty() ? "nothing" : text,
                     "a whole number from " + std::to_string(least) + " to " + std::to_string(largest));
  }
  return number;
}

double parse_number(std::string_view place, std::string_view text, double least, double largest) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number) || number < least ||
      number > largest) {
    throw InputError(place, text.empty() ? "nothing" : text,
                     "a number from " + to_text(least) + " to " + to_text(largest));
  }
  return number;
}

std::int64_t parse_bytes(const std::string& place, const std::string& text) {
  constexpr std::array<std::pair<const char*, double>, 9> kUnits = {{{"KiB", 0x1p10},
                                                                     {"MiB", 0x1p20},
                                                                     {"GiB", 0x1p30},
                                                                     {"TiB", 0x1p40},
                                                                     {"kB", 1e3},
                                                                     {"MB", 1e6},
                                                                     {"GB", 1e9},
                                                                     {"TB", 1e12},
                                                                     {"B", 1}}};
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const auto& u) { return text.ends_with(u.first); });
  const double scale = unit == kUnits.end() ? 1 : unit->second;
  std::string number = unit == kUnits.end() ? text : text.substr(0, text.size() - std::string(unit->first).size());
  while (number.ends_with(' ')) number.pop_back();
  double bytes = 0;
  try {
    bytes = parse_number(place, number, 0, 1e18 / scale) * scale;
  } catch (const InputError&) {
    throw InputError(place, text, "an amount of memory, such as 40GiB or 80e9");
  }
  if (bytes < 1) throw InputError(place, text, "at least one byte");
  return static_cast<std::int64_t>(bytes);
}

std::string to_text(double number) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, number);
  return std::string(buffer, result.ptr);
}

std::string nearest_word(std::string_view word, std::span<const std::string> known) {
  constexpr std::size_t kLettersAnEdit = 3;
  std::string nearest;
  std::size_t least = 0;
  for (const std::string& candidate : known) {
    const std::size_t edits = edits_between(lower_case(word), lower_case(candidate));
    if (edits > std::min(letters(word), letters(candidate)) / kLettersAnEdit) continue;
    if (!nearest.empty() && edits >= least) continue;
    least = edits;
    nearest = candidate;
  }
  return nearest;
}

std::vector<std::string> words_that_begin_as(std::string_view word, std::span<const std::string> known) {
  constexpr std::size_t kFewestLetters = 3;
  const std::size_t dashes = word.size() - letters(word);
  const std::string whole = lower_case(word), first_part = whole.substr(0, whole.find_first_of("-_", dashes));
  std::vector<std::string> alike;
  for (const std::string& begin : {whole, first_part}) {
    if (letters(begin) < kFewestLetters || !alike.empty()) continue;
    std::copy_if(known.begin(), known.end(), std::back_inserter(alike),
                 [&](const std::string& candidate) { return candidate.starts_with(begin); });
  }
  return alike;
}

std::vector<std::string> split_at(std::string_view text, char separator) {
  std::vector<std::string> parts = {""};
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

std::string list_words(std::span<const std::string> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  }
  return text;
}

}  // namespace pdl
