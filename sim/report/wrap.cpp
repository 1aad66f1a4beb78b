#include "sim/report/wrap.hpp"

#include <algorithm>
#include <sstream>

#include "sim/io/printable_text.hpp"

namespace pdl {

std::string wrap(const std::string& text, std::size_t width, std::size_t indent) {
  std::istringstream words(text);
  std::string out, line(std::min(text.find_first_not_of(' '), text.size()), ' '), word;
  bool empty = true;
  while (words >> word) {
    word = printable(word);
    if (!empty && line.size() + 1 + word.size() > width) {
      out += line + "\n";
      line = std::string(indent, ' ');
      empty = true;
    }
    line += (empty ? "" : " ") + word;
    empty = false;
  }
  return out + line + "\n";
}

}  // namespace pdl
