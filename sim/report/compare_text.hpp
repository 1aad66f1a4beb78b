// Two runs side by side: usually the prediction and the measurement of one configuration.
//
//                          A          B     A - B
//                  predicted   measured
//   ------------------------------------------------
//   step time  ms     52.110     52.034    +0.1 %
//
// Runs of different configurations may be compared too; the settings that differ are listed first.
#pragma once

#include <string>

#include "sim/report/terminal.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

/// `name_a`, `name_b`: what the runs are called, the paths of their files.
std::string compare_text(const RunResult& a, const std::string& name_a, const RunResult& b, const std::string& name_b,
                         const ViewStyle& style);

}  // namespace pdl
