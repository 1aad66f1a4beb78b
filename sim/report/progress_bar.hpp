// How far long work is, on standard error: a bar on a terminal; elsewhere nothing, or a line every 10 s.
//
//   [##########..............]  42 %  layers 4096 x 4096, 512 rows; 78 s left
//   [ 12 s ]  reading measured.json                                              how far is not known
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

/// Where how far it is is not known: the time that it has taken.
std::string progress_line(std::chrono::duration<double> spent, const std::string& what, std::size_t width);

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

  /// May be called on any thread. A terminal is written to ten times a second, by a thread of the bar, and not in the
  /// first half second: what is done by then needs no bar.
  void show(double fraction, const std::string& what);

  /// How far it is is not known.
  void show(const std::string& what);

 private:
  using Clock = std::chrono::steady_clock;

  void begin(double fraction);
  void draw();
  void write_line() const;
  /// draw() or write_line(), now and then.
  void run(std::chrono::milliseconds first, std::chrono::milliseconds pause);
  std::string text() const;

  bool on_terminal_;
  std::string program_;
  std::mutex mutex_;
  std::optional<Clock::time_point> begin_;  // of the first show()
  double from_ = 0, fraction_ = 0;          // below 0: not known
  std::string what_, shown_;
  bool ended_ = false;
  std::condition_variable end_;
  std::thread thread_;
};

}  // namespace pdl
