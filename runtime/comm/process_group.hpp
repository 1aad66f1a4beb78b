// The process group of data-parallel workers: c10d over NCCL on GPUs, over Gloo on CPU, as torch.distributed makes it.
// Who wants to know when all-reduces are called watches them.
//
//   auto group = make_process_group({store, rank, size, device, /*one_host=*/true}, {&watcher});
//   c10d::Reducer reducer(..., group, ...);
//   leave(*group, device.type());                  // all members at once
//
// What is called through the group runs on streams (NCCL) or threads (Gloo) of its own, one operation after another. No
// lock is held while a backend is called: the first call of a communicator may wait for the other ranks, which may be
// threads of this process (NCCL connects its ring there).
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

/// Returns when all have come. The watchers live as long as the group and are told in this order. Throws CannotRun in a
/// build without what the device needs.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const Membership& membership,
                                                          std::vector<AllReduceWatcher*> watchers);

/// Gloo between workers on CPU, as a backend of c10d: one operation after another, as on a stream. `one_host`: over its
/// loopback interface, else over $GLOO_SOCKET_IFNAME or what Gloo takes by itself. Throws CannotRun in a build without
/// Gloo.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                    bool one_host = true);

/// What make_process_group returns, around a backend of one's own.
c10::intrusive_ptr<c10d::ProcessGroup> make_watched_group(const Membership& membership,
                                                          c10::intrusive_ptr<c10d::Backend> backend,
                                                          std::vector<AllReduceWatcher*> watchers);

/// To be called where threads of one process are to be ranks: before those threads and before the first group. c10d's
/// FlightRecorder, one a process, has a map of groups that it writes to without a lock when a group first calls a
/// collective (PyTorch 2.11, torch/csrc/distributed/c10d/FlightRecorderDetail.hpp, recordWithResetEnabled; Python's
/// callers hold the interpreter's lock). This switches the recorder off (TORCH_FR_BUFFER_SIZE=0), which leaves before
/// it touches the map. Backends made on several threads without it are refused: a bug of ours.
void allow_ranks_in_threads();

/// Ends the connections, on all members at about the same time.
void leave(c10d::ProcessGroup& group, c10::DeviceType device);

/// True if this is what NCCL, Gloo or the store say when another member is gone.
bool is_loss_of_peer(const std::exception& error);

}  // namespace pdl
