// What one GPU does while no forward or backward runs: under DataParallel, GPU 0 scatters, gathers, has the loss and
// the optimizer.
//
//   GPU 0  BC F0 G L S B0 R O       alone: G and the rest to GPU 0's loss; R; O
//   GPU 1  BC F0 G . S B0 R .       kinds of GPU 0: broadcast 1, gather 1, loss 1, scatter 1, reduce 1, optimizer 1
#pragma once

#include <cstdint>
#include <vector>

#include "sim/run/run_result.hpp"

namespace pdl {

/// Time of the tasks of one kind on a GPU; where some run at once, it counts once. Waiting does not count.
std::int64_t time_of_kind_ns(const RunResult& run, std::int32_t gpu, TaskKind kind);

/// Time in which `gpu` is at a task (of computation, from its first kernel to its last, waits for the host inside; or a
/// communication that runs) and no GPU is at forward or backward work: the rest of the step waits
/// for what it does.
std::int64_t leading_ns(const RunResult& run, std::int32_t gpu);

}  // namespace pdl
