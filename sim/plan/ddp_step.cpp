#include "sim/plan/ddp_step.hpp"

#include <algorithm>

#include "sim/plan/replica_tasks.hpp"

namespace pdl {
namespace {

class DdpStep : ReplicaTasks {
 public:
  explicit DdpStep(const Plan& plan) : ReplicaTasks(plan), run_again_(layers_run_again(plan)) {}

  TaskGraph build(std::int32_t replicas) && {
    groups_.assign(plan_.buckets.size() * plan_.microbatch_rows.size(), kNone);
    for (std::int32_t replica = 0; replica < std::min(replicas, used_); ++replica) {
      add_straggler(replica, host_of(replica));
      for (std::int32_t m = 0; m < microbatches(); ++m) add_microbatch(replica, m);
      add_layers(TaskKind::optimizer, replica, host_of(replica), -1, 0, layers());
    }
    return std::move(builder_).build(static_cast<std::uint32_t>(used_), static_cast<std::uint32_t>(used_));
  }

 private:
  static std::uint32_t host_of(std::int32_t replica) { return static_cast<std::uint32_t>(replica); }

  void add_microbatch(std::int32_t replica, std::int32_t microbatch) {
    const std::uint32_t host = host_of(replica);
    add_layers(TaskKind::forward, replica, host, microbatch, 0, layers());
    add_sleep(spec_.delay_ms, host, replica, microbatch);
    const std::int32_t in_round = microbatches_of_a_round(plan_);
    const bool ends_round = (microbatch + 1) % in_round == 0;
    if (!ends_round || !exchanges_in_round(spec_, microbatch / in_round)) {
      add_backward(replica, microbatch, 0, layers(), 0);
      return;
    }
    std::vector<TaskId> reduced;
    std::int32_t above = layers();  // layers from here on have had their backward
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
      const GradientBucket& bucket = plan_.buckets[b];
      if (bucket.lowest_layer < above) {
        add_backward(replica, microbatch, bucket.lowest_layer, above, b);
        above = bucket.lowest_layer;
      }
      reduced.push_back(add_exchange(replica, microbatch, b));
    }
    if (spec_.bucket_views) {  // nothing is copied back: what comes next waits, the next forward or the optimizer
      pending_ = reduced;
      return;
    }
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
      const TaskId copy = add(moved(TaskKind::bucket_copy_out, plan_.buckets[b]), compute_stream(replica), host, kNone,
                              replica, microbatch, b);
      if (reduced[b] != kNone) builder_.add_edge(reduced[b], copy);
      join_pending(copy);
    }
  }

  /// Of layers [first, end), the part before bucket `b`; with recomputation several parts, counted by themselves.
  void add_backward(std::int32_t replica, std::int32_t microbatch, std::int32_t first, std::int32_t end,
                    std::size_t b) {
    const std::uint32_t host = host_of(replica);
    if (!spec_.recompute) {
      add_layers(TaskKind::backward, replica, host, microbatch, first, end - first, b);
      return;
    }
    if (end == layers()) part_ = 0;
    for (const BackwardPart& cut : backward_parts(run_again_, first, end - first, end == layers())) {
      if (cut.runs_again) add_part(TaskKind::recompute, replica, host, microbatch, cut, part_);
      add_part(TaskKind::backward, replica, host, microbatch, cut, part_++);
    }
  }

  /// The copy into the bucket and its all-reduce; kNone with one GPU.
  TaskId add_exchange(std::int32_t replica, std::int32_t microbatch, std::size_t b) {
    const std::uint32_t host = host_of(replica);
    const TaskId full = add(moved(TaskKind::bucket_copy_in, plan_.buckets[b]), compute_stream(replica), host, kNone,
                            replica, microbatch, b);
    if (used_ == 1) return kNone;
    std::uint32_t& group = groups_[b * plan_.microbatch_rows.size() + static_cast<std::size_t>(microbatch)];
    if (group == kNone) group = builder_.add_group();
    const TaskId task = add(moved(TaskKind::all_reduce, plan_.buckets[b]),
                            stream_of(replica, StreamRole::collective, 0), host, group, replica, microbatch, b);
    builder_.add_edge(full, task);
    return task;
  }

  void join_pending(TaskId task) {
    for (const TaskId reduced : pending_) {
      if (reduced != kNone) builder_.add_edge(reduced, task);
    }
    pending_.clear();
  }

  TaskId add_layers(TaskKind kind, std::int32_t replica, std::uint32_t host, std::int32_t microbatch,
                    std::int32_t first, std::int32_t count, std::size_t part = 0) {
    const TaskId task = ReplicaTasks::add_layers(kind, replica, host, microbatch, first, count, part);
    join_pending(task);
    return task;
  }

  std::vector<bool> run_again_;  // by layer
  std::size_t part_ = 0;         // of the backward that is under way, with recomputation
  std::vector<TaskId> pending_;
  std::vector<std::uint32_t> groups_;  // by bucket and micro-batch
};

}  // namespace

TaskGraph ddp_step(const Plan& plan, std::int32_t replicas) {
  return DdpStep(plan).build(replicas);
}

}  // namespace pdl
