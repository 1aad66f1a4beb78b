// Where the step goes: the time of each GPU split into parts that a person can do something about.
//
//   GPipe, 2 stages, 2 micro-batches, forward and backward 1 ms each, a step of 6 ms:
//
//   GPU 0  F0 F1 .. .. B0 B1      useful compute 4 ms, fill and drain 2 ms: it waits for GPU 1
//   GPU 1  .. F0 F1 B0 B1 ..      useful compute 4 ms, fill and drain 2 ms: before its first task and after its last
//
//   std::optional<Explanation> why = explain(run);
//   why->gpus[0][StepPart::useful]       4'000'000 ns; the parts of a GPU add up to the step, to the nanosecond
//   why->critical_path                   F0 of GPU 0, F0 of GPU 1, ...: what each waited for, from the last task back
//
// While a GPU is at a compute task, the time belongs to that task: forward and backward are useful compute, a forward
// run again is recomputation, and optimizer, loss and copies of gradients are together. Where it is known how long the
// task takes alone (TimeOfTask, of predictions), what it took longer is contention with a collective beside it or the
// host that issues its kernels too slowly.
//
// A gap belongs to what the next compute task waited for, followed back through the tasks that it waited for
// (waiting_for.hpp) until the gap began: a running transfer or collective is exposed communication; a host that slept
// (--delay-ms, --straggler) is sleep; what nobody was at is the host, which had not issued yet; and another GPU's
// compute task is waiting for other GPUs. Of this waiting, as much as hosts slept further back on the same chain,
// beyond what else the task after the sleep waited for and what this GPU has of the sleep already, is sleep too; then,
// as much as the GPU has less work than the GPU that has most is imbalance; the rest is fill and drain:
//
//   GPU 0  F0 B0 B0 .. .. a0      DDP, the host of GPU 1 sleeps 2 ms: GPU 0 waits 2 ms in the all-reduce a0 for B0 of
//   GPU 1  zz zz F0 B0 B0 a0      GPU 1, which the sleep has held up
//
// The gap after the last compute task of a GPU is explained by the last task of the step in the same way.
//
// Where steps overlap, the step is the maximum over the GPUs of the time from a GPU's first task to its last, each GPU
// begins with its first task or sleep, and what others take longer than it counts as waiting for them. Units:
// nanoseconds. Not here: what the step would take without a part (sim/predict/what_if.hpp), as parts that are removed
// let others grow.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/run/run_result.hpp"

namespace pdl {

enum class StepPart : std::uint8_t {
  useful,          // forward and backward
  fill_and_drain,  // waiting for compute tasks of other GPUs
  imbalance,       // the same, as much as this GPU has less to compute than the one that has most
  transfers,       // exposed; on the critical path: whole
  collectives,     // the same
  host,            // not yet issued, between the kernels of a task
  sleep,           // of a host: --delay-ms, --straggler
  optimizer,       // and loss, copies of gradients into and out of buckets
  recomputation,
  contention  // what compute tasks take longer beside a collective
};
inline constexpr std::size_t kStepParts = 10;
const char* to_string(StepPart part);  // "fill_and_drain": in JSON and CSV

/// The time of one GPU in a step, or of the critical path.
struct TimeByPart {
  std::array<std::int64_t, kStepParts> ns{};
  std::int64_t& operator[](StepPart part) { return ns[static_cast<std::size_t>(part)]; }
  std::int64_t operator[](StepPart part) const { return ns[static_cast<std::size_t>(part)]; }
  std::int64_t sum_ns() const;
};

/// How long a compute task takes where nothing runs beside it and its host is far ahead, and how much longer because of
/// what runs beside it. What its span has beyond the two is its host.
struct TimeOfTask {
  std::int64_t alone_ns = 0;
  std::int64_t contention_ns = 0;
};

/// A piece of the critical path: neighbouring tasks of one part on one GPU, or a wait for the host.
struct PathSegment {
  StepPart part = StepPart::useful;
  std::int32_t gpu = 0;
  std::string name;  // "F0"; "F0 to B7"; "host"
  std::int64_t start_ns = 0, end_ns = 0;
  std::int64_t tasks = 0;  // 0: the host
};

/// What the step would take if some cost were none (sim/predict/what_if.hpp).
struct StepWithout {
  std::string what;   // "transfers": a word for JSON and CSV
  std::string words;  // "Without transfers": how the sentence begins
  double step_time_ms = 0;
};

struct Explanation {
  std::int64_t step_ns = 0;
  std::vector<TimeByPart> gpus;
  bool times_alone_known = false;  // else contention is inside useful compute
  /// From 0 to the end of the timeline, in order, without gaps. Waits for the host that count as no time
  /// (waiting_for.hpp) are inside the segment before them.
  std::vector<PathSegment> critical_path;
  TimeByPart critical_path_by_part;  // no fill and drain, no imbalance: the path waits for nobody
  std::vector<StepWithout> without;  // empty: not predicted
};

/// `tasks`: one a span, or empty. Nothing where the timeline has other tasks than the plan of its spec, so that nobody
/// knows what waited for what. Throws as compute_metrics().
std::optional<Explanation> explain(const RunResult& run, std::span<const TimeOfTask> tasks = {});

/// Averaged over the GPUs, in milliseconds: adds up to the step.
double mean_ms(const Explanation& explanation, StepPart part);

/// {"step_ms", "mean": {"useful_ms", ...}, "gpus": [{"useful_ms", ...}], "critical_path": {"parts", "segments"},
///  "without": [{"what", "step_time_ms"}]}
nlohmann::ordered_json to_json(const Explanation& explanation);

}  // namespace pdl
