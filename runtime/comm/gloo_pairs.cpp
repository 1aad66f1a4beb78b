#include "runtime/comm/gloo_pairs.hpp"

#include <vector>

#include "runtime/comm/error_message.hpp"
#include "runtime/comm/peer_lost.hpp"
#include "runtime/comm/process_group.hpp"

namespace pdl {

GlooPairs::GlooPairs(const c10::intrusive_ptr<c10d::Store>& store, int worker, int workers)
    : gloo_(make_gloo_backend(store, worker, workers)) {}

Message GlooPairs::send(const at::Tensor& buffer, int to, int tag) {
  std::vector<at::Tensor> tensors{buffer};
  return gloo_->send(tensors, to, tag);
}

Message GlooPairs::receive(const at::Tensor& buffer, int from, int tag) {
  std::vector<at::Tensor> tensors{buffer};
  return gloo_->recv(tensors, from, tag);
}

void GlooPairs::wait(const Message& message, int worker, int other) {
  try {
    message->wait();
  } catch (const std::exception& error) {
    throw PeerLost("worker " + std::to_string(worker) + " lost worker " + std::to_string(other) + ": " +
                   message_of(error));
  }
}

}  // namespace pdl
