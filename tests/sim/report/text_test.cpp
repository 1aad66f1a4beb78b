#include <clocale>

#include "sim/io/number_text.hpp"
#include "sim/report/text_table.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

TEST_CASE("numbers as text") {
  CHECK(fixed(3.14159, 2) == "3.14");
  CHECK(fixed(0.0005, 3) == "0.001");
  CHECK(fixed(-0.0001, 1) == "0.0");
  CHECK(fixed(1e21, 0) == "1000000000000000000000");
  CHECK(fixed(0.0 / 0.0, 1) == "nan");
  CHECK(signed_fixed(1.25, 1) == "+1.2");
  CHECK(signed_fixed(-1.25, 1) == "-1.2");
  CHECK(signed_fixed(-0.01, 1) == "0.0");
  CHECK(percent(0.875) == "87.5 %");
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(-1234567) == "-1,234,567");
  CHECK(decimal_bytes(0) == "0 B");
  CHECK(decimal_bytes(999) == "999 B");
  CHECK(decimal_bytes(1000) == "1.00 kB");
  CHECK(decimal_bytes(67108864) == "67.1 MB");
  CHECK(decimal_bytes(999'600'000) == "1.00 GB");
  CHECK(decimal_bytes(INT64_MAX) == "9.22 EB");
  CHECK(gib(85899345920) == "80.00");
  CHECK(binary_bytes(1 << 30) == "1.00 GiB");
  CHECK(binary_bytes(1 << 29) == "512.00 MiB");
  CHECK(mib(1572864) == "1.50");
  CHECK(milliseconds(1500000) == "1.500");
}

TEST_CASE("numbers do not follow the locale") {
  for (const char* locale : {"de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8"}) {
    if (std::setlocale(LC_ALL, locale)) CHECK(fixed(1234.5, 1) == "1234.5");
  }
  std::setlocale(LC_ALL, "C");
}

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
