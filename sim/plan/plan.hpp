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
  /// Buffers that the worker holds for this stage, one a live micro-batch; micro-batch m uses buffer m % slots. One more
  /// than the largest number of micro-batches between their forward and their backward here, so that the next
  /// activation can arrive while the oldest is still needed.
  std::int32_t slots = 1;
  /// The largest number of micro-batches whose activations are kept at once.
  std::int32_t live_microbatches = 1;
};

struct Plan {
  RunSpec spec;
  std::vector<Stage> stages;
  std::vector<std::int64_t> microbatch_rows;  // adds up to spec.batch
  TaskGraph graph;
  std::vector<std::string> warnings;
};

/// Throws InputError for a spec that no plan can follow. Transfers move rows x width x 4 bytes (fp32 activations).
Plan make_plan(const RunSpec& spec);

}  // namespace pdl
