// The order of a step's operations: a schedule's order of one replica and one round, for all of them.
//
//   1f1b, 2 GPUs a replica, 2 replicas:    GPU 0   0F0 0F1 0B0 0B1      GPU 2   2F0 2F1 2B0 2B1
//                                          GPU 1   1F0 1B0 1F1 1B1      GPU 3   3F0 3B0 3F1 3B1
//
// Stages are counted on from replica to replica, micro-batches from round to round.
#pragma once

#include "sim/spec/mesh.hpp"

namespace pdl {

/// The schedule of the spec, for every worker of one replica, one round. Throws InputError if it is still to be
/// searched for, or if it does not take the micro-batches that torch.chunk makes.
PipelineOrder make_order(const RunSpec& spec);

/// Of all replicas and rounds. `rows`: samples of the micro-batches of a round of the first replica.
PipelineOrder order_of_step(const RunSpec& spec, const Mesh& mesh, const std::vector<std::int64_t>& rows);

}  // namespace pdl
