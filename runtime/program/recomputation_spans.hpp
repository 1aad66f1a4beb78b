// When the parts of a recorded backward run whose forwards are run again, of one micro-batch of a replica.
//
//   RecomputationSpans spans;
//   spans.add(task) of each recompute and backward of the micro-batch, in the order of the plan
//   stage.forward(x, spans.watch(recorder));
//   spans.begin();  loss.backward();  spans.end();
//
//   compute stream   | B head | R block 1 | B block 1 | R block 0 | B block 0 | B embedding |
//
// A part ends where the next one begins. Not here: which layers are run again (sim/plan/backward_parts.hpp).
#pragma once

#include <vector>

#include "runtime/model/checkpoint.hpp"
#include "sim/plan/task_graph.hpp"

namespace pdl {

class SpanRecorder;

class RecomputationSpans : public RecomputationWatcher {
 public:
  /// The next one of the plan. A recomputation's backward comes behind it.
  void add(TaskKind kind, TaskId task);
  bool empty() const { return parts_.empty(); }

  /// Null where there is nothing to record, and where nothing is run again.
  RecomputationWatcher* watch(SpanRecorder* recorder);

  /// Before the loss, which the first part has; and behind the last part.
  void begin();
  void end();
  /// A bucket is full: what follows may be no part of the backward. It ends later if the part goes on.
  void bucket_filled();

  void recomputation_begins(int layer) override;
  void recomputation_ends(int layer) override;
  void backward_ends(int layer) override;

 private:
  struct Part {
    TaskId recompute = kNone;
    TaskId backward = kNone;
  };
  /// Ends the part that is under way.
  void go_on();

  std::vector<Part> parts_;
  SpanRecorder* recorder_ = nullptr;
  std::size_t part_ = 0;  // that is under way
};

}  // namespace pdl
