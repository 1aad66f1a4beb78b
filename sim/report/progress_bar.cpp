#include "sim/report/progress_bar.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace pdl {
namespace {

constexpr std::size_t kBarColumns = 24;

std::size_t terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string progress_line(double fraction, const std::string& what, std::size_t width) {
  const double done = fraction >= 0 ? std::min(fraction, 1.0) : 0;  // also where it is no number
  const auto filled = static_cast<std::size_t>(std::floor(done * kBarColumns));
  char percent[16];
  std::snprintf(percent, sizeof percent, "%3d %%", static_cast<int>(std::floor(done * 100)));
  const std::string line =
      "[" + std::string(filled, '#') + std::string(kBarColumns - filled, '.') + "] " + percent + "  " + what;
  return line.substr(0, width);
}

ProgressBar::ProgressBar() : on_terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (!shown_.empty()) std::fprintf(stderr, "\r\033[K");
}

void ProgressBar::show(double fraction, const std::string& what) {
  if (!on_terminal_) return;
  // The last column stays free: a line that fills it would wrap.
  const std::string line = progress_line(fraction, what, terminal_columns() - 1);
  if (line == shown_) return;
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  std::fflush(stderr);
  shown_ = line;
}

}  // namespace pdl
