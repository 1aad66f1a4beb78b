#include "sim/report/progress_bar.hpp"

#include <limits>

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

}  // namespace
}  // namespace pdl
