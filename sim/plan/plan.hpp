// From a spec to the graph of one training step: the mesh of GPUs, layers to stages, samples to micro-batches,
// operations to tasks, stage boundaries to transfers.
//
//   Plan plan = make_plan(parse_run_spec(...));
//   plan.graph.tasks.size()
//
//   spec -> resolve: program, mesh -> samples.hpp: replicas, micro-batches -> step_order.hpp: what each GPU does
//        -> stages.hpp -> buffers.hpp -> the step of the program, a file each:
//
//     pipeline_step.hpp + gradient_exchange.hpp    one worker a GPU, replicas
//     pytorch_pipeline_step.hpp                    a process a GPU, as torch.distributed.pipelining runs it
//     one_thread_step.hpp                          one thread for all GPUs
//     ddp_step.hpp, data_parallel_step.hpp         the whole model on every GPU
//
// A program is added as a value of Program (sim/spec/mesh.hpp), its step as a file here, and a line in make_plan.
// The simulator prices and runs plan.graph; the runtime executes the same plan.graph on GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan/gradient_buckets.hpp"
#include "sim/plan/samples.hpp"
#include "sim/plan/stages.hpp"
#include "sim/plan/step_order.hpp"
#include "sim/plan/task_graph.hpp"
#include "sim/spec/mesh.hpp"

namespace pdl {

/// What a worker keeps for its backwards when it keeps most: activations of (stage, micro-batch) pairs, counted, and
/// their bytes: what the layers keep (sim/model/model.hpp), with recomputation the stage's input alone.
struct LiveActivations {
  std::int32_t count = 0;
  std::int64_t bytes = 0;
  bool operator==(const LiveActivations&) const = default;
};

struct Plan {
  RunSpec spec;
  Parallelism parallel;       // of spec: what all but texts ask
  std::vector<Stage> stages;  // replica after replica (sim/plan/stages.hpp)
  /// Samples of each replica in a round: they add up to spec.batch. 0: the replica has nothing to do (DataParallel).
  std::vector<std::int64_t> replica_rows;
  /// Samples of each micro-batch of the first replica, all rounds one after another: they add up to replica_rows[0] x
  /// accum. A pipeline's replicas all have the same.
  std::vector<std::int64_t> microbatch_rows;
  /// By stage and micro-batch: the buffer that it uses, below Stage::slots. Buffers are taken in turn.
  std::vector<std::vector<std::int32_t>> slots;
  std::vector<LiveActivations> live;                              // by worker
  std::vector<GradientBucket> buckets;                            // ddp: in the order in which they are full
  std::vector<GradientBucket> parameter_chunks, gradient_chunks;  // data_parallel: tensors that move together
  TaskGraph graph;
  std::vector<std::string> warnings;
};

/// Samples of a micro-batch (of all rounds) of a replica. Replicas have unequal parts only where a part is one
/// micro-batch.
std::int64_t rows_of(const Plan& plan, std::int32_t replica, std::int32_t microbatch);

/// Micro-batches of one round.
std::int32_t microbatches_of_a_round(const Plan& plan);

/// Throws InputError for a spec that no plan can follow. Transfers move activations in fp32, in half precision behind a
/// layer whose result is half under autocast.
Plan make_plan(const RunSpec& spec);

/// The tasks of the first replica alone, without its buffers: each as in the whole plan, collectives among all of them.
/// At fixed rates the whole step takes at least what these do. Throws as make_plan().
Plan make_plan_of_first_replica(const RunSpec& spec);

}  // namespace pdl
