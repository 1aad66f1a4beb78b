// What one run says in numbers: the rows of every table.
//
//   GPU 0   F0 F1 .. .. .. .. B0 B0 B1 B1       step 10 ms: busy 6, communication 0, idle 4
//   GPU 1   .. F0 F1 B0 B0 B1 B1 .. .. ..       useful (F and B) 12 of 2 x 10 ms: bubble fraction 0.4
//
//   busy          the GPU is at a compute task (forward, backward, loss, copies of gradients, optimizer), from its
//                 first kernel to its last; where the host issues too slowly, the gaps in which the GPU waits for it
//                 are inside
//   communication a transfer that the GPU issues, or a collective, runs, and no compute task of it does; a send,
//                 receive or collective that waits for another GPU does not run yet
//   idle          the rest; busy + communication + idle is the step, to the nanosecond
//   useful        the length of the forward and backward tasks: no optimizer, no transfer
//   bubble        1 - useful / (GPUs x step)
//
// Outside pipelines (one GPU, data parallelism) tables for people show the idle share of the time of all GPUs in its
// place: nobody waits for another stage there, and the optimizer and copies of gradients are work that a bubble would
// count.
//
// Model FLOPs are those of matrix products and attention of a forward and a backward (model_flops() of
// sim/model/model.hpp), whatever is run again in the backward. MFU, model FLOPs utilization (PaLM, arXiv:2204.02311):
// their share of what all GPUs would do in the median step at the peak of their card with dense products of the data
// type (sim/cost/card_limits.hpp).
//
// A copy between GPUs is issued by its sender; NCCL and Gloo occupy both ends. In one-thread programs a copy may run on
// the compute stream: it is communication there too. The step is that of the timeline: of a measured run the recorded
// step, the one nearest to the median. Where steps overlap (zb-h2 has no barrier at the optimizer), a step is the time
// of the GPU that is at it longest, and each GPU's step begins with its first task.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/run/run_result.hpp"
#include "sim/run/spans_of_gpus.hpp"

namespace pdl {

struct GpuMetrics {
  std::int64_t layers = 0;
  std::int64_t busy_ns = 0;
  std::int64_t comm_ns = 0;
  std::int64_t idle_ns = 0;
  std::int64_t useful_ns = 0;
  std::int64_t collective_ns = 0;  // of comm_ns: a collective, no transfer
  double bubble_fraction = 0;      // 1 - useful / step
  double idle_fraction = 0;        // idle / step
  // The idle time by when it is: they add up to idle_ns.
  std::int64_t idle_before_ns = 0;   // before the first task
  std::int64_t idle_between_ns = 0;  // in gaps
  std::int64_t idle_after_ns = 0;    // after the last task
  /// "F0", "B0"; "1F0" when the GPU holds several stages. In order of execution. Empty with Operations::left_out.
  std::vector<std::string> ops;
};

struct RunMetrics {
  std::int64_t step_ns = 0;  // of the timeline
  double bubble_fraction = 0;
  double idle_fraction = 0;             // idle / (GPUs x step)
  double throughput_samples_per_s = 0;  // batch x rounds / median step time
  std::optional<double> tokens_per_s;   // of models that take tokens
  double model_flops = 0;               // of a step, over all GPUs
  /// FLOP/s of one GPU: of its card and the run's data type. Nothing where costs are synthetic or it is not known.
  std::optional<double> peak_flops_per_s;
  std::optional<double> mfu;  // where there is a peak
  std::int64_t transfer_count = 0;
  std::int64_t transfer_bytes = 0;
  std::int64_t collective_count = 0;
  std::int64_t collective_bytes = 0;
  std::int64_t parameters = 0;
  std::vector<GpuMetrics> gpus;
};

/// Stages on several GPUs: what is not forward or backward work is called a bubble.
bool has_bubble(const RunSpec& spec);

/// What tables for people show of a GPU in per cent: with `bubble` its bubble_fraction, else its idle_fraction.
double lost_fraction(const GpuMetrics& gpu, bool bubble);

/// The step that the metrics are about: see above.
std::int64_t step_ns(const RunResult& run);

/// Throws std::logic_error if the run has no spans, or its spans name GPUs that it does not have.
RunMetrics compute_metrics(const RunResult& run);

/// The same from spans that the caller has, which are those of the run. Names of operations take more time than all
/// the rest.
enum class Operations : std::uint8_t { named, left_out };
RunMetrics compute_metrics(const RunResult& run, const SpansOfGpus& spans, Operations operations);

/// Its name in words: with its stage, counted in its replica, if the GPU holds several.
std::string span_name(const RunResult& run, const Span& span, bool with_stage);

/// For each GPU: does it hold more than one stage (then names of its tasks carry the stage).
std::vector<bool> holds_several_stages(const RunResult& run);

}  // namespace pdl
