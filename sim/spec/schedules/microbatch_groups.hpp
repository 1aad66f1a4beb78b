// What the interleaved schedules have in common: in which order a worker's chunks take the micro-batches. Groups of
// micro-batches go through one chunk after the other (arXiv:2104.04473, section 2.2, where a group has as many
// micro-batches as there are workers).
//
//   worker 0 of 2, 2 chunks (stages 0 and 2), 4 micro-batches:
//     forwards    0F0 0F1  2F0 2F1 | 0F2 0F3  2F2 2F3
//     backwards   2B0 2B1  0B0 0B1 | 2B2 2B3  0B2 0B3
//
// A number of micro-batches that is no multiple of the workers: groups as large as each other, as few larger than the
// workers as can be. 10 micro-batches on 4 workers are 2 groups of 5, 3 are one of 3; 9 would be 2 groups, and are
// refused. Source: ScheduleInterleaved1F1B and ScheduleInterleavedZeroBubble (number_of_rounds,
// microbatches_per_round), PyTorch 2.11, torch/distributed/pipelining/schedules.py.
#pragma once

#include "sim/spec/schedule.hpp"

namespace pdl {

/// Micro-batches divided by workers, rounded down, at least 1.
std::int32_t microbatch_groups(const ScheduleShape& shape);

/// Of one group; the micro-batches must be a multiple of the groups.
std::int32_t microbatches_of_a_group(const ScheduleShape& shape);

/// One operation of each chunk and micro-batch, all of one kind: forwards from the first chunk to the last, every other
/// kind from the last to the first. The micro-batches must be a multiple of the groups.
std::vector<Operation> in_microbatch_groups(OperationKind kind, const ScheduleShape& shape, std::int32_t worker);

}  // namespace pdl
