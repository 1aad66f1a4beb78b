#include "sim/spec/words.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/spec/error.hpp"

namespace pdl {

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
  std::string nearest;
  std::size_t least = 4;
  for (const std::string& candidate : known) {
    std::vector<std::size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i + 1;
      for (std::size_t j = 0; j < candidate.size(); ++j) {
        const std::size_t substituted = diagonal + (word[i] == candidate[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
      }
    }
    if (row.back() < least) {
      least = row.back();
      nearest = candidate;
    }
  }
  return nearest;
}

std::string list_words(std::span<const std::string> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  }
  return text;
}

}  // namespace pdl
