// From a spec to the graph of one training step: layers to stages, samples to micro-batches, operations to tasks,
// stage boundaries to transfers.
//
//   Plan plan = make_plan(parse_run_spec(...));
//   plan.graph.tasks.size()
//
// The simulator prices and runs plan.graph; the runtime executes the same plan.graph on GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan/task_graph.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

struct Stage {
  std::int32_t worker = 0;
  std::int32_t first_layer = 0;
  std::int32_t layer_count = 0;
  /// Buffers that the worker holds for this stage, one a live micro-batch. Where the input comes from another worker,
  /// one more than are live at once, so that the next one can arrive while the oldest is still needed.
  std::int32_t slots = 1;
  /// The largest number of micro-batches whose activations are kept at once.
  std::int32_t live_microbatches = 1;
};

/// What a worker keeps for its backwards when it keeps most: activations of (stage, micro-batch) pairs, counted, and
/// their bytes: the input of the stage and the results of its layers (with recomputation the input alone).
struct LiveActivations {
  std::int32_t count = 0;
  std::int64_t bytes = 0;
  bool operator==(const LiveActivations&) const = default;
};

struct Plan {
  RunSpec spec;
  std::vector<Stage> stages;
  std::vector<std::int64_t> microbatch_rows;  // adds up to spec.batch
  /// By stage and micro-batch: the buffer that it uses, below Stage::slots. Buffers are taken in turn.
  std::vector<std::vector<std::int32_t>> slots;
  std::vector<LiveActivations> live;  // by worker
  TaskGraph graph;
  std::vector<std::string> warnings;
};

/// True if `stage` gets its input from the stage before, and gives its gradient to it, on the same worker: no transfer.
bool is_local_boundary(const std::vector<Stage>& stages, std::size_t stage);

/// Samples of each micro-batch, as make_plan makes them.
std::vector<std::int64_t> microbatch_rows(const RunSpec& spec);

/// The schedule of the spec, for every worker. Throws InputError if it is still to be searched for.
PipelineOrder make_order(const RunSpec& spec);

/// Throws InputError for a spec that no plan can follow. Transfers move rows x width x 4 bytes (fp32 activations).
Plan make_plan(const RunSpec& spec);

}  // namespace pdl
