// How far long work is, on standard error: a bar on a terminal; elsewhere nothing, or a line every 10 s.
//
//   [##########..............]  42 %  layers 4096 x 4096, 512 rows; 78 s left
//   pdl-calibrate:  42 %, layers 4096 x 4096, 512 rows; 78 s left
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace pdl {

/// The bar, without control characters. fraction is taken as 0 to 1; never longer than `width` columns.
std::string progress_line(double fraction, const std::string& what, std::size_t width);

/// "78 s left", "4 min left", "3 h left": if the rest goes as the part from `from` to `fraction` did. Empty where
/// nothing can be said yet: less than 2 % or less than a second done.
std::string time_left(double from, double fraction, std::chrono::duration<double> spent);

class ProgressBar {
 public:
  /// Where standard error is no terminal: silent.
  ProgressBar();

  /// Where it is none: a line every `pause`, the first after one, which begins with the name of the program. The lines
  /// come also while show() is not called: work that stands still is seen to stand still.
  explicit ProgressBar(std::string program, std::chrono::milliseconds pause = std::chrono::seconds(10));

  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// A terminal is written to at most every 50 ms. May be called on any thread.
  void show(double fraction, const std::string& what);

 private:
  using Clock = std::chrono::steady_clock;

  void draw();
  void write_lines(std::chrono::milliseconds pause);
  std::string text() const;

  bool on_terminal_;
  std::string program_;
  std::mutex mutex_;
  std::optional<Clock::time_point> begin_;  // of the first show()
  double from_ = 0, fraction_ = 0;
  std::string what_, shown_;
  Clock::time_point drawn_;
  bool ended_ = false;
  std::condition_variable end_;
  std::thread lines_;
};

}  // namespace pdl
