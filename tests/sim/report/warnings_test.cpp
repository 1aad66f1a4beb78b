#include "sim/report/warnings.hpp"

#include "tests/support/catch.hpp"

using namespace pdl;

TEST_CASE("each warning once, with the runs that have it") {
  WarningList warnings;
  CHECK(warnings.text(80).empty());
  warnings.add("row 1", {"too small", "too large"});
  warnings.add("row 2", {});
  warnings.add("row 3", {"too large", "too large"});
  CHECK(warnings.text(80) == "warning (row 1): too small\nwarning (row 1, row 3): too large\n");
  for (int row = 4; row < 9; ++row) warnings.add("row " + std::to_string(row), {"too large"});
  CHECK(warnings.text(80) == "warning (row 1): too small\nwarning (7 runs): too large\n");
}
