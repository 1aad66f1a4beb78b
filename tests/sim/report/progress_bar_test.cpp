#include "sim/report/progress_bar.hpp"

#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

#include "tests/support/catch.hpp"

namespace pdl {
namespace {

TEST_CASE("the progress bar") {
  CHECK(progress_line(0, "start", 80) == "[........................]   0 %  start");
  CHECK(progress_line(0.5, "half", 80) == "[############............]  50 %  half");
  CHECK(progress_line(1, "end", 80) == "[########################] 100 %  end");
  CHECK(progress_line(7, "", 80) == progress_line(1, "", 80));
  CHECK(progress_line(-1, "", 80) == progress_line(0, "", 80));
  CHECK(progress_line(std::numeric_limits<double>::quiet_NaN(), "", 80) == progress_line(0, "", 80));
  CHECK(progress_line(0.5, "much too long", 30).size() == 30);
}

TEST_CASE("the time that is left, if the rest goes as what is done") {
  using seconds = std::chrono::duration<double>;
  CHECK(time_left(0, 0.5, seconds(40)) == "40 s left");
  CHECK(time_left(0, 0.25, seconds(100)) == "5 min left");
  CHECK(time_left(0, 0.1, seconds(3600)) == "9 h left");
  CHECK(time_left(0.6, 0.8, seconds(10)) == "10 s left");  // resumed at 60 %
  CHECK(time_left(0, 1, seconds(9)) == "0 s left");
  CHECK(time_left(0, 0.01, seconds(9)) == "");  // too early to say
  CHECK(time_left(0, 0.5, seconds(0.9)) == "");
  CHECK(time_left(0, std::numeric_limits<double>::quiet_NaN(), seconds(9)) == "");
}

TEST_CASE("where how far it is is not known, the time that it has taken") {
  CHECK(progress_line(std::chrono::milliseconds(12900), "reading a.json", 80) == "[ 12 s ]  reading a.json");
  CHECK(progress_line(std::chrono::seconds(1), "much too long", 12) == "[ 1 s ]  muc");
}

/// What is read from `file` is added to `text`. False at the end.
bool read_more(int file, std::string& text) {
  char part[256];
  const ssize_t count = read(file, part, sizeof part);
  if (count > 0) text.append(part, static_cast<std::size_t>(count));
  return count > 0;
}

TEST_CASE("on a terminal: nothing in the first half second, then what was shown last, and nothing is left") {
  int master = -1, terminal = -1;
  if (openpty(&master, &terminal, nullptr, nullptr, nullptr) != 0) {
    WARN("test skipped: no pseudo-terminal here");
    return;
  }
  const int kept = dup(STDERR_FILENO);
  dup2(terminal, STDERR_FILENO);
  const std::string half = "[############............]  50 %  half";
  std::string text;
  const auto start = std::chrono::steady_clock::now();
  {
    ProgressBar bar;
    bar.show(0.5, "done at once");
  }
  const auto spent = std::chrono::steady_clock::now() - start;
  {
    ProgressBar bar;
    bar.show("reading a.json");
    bar.show(0.5, "half");
    while (text.find(half) == std::string::npos && read_more(master, text)) continue;  // it takes what it takes
  }
  dup2(kept, STDERR_FILENO);
  close(kept);
  close(terminal);
  while (read_more(master, text)) continue;
  close(master);
  if (spent < std::chrono::milliseconds(500)) CHECK(text.find("done at once") == std::string::npos);
  // Where this process stood still for long, what was shown first and a time that is left may be there too.
  CHECK(text.find("\r" + half) != std::string::npos);
  CHECK(text.find('\n') == std::string::npos);
  CHECK(text.ends_with("\033[K\r\033[K"));
}

TEST_CASE("without a terminal: a line now and then, also where nothing gets on") {
  // Standard error of this process is a pipe meanwhile.
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const int kept = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  const std::string line = "pdl-calibrate:  25 %, layers of 4096\n";
  std::string text;
  {
    ProgressBar bar("pdl-calibrate", std::chrono::milliseconds(20));
    bar.show(0.25, "layers of 4096");
    while (text.find(line + line) == std::string::npos && read_more(ends[0], text)) continue;
  }
  dup2(kept, STDERR_FILENO);
  close(kept);
  close(ends[1]);
  close(ends[0]);
  CHECK(text.starts_with("pdl-calibrate:  25 %, layers of 4096"));
}

}  // namespace
}  // namespace pdl
