// Gloo send and receive between workers on CPU, matched by tag. Only where Gloo's headers were found (PDL_GLOO).
//
//   GlooPairs pairs(store, 1, 2);                    // worker 1 of 2; returns when all have joined
//   auto arrival = pairs.receive(buffer, 0, tag);    // posted; returns at once
//   arrival->wait();                                 // the message is in the buffer
//
// Workers are on one host: messages go over its loopback interface.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace pdl {

using Message = c10::intrusive_ptr<c10d::Work>;

class GlooPairs {
 public:
  /// Throws CannotRun if this program was built without Gloo.
  GlooPairs(const c10::intrusive_ptr<c10d::Store>& store, int worker, int workers);

  /// The buffer must stay as it is until the message has been waited for.
  Message send(const at::Tensor& buffer, int to, int tag);
  Message receive(const at::Tensor& buffer, int from, int tag);

  /// Throws CannotRun, naming the other worker, if the connection breaks.
  static void wait(const Message& message, int worker, int other);

 private:
  c10::intrusive_ptr<c10d::Backend> gloo_;
};

}  // namespace pdl
