// Gloo all-reduces of gradients between the replicas of a stage on CPU: one process group of c10d a group. Only where
// Gloo's headers were found (PDL_GLOO).
//
//   GlooGroups groups(store, 3, {{0, {0, 2}}, {1, {1, 3}}});    // worker 3; returns when the others have joined
//   Message exchange = groups.start(1, gradients);              // with worker 1's; returns at once
//   groups.finish(1, exchange, gradients);                      // the average of both is in the gradients
//
// All tensors of a call travel as one, which is copied out and back. A group has one exchange under way at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "runtime/comm/gloo_pairs.hpp"
#include "runtime/comm/replica_group.hpp"

namespace pdl {

class GlooGroups {
 public:
  /// Throws CannotRun if this program was built without Gloo.
  GlooGroups(const c10::intrusive_ptr<c10d::Store>& store, int worker, const std::vector<ReplicaGroup>& groups);

  Message start(int group, const std::vector<at::Tensor>& tensors);

  /// Waits. Throws PeerLost if the connection breaks.
  void finish(int group, const Message& exchange, const std::vector<at::Tensor>& tensors);

 private:
  struct Group {
    c10::intrusive_ptr<c10d::Backend> gloo;
    double size = 1;
    at::Tensor flat;  // what travels
  };
  int worker_;
  std::map<int, Group> groups_;  // by number
};

}  // namespace pdl
