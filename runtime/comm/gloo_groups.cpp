#include "runtime/comm/gloo_groups.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "runtime/comm/error_message.hpp"
#include "runtime/comm/peer_lost.hpp"
#include "runtime/comm/process_group.hpp"

namespace pdl {

GlooGroups::GlooGroups(const c10::intrusive_ptr<c10d::Store>& store, int worker,
                       const std::vector<ReplicaGroup>& groups)
    : worker_(worker) {
  for (const ReplicaGroup& group : groups) {
    const int rank = rank_in(group, worker);
    if (rank < 0) continue;
    const auto own = c10::make_intrusive<c10d::PrefixStore>("group/" + std::to_string(group.number), store);
    const auto size = static_cast<int>(group.workers.size());
    groups_[group.number] = {make_gloo_backend(own, rank, size), static_cast<double>(size), {}};
  }
}

Message GlooGroups::start(int group, const std::vector<at::Tensor>& tensors) {
  const c10::InferenceMode without_autograd;
  Group& of = groups_.at(group);
  of.flat = at::flatten_dense_tensors(tensors);
  if (tensors.size() == 1) of.flat = of.flat.clone();
  std::vector<at::Tensor> travelling{of.flat};
  return of.gloo->allreduce(travelling);
}

void GlooGroups::finish(int group, const Message& exchange, const std::vector<at::Tensor>& tensors) {
  const c10::InferenceMode without_autograd;
  Group& of = groups_.at(group);
  try {
    exchange->wait();
  } catch (const std::exception& error) {
    throw PeerLost("worker " + std::to_string(worker_) + " lost the other replicas of its stage: " + message_of(error));
  }
  of.flat.div_(of.size);
  const std::vector<at::Tensor> averages = at::unflatten_dense_tensors(of.flat, tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(averages[i]);
}

}  // namespace pdl
