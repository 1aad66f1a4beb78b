#include "sim/io/number_text.hpp"

#include <clocale>

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
  CHECK(decimal_flops(8.44e12) == "8.44 TFLOP");
  CHECK(decimal_flops(12) == "12 FLOP");
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
