#include "sim/predict/what_if.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "sim/predict/at_power_limit.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/step_of_plan.hpp"
#include "sim/run/metrics.hpp"

namespace pdl {
namespace {

bool is_optimizer_part(TaskKind kind) {
  return kind == TaskKind::optimizer || kind == TaskKind::loss || kind == TaskKind::bucket_copy_in ||
         kind == TaskKind::bucket_copy_out || kind == TaskKind::scale_gradients;
}

bool is_recomputation(TaskKind kind) {
  return kind == TaskKind::recompute;
}

bool is_sleep(TaskKind kind) {
  return kind == TaskKind::sleep;
}

/// What was to be removed is not there.
bool costs_the_same(const PricedWork& a, const PricedWork& b) {
  return a.costs == b.costs && a.step_overhead_ns == b.step_overhead_ns && a.shared.count == b.shared.count &&
         a.shared.kernels == b.shared.kernels && a.shared.launch_latency_ns == b.shared.launch_latency_ns &&
         a.pauses.empty() == b.pauses.empty();
}

PricedWork without_works(const Plan& plan, PricedWork priced, bool (*kind_is)(TaskKind)) {
  for (std::size_t w = 0; w < priced.costs.size(); ++w) {
    if (!kind_is(plan.graph.works[w].kind)) continue;
    priced.costs[w] = {};
    if (!priced.shared.kernels.empty()) priced.shared.kernels[w].clear();
  }
  return priced;
}

PricedWork without_contention(PricedWork priced) {
  priced.shared.count = 0;
  return priced;
}

/// What costs the same where stages are equal: a kind of work, whether it adds to gradients, a number of samples. (The
/// first stage has no input gradient and the last one has the loss: that is imbalance.) Parts of a backward that is cut
/// at the buckets of a stage are of a kind where they have as many layers; whole ones have 0 here.
using StageWork = std::tuple<TaskKind, bool, std::int64_t, std::int32_t>;

std::vector<StageWork> kinds_of_works(const Plan& plan) {
  std::vector<StageWork> kinds;
  for (const Work& work : plan.graph.works) kinds.emplace_back(work.kind, work.accumulate, work.rows, 0);
  if (plan.parallel.program != Program::pytorch_pipeline) return kinds;
  for (const Task& task : plan.graph.tasks) {
    const std::int32_t layers = plan.graph.works[task.work].layer_count;
    const bool cut =
        task.kind == TaskKind::backward && layers < plan.stages[static_cast<std::size_t>(task.stage)].layer_count;
    if (cut) std::get<std::int32_t>(kinds[task.work]) = layers;
  }
  return kinds;
}

PricedWork with_equal_stages(const Plan& plan, PricedWork priced) {
  std::map<StageWork, std::pair<double, double>> sums;  // ns, tasks
  const std::vector<StageWork> kinds = kinds_of_works(plan);
  for (const Task& task : plan.graph.tasks) {
    if (!is_compute(task.kind)) continue;
    auto& [ns, tasks] = sums[kinds[task.work]];
    ns += static_cast<double>(priced.costs[task.work].device_ns);
    tasks += 1;
  }
  for (std::size_t w = 0; w < priced.costs.size(); ++w) {
    if (!is_compute(plan.graph.works[w].kind)) continue;
    const auto sum = sums.find(kinds[w]);
    if (sum == sums.end()) continue;
    TaskCost& cost = priced.costs[w];
    const double mean_ns = sum->second.first / sum->second.second;
    if (!priced.shared.kernels.empty() && cost.device_ns > 0) {
      for (KernelCost& kernel : priced.shared.kernels[w])
        kernel.device_ns =
            std::llround(static_cast<double>(kernel.device_ns) * mean_ns / static_cast<double>(cost.device_ns));
    }
    cost.span_ns += std::llround(mean_ns) - cost.device_ns;
    cost.device_ns = std::llround(mean_ns);
  }
  return priced;
}

PricedWork at_full_clock(const Plan& plan, const CostProfile* profile) {
  if (plan.spec.synthetic) return price_at_full_clock(plan, nullptr);
  LayerFamilies families(*profile);
  return price_at_full_clock(plan, &families);
}

/// At the clock that the cards keep in such a step: one with fewer pauses has a lower one.
PricedWork at_its_clock(const Plan& plan, PricedWork priced) {
  slow_down_layers(priced, slowdown_of_layers(plan, priced));
  return priced;
}

}  // namespace

std::vector<StepWithout> what_if(const RunResult& run, const CostProfile* profile) {
  const Plan plan = make_plan(run.spec);
  const PricedWork priced = at_full_clock(plan, profile);
  std::vector<StepWithout> found;
  const auto add = [&](const char* what, const char* words, const PricedWork& changed) {
    if (costs_the_same(changed, priced)) return;
    const std::int64_t ns = step_ns(run_plan(plan, at_its_clock(plan, changed)), steps_overlap(plan.spec));
    found.push_back({what, words, static_cast<double>(ns) / 1e6});
  };
  const auto add_without = [&](const char* what, const char* words, bool (*kind_is)(TaskKind)) {
    add(what, words, without_works(plan, priced, kind_is));
  };
  add_without("transfers", "Without transfers", is_transfer);
  add_without("collectives", "Without collectives", is_collective);
  const bool host_computes = profile && profile->host_description.device == "cpu";
  if (!run.spec.synthetic && !host_computes) add("host", "With a host that takes no time", without_host(plan, priced));
  add_without("sleep", "Without the sleep", is_sleep);
  add_without("optimizer", "Without the optimizer", is_optimizer_part);
  add_without("recomputation", "Without recomputation", is_recomputation);
  if (has_bubble(run.spec)) add("imbalance", "With equal stages", with_equal_stages(plan, priced));
  add("contention", "Without contention", without_contention(priced));
  const char* ideal =
      run.spec.recompute ? "With forward, backward and recomputation alone" : "With forward and backward alone";
  if (run.bound_ms) found.push_back({"ideal", ideal, *run.bound_ms});
  return found;
}

std::vector<TimeOfTask> times_of_tasks(const RunResult& run, const CostProfile* profile) {
  const Plan plan = make_plan(run.spec);
  const PricedWork priced = at_its_clock(plan, at_full_clock(plan, profile));
  const std::vector<Span>& spans = run.timeline.spans;
  const bool shared = priced.shared.count > 0;
  const Timeline apart = shared ? run_plan(plan, without_contention(priced)) : run.timeline;
  std::vector<TimeOfTask> times(spans.size());
  for (std::size_t i = 0; i < spans.size() && i < plan.graph.tasks.size(); ++i) {
    const Task& task = plan.graph.tasks[i];
    if (is_communication(task.kind) || task.kind == TaskKind::sleep) continue;
    const std::int64_t length_ns = spans[i].end_ns - spans[i].start_ns;
    const std::int64_t apart_ns = apart.spans[i].end_ns - apart.spans[i].start_ns;
    times[i].alone_ns = std::min(length_ns, priced.costs[task.work].device_ns);
    times[i].contention_ns = std::clamp<std::int64_t>(length_ns - apart_ns, 0, length_ns - times[i].alone_ns);
  }
  return times;
}

Explanation explain_prediction(const RunResult& run, const CostProfile* profile) {
  std::optional<Explanation> explanation = explain(run, times_of_tasks(run, profile));
  if (!explanation) throw std::logic_error("a prediction whose spans are not those of its plan");
  explanation->without = what_if(run, profile);
  return *std::move(explanation);
}

}  // namespace pdl
