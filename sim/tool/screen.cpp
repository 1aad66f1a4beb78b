#include "sim/tool/screen.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace pdl {
namespace {

constexpr std::size_t kUsualWidth = 100, kLeastWidth = 40, kLargestWidth = 1000;

}  // namespace

std::size_t screen_width() {
  if (const char* columns = std::getenv("COLUMNS")) {
    std::size_t width = 0;
    const char* end = columns + std::strlen(columns);
    const auto read = std::from_chars(columns, end, width);
    if (read.ec == std::errc() && read.ptr == end && width >= kLeastWidth && width <= kLargestWidth) return width;
  }
  winsize size{};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return std::clamp<std::size_t>(size.ws_col, kLeastWidth, kLargestWidth);
  }
  return kUsualWidth;
}

bool screen_has_color() {
  const char* terminal = std::getenv("TERM");
  const bool dumb = !terminal || std::string_view(terminal) == "dumb";
  return isatty(STDOUT_FILENO) && !dumb && !std::getenv("NO_COLOR");
}

RunStyle screen_style(bool with_gantt) {
  RunStyle style;
  style.with_gantt = with_gantt;
  style.gantt.width = screen_width();
  style.gantt.color = screen_has_color();
  return style;
}

}  // namespace pdl
