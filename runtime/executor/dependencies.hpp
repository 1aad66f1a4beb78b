// What each task has to wait for when a plan is executed for real: the edges of the graph, and the buffers.
//
//   Dependencies d = make_dependencies(plan, buffer_hazards(plan));
//   for (TaskId before : d.before(task)) ...      // tasks of another stream; the order of the own stream does the rest
//
// A stage has a few buffers (Stage::slots) for many micro-batches (Plan::slots): the next user of a slot writes where
// the one before was, and must come after the last reader of that one. Mostly that follows from the graph; it is
// checked here for any schedule, and where it does not follow, a wait is added. Waits that follow from others are left
// out.
//
// "Follows" is decided by vector clocks: for every task, the latest task of each stream that is certain to have
// finished when it starts. Linear in tasks x streams.
//
// Messages that NCCL or Gloo carry from a worker to another on one lane are matched in order: the sender's order must
// be the receiver's.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "sim/plan/plan.hpp"

namespace pdl {

using TaskPair = std::pair<TaskId, TaskId>;  // first must have finished before second starts

/// The pairs (last reader of a buffer, next writer of the same buffer) of a pipeline plan, implied by the graph or not.
std::vector<TaskPair> buffer_hazards(const Plan& plan);

struct Dependencies {
  std::vector<std::uint32_t> offsets;  // tasks + 1
  std::vector<TaskId> waits;
  /// True if a task of another stream waits for this one.
  std::vector<bool> is_awaited;
  /// Waits for buffers that the graph does not imply: none for naive, gpipe, 1f1b, option-c and looped-bfs. Where
  /// weight gradients come late, or chunks take turns, a sender may be ahead of a buffer by one: its copy waits, its
  /// compute stream does not. The plan has no edges for them, so a prediction does not know these waits.
  std::size_t added_for_buffers = 0;

  std::span<const TaskId> before(TaskId task) const {
    return {waits.data() + offsets[task], waits.data() + offsets[task + 1]};
  }
};

/// Throws CannotRun, naming both orders, if a worker sends messages in another order than the other one receives them.
/// Nothing where messages are copies.
void check_message_order(const Plan& plan);

/// Throws CannotRun, naming tasks that wait for each other, if the waits form a cycle: in the order of their streams,
/// or in the order in which host threads issue them.
Dependencies make_dependencies(const Plan& plan, std::span<const TaskPair> hazards);

}  // namespace pdl
