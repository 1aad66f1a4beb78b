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

/// What an activity is for.
struct Purpose {
  TracePart part = TracePart::forward;
  bool of_barrier = false;
};

/// What the calls say in which it was launched, the innermost last. An optimizer is called by a thread of the program,
/// backwards by threads of autograd.
Purpose purpose_within(const std::vector<const HostCall*>& calls) {
  Purpose purpose;
  for (const HostCall* call : calls) {
    if (is_optimizer(*call)) purpose.part = TracePart::optimizer;
    if (is_of_backward(*call) && purpose.part != TracePart::optimizer) purpose.part = TracePart::backward;
    purpose.of_barrier = purpose.of_barrier || is_barrier(*call);
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

/// What runs at a moment, the most important first; then the one that started last.
class Running {
 public:
  Running(const KinetoTrace& trace, const TraceStep& step) : trace_(trace), step_(step) {}

  /// Calls `take(part, from, to, next)` for each stretch; `next`: the activity that ends one in which nothing runs.
  template <typename Take>
  void each(const Take& take) {
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
      if (running.empty()) {
        take(std::nullopt, from, to, step_.activities[begun]);
      } else {
        take(std::optional(most_important(running)), from, to, step_.activities[running.front()]);
      }
    }
  }

 private:
  const GpuActivity& activity(std::size_t place) const { return trace_.activities[step_.activities[place]]; }

  TracePart most_important(const std::vector<std::size_t>& running) const {
    TracePart found = TracePart::waiting;
    int found_rank = 4;
    for (const std::size_t place : running) {
      const TracePart part = step_.parts[place];
      const int rank = part <= TracePart::optimizer ? 1 : part <= TracePart::messages ? 2 : 3;
      if (rank <= found_rank) found = part;
      found_rank = std::min(found_rank, rank);
    }
    return found;
  }

  const KinetoTrace& trace_;
  const TraceStep& step_;
};

/// Of a stretch in which nothing runs: until the call that launched what comes next has returned.
std::int64_t host_part_ns(const GpuActivity& next, std::int64_t from, std::int64_t to) {
  if (!next.is_launch_known()) return 0;
  return std::clamp(next.launch_end_ns, from, to) - from;
}

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
    TraceStep step{.name = range.name, .activities = {}, .parts = {}};
    step.start_ns = std::numeric_limits<std::int64_t>::max();
    for (const std::size_t a : launched_in(range, trace, purposes)) {
      const GpuActivity& activity = trace.activities[a];
      step.activities.push_back(a);
      step.parts.push_back(purposes[a].part);
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

std::vector<std::int64_t> parts_of(const KinetoTrace& trace, const TraceStep& step) {
  std::vector<std::int64_t> parts(kTraceParts, 0);
  const auto add = [&](TracePart part, std::int64_t ns) { parts[static_cast<std::size_t>(part)] += ns; };
  Running(trace, step).each([&](std::optional<TracePart> part, std::int64_t from, std::int64_t to, std::size_t next) {
    if (part) return add(*part, to - from);
    const std::int64_t host_ns = host_part_ns(trace.activities[next], from, to);
    add(TracePart::host, host_ns);
    add(TracePart::waiting, to - from - host_ns);
  });
  return parts;
}

std::vector<TraceGap> largest_gaps(const KinetoTrace& trace, const TraceStep& step, std::size_t most) {
  std::vector<TraceGap> gaps;
  Running(trace, step).each([&](std::optional<TracePart> part, std::int64_t from, std::int64_t to, std::size_t next) {
    if (!part) gaps.push_back({from, to - from, host_part_ns(trace.activities[next], from, to), next});
  });
  std::stable_sort(gaps.begin(), gaps.end(),
                   [](const auto& a, const auto& b) { return a.duration_ns > b.duration_ns; });
  if (gaps.size() > most) gaps.resize(most);
  return gaps;
}

}  // namespace pdl
