// Steps as text: the tasks of a GPU in order, and how long a step takes, of the words of a user.
//
//   tasks_of("--strategy ddp --gpus 2 ...", 1)                "F0 | B0 | bucket in 0 | ..."
//   step_ms("--strategy ddp --gpus 4 --tf 4 --tb 8 ...")      13
#pragma once

#include <algorithm>
#include <map>
#include <string>

#include "sim/plan/plan.hpp"
#include "sim/predict/predict.hpp"
#include "tests/support/specs.hpp"

namespace pdl {

/// Names of the tasks of a GPU in program order.
inline std::string tasks_of(const std::string& flags, std::int32_t worker) {
  const Plan plan = make_plan(spec(flags));
  std::string text;
  for (const Task& task : plan.graph.tasks) {
    if (task.worker != worker) continue;
    text += (text.empty() ? "" : " | ") + task_name(task.kind, 0, task.microbatch, false, task.part);
  }
  return text;
}

inline double step_ms(const std::string& flags) {
  return predict(spec(flags), nullptr).step_time.median_ms;
}

/// Synthetic times, but issue and device times of the given kinds of tasks are these, ms. A task is one kernel,
/// launched when it is issued.
struct HandTimes {
  double issue = 0;
  double device = 0;
};

inline double step_ms(const std::string& flags, double issue_of_others, const std::map<TaskKind, HandTimes>& given) {
  const Plan plan = make_plan(spec(flags));
  std::vector<TaskCost> costs = price_synthetic(plan, *plan.spec.synthetic);
  for (std::size_t w = 0; w < costs.size(); ++w) {
    const auto known = given.find(plan.graph.works[w].kind);
    if (plan.graph.works[w].kind == TaskKind::sleep) continue;
    const double issue = known == given.end() ? issue_of_others : known->second.issue;
    const auto issue_ns = static_cast<std::int64_t>(issue * 1e6);
    const auto device_ns =
        known == given.end() ? costs[w].device_ns : static_cast<std::int64_t>(known->second.device * 1e6);
    costs[w] = {device_ns, issue_ns, issue_ns, issue_ns + device_ns};
  }
  std::int64_t end_ns = 0;
  for (const TaskTimes& task : run_graph(plan.graph, costs)) end_ns = std::max(end_ns, task.end_ns);
  return static_cast<double>(end_ns) / 1e6;
}

inline const std::string kOneBucket = " --bucket-mb 100000 --first-bucket-mb 100000 ";

}  // namespace pdl
