// Two runs side by side: usually the prediction and the measurement of one configuration.
//
//                          A          B     A - B
//                  predicted   measured
//   ------------------------------------------------
//   step time  ms     52.110     52.034    +0.1 %
//
// Runs of different configurations may be compared too; the settings that differ are listed first.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/report/gantt.hpp"
#include "sim/report/terminal.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

/// `name_a`, `name_b`: what the runs are called, the paths of their files.
std::string compare_text(const RunResult& a, const std::string& name_a, const RunResult& b, const std::string& name_b,
                         const ViewStyle& style);

/// {"a": "a.json", "b": "b.json", "settings_that_differ": [...], "step_time_ms": {"a", "b", "difference_percent"}, ...}
nlohmann::ordered_json compare_json(const RunResult& a, const std::string& name_a, const RunResult& b,
                                    const std::string& name_b);

}  // namespace pdl
