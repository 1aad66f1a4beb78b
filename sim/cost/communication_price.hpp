// What it costs to move bytes between GPUs: transfers, collectives, and the copies into and out of DDP's buckets.
//
//   CommunicationPrices prices(plan, profile, host_calls, quantile, notices);
//   prices.of(work).cost          // work: a send, an all-reduce of a worker group, bucket_copy_in, ...
//
// A collective takes the time of its group: how many GPUs, on how many hosts (sim/cost/collective_time.hpp). A transfer
// takes that of its pair of GPUs (sim/cost/transfer_time.hpp). On CPU the host itself copies, occupied meanwhile.
//
// Units: nanoseconds. Not here: what shares links or multiprocessors with it (sim/engine).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/collective_time.hpp"
#include "sim/cost/host_calls.hpp"
#include "sim/cost/kernel_list.hpp"
#include "sim/cost/transfer_time.hpp"

namespace pdl {

/// A cost, and the kernels that it is made of where they share the multiprocessors of a GPU.
struct WorkPrice {
  TaskCost cost;
  std::vector<KernelCost> kernels = {};
};

class CommunicationPrices {
 public:
  /// Plan, profile and notices must outlive this. `host_quantile`: of the issue times that were measured.
  CommunicationPrices(const Plan& plan, const CostProfile& profile, const HostCalls& calls, double host_quantile,
                      Notices& notices);

  /// Of a transfer, a collective or a bucket copy. `slows_collectives`: by how much the copies do (sim/cost/
  /// memory_contention.hpp). Throws InputError naming the profile if it lacks what is needed.
  WorkPrice of(const Work& work, double slows_collectives);

  /// Gradients that are divided where they are, a kernel a tensor (p.grad.div_), which is a copy() in time.
  /// `issue_factor`: of its host time. Throws as of().
  WorkPrice scaled_gradients(const Work& work, double issue_factor);

  bool knows_copies() const;
  /// A kernel that reads so many bytes and writes as many, as the copy into a bucket does, and is launched as the copy
  /// out of one. Throws as of(): not knows_copies().
  OperationTime copy(std::int64_t bytes);

 private:
  WorkPrice collective(const Work& work);
  WorkPrice bucket_copy(const Work& work, double slows_collectives);
  WorkPrice transfer(const Work& work);
  OperationTime of_bucket(const std::string& operation, std::int64_t bytes);
  WorkPrice of_kernels(const KernelList& kernels) const;

  const Plan& plan_;
  const CostProfile& profile_;
  HostCalls calls_;
  double host_quantile_;
  Notices& notices_;
  TransferTimes transfers_;
  CollectiveTimes collectives_;
  KernelList of_transfer_;  // that was priced last
  bool has_receives_;
  bool on_host_;
};

}  // namespace pdl
