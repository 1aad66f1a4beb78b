// Cuts a recorded backward of DDP into the plan's tasks (runtime/program/ddp_program.hpp).
//
//   DdpRecording recording(device, bucket_sizes);
//   recording.begin(tasks, recorder);      // before the loss
//   loss.backward();                       // calls bucket_filled() (a hook), before_all_reduce(), after_all_reduce()
//   recording.end();
//
//   compute      |backward part 0|in 0|backward part 1|in 1|      |out 0|out 1|
//   collective                        |all-reduce 0|  |all-reduce 1|
//
// The Reducer must call all-reduces in the order of the plan's buckets, each once: the n-th call is taken for bucket n.
//
// In a step that is not recorded all calls return at once. On CUDA an all-reduce is seen from a stream beside: its
// begin when the compute stream and the all-reduce before it have reached the call, its end when others may use its
// result.
#pragma once

#include <memory>
#include <vector>

#include "runtime/comm/process_group.hpp"
#include "sim/plan/task_graph.hpp"

namespace pdl {

class SpanRecorder;

/// The tasks of one replica in one backward that exchanges gradients, by bucket; kNone where the plan has none.
struct ExchangeTasks {
  std::vector<TaskId> backward, copy_in, all_reduce, copy_out;
};

class DdpRecording : public AllReduceWatcher {
 public:
  /// `bucket_sizes`: tensors of each bucket.
  DdpRecording(c10::Device device, std::vector<std::size_t> bucket_sizes);
  ~DdpRecording() override;
  DdpRecording(const DdpRecording&) = delete;
  DdpRecording& operator=(const DdpRecording&) = delete;

  /// `tasks` is not copied: it must be there until end().
  void begin(const ExchangeTasks& tasks, SpanRecorder& recorder);

  /// The last gradient of this bucket is there.
  void bucket_filled(std::size_t bucket);
  void before_all_reduce() override;
  c10::intrusive_ptr<c10d::Work> after_all_reduce(c10::intrusive_ptr<c10d::Work> work) override;

  /// After the backward: all of its tasks have their begin and end. Throws std::logic_error with both counts if the
  /// copies that were seen are fewer than those of the plan.
  void end();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pdl
