#include "sim/io/json_text.hpp"

namespace pdl {
namespace {

using nlohmann::ordered_json;

std::string scalar(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// On one line, with a space after ',' and ':'; false as soon as it is longer than `width`.
bool write_line(const ordered_json& value, std::size_t width, std::string& text) {
  if (!value.is_structured()) {
    text += scalar(value);
    return text.size() <= width;
  }
  text += value.is_object() ? '{' : '[';
  bool first = true;
  for (const auto& item : value.items()) {
    if (!first) text += ", ";
    first = false;
    if (value.is_object()) text += scalar(item.key()) + ": ";
    if (!write_line(item.value(), width, text)) return false;
  }
  text += value.is_object() ? '}' : ']';
  return text.size() <= width;
}

void write_value(const ordered_json& value, std::size_t indent, std::size_t width, std::string& text) {
  std::string line;
  if (write_line(value, width > indent ? width - indent : 0, line) || !value.is_structured()) {
    text += line;
    return;
  }
  text += value.is_object() ? "{\n" : "[\n";
  bool first = true;
  for (const auto& item : value.items()) {
    if (!first) text += ",\n";
    first = false;
    text.append(indent + 2, ' ');
    if (value.is_object()) text += scalar(item.key()) + ": ";
    write_value(item.value(), indent + 2, width, text);
  }
  text += '\n';
  text.append(indent, ' ');
  text += value.is_object() ? '}' : ']';
}

}  // namespace

std::string json_text(const ordered_json& value, std::size_t width) {
  std::string text;
  write_value(value, 0, width, text);
  text += '\n';
  return text;
}

}  // namespace pdl
