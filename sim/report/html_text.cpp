#include "sim/report/html_text.hpp"

#include <cctype>

#include "sim/io/printable_text.hpp"

namespace pdl {

std::string html_escaped(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string html_json(const nlohmann::ordered_json& value) {
  std::string out;
  for (const char c : value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) {
    out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  }
  return out;
}

std::string Anchors::of(const std::string& text) {
  std::string id;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 128 && std::isalnum(byte)) {
      id += static_cast<char>(std::tolower(byte));
    } else if (!id.empty() && id.back() != '-') {
      id += '-';
    }
  }
  while (!id.empty() && id.back() == '-') id.pop_back();
  if (id.empty() || !std::isalpha(static_cast<unsigned char>(id[0]))) id = "part" + (id.empty() ? "" : "-" + id);
  for (;;) {
    const int count = ++used_[id];
    if (count == 1) return id;
    const std::string numbered = id + "-" + std::to_string(count);
    if (!used_.contains(numbered)) {
      used_[numbered] = 1;
      return numbered;
    }
  }
}

}  // namespace pdl
