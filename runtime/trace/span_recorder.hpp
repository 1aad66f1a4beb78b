// Where each task of a step ran, and when: all devices on one clock.
//
//   SpanRecorder recorder(plan.graph, options);
//   recorder.begin_step();              // devices idle: ties the clock of each device to the host's
//   program->step(&recorder);           // recorder.begin(task); ... launch its kernels ...; recorder.end(task);
//   recorder.end_step();                // devices idle again: reads the times
//   recorder.recorded().times[task]     // start_ns, end_ns on the host's steady clock
//
// On CUDA a pair of events per task, allocated once, recorded on the task's stream: about 1 us of the host per event,
// nothing on the GPU that waits for it. The clock of a device is tied to the host's steady clock (which all processes
// of a host share) by an event on the idle device: the event happened between the host's times before its record and
// after its synchronisation. Several are tried, the tightest is kept, and half of its round trip is the uncertainty.
// On CPU the times are the host's own. Units: nanoseconds. Not here: statistics, the timeline
// (runtime/measure/measure.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/device/runtime_options.hpp"
#include "sim/plan/task_graph.hpp"
#include "sim/timeline/timeline.hpp"

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace pdl {

/// Nanoseconds of the host's steady clock: one clock for all processes of a host.
std::int64_t steady_now_ns();

struct RecordedStep {
  /// By task id, nanoseconds of the host's steady clock. A task that was not recorded (another process has it) has
  /// start_ns == end_ns == 0.
  std::vector<TaskTimes> times;
  /// The largest of the devices: a time of one device may be off by so much against the host and, twice that, against
  /// another device. 0 on CPU.
  double clock_uncertainty_us = 0;
};

/// begin(task) and end(task) may be called from any thread; tasks of one step may be recorded by different threads.
class SpanRecorder {
 public:
  /// Allocates events for every task whose worker is in this process. Throws CannotRun if CUDA is asked for and this
  /// program was built without it.
  SpanRecorder(const TaskGraph& graph, const RuntimeOptions& options);
  ~SpanRecorder();
  SpanRecorder(const SpanRecorder&) = delete;
  SpanRecorder& operator=(const SpanRecorder&) = delete;

  /// All devices of this process are idle.
  void begin_step();

  /// Immediately before and after the launches of `task`, on the current stream of the task's device.
  void begin(TaskId task);
  void end(TaskId task);

  /// The same on the given stream of the task's device (CUDA).
  void begin(TaskId task, CUstream_st* stream);
  void end(TaskId task, CUstream_st* stream);

  /// What the host did itself, on its steady clock: a sleep.
  void record_host(TaskId task, std::int64_t start_ns, std::int64_t end_ns);

  /// All devices of this process are idle again.
  void end_step();

  const RecordedStep& recorded() const { return recorded_; }

 private:
  struct Clocks;  // events and anchors (CUDA)
  RecordedStep recorded_;
  std::unique_ptr<Clocks> clocks_;
};

}  // namespace pdl
