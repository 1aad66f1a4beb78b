// The order of a step's operations: a schedule's order of one replica and one round, for all of them.
//
//   1f1b, 2 GPUs a replica, 2 replicas:    GPU 0   0F0 0F1 0B0 0B1      GPU 2   2F0 2F1 2B0 2B1
//                                          GPU 1   1F0 1B0 1F1 1B1      GPU 3   3F0 3B0 3F1 3B1
//
// Stages are counted on from replica to replica, micro-batches from round to round. The operations of a worker are made
// when they are asked for: those of all workers would take as much memory as the tasks.
#pragma once

#include "sim/spec/mesh.hpp"

namespace pdl {

/// The schedule of the spec, for every worker of one replica, one round. Throws InputError if it is still to be
/// searched for, or if it does not take the micro-batches that torch.chunk makes.
PipelineOrder make_order(const RunSpec& spec);

/// Of all replicas and rounds.
class StepOrder {
 public:
  /// `rows`: samples of the micro-batches of a round of the first replica. `spec` must outlive this. Throws as
  /// make_order().
  StepOrder(const RunSpec& spec, const Mesh& mesh, const std::vector<std::int64_t>& rows);

  Placement placement() const { return file_ ? file_->placement : schedule_->placement; }
  std::int32_t workers() const { return shape_.workers * replicas_; }
  std::vector<Operation> of_worker(std::int32_t worker) const;

 private:
  const Schedule* schedule_ = nullptr;   // one of the two
  const PipelineOrder* file_ = nullptr;  // as the user gave it, of one replica
  ScheduleShape shape_;                  // of a replica and a round
  std::int32_t replicas_;
  std::int32_t rounds_;
};

}  // namespace pdl
