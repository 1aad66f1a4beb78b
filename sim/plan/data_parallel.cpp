#include "sim/plan/data_parallel.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/io/error.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

/// What both programs are made of.
class Replicas {
 protected:
  explicit Replicas(const Plan& plan) : plan_(plan), spec_(plan.spec) {
    while (used_ < std::ssize(plan.replica_rows) && plan.replica_rows[static_cast<std::size_t>(used_)] > 0) ++used_;
    if (spec_.straggler && spec_.straggler->rank >= used_) {
      throw InputError("--straggler", "rank " + std::to_string(spec_.straggler->rank) + ", which has no samples",
                       "a GPU with samples, 0 to " + std::to_string(used_ - 1) + ": batch " +
                           std::to_string(spec_.batch) + " on " + std::to_string(spec_.gpus) +
                           " GPUs leaves the others idle");
    }
  }

  std::int64_t rows(std::int32_t replica, std::int32_t microbatch) const { return rows_of(plan_, replica, microbatch); }

  /// Of all rounds.
  std::int32_t microbatches() const { return static_cast<std::int32_t>(plan_.microbatch_rows.size()); }

  std::int32_t layers() const { return static_cast<std::int32_t>(spec_.model.layers.size()); }

  std::uint32_t compute_stream(std::int32_t replica) const { return stream_of(replica, StreamRole::compute, 0); }

  TaskId add(const Work& work, std::uint32_t stream, std::uint32_t host, std::uint32_t group, std::int32_t replica,
             std::int32_t microbatch, std::size_t part = 0) {
    return builder_.add_task({builder_.add_work(work), stream, host, group, replica, replica, microbatch, work.kind,
                              static_cast<std::uint32_t>(part) % kMostParts});
  }

  TaskId add_layers(TaskKind kind, std::int32_t replica, std::uint32_t host, std::int32_t microbatch,
                    std::int32_t first, std::int32_t count, std::size_t part = 0) {
    Work work;
    work.kind = kind;
    work.implementation = Implementation::autograd;
    work.first_layer = first;
    work.layer_count = count;
    if (kind != TaskKind::optimizer) work.rows = rows(replica, microbatch);
    // DataParallel's gradients are new in every round, and their sum is added; with one GPU there is no sum.
    const bool adds_itself = spec_.strategy == Strategy::ddp || used_ == 1;
    work.accumulate = kind == TaskKind::backward && microbatch > 0 && adds_itself;
    work.input_gradient = !(kind == TaskKind::backward && first == 0);
    work.loss = kind == TaskKind::backward && spec_.strategy == Strategy::ddp && first + count == layers();
    return add(work, compute_stream(replica), host, kNone, replica, microbatch, part);
  }

  void add_sleep(double ms, std::uint32_t host, std::int32_t replica, std::int32_t microbatch) {
    if (ms > 0) add(sleep_work(ms), kNone, host, kNone, replica, microbatch);
  }

  void add_straggler(std::int32_t replica, std::uint32_t host) {
    if (spec_.straggler && spec_.straggler->rank == replica) add_sleep(spec_.straggler->ms, host, replica, -1);
  }

  Work moved(TaskKind kind, std::int64_t bytes, std::size_t tensors = 1) const {
    Work work;
    work.kind = kind;
    work.implementation = Implementation::autograd;
    work.bytes = bytes;
    work.tensors = static_cast<std::int32_t>(tensors);
    if (is_collective(kind)) work.ranks = used_;
    return work;
  }

  Work moved(TaskKind kind, const GradientBucket& bucket) const {
    return moved(kind, bucket.bytes, bucket.tensors.size());
  }

  const Plan& plan_;
  const RunSpec& spec_;
  std::int32_t used_ = 0;  // replicas with samples: the first ones
  TaskGraphBuilder builder_;
};

class DistributedStep : Replicas {
 public:
  explicit DistributedStep(const Plan& plan) : Replicas(plan) {}

  TaskGraph build() && {
    groups_.assign(plan_.buckets.size() * plan_.microbatch_rows.size(), kNone);
    for (std::int32_t replica = 0; replica < used_; ++replica) {
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
      add_layers(TaskKind::backward, replica, host, microbatch, 0, layers());
      return;
    }
    std::vector<TaskId> reduced;
    std::int32_t above = layers();  // layers from here on have had their backward
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
      const GradientBucket& bucket = plan_.buckets[b];
      if (bucket.lowest_layer < above) {
        add_layers(TaskKind::backward, replica, host, microbatch, bucket.lowest_layer, above - bucket.lowest_layer, b);
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
    const TaskId task = Replicas::add_layers(kind, replica, host, microbatch, first, count, part);
    join_pending(task);
    return task;
  }

  std::vector<TaskId> pending_;
  std::vector<std::uint32_t> groups_;  // by bucket and micro-batch
};

class SingleProcessStep : Replicas {
 public:
  explicit SingleProcessStep(const Plan& plan) : Replicas(plan), main_(static_cast<std::uint32_t>(used_)) {}

  TaskGraph build() && {
    for (std::int32_t replica = 0; replica < used_; ++replica)
      add_straggler(replica, static_cast<std::uint32_t>(replica));
    for (std::int32_t m = 0; m < microbatches(); ++m) add_microbatch(m);
    join(add_layers(TaskKind::optimizer, 0, main_, -1, 0, layers()));
    return std::move(builder_).build(static_cast<std::uint32_t>(spec_.gpus), main_ + 1);
  }

 private:
  void add_microbatch(std::int32_t microbatch) {
    std::int64_t all_rows = 0;
    for (std::int32_t r = 0; r < used_; ++r) all_rows += rows(r, microbatch);
    const std::int64_t in = input_numbers(spec_.model), out = output_numbers(spec_.model);
    // Under autocast the outputs, and their gradients, may be half.
    const std::int64_t out_bytes = out * activation_number_bytes(spec_.model, spec_.dtype).back();
    add_slices(TaskKind::scatter, microbatch, in * kBytesPerNumber);
    add_chunks(TaskKind::broadcast, plan_.parameter_chunks, microbatch);
    std::vector<TaskId> forwards;
    for (std::int32_t r = 0; r < used_; ++r) {
      forwards.push_back(add_layers(TaskKind::forward, r, static_cast<std::uint32_t>(r), microbatch, 0, layers()));
      for (const TaskId before : on_gpu_[r]) builder_.add_edge(before, forwards.back());
    }
    on_gpu_.clear();
    next_waits_for_ = forwards;  // the threads of the GPUs have ended
    add_slices(TaskKind::gather, microbatch, out_bytes);
    Work loss = moved(TaskKind::loss, all_rows * out * kBytesPerNumber);
    loss.rows = all_rows;
    loss.first_layer = layers() - 1;
    loss.layer_count = 1;
    const TaskId lost = add(loss, compute_stream(0), main_, kNone, 0, microbatch);
    join(lost);
    add_sleep(spec_.delay_ms, main_, 0, microbatch);
    add_slices(TaskKind::scatter, microbatch, out_bytes);
    std::vector<TaskId> backwards;
    for (std::int32_t r = 0; r < used_; ++r) {
      backwards.push_back(add_layers(TaskKind::backward, r, static_cast<std::uint32_t>(r), microbatch, 0, layers()));
      builder_.add_edge(lost, backwards.back());
      for (const TaskId before : on_gpu_[r]) builder_.add_edge(before, backwards.back());
    }
    on_gpu_.clear();
    next_waits_for_ = backwards;
    add_chunks(TaskKind::reduce, plan_.gradient_chunks, microbatch);
    on_gpu_.clear();
    if (microbatch > 0 && used_ > 1) {
      Work sum = moved(TaskKind::bucket_copy_out, parameters(spec_.model) * kBytesPerNumber,
                       static_cast<std::size_t>(parameter_tensor_count(spec_.model, 0, layers())));
      sum.accumulate = true;
      add(sum, compute_stream(0), main_, kNone, 0, microbatch);
    }
  }

  /// One copy after another between GPU 0 and the others; each joins both compute streams.
  void add_slices(TaskKind kind, std::int32_t microbatch, std::int64_t row_bytes) {
    for (std::int32_t r = 1; r < used_; ++r) {
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
      for (std::int32_t r = 0; r < used_; ++r) {
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

  std::uint32_t main_;
  std::map<std::int32_t, std::vector<TaskId>> on_gpu_;  // by GPU: what the main thread has put on its stream
  std::vector<TaskId> next_waits_for_;
};

/// A replica keeps the activations of one forward at a time.
LiveActivations whole_model(const RunSpec& spec, std::int64_t rows) {
  if (rows == 0) return {};
  return {1, kept_by_autograd(spec.model, 0, std::ssize(spec.model.layers), rows, spec.dtype,
                              activation_number_bytes(spec.model, spec.dtype))};
}

/// Before anything is made of that size.
void check_size(const Plan& plan, std::size_t parts) {
  constexpr double kMostTasks = 6e7;
  const double tasks = 3.0 * static_cast<double>(parts + 1) * static_cast<double>(plan.microbatch_rows.size()) *
                       static_cast<double>(plan.replica_rows.size());
  if (tasks <= kMostTasks) return;
  throw InputError("gpus, depth, accum and microbatches", "a step of about " + to_text(tasks) + " tasks",
                   "at most " + to_text(kMostTasks) + ", with fewer of them or with larger buckets");
}

}  // namespace

Work sleep_work(double ms) {
  Work work;
  work.kind = TaskKind::sleep;
  work.sleep_ns = std::llround(ms * 1e6);
  return work;
}

void plan_data_parallel(Plan& plan) {
  const RunSpec& spec = plan.spec;
  for (std::size_t r = 0; r < plan.replica_rows.size(); ++r) {
    plan.live[r] = whole_model(spec, rows_of(plan, static_cast<std::int32_t>(r), 0));  // the first one is the largest
    if (plan.replica_rows[r] == 0)
      plan.warnings.push_back("GPU " + std::to_string(r) + " has nothing to do: " + std::to_string(spec.batch) +
                              " samples make fewer slices than GPUs");
  }
  if (spec.strategy == Strategy::ddp) {
    plan.buckets = gradient_buckets(spec.model, spec.first_bucket_bytes, spec.bucket_bytes);
    check_size(plan, plan.buckets.size());
    plan.graph = DistributedStep(plan).build();
  } else {
    plan.parameter_chunks = parameter_chunks(spec.model);
    plan.gradient_chunks = reduce_chunks(spec.model);
    check_size(plan, plan.parameter_chunks.size() + plan.gradient_chunks.size());
    plan.graph = SingleProcessStep(plan).build();
  }
  if (plan.replica_rows.front() != plan.replica_rows.back() && plan.replica_rows.back() > 0) {
    plan.warnings.push_back("GPUs have unequal parts of the batch: " + std::to_string(plan.replica_rows.front()) +
                            " samples, the last one " + std::to_string(plan.replica_rows.back()));
  }
}

}  // namespace pdl
