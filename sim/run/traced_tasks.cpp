#include "sim/run/traced_tasks.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "sim/io/error.hpp"
#include "sim/plan/pytorch_actions.hpp"
#include "sim/plan/step_order.hpp"

namespace pdl {
namespace {

/// What a task is that a kernel may belong to.
enum class Place : std::uint8_t { forward, backward, copy_in, copy_out, optimizer, nccl };

/// How many kernels of NCCL come before, and what it is.
using Key = std::pair<std::size_t, Place>;

std::string counted(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

bool is_product(const GpuActivity& activity) {
  const std::string& name = activity.name;
  const auto has = [&](const char* word) { return name.find(word) != std::string::npos; };
  if (has("split_k") || has("splitK")) return false;  // adds the parts of the product before it
  return has("gemm") || has("nvjet") || has("gemv");
}

class Mapping {
 public:
  Mapping(const TracedStep& traced, const RunResult& run, const std::string& run_name, const Plan& plan)
      : traced_(traced), run_name_(run_name), plan_(plan) {
    check_world(run);
    check_calls();
    for (TaskId task = 0; task < plan_.graph.tasks.size(); ++task) {
      const Task& of = plan_.graph.tasks[task];
      if (of.worker == mapped_.worker && of.kind != TaskKind::sleep) own_.push_back(task);
    }
    sort_by_launch();
  }

  TracedTasks map() && {
    const std::vector<std::size_t> batches = check_nccl();
    check_layers();
    place_tasks(batches);
    place_activities();
    share_copies_out();
    return std::move(mapped_);
  }

 private:
  const TraceStep& step() const { return traced_.step(); }
  const Task& task(TaskId id) const { return plan_.graph.tasks[id]; }
  const Work& work(TaskId id) const { return plan_.graph.works[task(id).work]; }

  [[noreturn]] void refuse(const std::string& found, const std::string& expected) const {
    throw InputError(traced_.trace.path, found,
                     expected + ", as " + run_name_ + " has: the trace is of another model, or of other settings");
  }

  void check_world(const RunResult& run) {
    const auto gpus = static_cast<std::size_t>(run.spec.gpus);
    if (gpus > 1 && plan_.graph.hosts < plan_.graph.workers)
      throw InputError(run_name_, "a program with one process for " + counted(gpus, "GPU"),
                       "a process a GPU, as a trace is of one rank");
    const auto world = static_cast<std::size_t>(std::max(traced_.trace.world_size, 1));
    if (world != gpus) {
      throw InputError(traced_.trace.path,
                       traced_.trace.world_size == 0 ? "no process group (distributedInfo), one GPU"
                                                     : "a process group of " + counted(world, "rank"),
                       counted(gpus, "GPU") + ", as " + run_name_ + " has: the trace is of another run");
    }
    mapped_.worker = std::max(traced_.trace.rank, 0);
  }

  void check_calls() const {
    std::size_t unknown = 0;
    for (std::size_t p = 0; p < step().activities.size(); ++p) unknown += !traced_.activity(p).is_launch_known();
    if (unknown > 0)
      throw InputError(traced_.trace.path, std::to_string(unknown) + " activities without the call that launched them",
                       "none: a trace of ProfilerActivity.CPU and CUDA");
    if (!names_backwards(traced_.trace))
      throw InputError(traced_.trace.path, "no call of autograd, which tells a backward from a forward",
                       "a trace of ProfilerActivity.CPU and CUDA");
  }

  void sort_by_launch() {
    by_launch_.resize(step().activities.size());
    for (std::size_t p = 0; p < by_launch_.size(); ++p) by_launch_[p] = p;
    std::stable_sort(by_launch_.begin(), by_launch_.end(), [&](std::size_t a, std::size_t b) {
      return traced_.activity(a).launch_start_ns < traced_.activity(b).launch_start_ns;
    });
    for (const std::size_t p : by_launch_) {
      if (step().parts[p] == TracePart::collectives) collectives_.push_back(p);
      if (step().parts[p] == TracePart::messages) messages_.push_back(p);
    }
  }

  /// Returns how many messages each kernel of messages has.
  std::vector<std::size_t> check_nccl() const {
    std::vector<TaskId> collectives;
    std::size_t messages = 0;
    for (const TaskId id : own_) {
      if (is_collective(task(id).kind)) collectives.push_back(id);
      if (is_transfer(task(id).kind)) ++messages;
    }
    if (collectives.size() != collectives_.size())
      refuse(collectives_.empty() ? "no collective of NCCL in " + step().name
                                  : counted(collectives_.size(), "collective") + " of NCCL in " + step().name,
             counted(collectives.size(), "collective") + " in a step");
    for (std::size_t n = 0; n < collectives.size(); ++n) {
      const std::int64_t bytes = traced_.activity(collectives_[n]).bytes, expected = work(collectives[n]).bytes;
      if (bytes >= 0 && bytes != expected)
        refuse(counted(static_cast<std::size_t>(bytes), "byte") + " in collective " + std::to_string(n) + " of " +
                   step().name,
               std::to_string(expected));
    }
    return messages_of_kernels(messages);
  }

  std::vector<std::size_t> messages_of_kernels(std::size_t messages) const {
    if (messages == messages_.size()) return std::vector<std::size_t>(messages, 1);
    std::vector<std::size_t> batches;
    if (messages > 0 && is_pytorch_pipeline(plan_.spec)) batches = batches_of_pytorch();
    std::size_t sum = 0;
    for (const std::size_t of_batch : batches) sum += of_batch;
    if (batches.size() == messages_.size() && sum == messages) return batches;
    refuse(messages_.empty() ? "no message of NCCL (SendRecv) in " + step().name
                             : counted(messages_.size(), "message kernel") + " of NCCL (SendRecv) in " + step().name,
           counted(batches.empty() ? messages : batches.size(), "message kernel") + " in a step");
  }

  /// Messages that the process starts together, in the order of its program.
  std::vector<std::size_t> batches_of_pytorch() const {
    const Schedule* schedule = named_schedule(plan_.spec);
    const std::vector<std::vector<PytorchAction>> actions =
        pytorch_actions(make_order(plan_.spec), schedule ? schedule->pytorch_class : std::string_view());
    std::vector<std::size_t> batches;
    if (static_cast<std::size_t>(mapped_.worker) >= actions.size()) return batches;
    for (std::int64_t round = 0; round < plan_.spec.accum; ++round) {
      for (const PytorchAction& action : actions[static_cast<std::size_t>(mapped_.worker)]) {
        if (action.kind == PytorchAction::Kind::post) batches.push_back(action.operations.size());
      }
    }
    return batches;
  }

  /// A layer of an MLP is one product in its forward.
  void check_layers() {
    if (plan_.spec.model_name != "mlp") return;
    std::size_t found = 0, expected = 0;
    for (std::size_t p = 0; p < step().activities.size(); ++p)
      found += step().parts[p] == TracePart::forward && is_product(traced_.activity(p));
    for (const TaskId id : own_) {
      if (task(id).kind == TaskKind::forward) expected += static_cast<std::size_t>(work(id).layer_count);
    }
    if (found == 0) return;  // kernels of names that are not known
    if (found != expected)
      refuse(counted(found, "matrix product") + " in the forwards of " + step().name,
             std::to_string(expected) + ", layers of the GPU times micro-batches");
    mapped_.layers_checked = true;
  }

  static Place place_of(TaskKind kind) {
    switch (kind) {
      case TaskKind::forward:
      case TaskKind::loss: return Place::forward;
      case TaskKind::bucket_copy_in: return Place::copy_in;
      case TaskKind::bucket_copy_out: return Place::copy_out;
      case TaskKind::optimizer: return Place::optimizer;
      default: return is_communication(kind) ? Place::nccl : Place::backward;
    }
  }

  /// A row for each key, in program order.
  void place_tasks(const std::vector<std::size_t>& batches) {
    std::size_t nccl = 0, batch = 0, in_batch = 0;
    for (const TaskId id : own_) {
      const Place place = place_of(task(id).kind);
      const bool message = is_transfer(task(id).kind);
      add_task({nccl, place}, id);
      if (place != Place::nccl) continue;
      if (message && ++in_batch < batches[batch]) continue;
      if (message) ++batch;
      in_batch = 0;
      ++nccl;
    }
  }

  void add_task(Key key, TaskId id) {
    const auto [row, first] = rows_.try_emplace(key, mapped_.tasks.size());
    if (first) mapped_.tasks.emplace_back();
    mapped_.tasks[row->second].tasks.push_back(id);
  }

  Place place_of_activity(std::size_t p) const {
    const TracePart part = step().parts[p];
    if (part == TracePart::collectives || part == TracePart::messages) return Place::nccl;
    switch (step().roles[p]) {
      case ActivityRole::bucket_copy_in: return Place::copy_in;
      case ActivityRole::bucket_copy_out: return Place::copy_out;
      case ActivityRole::loss: return Place::backward;  // as the plan has it
      case ActivityRole::none: break;
    }
    return step().launched_in[p] == TracePart::optimizer  ? Place::optimizer
           : step().launched_in[p] == TracePart::backward ? Place::backward
                                                          : Place::forward;
  }

  void place_activities() {
    std::size_t nccl = 0;
    bool computed = false;  // what an optimizer does before that, zero_grad, is of no task
    for (const std::size_t p : by_launch_) {
      const Place place = place_of_activity(p);
      const auto row = rows_.find({nccl, place});
      nccl += place == Place::nccl;
      computed = computed || place != Place::optimizer;
      if (row == rows_.end() || !computed) {
        mapped_.others.push_back(p);
      } else {
        mapped_.tasks[row->second].places.push_back(p);
      }
    }
  }

  /// Copies out of all buckets come one after another, a copy a tensor.
  void share_copies_out() {
    for (std::size_t r = 0; r < mapped_.tasks.size(); ++r) {
      const TracedTask all = mapped_.tasks[r];
      if (all.tasks.size() < 2 || task(all.tasks.front()).kind != TaskKind::bucket_copy_out) continue;
      std::size_t tensors = 0;
      for (const TaskId id : all.tasks) tensors += static_cast<std::size_t>(work(id).tensors);
      if (tensors != all.places.size()) continue;
      std::vector<TracedTask> each;
      auto next = all.places.begin();
      for (const TaskId id : all.tasks) {
        each.push_back({{id}, {next, next + work(id).tensors}});
        next += work(id).tensors;
      }
      mapped_.tasks.erase(mapped_.tasks.begin() + static_cast<std::ptrdiff_t>(r));
      mapped_.tasks.insert(mapped_.tasks.begin() + static_cast<std::ptrdiff_t>(r), each.begin(), each.end());
      r += each.size() - 1;
    }
  }

  const TracedStep& traced_;
  const std::string& run_name_;
  const Plan& plan_;
  std::vector<TaskId> own_;                                      // in program order
  std::vector<std::size_t> by_launch_, collectives_, messages_;  // places
  std::map<Key, std::size_t> rows_;
  TracedTasks mapped_;
};

bool each_task_is_known(const TracedTasks& tasks) {
  return std::all_of(tasks.tasks.begin(), tasks.tasks.end(),
                     [](const TracedTask& task) { return task.tasks.size() == 1 && !task.places.empty(); });
}

}  // namespace

TracedTasks traced_tasks(const TracedStep& traced, const RunResult& run, const std::string& run_name,
                         const Plan& plan) {
  return Mapping(traced, run, run_name, plan).map();
}

TaskTimes times_of(const TracedStep& traced, const std::vector<std::size_t>& places) {
  TaskTimes times{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
  for (const std::size_t place : places) {
    times.start_ns = std::min(times.start_ns, traced.activity(place).start_ns - traced.step().start_ns);
    times.end_ns = std::max(times.end_ns, traced.activity(place).end_ns - traced.step().start_ns);
  }
  return places.empty() ? TaskTimes{} : times;
}

std::optional<RunResult> measured_run(const std::vector<TracedStep>& steps, const TraceRanks& ranks,
                                      const std::vector<TracedTasks>& tasks, const Plan& plan) {
  if (steps.size() != plan.graph.workers || !std::all_of(tasks.begin(), tasks.end(), each_task_is_known))
    return std::nullopt;
  std::int64_t first_ns = std::numeric_limits<std::int64_t>::max(), last_ns = std::numeric_limits<std::int64_t>::min();
  for (std::size_t s = 0; s < steps.size(); ++s) {
    first_ns = std::min(first_ns, steps[s].step().start_ns + ranks.shift_ns[s]);
    last_ns = std::max(last_ns, steps[s].step().end_ns + ranks.shift_ns[s]);
  }
  std::vector<TaskTimes> times(plan.graph.tasks.size());
  std::vector<bool> known(times.size());
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const std::int64_t shift_ns = steps[s].step().start_ns + ranks.shift_ns[s] - first_ns;
    for (const TracedTask& task : tasks[s].tasks) {
      const TaskTimes own = times_of(steps[s], task.places);
      times[task.tasks.front()] = {own.start_ns + shift_ns, own.end_ns + shift_ns};
      known[task.tasks.front()] = true;
    }
  }
  // Not sleeps of hosts, nor tasks of a rank whose file does not say which it is.
  if (std::find(known.begin(), known.end(), false) != known.end()) return std::nullopt;
  RunResult run = begin_result(plan);
  run.measured = true;
  run.timeline = make_timeline(plan.graph, static_cast<std::int32_t>(plan.stages.size()), times);
  run.timeline.step_ns = last_ns - first_ns;
  run.step_time.median_ms = static_cast<double>(step_ns(run.timeline, steps_overlap(plan.spec))) / 1e6;
  run.environment = {{"card", steps.front().trace.gpu.empty() ? "unknown GPU" : steps.front().trace.gpu},
                     {"count", steps.size()},
                     {"date", "by torch.profiler"}};
  return run;
}

}  // namespace pdl
