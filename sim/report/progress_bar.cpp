#include "sim/report/progress_bar.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace pdl {
namespace {

constexpr std::size_t kBarColumns = 24;
constexpr std::chrono::milliseconds kBeforeFirstDrawing{500}, kBetweenDrawings{100};
constexpr double kNotKnown = -1;

std::size_t terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double share_done(double fraction) {
  return fraction >= 0 ? std::min(fraction, 1.0) : 0;
}  // also where it is no number

std::string percent_done(double fraction) {
  char text[16];
  std::snprintf(text, sizeof text, "%3d %%", static_cast<int>(std::floor(share_done(fraction) * 100)));
  return text;
}

}  // namespace

std::string progress_line(double fraction, const std::string& what, std::size_t width) {
  const auto filled = static_cast<std::size_t>(std::floor(share_done(fraction) * kBarColumns));
  const std::string bar = "[" + std::string(filled, '#') + std::string(kBarColumns - filled, '.') + "] ";
  return (bar + percent_done(fraction) + "  " + what).substr(0, width);
}

std::string progress_line(std::chrono::duration<double> spent, const std::string& what, std::size_t width) {
  return ("[ " + std::to_string(std::llround(std::floor(spent.count()))) + " s ]  " + what).substr(0, width);
}

std::string time_left(double from, double fraction, std::chrono::duration<double> spent) {
  const double done = share_done(fraction) - share_done(from);
  if (!(done >= 0.02) || spent.count() < 1) return "";
  const double left_s = spent.count() / done * (1 - share_done(fraction));
  const auto rounded = [](double value) { return std::to_string(std::llround(std::ceil(value))); };
  if (left_s < 120) return rounded(left_s) + " s left";
  if (left_s < 2 * 3600) return rounded(left_s / 60) + " min left";
  return rounded(left_s / 3600) + " h left";
}

ProgressBar::ProgressBar() : on_terminal_(isatty(STDERR_FILENO) == 1) {
  if (on_terminal_) thread_ = std::thread([this] { run(kBeforeFirstDrawing, kBetweenDrawings); });
}

ProgressBar::ProgressBar(std::string program, std::chrono::milliseconds pause) : ProgressBar() {
  program_ = std::move(program);
  if (!on_terminal_) thread_ = std::thread([this, pause] { run(pause, pause); });
}

ProgressBar::~ProgressBar() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    end_.notify_all();
    thread_.join();
  }
  if (!shown_.empty()) std::fprintf(stderr, "\r\033[K");
}

void ProgressBar::begin(double fraction) {
  if (begin_) return;
  begin_ = Clock::now();
  from_ = fraction;
}

void ProgressBar::show(double fraction, const std::string& what) {
  const std::lock_guard lock(mutex_);
  begin(fraction);
  fraction_ = share_done(fraction);
  what_ = what;
}

void ProgressBar::show(const std::string& what) {
  const std::lock_guard lock(mutex_);
  begin(kNotKnown);
  fraction_ = kNotKnown;
  what_ = what;
}

std::string ProgressBar::text() const {
  const std::string left = time_left(from_, fraction_, Clock::now() - *begin_);
  return left.empty() ? what_ : what_ + "; " + left;
}

void ProgressBar::draw() {
  // The last column stays free: a line that fills it would wrap.
  const std::size_t width = terminal_columns() - 1;
  const std::string line = fraction_ == kNotKnown ? progress_line(Clock::now() - *begin_, what_, width)
                                                  : progress_line(fraction_, text(), width);
  if (line == shown_) return;
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  std::fflush(stderr);
  shown_ = line;
}

void ProgressBar::write_line() const {
  const std::string done = fraction_ == kNotKnown ? "" : percent_done(fraction_) + ", ";
  std::fprintf(stderr, "%s: %s%s\n", program_.c_str(), done.c_str(), text().c_str());
  std::fflush(stderr);
}

void ProgressBar::run(std::chrono::milliseconds first, std::chrono::milliseconds pause) {
  std::unique_lock lock(mutex_);
  const auto ended = [this] { return ended_; };
  for (bool end = end_.wait_for(lock, first, ended); !end; end = end_.wait_for(lock, pause, ended)) {
    if (!begin_) continue;
    on_terminal_ ? draw() : write_line();
  }
}

}  // namespace pdl
