#include "sim/plan/data_parallel_step.hpp"

#include <algorithm>
#include <map>

#include "sim/plan/replica_tasks.hpp"

namespace pdl {
namespace {

class DataParallelStep : ReplicaTasks {
 public:
  DataParallelStep(const Plan& plan, std::int32_t replicas)
      : ReplicaTasks(plan), planned_(std::min(replicas, used_)), main_(static_cast<std::uint32_t>(used_)) {}

  TaskGraph build() && {
    for (std::int32_t replica = 0; replica < planned_; ++replica)
      add_straggler(replica, static_cast<std::uint32_t>(replica));
    for (std::int32_t m = 0; m < microbatches(); ++m) add_microbatch(m);
    join(add_layers(TaskKind::optimizer, 0, main_, -1, 0, layers()));
    return std::move(builder_).build(static_cast<std::uint32_t>(spec_.gpus), main_ + 1);
  }

 private:
  void add_microbatch(std::int32_t microbatch) {
    // Under autocast the outputs, and their gradients, may be half.
    const std::int64_t out_bytes =
        output_numbers(spec_.model) * activation_number_bytes(spec_.model, spec_.dtype).back();
    add_slices(TaskKind::scatter, microbatch, input_numbers(spec_.model) * kBytesPerNumber);
    add_chunks(TaskKind::broadcast, plan_.parameter_chunks, microbatch);
    add_on_all(TaskKind::forward, microbatch, kNone);
    add_slices(TaskKind::gather, microbatch, out_bytes);
    const TaskId lost = add_loss(microbatch);
    add_sleep(spec_.delay_ms, main_, 0, microbatch);
    add_slices(TaskKind::scatter, microbatch, out_bytes);
    add_on_all(TaskKind::backward, microbatch, lost);
    add_chunks(TaskKind::reduce, plan_.gradient_chunks, microbatch);
    on_gpu_.clear();
    if (microbatch > 0 && used_ > 1) add_sum(microbatch);
  }

  /// The whole model on every GPU, by the thread of the GPU; they have ended before the main thread goes on.
  void add_on_all(TaskKind kind, std::int32_t microbatch, TaskId after) {
    next_waits_for_.clear();
    for (std::int32_t r = 0; r < planned_; ++r) {
      const TaskId task = add_layers(kind, r, static_cast<std::uint32_t>(r), microbatch, 0, layers());
      if (after != kNone) builder_.add_edge(after, task);
      for (const TaskId before : on_gpu_[r]) builder_.add_edge(before, task);
      next_waits_for_.push_back(task);
    }
    on_gpu_.clear();
  }

  TaskId add_loss(std::int32_t microbatch) {
    std::int64_t all_rows = 0;
    for (std::int32_t r = 0; r < used_; ++r) all_rows += rows(r, microbatch);
    Work loss = moved(TaskKind::loss, all_rows * output_numbers(spec_.model) * kBytesPerNumber);
    loss.rows = all_rows;
    loss.first_layer = layers() - 1;
    loss.layer_count = 1;
    const TaskId lost = add(loss, compute_stream(0), main_, kNone, 0, microbatch);
    join(lost);
    return lost;
  }

  /// The gradients of this round, added to those of the rounds before.
  void add_sum(std::int32_t microbatch) {
    Work sum = moved(TaskKind::bucket_copy_out, parameters(spec_.model) * kBytesPerNumber,
                     static_cast<std::size_t>(parameter_tensor_count(spec_.model, 0, layers())));
    sum.accumulate = true;
    add(sum, compute_stream(0), main_, kNone, 0, microbatch);
  }

  /// One copy after another between GPU 0 and the others; each joins both compute streams.
  void add_slices(TaskKind kind, std::int32_t microbatch, std::int64_t row_bytes) {
    for (std::int32_t r = 1; r < planned_; ++r) {
      Work work = moved(kind, rows(r, microbatch) * row_bytes);
      work.rows = rows(r, microbatch);
      work.from_worker = kind == TaskKind::scatter ? 0 : r;
      work.to_worker = kind == TaskKind::scatter ? r : 0;
      const std::uint32_t group = builder_.add_group();
      for (const std::int32_t at : {work.from_worker, work.to_worker}) {
        work.receives = at == work.to_worker;
        const TaskId task = add(work, compute_stream(at), main_, group, at, microbatch, static_cast<std::size_t>(r));
        join(task);
        on_gpu_[at].push_back(task);
      }
    }
  }

  void add_chunks(TaskKind kind, const std::vector<GradientBucket>& chunks, std::int32_t microbatch) {
    if (used_ == 1) return;
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const std::uint32_t group = builder_.add_group();
      for (std::int32_t r = 0; r < planned_; ++r) {
        const TaskId task = add(moved(kind, chunks[c]), compute_stream(r), main_, group, r, microbatch, c);
        join(task);
        on_gpu_[r] = {task};  // the stream has the rest in order
      }
    }
  }

  /// The first tasks of the main thread after the others have ended.
  void join(TaskId task) {
    for (const TaskId before : next_waits_for_) builder_.add_edge(before, task);
    next_waits_for_.clear();
  }

  std::int32_t planned_;  // replicas that have their tasks
  std::uint32_t main_;
  std::map<std::int32_t, std::vector<TaskId>> on_gpu_;  // by GPU: what the main thread has put on its stream
  std::vector<TaskId> next_waits_for_;
};

}  // namespace

TaskGraph data_parallel_step(const Plan& plan, std::int32_t replicas) {
  return DataParallelStep(plan, replicas).build();
}

}  // namespace pdl
