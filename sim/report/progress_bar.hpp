// A progress bar on a terminal; nothing in a pipe or a file.
//
//   [##########..............]  42 %  layers 4096 x 4096, 512 rows
#pragma once

#include <string>

namespace pdl {

/// The line, without control characters. fraction is taken as 0 to 1; never longer than `width` columns.
std::string progress_line(double fraction, const std::string& what, std::size_t width);

/// Draws on standard error if that is a terminal.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  void show(double fraction, const std::string& what);

 private:
  bool on_terminal_;
  std::string shown_;
};

}  // namespace pdl
