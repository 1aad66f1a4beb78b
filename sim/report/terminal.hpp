// One run for people: what was asked, a table of the GPUs, the totals, a Gantt chart. One screen for up to 32 GPUs.
//
//   mlp 8 x 8192, batch 2048 in 1 micro-batch, fp32, sgd; pp 1f1b on 8 GPUs, ...
//   costs: synthetic, forward 1 ms, backward 2 ms, transfer 0 ms for each stage and micro-batch
//
//   GPU   layers   busy  communication   idle  bubble  peak memory
//                    ms             ms     ms       %          GiB
//   --------------------------------------------------------------
//     0  1 (0-0)  3.000          0.000 21.000    87.5            -
//
// The words of the table are explained below it. The same for predicted and measured runs.
#pragma once

#include <string>

#include "sim/report/gantt.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

struct ViewStyle {
  bool with_gantt = true;
  GanttStyle gantt;
};

/// Under tables of what a GPU does in a step.
inline constexpr const char* kTimesLegend =
    "busy: at a task of computation, from its first kernel to its last (waits for a slow host are inside);\n"
    "communication: a transfer or collective and no such task; idle: neither; the three add up to the step\n";

std::string terminal_view(const RunResult& run, const ViewStyle& style);

}  // namespace pdl
