// Order statistics: what a few bad measurements cannot move.
//
//   median({3.0, 1.0, 700.0})   // 3
#pragma once

#include <vector>

namespace pdl {

/// The value below which `fraction` of the sorted values lie, straight between neighbours (R's type 7, NumPy's
/// default). `sorted` is ascending and not empty; 0 <= fraction <= 1.
double quantile(const std::vector<double>& sorted, double fraction);

/// Not empty.
double median(std::vector<double> values);

}  // namespace pdl
