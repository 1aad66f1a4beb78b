// Reading a JSON file value by value, where every value knows its place, so that a refusal can name it.
//
//   const JsonPlace root = ...{document, "a.json"};
//   root.at("gpus").at(1).at("layers").whole(1, 100)
//   -> InputError "a.json: gpus[1].layers: found \"x\", expected a whole number from 1 to 100"
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace pdl {

/// The document of a file. Throws InputError: as read_input_file, not JSON, cut off, a key given twice in one object,
/// nested deeper than 100 (each with line and column), more than 1 GiB.
/// With `kept`, only those keys of the outermost object are kept; all of the file is still checked to be JSON.
nlohmann::json read_json_file(const std::string& path, std::span<const std::string> kept = {});
/// The text of a file of which that is asked. Throws InputError as read_input_file, more than 1 GiB.
std::string read_json_text(const std::string& path);
/// The same of a text that is at hand; `file` is what messages start with.
nlohmann::json parse_json(const std::string& text, const std::string& file, std::span<const std::string> kept = {});

class JsonPlace {
 public:
  /// `file` is what messages start with. The document must outlive this.
  JsonPlace(const nlohmann::json& document, std::string file)
      : value_(&document), file_(std::make_shared<const std::string>(std::move(file))) {}

  const nlohmann::json& json() const { return *value_; }
  /// "a.json: gpus[1].layers"
  std::string name() const;

  bool has(const std::string& key) const { return value_->contains(key); }
  /// Throws InputError if this is no object or has no such key.
  JsonPlace at(const std::string& key) const;
  /// Throws InputError if this is no array. index < size().
  JsonPlace at(std::size_t index) const;
  std::size_t size() const { return value_->size(); }

  const JsonPlace& object() const;
  const JsonPlace& array() const;
  /// An object whose keys are all among `known`; an unknown one is named with the nearest known one.
  const JsonPlace& object_of(std::span<const std::string> known) const;

  std::int64_t whole(std::int64_t least, std::int64_t largest) const;
  double number(double least, double largest) const;
  bool boolean() const;
  std::string text() const;

  [[noreturn]] void refuse(const std::string& expected) const;

 private:
  /// Into an object, by the key that is in the document; into a list where there is none.
  struct Step {
    const std::string* key = nullptr;
    std::size_t index = 0;
  };

  JsonPlace(const JsonPlace& outer, const nlohmann::json& value, Step step)
      : value_(&value), file_(outer.file_), steps_(outer.steps_) {
    steps_.push_back(step);
  }

  const nlohmann::json* value_;
  std::shared_ptr<const std::string> file_;
  boost::container::small_vector<Step, 6> steps_;  // from the document to the value; text only in name()
};

}  // namespace pdl
