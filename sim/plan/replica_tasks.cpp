#include "sim/plan/replica_tasks.hpp"

#include "sim/io/error.hpp"

namespace pdl {

ReplicaTasks::ReplicaTasks(const Plan& plan) : plan_(plan), spec_(plan.spec) {
  while (used_ < std::ssize(plan.replica_rows) && plan.replica_rows[static_cast<std::size_t>(used_)] > 0) ++used_;
  if (spec_.straggler && spec_.straggler->rank >= used_) {
    throw InputError("--straggler", "rank " + std::to_string(spec_.straggler->rank) + ", which has no samples",
                     "a GPU with samples, 0 to " + std::to_string(used_ - 1) + ": batch " +
                         std::to_string(spec_.batch) + " on " + std::to_string(spec_.gpus) +
                         " GPUs leaves the others idle");
  }
  if (used_ == 1) return;
  WorkerGroup used = plan.parallel.mesh.group_along(0, Dimension::dp);
  used.resize(static_cast<std::size_t>(used_));
  all_used_ = builder_.add_worker_group(used);
}

TaskId ReplicaTasks::add(const Work& work, std::uint32_t stream, std::uint32_t host, std::uint32_t group,
                         std::int32_t replica, std::int32_t microbatch, std::size_t part) {
  return builder_.add_task({builder_.add_work(work), stream, host, group, replica, replica, microbatch, work.kind,
                            static_cast<std::uint32_t>(part) % kMostParts});
}

Work ReplicaTasks::layers_work(TaskKind kind, std::int32_t replica, std::int32_t microbatch, std::int32_t first,
                               std::int32_t count) const {
  const bool ddp = plan_.parallel.program == Program::ddp;
  Work work;
  work.kind = kind;
  work.implementation = Implementation::autograd;
  work.first_layer = first;
  work.layer_count = count;
  if (kind != TaskKind::optimizer) work.rows = rows(replica, microbatch);
  // DataParallel's gradients are new in every round, and their sum is added; with one GPU there is no sum.
  work.accumulate = kind == TaskKind::backward && microbatch > 0 && (ddp || used_ == 1);
  work.input_gradient = !(kind == TaskKind::backward && first == 0);
  work.loss = kind == TaskKind::backward && ddp && first + count == layers();
  return work;
}

TaskId ReplicaTasks::add_layers(TaskKind kind, std::int32_t replica, std::uint32_t host, std::int32_t microbatch,
                                std::int32_t first, std::int32_t count, std::size_t part) {
  return add(layers_work(kind, replica, microbatch, first, count), compute_stream(replica), host, kNone, replica,
             microbatch, part);
}

TaskId ReplicaTasks::add_part(TaskKind kind, std::int32_t replica, std::uint32_t host, std::int32_t microbatch,
                              const BackwardPart& cut, std::size_t part) {
  Work work = layers_work(kind, replica, microbatch, cut.first_layer, cut.layer_count);
  work.loss = kind == TaskKind::backward && cut.loss;
  return add(work, compute_stream(replica), host, kNone, replica, microbatch, part);
}

void ReplicaTasks::add_sleep(double ms, std::uint32_t host, std::int32_t replica, std::int32_t microbatch) {
  if (ms > 0) add(sleep_work(ms), kNone, host, kNone, replica, microbatch);
}

void ReplicaTasks::add_straggler(std::int32_t replica, std::uint32_t host) {
  if (spec_.straggler && spec_.straggler->rank == replica) add_sleep(spec_.straggler->ms, host, replica, -1);
}

Work ReplicaTasks::moved(TaskKind kind, std::int64_t bytes, std::size_t tensors) const {
  Work work;
  work.kind = kind;
  work.implementation = Implementation::autograd;
  work.bytes = bytes;
  work.tensors = static_cast<std::int32_t>(tensors);
  if (is_collective(kind)) work.worker_group = all_used_;
  return work;
}

}  // namespace pdl
