// What a worker of a pipeline needs of its device: order between tasks, transfers, and to know when all is done. One
// implementation for GPUs (CUDA streams and events, peer copies, NCCL), one for CPU (the worker's own thread, memcpy,
// Gloo).
//
//   device->inside([&] {                       // device and compute stream are current
//     device->begin_step(recorder);
//     device->wait(task, before);              // `before` has been issued; task starts after it has finished
//     device->begin(task);
//     stage.forward(0);
//     device->end(task);                       // others may wait for it from now on
//     device->synchronise(board);
//   });
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/comm/message_channel.hpp"
#include "runtime/comm/replica_group.hpp"
#include "runtime/executor/task_board.hpp"
#include "sim/plan/task_graph.hpp"

struct CUstream_st;  // cudaStream_t
struct CUevent_st;   // cudaEvent_t

namespace pdl {

class SpanRecorder;

/// One message between two workers, as one of them sees it.
struct Transfer {
  at::Tensor source;       // defined where this process reads it
  at::Tensor target;       // defined where this process writes it
  int peer = 0;            // the other worker
  int tag = 0;             // Gloo: the same at both ends, and at no other message of the step
  MessageChannel channel;  // NCCL: the messages of a channel are matched by their order
};

/// The gradients of a stage, which its replicas average.
struct Exchange {
  int group = 0;  // its number
  std::vector<at::Tensor> gradients;
};

/// How the workers of a run come together for send and receive, and for all-reduces.
struct Meeting {
  int worker = 0;
  int workers = 1;
  std::vector<MessageChannel> channels;  // none where messages are copies
  std::vector<ReplicaGroup> groups;
  c10::intrusive_ptr<c10d::Store> store;
};

class WorkerDevice {
 public:
  virtual ~WorkerDevice() = default;

  virtual void inside(const std::function<void()>& body) = 0;

  /// Before the first send, receive or all-reduce, inside, on all workers at once: returns when all have come.
  virtual void connect(const Meeting& meeting) = 0;

  /// Before the first step, inside: creates the task's stream and, if others wait for the task, its event. `stream`:
  /// its place among the streams of the worker, below kStreamsPerWorker; 0 computes.
  virtual void prepare(TaskId task, std::uint32_t stream, bool awaited) = 0;

  /// `recorder` (or null) is told of the begin and the end of every task of this step.
  virtual void begin_step(SpanRecorder* recorder) = 0;

  virtual void wait(TaskId task, TaskId before) = 0;
  virtual void begin(TaskId task) = 0;
  virtual void copy(TaskId task, const Transfer& transfer) = 0;
  virtual void send(TaskId task, const Transfer& transfer) = 0;
  virtual void receive(TaskId task, const Transfer& transfer) = 0;
  virtual void all_reduce(TaskId task, const Exchange& exchange) = 0;
  virtual void end(TaskId task) = 0;

  /// Returns when everything issued has finished. Throws StepAborted when another worker has failed.
  virtual void synchronise(const TaskBoard& board) = 0;

  /// Gives back what connect() took, inside, on all workers at once. `failed`: what still waits for another worker is
  /// ended.
  virtual void disconnect(bool failed) = 0;
};

/// Events by task, of all workers of the process: a worker waits for the events of others. The workers fill it in.
using EventTable = std::vector<CUevent_st*>;

std::unique_ptr<WorkerDevice> make_cpu_worker(std::size_t tasks);

/// Throws CannotRun in a build without CUDA.
std::unique_ptr<WorkerDevice> make_cuda_worker(int device_index, EventTable& events);

}  // namespace pdl
