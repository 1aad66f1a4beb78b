#include "runtime/comm/gloo_groups.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <chrono>
#include <map>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "runtime/comm/peer_lost.hpp"

#if PDL_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif

namespace pdl {

#if PDL_GLOO

namespace {

// A step on a slow CPU may take minutes. A dead worker is noticed at once: its connection closes.
constexpr std::chrono::minutes kLongestStep{30};

}  // namespace

struct GlooGroups::Groups {
  struct Group {
    c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
    double size = 1;
    at::Tensor flat;  // what travels
  };
  std::map<int, Group> by_number;
};

GlooGroups::GlooGroups(const c10::intrusive_ptr<c10d::Store>& store, int worker, const std::vector<ReplicaGroup>& groups)
    : worker_(worker), groups_(std::make_unique<Groups>()) {
  for (const ReplicaGroup& group : groups) {
    const int rank = rank_in(group, worker);
    if (rank < 0) continue;
    auto options = c10d::ProcessGroupGloo::Options::create(kLongestStep);
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    options->threads = 1;
    const auto own = c10::make_intrusive<c10d::PrefixStore>("group/" + std::to_string(group.number), store);
    const auto size = static_cast<int>(group.workers.size());
    groups_->by_number[group.number] = {c10::make_intrusive<c10d::ProcessGroupGloo>(own, rank, size, options),
                                        static_cast<double>(size), {}};
  }
}

Message GlooGroups::start(int group, const std::vector<at::Tensor>& tensors) {
  const c10::InferenceMode without_autograd;
  Groups::Group& of = groups_->by_number.at(group);
  of.flat = at::flatten_dense_tensors(tensors);
  if (tensors.size() == 1) of.flat = of.flat.clone();
  std::vector<at::Tensor> travelling{of.flat};
  return of.gloo->allreduce(travelling);
}

void GlooGroups::finish(int group, const Message& exchange, const std::vector<at::Tensor>& tensors) {
  const c10::InferenceMode without_autograd;
  Groups::Group& of = groups_->by_number.at(group);
  try {
    exchange->wait();
  } catch (const std::exception& error) {
    throw PeerLost("worker " + std::to_string(worker_) + " lost the other replicas of its stage: " + error.what());
  }
  of.flat.div_(of.size);
  const std::vector<at::Tensor> averages = at::unflatten_dense_tensors(of.flat, tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(averages[i]);
}

#else

struct GlooGroups::Groups {};

GlooGroups::GlooGroups(const c10::intrusive_ptr<c10d::Store>&, int worker, const std::vector<ReplicaGroup>&) : worker_(worker) {
  throw CannotRun("replicas on CPU: this program was built without Gloo (its headers: libgloo-dev)");
}
Message GlooGroups::start(int, const std::vector<at::Tensor>&) { return {}; }
void GlooGroups::finish(int, const Message&, const std::vector<at::Tensor>&) {}

#endif

GlooGroups::~GlooGroups() = default;

}  // namespace pdl
