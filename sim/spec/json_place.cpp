#include "sim/spec/json_place.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "sim/spec/error.hpp"
#include "sim/spec/words.hpp"

namespace pdl {
namespace {

constexpr std::uintmax_t kLargestFileBytes = std::uintmax_t{1} << 30;
constexpr int kDeepest = 100;  // values within values; what writes a document again walks down it

/// A value as a message shows it: whole if short.
std::string shown(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  const std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

/// nlohmann's message from "at line" on: "line 3, column 5: syntax error ...".
std::string where(const std::string& message) {
  const std::size_t line = message.find("line ");
  return line == std::string::npos ? message : message.substr(line);
}

/// The whole file; refused beyond the largest size, also where that is not known before (a pipe).
std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(path, "a file that cannot be read", "a JSON file");
  std::string text;
  std::vector<char> block(1 << 16);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > kLargestFileBytes) {
      throw InputError(path, "more than " + std::to_string(kLargestFileBytes) + " bytes", "a JSON file of at most that");
    }
  }
  return text;
}

}  // namespace

nlohmann::json read_json_file(const std::string& path, std::span<const std::string> kept) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw InputError(path, "no such file", "a JSON file");
  if (std::filesystem::is_directory(status)) throw InputError(path, "a folder", "a JSON file");
  const auto bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > kLargestFileBytes) {
    throw InputError(path, std::to_string(bytes) + " bytes", "at most " + std::to_string(kLargestFileBytes));
  }
  const std::string text = read_text(path);

  std::vector<std::set<std::string>> keys;
  std::string twice;
  const auto watch_keys = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (depth > kDeepest) {
      throw InputError(path, "values nested deeper than " + std::to_string(kDeepest), "a JSON document of at most that");
    }
    if (event == nlohmann::json::parse_event_t::object_start) keys.emplace_back();
    if (event == nlohmann::json::parse_event_t::object_end) keys.pop_back();
    if (event != nlohmann::json::parse_event_t::key) return true;
    const std::string& key = parsed.get_ref<const std::string&>();
    if (!keys.back().insert(key).second) twice = key;
    return depth > 1 || kept.empty() || std::find(kept.begin(), kept.end(), key) != kept.end();
  };
  nlohmann::json document;
  try {
    document = nlohmann::json::parse(text, watch_keys);
  } catch (const nlohmann::json::exception& problem) {
    throw InputError(path, "a file that is not whole JSON (" + where(problem.what()) + ")", "a JSON document");
  }
  if (!twice.empty()) throw InputError(path, "the key \"" + twice + "\" twice in one object", "each key once");
  return document;
}

JsonPlace JsonPlace::at(const std::string& key) const {
  object();
  if (!has(key)) throw InputError(name(), "no key \"" + key + "\"", "one");
  return {(*value_)[key], file_, path_.empty() ? key : path_ + "." + key};
}

JsonPlace JsonPlace::at(std::size_t index) const {
  return {array().json()[index], file_, path_ + "[" + std::to_string(index) + "]"};
}

const JsonPlace& JsonPlace::object() const {
  if (!value_->is_object()) refuse("an object");
  return *this;
}

const JsonPlace& JsonPlace::array() const {
  if (!value_->is_array()) refuse("a list");
  return *this;
}

const JsonPlace& JsonPlace::object_of(std::span<const std::string> known) const {
  object();
  for (const auto& [key, value] : value_->items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string nearest = nearest_word(key, known);
    throw InputError(name(), "an unknown key \"" + key + "\"",
                     nearest.empty() ? list_words(known) : "\"" + nearest + "\" perhaps (known: " + list_words(known) + ")");
  }
  return *this;
}

std::int64_t JsonPlace::whole(std::int64_t least, std::int64_t largest) const {
  const bool fits = value_->is_number_integer() &&
                    !(value_->is_number_unsigned() && value_->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX));
  if (!fits || value_->get<std::int64_t>() < least || value_->get<std::int64_t>() > largest) {
    refuse("a whole number from " + std::to_string(least) + " to " + std::to_string(largest));
  }
  return value_->get<std::int64_t>();
}

double JsonPlace::number(double least, double largest) const {
  if (!value_->is_number() || !std::isfinite(value_->get<double>()) || value_->get<double>() < least ||
      value_->get<double>() > largest) {
    refuse("a number from " + to_text(least) + " to " + to_text(largest));
  }
  return value_->get<double>();
}

bool JsonPlace::boolean() const {
  if (!value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

std::string JsonPlace::text() const {
  if (!value_->is_string()) refuse("text in quotes");
  return value_->get<std::string>();
}

void JsonPlace::refuse(const std::string& expected) const { throw InputError(name(), shown(*value_), expected); }

}  // namespace pdl
