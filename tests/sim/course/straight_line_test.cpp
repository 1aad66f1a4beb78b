#include "sim/course/straight_line.hpp"

#include "tests/support/catch.hpp"

using namespace pdl;

TEST_CASE("a straight line is found through points that are on one") {
  const StraightLine line = straight_line({0, 10, 20}, {13, 23, 33});
  CHECK(line.intercept == Approx(13));
  CHECK(line.slope == Approx(1));
  CHECK(line.largest_residual == Approx(0).margin(1e-9));
}

TEST_CASE("a straight line is the nearest, and says how far the farthest point is") {
  // Means 1 and 2.5, slope (1.5 + 0.5) / 2.
  const StraightLine line = straight_line({0, 1, 2}, {1, 3.5, 3});
  CHECK(line.slope == Approx(1));
  CHECK(line.intercept == Approx(1.5));
  CHECK(line.largest_residual == Approx(1));
}
