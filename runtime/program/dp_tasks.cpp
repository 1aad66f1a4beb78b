#include "runtime/program/dp_tasks.hpp"

#include <c10/util/Exception.h>

namespace pdl {
namespace {

DpMicrobatchTasks no_tasks(const Plan& plan) {
  DpMicrobatchTasks empty;
  const auto gpus = static_cast<std::size_t>(plan.spec.gpus);
  empty.scatter = empty.gather = empty.scatter_gradient = std::vector<TaskIds>(gpus);
  empty.broadcast.resize(plan.parameter_chunks.size());
  empty.reduce.resize(plan.gradient_chunks.size());
  empty.forward = empty.backward = TaskIds(gpus, kNone);
  return empty;
}

void read_task(const Plan& plan, TaskId t, DpMicrobatchTasks& microbatch) {
  const Task& task = plan.graph.tasks[t];
  switch (task.kind) {
    case TaskKind::scatter:
      (microbatch.loss == kNone ? microbatch.scatter : microbatch.scatter_gradient).at(task.part).push_back(t);
      break;
    case TaskKind::gather: microbatch.gather.at(task.part).push_back(t); break;
    case TaskKind::broadcast: microbatch.broadcast.at(task.part).push_back(t); break;
    case TaskKind::reduce: microbatch.reduce.at(task.part).push_back(t); break;
    case TaskKind::forward: microbatch.forward.at(static_cast<std::size_t>(task.worker)) = t; break;
    case TaskKind::backward: microbatch.backward.at(static_cast<std::size_t>(task.worker)) = t; break;
    case TaskKind::loss: microbatch.loss = t; break;
    case TaskKind::bucket_copy_out: microbatch.sum = t; break;
    case TaskKind::sleep:
      microbatch.delay = t;
      microbatch.delay_ns = plan.graph.works[task.work].sleep_ns;
      break;
    default: TORCH_CHECK(false, "DataParallel has no ", task_name(task.kind, task.stage, task.microbatch, true));
  }
}

}  // namespace

DpStepTasks read_dp_tasks(const Plan& plan) {
  DpStepTasks step;
  step.microbatches.assign(plan.microbatch_rows.size(), no_tasks(plan));
  for (TaskId t = 0; t < plan.graph.tasks.size(); ++t) {
    const Task& task = plan.graph.tasks[t];
    if (task.kind == TaskKind::optimizer) {
      step.optimizer = t;
      continue;
    }
    if (task.microbatch < 0) {
      TORCH_CHECK(task.kind == TaskKind::sleep,
                  "a task of no micro-batch: ", task_name(task.kind, task.stage, 0, true));
      step.straggler = t;
      step.straggler_ns = plan.graph.works[task.work].sleep_ns;
      step.straggling_gpu = task.worker;
      continue;
    }
    read_task(plan, t, step.microbatches.at(static_cast<std::size_t>(task.microbatch)));
  }
  return step;
}

}  // namespace pdl
