#include "sim/report/warnings.hpp"

#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

/// "where: text", a line each; minor ones in parentheses.
std::string lines(const WarningList& warnings) {
  Document document;
  warnings.add_to(document);
  std::string text;
  for (const Block& block : document.blocks) {
    const Warning& warning = std::get<Warning>(block);
    const std::string line = warning.where + ": " + warning.text;
    text += warning.minor ? "(" + line + ")\n" : line + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("each warning once, with the runs that have it") {
  WarningList warnings("row");
  CHECK(lines(warnings).empty());
  warnings.add("1", {"too small", "too large"});
  warnings.add("2", {});
  warnings.add("3", {"too large", "too large"});
  CHECK(lines(warnings) == "row 1: too small\nrows 1, 3: too large\n");
  for (int row = 100; row < 120; ++row) warnings.add(std::to_string(row), {"too large"});
  CHECK(lines(warnings) == "row 1: too small\n22 rows: too large\n");
  WarningList alone;
  alone.add("", {"too small"});
  CHECK(lines(alone) == ": too small\n");
}

TEST_CASE("a warning says how much rests on it: without a share first, then the largest, below half a per cent minor") {
  WarningList warnings("row");
  warnings.add("1", {"beyond", "nothing", "half", "doubt"}, {{"beyond", 0.017}, {"nothing", 0.0004}, {"half", 0.5}});
  warnings.add("2", {"beyond", "nothing"}, {{"beyond", 0.3}, {"nothing", 0.0049}});
  CHECK(lines(warnings) ==
        "row 1: doubt\n"
        "row 1: half; 50 % of the step's work rests on it\n"
        "rows 1, 2: beyond; 1.7 to 30 % of the step's work rests on it\n"
        "(rows 1, 2: nothing; less than 0.1 to 0.5 % of the step's work rests on it)\n");
}
