// The tasks of one stage that both programs with stages have: computation, optimizer, sleeps of the host, and what a
// transfer between two stages moves.
//
//   StageTasks tasks(plan, builder);
//   const TaskId b0 = tasks.add_compute(TaskKind::backward, /*stage=*/1, /*microbatch=*/0, /*host=*/1);
//   tasks.last_gradient(1)      // b0: the next backward of stage 1 in this step adds to what it wrote
#pragma once

#include <vector>

#include "sim/plan/backward_parts.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/work_sizes.hpp"

namespace pdl {

TaskKind task_kind(OperationKind kind);
/// Or a forward that is run again.
bool is_forward(TaskKind kind);

class StageTasks {
 public:
  /// Both must outlive this.
  StageTasks(const Plan& plan, TaskGraphBuilder& builder);

  const Stage& stage(std::int32_t index) const { return plan_.stages[static_cast<std::size_t>(index)]; }
  std::int32_t worker_of(std::int32_t stage) const { return places_[static_cast<std::size_t>(stage)].worker; }
  bool is_first(std::int32_t stage) const { return places_[static_cast<std::size_t>(stage)].first; }
  bool is_last(std::int32_t stage) const { return places_[static_cast<std::size_t>(stage)].last; }
  const WorkSizes& sizes() const { return sizes_; }

  TaskId add_compute(TaskKind kind, std::int32_t stage, std::int32_t microbatch, std::uint32_t host);
  /// Some layers of a backward that is cut, at buckets or where forwards are run again, the last ones first: part 0, 1,
  /// ... Its forward that is run again is a task of its own, before it. Gives the backward.
  TaskId add_backward_part(std::int32_t stage, std::int32_t microbatch, std::uint32_t host,
                           const BackwardPart& part_of_backward, std::uint32_t part);
  /// `same_call`: one optimizer has the stages of a process, of which this is not the first.
  TaskId add_optimizer(std::int32_t stage, std::uint32_t host, bool same_call = false);
  TaskId add_scaling_of_gradients(std::int32_t stage, std::uint32_t host);
  /// --delay-ms, where it is given: before a backward.
  void add_delay(std::int32_t stage, std::int32_t microbatch, std::uint32_t host);
  /// --straggler, where it is this worker: at the start of the step.
  void add_straggler(std::int32_t worker, std::uint32_t host);

  /// What moves between two neighbouring stages: the input of the higher one, or its gradient. `same_call`: in a batch
  /// behind another message.
  std::uint32_t transfer_work(TaskKind kind, std::int32_t from_stage, std::int32_t to_stage, std::int32_t microbatch,
                              bool same_call = false);

  /// The last task that wrote the stage's gradients in this step; kNone: none yet.
  TaskId last_gradient(std::int32_t stage) const { return last_gradient_[static_cast<std::size_t>(stage)]; }

 private:
  /// Of a stage: what is asked for every task, side by side.
  struct Place {
    std::int32_t worker;
    bool first, last;  // of its replica
  };

  /// The work of a kind and a stage that was asked for last: that of the next micro-batch is mostly the same.
  struct LastWork {
    std::int64_t rows = -1;
    std::uint32_t index = 0;
    bool again = false;  // what else it depends on: gradients or casts are there, a message is not alone in its call
  };
  /// Kinds of tasks of a micro-batch, which come first in TaskKind.
  static constexpr std::size_t kKindsOfMicrobatch = static_cast<std::size_t>(TaskKind::receive_backward) + 1;

  Work work_of(TaskKind kind, std::int32_t stage) const;
  Work compute_work(TaskKind kind, std::int32_t stage, std::int64_t rows, bool again) const;
  /// True from the second forward of a stage on within one autocast context: that of a round. In a pipeline of pdl-run
  /// always.
  bool casts_are_there(std::int32_t stage, std::int32_t microbatch);
  LastWork& last_work(TaskKind kind, std::int32_t stage) {
    return last_works_[static_cast<std::size_t>(stage) * kKindsOfMicrobatch + static_cast<std::size_t>(kind)];
  }
  TaskId add_on_compute_stream(TaskKind kind, std::uint32_t work, std::int32_t stage, std::int32_t microbatch,
                               std::uint32_t host);
  void add_sleep(std::int32_t stage, std::int32_t microbatch, std::uint32_t host, double ms);

  const Plan& plan_;
  TaskGraphBuilder& builder_;
  WorkSizes sizes_;
  std::vector<Place> places_;          // by stage
  std::vector<TaskId> last_gradient_;  // by stage
  bool parts_add_ = false;             // the parts of the backward that is being added
  std::vector<std::int32_t> cast_in_;  // by stage: the round of its last forward, where casts last for a round
  std::vector<LastWork> last_works_;   // by stage and kind
};

}  // namespace pdl
