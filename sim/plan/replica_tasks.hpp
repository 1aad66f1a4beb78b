// What the steps of the two data-parallel programs are made of: tasks of a replica, which is a GPU with the whole
// model and a part of the batch.
//
//   GPU r:  add_layers(forward, r, ...)  add_layers(backward, r, ...)  add(moved(all_reduce, bucket), ...)
//
// A part of a backward (DDP's, between two buckets) is one task with the layers of the part. Replicas without samples
// (DataParallel: torch.chunk made fewer slices than GPUs) have no tasks.
#pragma once

#include "sim/plan/backward_parts.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

class ReplicaTasks {
 protected:
  /// `plan` must outlive this. Throws InputError for a straggler that has no samples.
  explicit ReplicaTasks(const Plan& plan);

  std::int64_t rows(std::int32_t replica, std::int32_t microbatch) const { return rows_of(plan_, replica, microbatch); }

  /// Of all rounds.
  std::int32_t microbatches() const { return static_cast<std::int32_t>(plan_.microbatch_rows.size()); }

  std::int32_t layers() const { return static_cast<std::int32_t>(spec_.model.layers.size()); }

  std::uint32_t compute_stream(std::int32_t replica) const { return stream_of(replica, StreamRole::compute, 0); }

  TaskId add(const Work& work, std::uint32_t stream, std::uint32_t host, std::uint32_t group, std::int32_t replica,
             std::int32_t microbatch, std::size_t part = 0);

  TaskId add_layers(TaskKind kind, std::int32_t replica, std::uint32_t host, std::int32_t microbatch,
                    std::int32_t first, std::int32_t count, std::size_t part = 0);

  /// A forward that is run again (recompute), or its backward.
  TaskId add_part(TaskKind kind, std::int32_t replica, std::uint32_t host, std::int32_t microbatch,
                  const BackwardPart& cut, std::size_t part);

  void add_sleep(double ms, std::uint32_t host, std::int32_t replica, std::int32_t microbatch);
  void add_straggler(std::int32_t replica, std::uint32_t host);

  /// Collectives: among all replicas with samples.
  Work moved(TaskKind kind, std::int64_t bytes, std::size_t tensors = 1) const;
  Work moved(TaskKind kind, const GradientBucket& bucket) const {
    return moved(kind, bucket.bytes, bucket.tensors.size());
  }

  const Plan& plan_;
  const RunSpec& spec_;
  std::int32_t used_ = 0;  // replicas with samples: the first ones
  TaskGraphBuilder builder_;

 private:
  Work layers_work(TaskKind kind, std::int32_t replica, std::int32_t microbatch, std::int32_t first,
                   std::int32_t count) const;

  std::uint32_t all_used_ = kNone;  // their worker group; kNone: one replica exchanges nothing
};

}  // namespace pdl
