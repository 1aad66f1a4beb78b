// One run for people: what was asked, a table of the GPUs, the totals, a chart of the step. The same for predicted and
// measured runs. On a terminal one screen for up to 32 GPUs.
//
//   mlp 8 x 8192, batch 2048 in 1 micro-batch, fp32, sgd; pp 1f1b on 8 GPUs, ...
//   synthetic costs: forward 1 ms, backward 2 ms, transfer 0 ms, for each stage and micro-batch
//
//   GPU  layers  range  busy (ms)  communication (ms)  idle (ms)  bubble (%)  peak memory (GiB)
//   -------------------------------------------------------------------------------------------
//     0       1  0          3.000               0.000     21.000        87.5                  -
//
//   step time: 24.000 ms +- 0.300 ms, predicted (90 % of measured steps lie within)
//   throughput: 85,333.3 samples/s
//   model: 6.32 TFLOP a step, MFU 49.2 % of 66.9 TFLOP/s (fp32, dense) on each GPU
//
// The model's line is there where the peak of the card is known, or the model takes tokens. Models with blocks have
// tables of what their time goes into (layer_times_document.hpp); others with an explanation.
// Where the error bar rests on what no probe measured, a line names it, with the command that would measure it. Not
// here: where the step goes (explain_document.hpp), which a run is shown with if it is given.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/predict/other_program.hpp"
#include "sim/report/document.hpp"
#include "sim/report/gantt.hpp"
#include "sim/run/explain.hpp"
#include "sim/run/metrics.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

struct RunStyle {
  bool with_gantt = true;          // on a terminal; a page always has the timeline
  std::string other_program = "";  // a line behind the step time: other_program_text()
  GanttStyle gantt{};
};

/// `explanation`: nullptr leaves it out.
Document run_document(const std::shared_ptr<const RunResult>& run, const RunStyle& style,
                      const Explanation* explanation = nullptr);

/// "in PyTorch, ScheduleGPipe: 87.187 ms (--program pytorch)"; of programs that are the same, that they are.
std::string other_program_text(const OtherProgram& other);

/// Columns of what a GPU does in a step, in milliseconds: busy, communication, idle, with their meanings; and the
/// bubble or the idle share.
std::vector<TableColumn> time_columns(bool bubble);
std::vector<TableCell> time_cells(const GpuMetrics& gpu, bool bubble);

/// Of a GPU; "-" where it is not known. Small models are shown in MiB: `mib`.
TableColumn memory_column(bool mib);
TableCell memory_cell(const RunResult& run, std::size_t gpu, bool mib);

/// Half width of the error bar of a predicted step time, in per cent of it, and its cell; "-" where there is none.
TableColumn half_width_column();
TableCell half_width_cell(const std::optional<ErrorBar>& bar);

/// All of its GPUs need less than a GiB, and it is known.
bool memory_in_mib(const RunResult& run);

/// "predicted", "measured".
const char* kind_of_run(const RunResult& run);

/// "A, predicted" of the first of two runs (0), "B, measured" of the second (1).
std::string lettered_name(std::size_t place, const RunResult& run);

/// How pages and traces call one run or two: "predicted", "measured"; with letters where two are of one kind.
std::vector<std::string> names_of_runs(const std::vector<const RunResult*>& runs);

}  // namespace pdl
