#include "sim/report/text_table.hpp"

#include "tests/support/catch.hpp"

using namespace pdl;

TEST_CASE("a head of several lines has the units in its last") {
  const TextTable table{{{"row", ""}, {"step time\npredicted", "ms"}, {"live", "most", Align::left}},
                        {{"1", "12.50", "3"}}};
  CHECK(to_text(table) ==
        "row  step time  live\n"
        "     predicted\n"
        "            ms  most\n"
        "--------------------\n"
        "  1      12.50  3\n");
  CHECK(to_markdown(table).starts_with("| row | step time predicted (ms) | live (most) |\n"));
}

TEST_CASE("columns are as wide as their longest cell") {
  const TextTable table{{{"GPU", ""}, {"layers", "", Align::left}, {"busy", "ms"}},
                        {{"0", "4 (0-3)", "12.5"}, {"10", "1", "1234.5"}}};
  CHECK(to_text(table) ==
        "GPU  layers     busy\n"
        "                  ms\n"
        "--------------------\n"
        "  0  4 (0-3)    12.5\n"
        " 10  1        1234.5\n");
  CHECK(to_markdown(table) ==
        "| GPU | layers | busy (ms) |\n"
        "|---:|:---|---:|\n"
        "| 0 | 4 (0-3) | 12.5 |\n"
        "| 10 | 1 | 1234.5 |\n");
}

TEST_CASE("a bar in a cell does not end a markdown cell") {
  CHECK(to_markdown({{{"a", ""}}, {{"0 | 1"}}}) == "| a |\n|---:|\n| 0 \\| 1 |\n");
}

TEST_CASE("text is broken at spaces") {
  CHECK(wrap("one two three", 8, 2) == "one two\n  three\n");
  CHECK(wrap("   one two", 100, 0) == "   one two\n");
  CHECK(wrap("averylongword b", 5, 1) == "averylongword\n b\n");
  CHECK(wrap("", 10, 0) == "\n");
}
