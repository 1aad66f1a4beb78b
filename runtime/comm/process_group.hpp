// The process group of data-parallel workers: c10d over NCCL on GPUs, over Gloo on CPU, as torch.distributed makes it. Who
// wants to know when all-reduces are called watches them.
//
//   auto group = make_process_group({store, rank, size, device, /*one_host=*/true}, {&watcher});
//   c10d::Reducer reducer(..., group, ...);
//   leave(*group, device.type());                  // all members at once
//
// What is called through the group runs on streams (NCCL) or threads (Gloo) of its own, one operation after another.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace pdl {

/// Told of every all-reduce, on the thread that calls it.
class AllReduceWatcher {
 public:
  virtual ~AllReduceWatcher() = default;
  virtual void before_all_reduce() = 0;
  /// It has been issued. Returns what the caller is to wait for: `work`, or its like that ends a little later.
  virtual c10::intrusive_ptr<c10d::Work> after_all_reduce(c10::intrusive_ptr<c10d::Work> work) = 0;
};

struct Membership {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int size = 1;
  c10::Device device = c10::kCPU;  // of this member
  bool one_host = true;
};

/// NCCL on GPUs; Gloo on CPU, where LibTorch has it.
bool has_process_groups(c10::DeviceType device);

/// Returns when all have come. The watchers live as long as the group and are told in this order. Throws CannotRun in a build
/// without what the device needs.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const Membership& membership, std::vector<AllReduceWatcher*> watchers);

/// Gloo between workers on CPU, as a backend of c10d: one operation after another, as on a stream. `one_host`: over its loopback
/// interface, else over $GLOO_SOCKET_IFNAME or what Gloo takes by itself. Throws CannotRun in a build without Gloo.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                    bool one_host = true);

/// backend.allreduce(), one thread of this process at a time: the call writes to c10d's FlightRecorder, which all groups of
/// a process share, and which in PyTorch 2.11 leaves one of its maps unguarded (Python's callers hold the interpreter's lock).
/// The operation itself goes on while others are started.
c10::intrusive_ptr<c10d::Work> start_all_reduce(c10d::Backend& backend, std::vector<at::Tensor>& tensors,
                                                const c10d::AllreduceOptions& options = {});

/// Ends the connections, on all members at about the same time.
void leave(c10d::ProcessGroup& group, c10::DeviceType device);

/// True if this is what NCCL, Gloo or the store say when another member is gone.
bool is_loss_of_peer(const std::exception& error);

}  // namespace pdl
