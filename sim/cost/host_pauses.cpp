#include "sim/cost/host_pauses.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace pdl {
namespace {

/// Empty for tasks that do not wait longer after a pause.
std::string operation_of(TaskKind kind) {
  if (kind == TaskKind::forward) return "forward";
  if (kind == TaskKind::backward) return "backward";
  return kind == TaskKind::optimizer ? "optimizer" : "";
}

int unlike(const std::string& dtype, const std::string& wanted) {
  if (dtype == wanted) return 0;
  const bool half = dtype.starts_with("amp"), wants_half = wanted.starts_with("amp");
  return half == wants_half ? 1 : 2;
}

constexpr std::int32_t kOfAnotherStep = -2;

struct Issued {
  std::int64_t end_ns = 0;
  std::int32_t microbatch = kOfAnotherStep;  // parts of one backward are one
};

/// What one host did, as far as it matters for what it issues next.
struct Host {
  std::int64_t now_ns = 0;
  std::int64_t paused_ns = 0;  // just before
  bool slept = false;
  std::array<std::optional<Issued>, kTaskKinds> last = {};  // of each kind
};

}  // namespace

HostPauses::HostPauses(const CostProfile& profile, const std::string& dtype) {
  int nearest = 3;
  for (const MeasuredCurve& measured : profile.of(Probe::pause)) {
    if (measured.key.implementation == "autograd") nearest = std::min(nearest, unlike(measured.key.dtype, dtype));
  }
  std::string found;
  for (const MeasuredCurve& measured : profile.of(Probe::pause)) {
    if (measured.key.implementation != "autograd" || unlike(measured.key.dtype, dtype) > nearest) continue;
    if (found.empty()) found = measured.key.dtype;
    if (measured.key.dtype == found) curves_.push_back(measured);
  }
}

double HostPauses::at(const char* name, TaskKind kind, std::int64_t pause_ns) const {
  const std::string operation = operation_of(kind);
  for (const MeasuredCurve& measured : curves_) {
    if (measured.key.name != name || measured.key.operation != operation) continue;
    const std::int64_t least = measured.curve.least();
    const double shorter = std::min(1.0, static_cast<double>(pause_ns) / static_cast<double>(least));
    return shorter * read(measured.curve, std::clamp(pause_ns, least, measured.curve.largest())).time_ns;
  }
  return 0;
}

std::int64_t HostPauses::delay_ns(TaskKind kind, std::int64_t since_ns, std::int64_t paused_ns, bool slept) const {
  double ns = at("later", kind, since_ns);
  if (paused_ns > 0) ns += std::max(0.0, at(slept ? "after_sleep" : "after_wait", kind, paused_ns) - at("later", kind, paused_ns));
  return std::llround(ns);
}

std::vector<std::int64_t> HostPauses::delays_ns(const TaskGraph& graph, std::span<const TaskCost> costs, std::int64_t step_ns) const {
  std::vector<std::int64_t> delays(graph.tasks.size(), 0);
  std::vector<Host> hosts(graph.hosts);
  // The step before, which ended with a wait until `step_ns`; then the step.
  for (const bool measured : {false, true}) {
    for (TaskId t = 0; t < graph.tasks.size(); ++t) {
      const Task& task = graph.tasks[t];
      Host& host = hosts[task.host];
      const std::int64_t issue_ns = costs[task.work].issue_ns;
      std::optional<Issued>& last = host.last[static_cast<std::size_t>(task.kind)];
      if (task.kind == TaskKind::sleep) {
        host.slept = true;
        host.paused_ns = issue_ns;
        host.now_ns += issue_ns;
        continue;
      }
      if (last && last->microbatch != task.microbatch && !operation_of(task.kind).empty()) {
        const std::int64_t delay_ns = this->delay_ns(task.kind, host.now_ns - last->end_ns, host.paused_ns, host.slept);
        if (measured) delays[t] = delay_ns;
        host.now_ns += delay_ns;
      }
      host.now_ns += issue_ns;
      host.paused_ns = 0;
      host.slept = false;
      last = Issued{host.now_ns, task.microbatch};
    }
    if (measured) break;
    for (Host& host : hosts) {
      host.paused_ns = std::max<std::int64_t>(step_ns - host.now_ns, 0);
      host.now_ns = std::max(step_ns, host.now_ns);
      for (std::optional<Issued>& last : host.last) {
        if (last) last->microbatch = kOfAnotherStep;
      }
    }
  }
  return delays;
}

}  // namespace pdl
