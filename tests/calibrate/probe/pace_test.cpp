#include "calibrate/probe/pace.hpp"

#include "tests/support/catch.hpp"

namespace pdl {
namespace {

TEST_CASE("the rest is repeated as often as there is time for it", "[probe]") {
  CHECK(pace(10, 100, 0.5) == 1);                  // 10 s to go, 90 left
  CHECK(pace(60, 100, 0.5) == Approx(40.0 / 60));  // 60 s to go, 40 left
  CHECK(pace(90, 100, 0.75) == Approx(10.0 / 30));
  CHECK(pace(101, 100, 0.9) == 0);  // over time: as few as there must be
  CHECK(pace(1, 100, 0) == 1);      // 19 s to go, if 1 s was 5 %
  CHECK(pace(10, 100, 0) == Approx(90.0 / 200));
  CHECK(pace(300, 100, 1) == 1);
  CHECK(pace(0, 100, 0) == 1);
}

}  // namespace
}  // namespace pdl
