// What the interleaved schedules have in common: in which order a worker's chunks take the micro-batches. Groups of P
// micro-batches go through one chunk after the other (arXiv:2104.04473, section 2.2).
//
//   worker 0 of 2, 2 chunks (stages 0 and 2), 4 micro-batches:
//     forwards    0F0 0F1  2F0 2F1 | 0F2 0F3  2F2 2F3
//     backwards   2B0 2B1  0B0 0B1 | 2B2 2B3  0B2 0B3
#pragma once

#include "sim/spec/schedule.hpp"

namespace pdl {

/// One operation of each chunk and micro-batch, all of one kind: forwards from the first chunk to the last, every other
/// kind from the last to the first. The micro-batches must be a multiple of the workers.
std::vector<Operation> in_microbatch_groups(OperationKind kind, const ScheduleShape& shape, std::int32_t worker);

}  // namespace pdl
