// The table of a validation: a row a measured run beside its prediction, worst error first.
//
//   run                    measured  p25..p75          predicted   error
//                                ms  ms                       ms       %
//   ----------------------------------------------------------------------
//   pp-1f1b_gpus4_...        50.034  50.012..50.071       50.871    +1.7
//   mp_gpus2_...            325.104  ...                 325.511    +0.1
//
// Runs that the host bounds are in a table of their own, beside the spread of their steps. Below: mean, median and
// maximum of the absolute errors of each group, and the warnings.
#pragma once

#include <string>

#include "sim/study/validate.hpp"

namespace pdl {

std::string validation_text(const Validation& validation);
/// The summary first, without legend and warnings.
std::string validation_markdown(const Validation& validation);

}  // namespace pdl
