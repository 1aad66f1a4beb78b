// Which tasks of the plan are which call of DataParallel's step.
//
//   DpStepTasks tasks = read_dp_tasks(plan);
//   tasks.microbatches[0].scatter[1]      // both ends of the copy of GPU 1's samples, one call
//
// Not here: what the calls do (dp_program.cpp).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/plan.hpp"

namespace pdl {

/// Tasks that are one call: both ends of a copy, all GPUs of a collective.
using TaskIds = std::vector<TaskId>;

/// The plan's tasks of one micro-batch. Empty, or kNone, where the plan has none.
struct DpMicrobatchTasks {
  std::vector<TaskIds> scatter, gather, scatter_gradient;  // by GPU
  std::vector<TaskIds> broadcast, reduce;                  // by chunk
  TaskIds forward, backward;                               // by GPU
  TaskId loss = kNone;
  TaskId sum = kNone;  // its gradients are added to those of the micro-batches before
  TaskId delay = kNone;
  std::int64_t delay_ns = 0;
};

struct DpStepTasks {
  std::vector<DpMicrobatchTasks> microbatches;  // of all accumulation rounds, one after another
  TaskId optimizer = kNone;
  TaskId straggler = kNone;
  std::int64_t straggler_ns = 0;
  int straggling_gpu = -1;
};

/// Throws c10::Error for a plan that has tasks of another program.
DpStepTasks read_dp_tasks(const Plan& plan);

}  // namespace pdl
