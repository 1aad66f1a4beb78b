#include "runtime/program/recomputation_spans.hpp"

#include "runtime/trace/span_recorder.hpp"

namespace pdl {

void RecomputationSpans::add(TaskKind kind, TaskId task) {
  if (kind == TaskKind::recompute) {
    parts_.push_back({task, kNone});
  } else if (!parts_.empty() && parts_.back().backward == kNone) {
    parts_.back().backward = task;
  } else {
    parts_.push_back({kNone, task});
  }
}

RecomputationWatcher* RecomputationSpans::watch(SpanRecorder* recorder) {
  recorder_ = recorder;
  return recorder && !empty() ? this : nullptr;
}

void RecomputationSpans::begin() {
  part_ = 0;
  recorder_->begin(parts_[part_].backward);
}

void RecomputationSpans::end() {
  recorder_->end(parts_[part_].backward);
}

void RecomputationSpans::bucket_filled() {
  if (recorder_ && !empty()) end();
}

void RecomputationSpans::go_on() {
  end();
  ++part_;
}

void RecomputationSpans::recomputation_begins(int) {
  go_on();
  recorder_->begin(parts_[part_].recompute);
}

void RecomputationSpans::recomputation_ends(int) {
  recorder_->end(parts_[part_].recompute);
  recorder_->begin(parts_[part_].backward);
}

void RecomputationSpans::backward_ends(int) {
  if (part_ + 1 == parts_.size() || parts_[part_ + 1].recompute != kNone) return;
  go_on();
  recorder_->begin(parts_[part_].backward);
}

}  // namespace pdl
