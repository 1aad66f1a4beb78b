// The graph of tasks of one training step: what is done, where, in which order, after what. No costs, no times.
//
//   2 stages, 1 micro-batch, transport copy:
//
//     worker 0   compute      F0 ──┐                   ┌── B0
//                forward copy      └─ send F0 ─┐       │
//     worker 1   backward copy                 │   ┌─ send B0
//                compute                       └─ F0 ─ B0
//
// A task is issued by a host thread and executed on an in-order stream. Three things hold it back:
//   1. its host issues its tasks in program order (ascending task id);
//   2. its stream executes in the order of issue;
//   3. the tasks that it depends on (edges) must have finished. If they are issued by another host, that host must
//      have issued them before this one can issue the wait (an event must be recorded before it is waited for).
// Tasks of one group (NCCL send and receive, a collective, a PyTorch peer copy that joins both compute streams) start
// each when ready and end together, one duration after the last of them became ready. A send among them that is eager
// ends one duration after it started itself.
//
// Scale: 36 bytes a task with one edge; at most 2^31 tasks; equal work is stored once (`Work`); names are made when
// printed.
// Units: bytes are 64-bit. Not here: durations (cost), times (engine), anything of CUDA.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/spec/mesh.hpp"

namespace pdl {

using TaskId = std::uint32_t;
inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

enum class TaskKind : std::uint8_t {
  forward,
  backward,         // input and weight gradient
  backward_input,   // I
  backward_weight,  // W
  recompute,        // the forward again, because its activations were not kept
  optimizer,
  send_forward,  // an activation to the worker of the next stage; the copy itself when the transport is `copy`
  send_backward,
  receive_forward,  // the other end, where it occupies a stream of the receiver
  receive_backward,
  // Data parallel.
  all_reduce,       // of one bucket of gradients, or of all of a stage
  broadcast,        // DataParallel: parameters from GPU 0
  reduce,           // DataParallel: gradients to GPU 0
  scatter,          // DataParallel: a slice from GPU 0; a task at both ends
  gather,           // DataParallel: a slice to GPU 0; a task at both ends
  bucket_copy_in,   // gradients into a bucket, divided by the number of replicas
  bucket_copy_out,  // what was reduced, back into the gradients
  loss,             // where no backward begins with it: DataParallel's GPU 0
  scale_gradients,  // PyTorch's pipelines: divided by the number of micro-batches
  sleep,            // of the host: --delay-ms, --straggler
};
inline constexpr int kTaskKinds = 20;
static_assert(static_cast<int>(TaskKind::sleep) + 1 == kTaskKinds, "sleep is the last");

/// Some of the kinds, a bit each: asked of every task of a step, many times.
class TaskKinds {
 public:
  template <typename... Kind>
  explicit constexpr TaskKinds(Kind... kinds) : bits_((bit(kinds) | ... | 0U)) {}
  constexpr bool contains(TaskKind kind) const { return (bits_ & bit(kind)) != 0; }
  constexpr bool contains_any_of(TaskKinds kinds) const { return (bits_ & kinds.bits_) != 0; }
  constexpr void add(TaskKind kind) { bits_ |= bit(kind); }
  constexpr TaskKinds operator|(TaskKinds other) const {
    other.bits_ |= bits_;
    return other;
  }

 private:
  static constexpr std::uint32_t bit(TaskKind kind) { return 1U << static_cast<unsigned>(kind); }
  std::uint32_t bits_;
};

/// Work that any schedule has.
inline constexpr TaskKinds kUseful{TaskKind::forward, TaskKind::backward, TaskKind::backward_input,
                                   TaskKind::backward_weight};
inline constexpr TaskKinds kSends{TaskKind::send_forward, TaskKind::send_backward};
inline constexpr TaskKinds kReceives{TaskKind::receive_forward, TaskKind::receive_backward};
inline constexpr TaskKinds kTransfers = kSends | kReceives | TaskKinds{TaskKind::scatter, TaskKind::gather};
inline constexpr TaskKinds kCollectives{TaskKind::all_reduce, TaskKind::broadcast, TaskKind::reduce};

constexpr bool is_useful(TaskKind kind) {
  return kUseful.contains(kind);
}
constexpr bool is_compute(TaskKind kind) {
  return (kUseful | TaskKinds{TaskKind::recompute}).contains(kind);
}
constexpr bool is_send(TaskKind kind) {
  return kSends.contains(kind);
}
constexpr bool is_receive(TaskKind kind) {
  return kReceives.contains(kind);
}
/// Between neighbouring stages.
constexpr bool is_pipeline_transfer(TaskKind kind) {
  return (kSends | kReceives).contains(kind);
}
constexpr bool is_transfer(TaskKind kind) {
  return kTransfers.contains(kind);
}
constexpr bool is_collective(TaskKind kind) {
  return kCollectives.contains(kind);
}
constexpr bool is_communication(TaskKind kind) {
  return (kTransfers | kCollectives).contains(kind);
}
constexpr bool carries_activations(TaskKind kind) {
  return kind == TaskKind::send_forward || kind == TaskKind::receive_forward;
}
/// The stage at the other end of a transfer of `stage`.
std::int32_t other_stage(TaskKind transfer, std::int32_t stage);

/// What a stream of a worker is for. `link`: to a neighbouring worker, whatever is sent there, one message after the
/// other (synthetic --tcomm). `none`: no resource is occupied, only time passes.
enum class StreamRole : std::uint8_t {
  compute,
  send_forward,
  send_backward,
  receive_forward,
  receive_backward,
  collective,
  link,
  none
};
std::string to_string(StreamRole role);

/// A worker has one compute stream, one for collectives, one for each transfer role and lane (the messages of even and
/// of odd chunks go on lanes of their own, because in a v-shaped pipeline they go to different workers), and a link to
/// each of its neighbours.
inline constexpr std::uint32_t kLanes = 2;
inline constexpr std::uint32_t kTransferRoles = 4;
inline constexpr std::uint32_t kNeighbours = 2;
inline constexpr std::uint32_t kCollectivePlace = 1 + kTransferRoles * kLanes;  // behind compute and transfers
inline constexpr std::uint32_t kStreamsPerWorker = 2 + kTransferRoles * kLanes + kNeighbours;
/// Not of links.
std::uint32_t stream_of(std::int32_t worker, StreamRole role, std::int32_t chunk);
/// From a worker to the next one or the one before it, of a ring of `workers` of which `ring_first` is the first. Where
/// there are two, the next one is the one before, too: one link.
std::uint32_t link_of(std::int32_t from_worker, std::int32_t to_worker, std::int32_t ring_first, std::int32_t workers);
inline StreamRole role_of_stream(std::uint32_t stream) {
  const std::uint32_t place = stream % kStreamsPerWorker;
  if (place > kCollectivePlace) return StreamRole::link;
  if (place == kCollectivePlace) return StreamRole::collective;
  return place == 0 ? StreamRole::compute : static_cast<StreamRole>((place - 1) % kTransferRoles + 1);
}
std::uint32_t lane_of_stream(std::uint32_t stream);  // of a transfer role

/// Which program executes a layer, because its kernels differ.
///   pipeline: runtime/model (bias and ReLU fused into the GEMM, gradients accumulated inside the weight GEMM)
///   autograd: LibTorch's modules and autograd, as the course writes them; under autocast also the layers of a
///             pipeline, which has no kernels of its own for half precision
enum class Implementation : std::uint8_t { pipeline, autograd };
Implementation implementation_of(Program program);
/// Of the layers alone, forward and backward.
Implementation implementation_of_layers(Program program, Dtype dtype);

/// What a task does, independent of when: equal work costs the same. Which fields count depends on `kind`.
struct Work {
  TaskKind kind = TaskKind::forward;
  Implementation implementation = Implementation::pipeline;
  /// backward, backward_weight, bucket_copy_out: adds to gradients (not the first micro-batch of the step).
  bool accumulate = false;
  /// backward: false for the first stage of the model, whose first layer has no input gradient.
  bool input_gradient = true;
  bool loss = false;      // backward, backward_input of the last stage: the loss and its gradient come first
  bool receives = false;  // scatter, gather: the task at the end that the slice goes to
  bool eager = false;     // a send in a group: it ends by itself, only its receive waits for both
  /// Of PyTorch's pipelines: the host does this in one call with the task before it. A message in a batch, a further
  /// part of a backward that is cut at a bucket, the optimizer of another stage of the process.
  bool same_call = false;
  /// forward under autocast: what it casts of the parameters is there, of an earlier micro-batch; in a pipeline of
  /// pdl-run, which casts once a step, behind the optimizer.
  bool casts_are_there = false;
  std::int32_t tensors = 0;      // collectives of data-parallel programs, bucket copies: how many
  std::int32_t first_layer = 0;  // compute, optimizer, scale_gradients; layers of a stage, or some of them
  std::int32_t layer_count = 0;
  std::int32_t from_worker = 0;  // transfers
  std::int32_t to_worker = 0;
  std::uint32_t worker_group = kNone;  // collectives: who takes part, index into TaskGraph::worker_groups
  std::int64_t rows = 0;               // compute, transfers, loss: samples of the micro-batch
  std::int64_t bytes = 0;              // transfers, collectives, bucket copies
  std::int64_t sleep_ns = 0;           // sleep
  bool operator==(const Work&) const = default;
};

/// The host's sleep of so many milliseconds.
Work sleep_work(double ms);

struct WorkHash {
  std::size_t operator()(const Work& work) const;
};

struct Task {
  std::uint32_t work = 0;        // index into TaskGraph::works
  std::uint32_t stream = kNone;  // stream_of(worker, role, chunk); kNone: no stream
  std::uint32_t host = 0;        // the host thread that issues it
  std::uint32_t group = kNone;   // index of its group
  std::int32_t worker = 0;       // the GPU
  std::int32_t stage = 0;
  std::int32_t microbatch = -1;  // -1: not of a micro-batch (optimizer)
  TaskKind kind = TaskKind::forward;
  /// Of collectives, bucket copies, backwards that are cut at buckets or where layers are run again, and of the latter:
  /// which, from 0.
  std::uint32_t part : 24 = 0;
};
static_assert(sizeof(Task) == 32);
inline constexpr std::uint32_t kMostParts = 1U << 24;

/// Which tasks start after which. Nearly every task of a step has one task after it, so that one stands in an array by
/// task; where there are several, the array says where their list is:
///
///   0 -> 1      of_task   1   list 0   none  none        lists   2  2 3
///   1 -> 2, 3                                                    (how many, then which)
class Edges {
 public:
  /// The tasks that start after `task` has finished, in the order in which the edges were added.
  std::span<const TaskId> after(TaskId task) const { return at(of_task_[task]); }

  /// The array's entry of a task, for a copy beside what else a reader needs of the task; and the tasks that an entry
  /// stands for, which must stay where it is while they are read.
  std::uint32_t place_of(TaskId task) const { return of_task_[task]; }
  std::span<const TaskId> at(const std::uint32_t& place) const {
    if (place < kFirstList) return {&place, 1};
    if (place == kNone) return {};
    const std::uint32_t* list = &lists_[place - kFirstList];
    return {list + 1, *list};
  }

 private:
  friend class TaskGraphBuilder;
  static constexpr std::uint32_t kFirstList = 1U << 31;

  std::vector<std::uint32_t> of_task_;  // the only task after it, kFirstList + a place in lists_, or kNone
  std::vector<std::uint32_t> lists_;
};

/// Tasks are numbered so that ascending ids are the program order of every host and of every stream.
struct TaskGraph {
  std::vector<Work> works;
  std::vector<Task> tasks;
  Edges edges;
  std::vector<WorkerGroup> worker_groups;  // of collectives, each once
  std::uint32_t workers = 0;
  std::uint32_t hosts = 0;
  std::uint32_t groups = 0;
};

/// The workers that take part in a collective.
const WorkerGroup& worker_group_of(const TaskGraph& graph, const Work& collective);

/// Builds a graph task by task; equal works are merged, and so are equal groups of workers.
class TaskGraphBuilder {
 public:
  std::uint32_t add_work(const Work& work);
  std::uint32_t add_worker_group(const WorkerGroup& group);
  TaskId add_task(const Task& task);
  std::uint32_t add_group() { return groups_++; }
  /// Both have been added.
  void add_edge(TaskId before, TaskId after);
  void reserve(std::size_t tasks);
  TaskGraph build(std::uint32_t workers, std::uint32_t hosts) &&;

 private:
  std::vector<Work> works_;
  std::unordered_map<Work, std::uint32_t, WorkHash> known_works_;
  std::map<WorkerGroup, std::uint32_t> worker_groups_;
  std::vector<Task> tasks_;
  Edges edges_;
  std::vector<std::pair<TaskId, TaskId>> further_edges_;  // beside the first of a task
  std::uint32_t groups_ = 0;
};

/// "F3", "B0", "I1", "W1", "R1" (recompute), "send F3", "optimizer"; with `with_stage`, "2F3". Parts of a backward are
/// all "B0"; collectives and copies are "all-reduce 3", "bucket in 3".
std::string task_name(TaskKind kind, std::int32_t stage, std::int32_t microbatch, bool with_stage,
                      std::uint32_t part = 0);

/// The same in the words of PyTorch's schedules: "2F3", "0SEND_F2", "3RECV_B0".
std::string task_action(const Task& task);

}  // namespace pdl
