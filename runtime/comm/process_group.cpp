#include "runtime/comm/process_group.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "sim/io/error.hpp"

#if PDL_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#if PDL_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif

namespace pdl {
namespace {

// c10d's own limit is out of the way: the limit on waiting (runtime/comm/waiting.hpp) comes first and says more.
constexpr std::chrono::hours kLongestStep{24};

using c10d::Work;
using Tensors = std::vector<at::Tensor>;

/// What the Reducer calls of a backend, handed on.
class WatchedBackend : public c10d::Backend {
 public:
  WatchedBackend(c10::intrusive_ptr<c10d::Backend> inner, std::vector<AllReduceWatcher*> watchers)
      : Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)), watchers_(std::move(watchers)) {}

  const std::string getBackendName() const override { return inner_->getBackendName(); }

  c10::intrusive_ptr<Work> allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    for (AllReduceWatcher* watcher : watchers_) watcher->before_all_reduce();
    auto work = inner_->allreduce(tensors, options);
    for (AllReduceWatcher* watcher : watchers_) work = watcher->after_all_reduce(std::move(work));
    return work;
  }

  c10::intrusive_ptr<Work> broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return inner_->broadcast(tensors, options);
  }

  c10::intrusive_ptr<Work> barrier(const c10d::BarrierOptions& options) override { return inner_->barrier(options); }

  void shutdown() override { inner_->shutdown(); }
  void abort() override { inner_->abort(); }

 private:
  c10::intrusive_ptr<c10d::Backend> inner_;
  std::vector<AllReduceWatcher*> watchers_;
};

std::atomic<bool> ranks_in_threads{false};

/// One thread makes all groups of a process, or the recorder that threads must not share is off.
void check_thread() {
  static const std::thread::id first = std::this_thread::get_id();
  TORCH_CHECK(ranks_in_threads || std::this_thread::get_id() == first,
              "process groups on several threads of a process without allow_ranks_in_threads()");
}

c10::intrusive_ptr<c10d::Backend> make_nccl([[maybe_unused]] const Membership& membership) {
#if PDL_CUDA
  check_thread();
  const c10::cuda::CUDAGuard guard(membership.device);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = kLongestStep;
  auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(membership.store, membership.rank, membership.size, options);
  nccl->setBoundDeviceId(membership.device);
  nccl->eagerConnectSingleDevice(membership.device);
  return nccl;
#else
  throw CannotRun("this program was built without NCCL");
#endif
}

}  // namespace

bool has_process_groups([[maybe_unused]] c10::DeviceType device) {
#if PDL_GLOO
  return true;
#else
  return device == c10::kCUDA;
#endif
}

c10::intrusive_ptr<c10d::Backend> make_gloo_backend([[maybe_unused]] const c10::intrusive_ptr<c10d::Store>& store,
                                                    [[maybe_unused]] int rank, [[maybe_unused]] int size,
                                                    [[maybe_unused]] bool one_host) {
#if PDL_GLOO
  using Gloo = c10d::ProcessGroupGloo;
  check_thread();
  auto options = Gloo::Options::create(kLongestStep);
  if (one_host) {
    options->devices.push_back(Gloo::createDeviceForHostname("127.0.0.1"));
  } else if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME")) {
    options->devices.push_back(Gloo::createDeviceForInterface(interface));
  } else {
    options->devices.push_back(Gloo::createDefaultDevice());
  }
  options->threads = 1;
  return c10::make_intrusive<Gloo>(store, rank, size, options);
#else
  throw CannotRun("this program was built without Gloo (its headers: libgloo-dev)");
#endif
}

void allow_ranks_in_threads() {
  setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
  ranks_in_threads = true;
}

c10::intrusive_ptr<c10d::ProcessGroup> make_watched_group(const Membership& membership,
                                                          c10::intrusive_ptr<c10d::Backend> backend,
                                                          std::vector<AllReduceWatcher*> watchers) {
  using Group = c10d::ProcessGroup;
  const auto type = membership.device.is_cuda() ? Group::BackendType::NCCL : Group::BackendType::GLOO;
  auto group = c10::make_intrusive<Group>(membership.store, membership.rank, membership.size);
  const c10::intrusive_ptr<c10d::Backend> watched =
      c10::make_intrusive<WatchedBackend>(std::move(backend), std::move(watchers));
  group->setBackend(membership.device.type(), type, watched);
  group->setDefaultBackend(type);
  return group;
}

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const Membership& membership,
                                                          std::vector<AllReduceWatcher*> watchers) {
  auto backend = membership.device.is_cuda()
                     ? make_nccl(membership)
                     : make_gloo_backend(membership.store, membership.rank, membership.size, membership.one_host);
  return make_watched_group(membership, std::move(backend), std::move(watchers));
}

void leave(c10d::ProcessGroup& group, c10::DeviceType device) {
  group.getBackend(device)->shutdown();
}

bool is_loss_of_peer(const std::exception& error) {
  if (dynamic_cast<const c10::DistError*>(&error)) return true;
  const std::string text = error.what();
  for (const char* sign : {"gloo/", "Connection closed by peer", "Connection reset by peer", "Broken pipe"}) {
    if (text.find(sign) != std::string::npos) return true;
  }
  return false;
}

}  // namespace pdl
