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

#include "sim/plan/gradient_buckets.hpp"
#include "sim/plan/task_graph.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

struct Stage {
  std::int32_t worker = 0;
  std::int32_t first_layer = 0;
  std::int32_t layer_count = 0;
  std::int32_t replica = 0;
  /// Buffers that the worker holds for this stage, one a live micro-batch. Where the input comes from another worker,
  /// one more than are live at once, so that the next one can arrive while the oldest is still needed.
  std::int32_t slots = 1;
  /// The largest number of micro-batches whose activations are kept at once.
  std::int32_t live_microbatches = 1;
};

/// What a worker keeps for its backwards when it keeps most: activations of (stage, micro-batch) pairs, counted, and
/// their bytes: what the layers keep (sim/model/model.hpp), with recomputation the stage's input alone.
struct LiveActivations {
  std::int32_t count = 0;
  std::int64_t bytes = 0;
  bool operator==(const LiveActivations&) const = default;
};

/// Stages of a replica stand one after another, replica after replica; the GPUs of replica r are those from
/// r x pipeline_workers(spec) on. Neighbours in this list are neighbours in the pipeline, where both are of one
/// replica.
struct Plan {
  RunSpec spec;
  std::vector<Stage> stages;
  /// Samples of each replica in a round: they add up to spec.batch. 0: the replica has nothing to do (DataParallel).
  std::vector<std::int64_t> replica_rows;
  /// Samples of each micro-batch of the first replica, all rounds one after another: they add up to replica_rows[0] x
  /// accum. A pipeline's replicas all have the same.
  std::vector<std::int64_t> microbatch_rows;
  /// By stage and micro-batch: the buffer that it uses, below Stage::slots. Buffers are taken in turn.
  std::vector<std::vector<std::int32_t>> slots;
  std::vector<LiveActivations> live;                              // by worker
  std::vector<GradientBucket> buckets;                            // ddp: in the order in which they are full
  std::vector<GradientBucket> parameter_chunks, gradient_chunks;  // dp: tensors that move together
  TaskGraph graph;
  std::vector<std::string> warnings;
};

/// True if `stage` gets its input from the stage before, and gives its gradient to it, on the same worker: no transfer.
bool is_local_boundary(const std::vector<Stage>& stages, std::size_t stage);

/// The first and the last stage of their replica.
bool is_first_stage(const std::vector<Stage>& stages, std::size_t stage);
bool is_last_stage(const std::vector<Stage>& stages, std::size_t stage);

/// Samples of each replica in a round, as make_plan makes them: as even as can be (ddp), equal (pipelines), as
/// torch.chunk cuts them (dp: the last ones may have none).
std::vector<std::int64_t> replica_rows(const RunSpec& spec);

/// Samples of each micro-batch of one round of the first replica, as make_plan makes them.
std::vector<std::int64_t> microbatch_rows(const RunSpec& spec);

/// Samples of a micro-batch (of all rounds) of a replica. Replicas have unequal parts only where a part is one
/// micro-batch.
std::int64_t rows_of(const Plan& plan, std::int32_t replica, std::int32_t microbatch);

/// Micro-batches of one round.
std::int32_t microbatches_of_a_round(const Plan& plan);

/// The schedule of the spec, for every worker of one replica, one round. Throws InputError if it is still to be
/// searched for.
PipelineOrder make_order(const RunSpec& spec);

/// Throws InputError for a spec that no plan can follow. Transfers move activations in fp32, in half
/// precision behind a layer whose result is half under autocast.
Plan make_plan(const RunSpec& spec);

}  // namespace pdl
