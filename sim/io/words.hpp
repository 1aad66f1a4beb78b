// Reading single words of the user: numbers without regard to the locale, and the known word nearest to a mistyped one.
//
//   parse_whole("--gpus", "5", 1, 1000000)   -> 5
//   parse_whole("--gpus", "5x", 1, 1000000)
//   -> InputError "--gpus: found 5x, expected a whole number from 1 to 1000000"
//   nearest_word("gups", {"gpus", "depth"})  -> "gpus"
//   nearest_word("tp", {"mp", "dp"})         -> "": half of a word of two letters is no slip of the finger
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pdl {

std::int64_t parse_whole(std::string_view place, std::string_view text, std::int64_t least, std::int64_t largest);

/// A finite number in plain or scientific notation within [least, largest].
double parse_number(std::string_view place, std::string_view text, double least, double largest);

/// "40GiB", "512 MiB", "80e9"; KiB to TiB are powers of 1024, kB to TB of 1000, a plain number is bytes. InputError.
std::int64_t parse_bytes(const std::string& place, const std::string& text);

/// The shortest text that reads back as the same number.
std::string to_text(double number);

/// The known word that this one is probably a slip of: the fewest edits (letters put in, left out, replaced, or two
/// neighbours exchanged), at most one for every three letters of the shorter word; upper case counts as lower case.
/// Empty if there is none: no hint is better than a wrong one.
std::string nearest_word(std::string_view word, std::span<const std::string> known);

/// The known words that begin as this one does: with all of it, or if none does with its first part, up to a dash or
/// an underscore. "--seq" and "--seq_len": "--sequence"; "--bucket": "--bucket-mb", "--bucket-views". Fewer than three
/// letters begin no word.
std::vector<std::string> words_that_begin_as(std::string_view word, std::span<const std::string> known);

/// The parts between the separators, empty ones too: split_at("1,,2", ',') is "1", "", "2".
std::vector<std::string> split_at(std::string_view text, char separator);

/// "a, b or c"
std::string list_words(std::span<const std::string> words);

}  // namespace pdl
