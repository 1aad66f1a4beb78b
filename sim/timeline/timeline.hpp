// What happened when: one type for a predicted and a measured step.
//
//   Timeline t = make_timeline(plan.graph, stages, run_graph(plan.graph, costs));   // or of what was measured
//   t.spans[0]   // {forward, stage 0, micro-batch 0, worker 0, compute, 0 ns .. 1000000 ns}
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/plan/task_graph.hpp"

namespace pdl {

/// When one task of a graph ran, from the start of the step. Predicted by the engine, measured by the runtime.
struct TaskTimes {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  bool operator==(const TaskTimes&) const = default;
};

struct Span {
  TaskKind kind : 5 = TaskKind::forward;
  StreamRole stream : 3 = StreamRole::compute;
  std::uint32_t part : 24 = 0;  // Task::part
  std::int32_t worker = 0;
  std::int32_t stage = 0;
  std::int32_t microbatch = -1;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  bool operator==(const Span&) const = default;
};
static_assert(sizeof(Span) == 32);

struct Timeline {
  std::int32_t workers = 0;
  std::int32_t stages = 0;
  std::int64_t step_ns = 0;  // from the start of the step to its end, at least the last end of a span
  std::vector<Span> spans;   // ascending task id
};

/// From the first start to the last end of a span of the worker that is at it longest.
std::int64_t longest_worker_ns(const Timeline& timeline);

/// How long a step takes: Timeline::step_ns, or where steps overlap, longest_worker_ns.
std::int64_t step_ns(const Timeline& timeline, bool steps_overlap);

inline Span span_of(const Task& task, const TaskTimes& times) {
  Span span;
  span.kind = task.kind;
  span.stream = task.stream == kNone ? StreamRole::none : role_of_stream(task.stream);
  span.part = task.part;
  span.worker = task.worker;
  span.stage = task.stage;
  span.microbatch = task.microbatch;
  span.start_ns = times.start_ns;
  span.end_ns = times.end_ns;
  return span;
}

Timeline make_timeline(const TaskGraph& graph, std::int32_t stages, std::span<const TaskTimes> times);

}  // namespace pdl
