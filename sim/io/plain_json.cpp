#include "sim/io/plain_json.hpp"

#include <charconv>
#include <string>

namespace pdl {
namespace {

/// Each reader gives false for what is not plain, and then nothing is read any more.
class PlainReader {
 public:
  explicit PlainReader(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool document(nlohmann::json& value) { return read_value(value, 0) && (skip_space(), at_ == end_); }

 private:
  char next() const { return at_ == end_ ? '\0' : *at_; }

  bool take(char expected) {
    if (next() != expected) return false;
    ++at_;
    return true;
  }

  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }

  bool read_value(nlohmann::json& value, std::size_t depth) {
    skip_space();
    switch (next()) {
      case '{': return depth < kDeepestJson && read_object(value, depth);
      case '[': return depth < kDeepestJson && read_array(value, depth);
      case '"': value = nlohmann::json::value_t::string; return read_text(value.get_ref<std::string&>());
      case 't': return read_word("true", value, true);
      case 'f': return read_word("false", value, false);
      case 'n': return read_word("null", value, nullptr);
      default: return read_number(value);
    }
  }

  bool read_object(nlohmann::json& value, std::size_t depth) {
    ++at_;
    value = nlohmann::json::value_t::object;
    auto& members = value.get_ref<nlohmann::json::object_t&>();
    skip_space();
    if (take('}')) return true;
    for (;;) {
      std::string key;
      skip_space();
      if (next() != '"' || !read_text(key)) return false;
      const auto [member, is_new] = members.emplace(std::move(key), nullptr);
      skip_space();
      if (!is_new || !take(':') || !read_value(member->second, depth + 1)) return false;
      skip_space();
      if (take('}')) return true;
      if (!take(',')) return false;
    }
  }

  bool read_array(nlohmann::json& value, std::size_t depth) {
    ++at_;
    value = nlohmann::json::value_t::array;
    auto& items = value.get_ref<nlohmann::json::array_t&>();
    skip_space();
    if (take(']')) return true;
    for (;;) {
      if (!read_value(items.emplace_back(), depth + 1)) return false;
      skip_space();
      if (take(']')) return true;
      if (!take(',')) return false;
    }
  }

  /// From the quote on.
  bool read_text(std::string& text) {
    for (const char* begin = ++at_; at_ != end_; begin = at_) {
      while (at_ != end_ && *at_ >= ' ' && *at_ <= '~' && *at_ != '"' && *at_ != '\\') ++at_;
      text.append(begin, at_);
      if (take('"')) return true;
      if (!take('\\') || !read_escape(text)) return false;
    }
    return false;
  }

  bool read_escape(std::string& text) {
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const std::size_t letter = kLetters.find(next());
    if (at_ == end_ || letter == kLetters.npos) return false;
    text += kMeanings[letter];
    ++at_;
    return true;
  }

  template <typename Meaning>
  bool read_word(std::string_view word, nlohmann::json& value, Meaning meaning) {
    if (!std::string_view(at_, end_).starts_with(word)) return false;
    at_ += word.size();
    value = meaning;
    return true;
  }

  std::size_t skip_digits() {
    const char* const begin = at_;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return static_cast<std::size_t>(at_ - begin);
  }

  bool read_number(nlohmann::json& value) {
    constexpr std::size_t kMostDigits = 18;
    const char* const begin = at_;
    const bool negative = take('-');
    const bool zero_first = next() == '0';
    const std::size_t digits = skip_digits();
    if (digits == 0 || digits > kMostDigits || (zero_first && digits > 1)) return false;
    bool whole = true;
    if (take('.')) {
      whole = false;
      if (skip_digits() == 0) return false;
    }
    if (next() == 'e' || next() == 'E') {
      whole = false;
      ++at_;
      if (next() == '+' || next() == '-') ++at_;
      if (skip_digits() == 0) return false;
    }
    if (!whole) return convert<double>(begin, value);
    return negative ? convert<std::int64_t>(begin, value) : convert<std::uint64_t>(begin, value);
  }

  template <typename Number>
  bool convert(const char* begin, nlohmann::json& value) {
    Number number{};
    const auto [end, error] = std::from_chars(begin, at_, number);
    value = number;
    return error == std::errc() && end == at_;
  }

  const char* at_;
  const char* end_;
};

}  // namespace

std::optional<nlohmann::json> plain_json(std::string_view text) {
  nlohmann::json document;
  if (!PlainReader(text).document(document)) return std::nullopt;
  return document;
}

}  // namespace pdl
