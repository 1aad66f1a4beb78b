#include "runtime/comm/gloo_pairs.hpp"

#include <chrono>
#include <vector>

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

struct GlooPairs::Group {
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
};

GlooPairs::GlooPairs(const c10::intrusive_ptr<c10d::Store>& store, int worker, int workers)
    : worker_(worker), group_(std::make_unique<Group>()) {
  auto options = c10d::ProcessGroupGloo::Options::create(kLongestStep);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  options->threads = 1;
  group_->gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, worker, workers, options);
}

Message GlooPairs::send(const at::Tensor& buffer, int to, int tag) {
  std::vector<at::Tensor> tensors{buffer};
  return group_->gloo->send(tensors, to, tag);
}

Message GlooPairs::receive(const at::Tensor& buffer, int from, int tag) {
  std::vector<at::Tensor> tensors{buffer};
  return group_->gloo->recv(tensors, from, tag);
}

#else

struct GlooPairs::Group {};

GlooPairs::GlooPairs(const c10::intrusive_ptr<c10d::Store>&, int worker, int) : worker_(worker) {
  throw CannotRun("transport gloo: this program was built without Gloo (its headers: libgloo-dev)");
}
Message GlooPairs::send(const at::Tensor&, int, int) { return {}; }
Message GlooPairs::receive(const at::Tensor&, int, int) { return {}; }

#endif

GlooPairs::~GlooPairs() = default;

void GlooPairs::wait(const Message& message, int worker, int other) {
  try {
    message->wait();
  } catch (const std::exception& error) {
    throw PeerLost("worker " + std::to_string(worker) + " lost worker " + std::to_string(other) + ": " + error.what());
  }
}

}  // namespace pdl
