#include "sim/io/json_place.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "sim/io/error.hpp"
#include "sim/io/input_file.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

constexpr std::uintmax_t kLargestFileBytes = std::uintmax_t{1} << 30;
constexpr std::size_t kDeepest = 100;  // values within values; what writes a document again walks down it

/// A value as a message shows it: whole if short.
std::string shown(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  const std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

/// nlohmann's message without what it says of itself, "[json.exception.parse_error.101] parse error at ".
std::string reason_of(const std::string& message) {
  const std::size_t line = message.find("line "), own_end = message.find("] ");
  if (line != std::string::npos) return message.substr(line);
  return own_end == std::string::npos ? message : message.substr(own_end + 2);
}

/// "line 3, column 5": of the last of the bytes that have been read.
std::string line_and_column(const std::string& text, std::size_t read_bytes) {
  const std::string_view before = std::string_view(text).substr(0, read_bytes);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::size_t last_line = before.rfind('\n');
  const std::size_t column = before.size() - (last_line == std::string_view::npos ? 0 : last_line + 1);
  return "line " + std::to_string(lines + 1) + ", column " + std::to_string(column);
}

/// "line 3, column 5: syntax error ...": of an exception that does not know the place (a number out of range) by the
/// bytes that have been read.
std::string where(const std::string& message, const std::string& text, std::size_t read_bytes) {
  const std::string reason = reason_of(message);
  return reason.starts_with("line ") ? reason : line_and_column(text, read_bytes) + ": " + reason;
}

/// Goes over the text and keeps how far it has been read, which nlohmann's parser does not tell while it reads.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char*& farthest) : at_(at), farthest_(&farthest) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *farthest_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** farthest_;
};

/// Builds the document while it is parsed, and stops at a key given twice or values nested too deep. Keys of the
/// outermost object that are not among `kept` are read over (none are if `kept` is empty). The time is proportional to
/// the file; nlohmann's own callbacks look through a whole list each time that one of its values ends.
class DocumentBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  DocumentBuilder(const std::string& text, std::span<const std::string> kept) : text_(text), kept_(kept) {}

  nlohmann::json document;
  std::optional<InputError> problem;  // with `file` as its place
  std::string file;
  const char* farthest = nullptr;  // behind the last byte that was read

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& value) override { return put(std::move(value)); }
  bool start_object(std::size_t) override { return open(nlohmann::json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(nlohmann::json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (skipped_levels_ > 0) return true;
    if (open_.size() == 1 && !kept_.empty() && std::find(kept_.begin(), kept_.end(), name) == kept_.end()) {
      skips_next_ = true;
      return true;
    }
    const auto [place, is_new] = open_.back()->get_ref<nlohmann::json::object_t&>().emplace(name, nullptr);
    if (!is_new) {
      const std::size_t quote = text_.rfind('"', read_bytes() - 2);  // the first of the key's two
      return stop("the key \"" + name + "\" twice in one object (" + line_and_column(text_, quote + 1) + ")",
                  "each key once");
    }
    next_ = &place->second;
    return true;
  }

  bool parse_error(std::size_t read_bytes, const std::string&, const nlohmann::json::exception& error) override {
    return stop("a file that is not whole JSON (" + where(error.what(), text_, read_bytes) + ")", "a JSON document");
  }

 private:
  std::size_t read_bytes() const { return static_cast<std::size_t>(farthest - text_.data()); }

  bool stop(const std::string& found, const std::string& expected) {
    problem.emplace(file, found, expected);
    return false;
  }

  bool put(nlohmann::json value) {
    if (skipped_levels_ > 0) return true;
    if (std::exchange(skips_next_, false)) return true;
    place(std::move(value));
    return true;
  }

  nlohmann::json& place(nlohmann::json value) {
    if (open_.empty()) return document = std::move(value);
    if (open_.back()->is_object()) return *next_ = std::move(value);
    open_.back()->push_back(std::move(value));
    return open_.back()->back();
  }

  bool open(nlohmann::json container) {
    if (open_.size() + skipped_levels_ >= kDeepest) {
      return stop(
          "values nested deeper than " + std::to_string(kDeepest) + " (" + line_and_column(text_, read_bytes()) + ")",
          "a JSON document of at most that");
    }
    if (skipped_levels_ > 0 || std::exchange(skips_next_, false)) {
      ++skipped_levels_;
    } else {
      open_.push_back(&place(std::move(container)));
    }
    return true;
  }

  bool close() {
    if (skipped_levels_ > 0) {
      --skipped_levels_;
    } else {
      open_.pop_back();
    }
    return true;
  }

  const std::string& text_;
  std::span<const std::string> kept_;
  std::vector<nlohmann::json*> open_;  // objects and lists that have not ended, outermost first
  nlohmann::json* next_ = nullptr;     // where the value of the last key goes
  bool skips_next_ = false;
  std::size_t skipped_levels_ = 0;
};

}  // namespace

nlohmann::json read_json_file(const std::string& path, std::span<const std::string> kept) {
  return parse_json(read_json_text(path), path, kept);
}

std::string read_json_text(const std::string& path) {
  return read_input_file(path, kLargestFileBytes, "a JSON file");
}

nlohmann::json parse_json(const std::string& text, const std::string& file, std::span<const std::string> kept) {
  // nlohmann's parser takes it for the end of the text.
  if (const std::size_t place = text.find('\0'); place != std::string::npos) {
    throw InputError(file, "a file that is not whole JSON (" + line_and_column(text, place + 1) + ": a character \\0)",
                     "a JSON file");
  }
  // Where a problem is, is counted only where there is one: it takes as long as all the rest.
  DocumentBuilder uncounted(text, kept);
  uncounted.file = file;
  uncounted.farthest = text.data();
  if (nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &uncounted))
    return std::move(uncounted.document);
  DocumentBuilder builder(text, kept);
  builder.file = file;
  builder.farthest = text.data();
  const CountingIterator begin(text.data(), builder.farthest), end(text.data() + text.size(), builder.farthest);
  if (!nlohmann::json::sax_parse(begin, end, &builder)) throw *builder.problem;
  return std::move(builder.document);
}

std::string JsonPlace::name() const {
  std::string path;
  for (const Step& step : steps_) {
    if (step.key) {
      path += (path.empty() ? "" : ".") + *step.key;
    } else {
      path += "[" + std::to_string(step.index) + "]";
    }
  }
  return path.empty() ? *file_ : *file_ + ": " + path;
}

JsonPlace JsonPlace::at(const std::string& key) const {
  object();
  const auto found = value_->find(key);
  if (found == value_->end()) throw InputError(name(), "no key \"" + key + "\"", "one");
  return {*this, *found, {&found.key(), 0}};
}

JsonPlace JsonPlace::at(std::size_t index) const {
  return {*this, array().json()[index], {nullptr, index}};
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
    throw InputError(
        name(), "an unknown key \"" + printable(key) + "\"",
        nearest.empty() ? list_words(known) : "\"" + nearest + "\" perhaps (known: " + list_words(known) + ")");
  }
  return *this;
}

std::int64_t JsonPlace::whole(std::int64_t least, std::int64_t largest) const {
  const bool fits =
      value_->is_number_integer() &&
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

void JsonPlace::refuse(const std::string& expected) const {
  throw InputError(name(), shown(*value_), expected);
}

}  // namespace pdl
