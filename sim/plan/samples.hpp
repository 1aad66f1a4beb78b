// The batch to replicas, a replica's part to micro-batches.
//
//   batch 12, 2 replicas, 3 micro-batches, 2 rounds of accumulation:
//
//                    round 0          round 1
//     replica 0   | 2 | 2 | 2 |    | 2 | 2 | 2 |     replica_rows 6 6
//     replica 1   | 2 | 2 | 2 |    | 2 | 2 | 2 |     microbatch_rows 2 2 2 2 2 2 (of the first replica)
//
// Nothing is dropped: parts add up. Micro-batches are cut as torch.chunk does, which may make fewer than asked for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/spec/mesh.hpp"

namespace pdl {

/// Samples of each replica in a round, as make_plan makes them: as even as can be (ddp), equal (pipelines), as
/// torch.chunk cuts them (dp: the last ones may have none).
std::vector<std::int64_t> replica_rows(const RunSpec& spec, const Parallelism& parallel);

/// Samples of each micro-batch of one round of a replica that has so many. With synthetic costs every micro-batch costs
/// the same, whatever its samples: as many as asked for, their samples as even as can be; throws InputError where there
/// are fewer samples. Else unequal or fewer micro-batches are warned about.
std::vector<std::int64_t> cut_into_microbatches(const RunSpec& spec, std::int64_t samples,
                                                std::vector<std::string>& warnings);

/// Samples of each micro-batch of one round of the first replica, as make_plan makes them.
std::vector<std::int64_t> microbatch_rows(const RunSpec& spec);

}  // namespace pdl
