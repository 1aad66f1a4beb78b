// Numbers as text, the same under every locale.
//
//   fixed(3.14159, 2)      "3.14"         percent(0.875)        "87.5 %"
//   decimal_bytes(67108864) "67.1 MB"     grouped(1342218240)   "1,342,218,240"
//   gib(85899345920)       "80.00"        mib(1572864)          "1.50"
//   milliseconds(1500000)  "1.500"      decimal_flops(8.44e12) "8.44 TFLOP"
//
// MB, GB are 1e6, 1e9 bytes; MiB is 2^20, GiB 2^30.
#pragma once

#include <cstdint>
#include <string>

namespace pdl {

/// `digits` decimals, '.' as the decimal point. "nan" and "inf" are written as such; never "-0.0".
std::string fixed(double value, int digits);

/// fixed() with a sign always: "+1.2", "-0.4", "0.0".
std::string signed_fixed(double value, int digits);

/// A fraction as a percentage with one decimal: 0.875 -> "87.5 %".
std::string percent(double fraction);

/// Thousands separated by commas.
std::string grouped(std::int64_t value);

/// Three significant digits and a decimal unit: "8 B", "67.1 MB", "1.34 GB".
std::string decimal_bytes(std::int64_t bytes);

/// The same of FLOPs: "8.44 TFLOP", "12 FLOP".
std::string decimal_flops(double flops);

/// "7.52 GiB", or "0.24 MiB" below one GiB.
std::string binary_bytes(std::int64_t bytes);

/// Gibibytes, mebibytes with two decimals, without the unit.
std::string gib(std::int64_t bytes);
std::string mib(std::int64_t bytes);

/// Nanoseconds as milliseconds with three decimals, without the unit.
std::string milliseconds(std::int64_t ns);

}  // namespace pdl
