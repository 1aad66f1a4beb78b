// What a profile was fitted from, and how well: a row for each kind of measurement.
//
//   {"layer pipeline fp32", 20 curves, 160 points, 4800 measurements, spread .004, residuals ..., nothing left out}
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/cost_profile.hpp"

namespace pdl {

struct FitSummaryRow {
  std::string what;
  std::size_t curves = 0;  // or constants
  std::size_t points = 0;
  std::int64_t measurements = 0;
  std::int64_t least = 0;  // size
  std::int64_t largest = 0;
  std::optional<double> spread;         // median over points of (p75 - p25) / time
  std::optional<double> line_residual;  // median over curves of the largest residual of the straight line
  std::size_t left_out = 0;
};

/// In the order of keys.
std::vector<FitSummaryRow> summarize_profile(const CostProfile& profile);

}  // namespace pdl
