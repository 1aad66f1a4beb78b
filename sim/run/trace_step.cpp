#include "sim/run/trace_step.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "sim/io/error.hpp"

namespace pdl {
namespace {

bool is_optimizer(const HostCall& call) {
  return call.annotation && (call.name.starts_with("Optimizer.step") || call.name.starts_with("Optimizer.zero_grad"));
}

/// When the activity was launched; where that is not known, when it started.
std::int64_t launch_ns(const GpuActivity& activity) {
  return activity.is_launch_known() ? activity.launch_start_ns : activity.start_ns;
}

struct StepRange {
  std::string name;
  std::int64_t start_ns, end_ns;
};

std::vector<StepRange> ranges_of_steps(const KinetoTrace& trace) {
  std::vector<StepRange> steps;
  for (const HostCall& call : trace.calls) {
    if (call.annotation && call.name.starts_with("ProfilerStep#"))
      steps.push_back({call.name, call.start_ns, call.end_ns});
  }
  if (!steps.empty()) return steps;
  std::int64_t begin_ns = std::numeric_limits<std::int64_t>::min();
  for (const HostCall& call : trace.calls) {
    if (!call.annotation || !call.name.starts_with("Optimizer.step")) continue;
    steps.push_back({"step " + std::to_string(steps.size() + 1), begin_ns, call.end_ns});
    begin_ns = call.end_ns;
  }
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  if (steps.empty()) steps.push_back({"step 1", begin_ns, kEnd});
  return steps;
}

bool is_of_backward(const HostCall& call) {
  return call.name.starts_with("autograd::engine::evaluate_function") ||
         call.name.find("Backward") != std::string::npos;
}

/// torch.distributed.barrier, as PyTorch names it; not what a program may have called so.
bool is_barrier(const HostCall& call) {
  return call.annotation ? call.name.starts_with("nccl:") && call.name.ends_with("barrier")
                         : call.name == "c10d::barrier";
}

/// aten::mse_loss, aten::cross_entropy_loss; not their backwards, which are autograd's.
bool is_loss(const HostCall& call) {
  return !call.annotation && call.name.starts_with("aten::") && call.name.ends_with("_loss");
}

/// What an activity is for.
struct Purpose {
  TracePart part = TracePart::forward;
  bool of_barrier = false;
  TracePart launched_in = TracePart::forward;
  ActivityRole role = ActivityRole::none;
};

/// What the calls say in which it was launched, the innermost last. An optimizer is called by a thread of the program,
/// backwards by threads of autograd.
Purpose purpose_within(const std::vector<const HostCall*>& calls) {
  Purpose purpose;
  for (const HostCall* call : calls) {
    if (is_optimizer(*call)) purpose.part = TracePart::optimizer;
    if (is_of_backward(*call) && purpose.part != TracePart::optimizer) purpose.part = TracePart::backward;
    purpose.of_barrier = purpose.of_barrier || is_barrier(*call);
    if (call->name == "torch::distributed::reducer::mul_out") purpose.role = ActivityRole::bucket_copy_in;
    if (call->name == "torch.distributed.ddp.reducer::copy_bucket_to_grad")
      purpose.role = ActivityRole::bucket_copy_out;
    if (is_loss(*call)) purpose.role = ActivityRole::loss;
  }
  return purpose;
}

/// By activity: a walk over the calls of each thread and over what it launched, both in the order of time.
std::vector<Purpose> purposes_of(const KinetoTrace& trace) {
  std::vector<Purpose> purposes(trace.activities.size());
  std::map<std::int64_t, std::vector<std::size_t>> launched;
  std::map<std::int64_t, std::vector<const HostCall*>> calls;
  for (std::size_t a = 0; a < trace.activities.size(); ++a) {
    if (trace.activities[a].is_launch_known()) launched[trace.activities[a].launch_thread].push_back(a);
  }
  for (const HostCall& call : trace.calls) calls[call.thread].push_back(&call);
  for (auto& [thread, activities] : launched) {
    std::stable_sort(activities.begin(), activities.end(), [&](std::size_t a, std::size_t b) {
      return trace.activities[a].launch_start_ns < trace.activities[b].launch_start_ns;
    });
    const std::vector<const HostCall*>& of_thread = calls[thread];
    std::vector<const HostCall*> open;
    std::size_t next = 0;
    for (const std::size_t a : activities) {
      const std::int64_t now_ns = trace.activities[a].launch_start_ns;
      for (; next < of_thread.size() && of_thread[next]->start_ns <= now_ns; ++next) open.push_back(of_thread[next]);
      std::erase_if(open, [&](const HostCall* call) { return call->end_ns <= now_ns; });
      purposes[a] = purpose_within(open);
      purposes[a].launched_in = purposes[a].part;
    }
  }
  for (std::size_t a = 0; a < trace.activities.size(); ++a) {
    const GpuActivity& activity = trace.activities[a];
    const std::string operation = nccl_operation(activity);
    if (activity.kind != GpuActivityKind::kernel) purposes[a].part = TracePart::copies;
    if (!operation.empty()) purposes[a].part = operation == "SendRecv" ? TracePart::messages : TracePart::collectives;
  }
  return purposes;
}

/// Of a stretch in which nothing runs: until the call that launched what comes next has returned.
std::int64_t host_part_ns(const GpuActivity& next, std::int64_t from, std::int64_t to) {
  if (!next.is_launch_known()) return 0;
  return std::clamp(next.launch_end_ns, from, to) - from;
}

/// What runs at a moment, the most important first; then the one that started last.
class Running {
 public:
  Running(const KinetoTrace& trace, const TraceStep& step) : trace_(trace), step_(step) {}

  std::vector<TraceStretch> stretches() const {
    std::vector<TraceStretch> found;
    std::vector<std::int64_t> moments;
    for (const std::size_t a : step_.activities) {
      moments.push_back(trace_.activities[a].start_ns);
      moments.push_back(trace_.activities[a].end_ns);
    }
    std::sort(moments.begin(), moments.end());
    moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
    std::size_t begun = 0;
    std::vector<std::size_t> running;  // places in step_.activities
    for (std::size_t m = 0; m + 1 < moments.size(); ++m) {
      const std::int64_t from = moments[m], to = moments[m + 1];
      while (begun < step_.activities.size() && activity(begun).start_ns <= from) running.push_back(begun++);
      std::erase_if(running, [&](std::size_t place) { return activity(place).end_ns <= from; });
      TraceStretch stretch{.start_ns = from, .end_ns = to, .running = {}};
      if (running.empty()) {
        stretch.next = step_.activities[begun];
        stretch.host_ns = host_part_ns(trace_.activities[stretch.next], from, to);
      } else {
        stretch.running = most_important(running);
      }
      found.push_back(stretch);
    }
    return found;
  }

 private:
  const GpuActivity& activity(std::size_t place) const { return trace_.activities[step_.activities[place]]; }

  std::size_t most_important(const std::vector<std::size_t>& running) const {
    std::size_t found = running.front();
    int found_rank = 4;
    for (const std::size_t place : running) {
      const TracePart part = step_.parts[place];
      const int rank = part <= TracePart::optimizer ? 1 : part <= TracePart::messages ? 2 : 3;
      if (rank <= found_rank) found = place;
      found_rank = std::min(found_rank, rank);
    }
    return found;
  }

  const KinetoTrace& trace_;
  const TraceStep& step_;
};

/// What was launched in the range, without barriers that come first or last.
std::vector<std::size_t> launched_in(const StepRange& range, const KinetoTrace& trace,
                                     const std::vector<Purpose>& purposes) {
  std::vector<std::size_t> inside;
  for (std::size_t a = 0; a < trace.activities.size(); ++a) {
    const std::int64_t launched_ns = launch_ns(trace.activities[a]);
    if (launched_ns >= range.start_ns && launched_ns < range.end_ns) inside.push_back(a);
  }
  const auto of_step = [&](std::size_t a) { return !purposes[a].of_barrier; };
  inside.erase(inside.begin(), std::find_if(inside.begin(), inside.end(), of_step));
  inside.erase(std::find_if(inside.rbegin(), inside.rend(), of_step).base(), inside.end());
  return inside;
}

}  // namespace

std::vector<TraceStep> steps_of(const KinetoTrace& trace) {
  const std::vector<Purpose> purposes = purposes_of(trace);
  std::vector<TraceStep> steps;
  for (const StepRange& range : ranges_of_steps(trace)) {
    TraceStep step{.name = range.name, .activities = {}, .parts = {}, .launched_in = {}, .roles = {}};
    step.start_ns = std::numeric_limits<std::int64_t>::max();
    for (const std::size_t a : launched_in(range, trace, purposes)) {
      const GpuActivity& activity = trace.activities[a];
      step.activities.push_back(a);
      step.parts.push_back(purposes[a].part);
      step.launched_in.push_back(purposes[a].launched_in);
      step.roles.push_back(purposes[a].role);
      step.start_ns = std::min(step.start_ns, activity.start_ns);
      step.end_ns = std::max(step.end_ns, activity.end_ns);
    }
    if (!step.activities.empty()) steps.push_back(std::move(step));
  }
  if (steps.empty()) throw InputError(trace.path, "no step with anything on the GPU", "at least one");
  return steps;
}

std::vector<std::size_t> outside_of_steps(const KinetoTrace& trace, const std::vector<TraceStep>& steps) {
  std::vector<bool> inside(trace.activities.size());
  for (const TraceStep& step : steps) {
    for (const std::size_t a : step.activities) inside[a] = true;
  }
  std::vector<std::size_t> outside;
  for (std::size_t a = 0; a < inside.size(); ++a) {
    if (!inside[a]) outside.push_back(a);
  }
  return outside;
}

bool names_backwards(const KinetoTrace& trace) {
  return std::any_of(trace.calls.begin(), trace.calls.end(), is_of_backward);
}

std::vector<TraceStretch> stretches_of(const KinetoTrace& trace, const TraceStep& step) {
  return Running(trace, step).stretches();
}

std::vector<std::int64_t> parts_of(const KinetoTrace& trace, const TraceStep& step) {
  std::vector<std::int64_t> parts(kTraceParts, 0);
  const auto add = [&](TracePart part, std::int64_t ns) { parts[static_cast<std::size_t>(part)] += ns; };
  for (const TraceStretch& stretch : stretches_of(trace, step)) {
    const std::int64_t ns = stretch.end_ns - stretch.start_ns;
    if (stretch.running) {
      add(step.parts[*stretch.running], ns);
    } else {
      add(TracePart::host, stretch.host_ns);
      add(TracePart::waiting, ns - stretch.host_ns);
    }
  }
  return parts;
}

std::vector<TraceGap> largest_gaps(const KinetoTrace& trace, const TraceStep& step, std::size_t most) {
  std::vector<TraceGap> gaps;
  for (const TraceStretch& stretch : stretches_of(trace, step)) {
    if (!stretch.running)
      gaps.push_back({stretch.start_ns, stretch.end_ns - stretch.start_ns, stretch.host_ns, stretch.next});
  }
  std::stable_sort(gaps.begin(), gaps.end(),
                   [](const auto& a, const auto& b) { return a.duration_ns > b.duration_ns; });
  if (gaps.size() > most) gaps.resize(most);
  return gaps;
}

TracedStep traced_step(KinetoTrace trace, std::optional<std::int64_t> wanted) {
  TracedStep traced{.trace = std::move(trace), .steps = {}};
  traced.steps = steps_of(traced.trace);
  traced.shown = traced.steps.size() - 1;
  if (!wanted) return traced;
  std::string names;
  for (std::size_t s = 0; s < traced.steps.size(); ++s) {
    const std::string& name = traced.steps[s].name;
    const std::string number = name.substr(name.find_first_of("# ") + 1);
    names += (s == 0 ? "" : ", ") + number;
    if (number != std::to_string(*wanted)) continue;
    traced.shown = s;
    return traced;
  }
  throw InputError("--step", std::to_string(*wanted) + " of " + traced.trace.path, names + ", which it has");
}

void check_are_of_one_training(const std::vector<TracedStep>& steps) {
  for (std::size_t s = 1; s < steps.size(); ++s) {
    const KinetoTrace &first = steps.front().trace, &other = steps[s].trace;
    const auto agree = [&](const std::string& what, const std::string& own, const std::string& of_first) {
      if (own != of_first)
        throw InputError(other.path, own.empty() ? "no " + what : what + " " + own,
                         (of_first.empty() ? "none" : of_first) + ", as " + first.path);
    };
    agree("world size", std::to_string(other.world_size), std::to_string(first.world_size));
    agree("NCCL version", other.nccl, first.nccl);
    agree("step", steps[s].step().name, steps.front().step().name);
    for (std::size_t before = 0; before < s; ++before) {
      if (steps[before].trace.rank == other.rank && other.rank >= 0)
        throw InputError(other.path, "rank " + std::to_string(other.rank) + " again",
                         "another rank than " + steps[before].trace.path);
    }
  }
}

}  // namespace pdl
