// Which tasks have been issued in this step: how the host threads of a process wait for each other.
//
//   host of worker 0:  record(event of send F0);  board.publish(send_f0, step);
//   host of worker 1:  board.wait(send_f0, step); cudaStreamWaitEvent(compute, event of send F0);
//
// An event may only be waited for once it has been recorded in this step, or the wait would be for the step before. On
// CPU tasks run on the host's thread, so there "issued" means "done". One number a task, the step in which it was last
// issued; steps count from 1.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "sim/plan/task_graph.hpp"

namespace pdl {

class TaskBoard {
 public:
  explicit TaskBoard(std::size_t tasks);

  void publish(TaskId task, int step);

  /// Returns once `task` has been published in `step`. Throws StepAborted after abort().
  void wait(TaskId task, int step);

  /// A worker has failed: every present and future wait ends by StepAborted.
  void abort();
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  void throw_if_aborted() const;

 private:
  std::size_t tasks_;
  std::unique_ptr<std::atomic<int>[]> issued_;
  std::atomic<bool> aborted_{false};
};

}  // namespace pdl
