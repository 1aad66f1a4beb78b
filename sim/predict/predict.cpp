#include "sim/predict/predict.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/cost/error_bar.hpp"
#include "sim/cost/hosts_of_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/predict/find_order.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/step_of_plan.hpp"

namespace pdl {
namespace {

nlohmann::json describe_profile(const CostProfile& profile) {
  const Environment& host = profile.host_description;
  nlohmann::json described = {
      {"name", profile.name}, {"device", host.device}, {"card", host.card}, {"count", host.count}, {"date", host.date}};
  if (!profile.chosen_as.empty()) described["chosen_as"] = profile.chosen_as;
  return {{"profile", described}};
}

void check_capacity(const RunResult& result, std::int64_t capacity_bytes, const char* whose) {
  if (capacity_bytes <= 0) return;
  const auto largest = std::max_element(result.peak_memory_bytes.begin(), result.peak_memory_bytes.end());
  if (largest == result.peak_memory_bytes.end() || *largest <= capacity_bytes) return;
  throw OutOfMemory("out of memory: GPU " + std::to_string(largest - result.peak_memory_bytes.begin()) + " needs " +
                        binary_bytes(*largest) + ", " + whose + " " + binary_bytes(capacity_bytes) + " (" +
                        describe(result.spec) + ")",
                    *largest);
}

double in_ms(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

std::string loss_scale_warning(double loss_scale) {
  return "loss-scale " + to_text(loss_scale) +
         ": steps that GradScaler skips are not predicted; this is a step that it does not skip, "
         "the same for every scale";
}

/// On the device and the hosts of the profile, with an order.
RunSpec planned_spec(const RunSpec& asked, LayerFamilies* families, const PredictOptions& options) {
  const CostProfile* profile = asked.synthetic ? nullptr : &families->profile();
  RunSpec spec = asked.synthetic ? asked : on_device_of(asked, profile->host_description);
  if (needs_search(spec)) return with_found_order(spec, families, options.memory_limit_bytes);
  return spec.synthetic ? spec : on_hosts_of_profile(spec, *profile);
}

void check_capacity(const RunResult& result, const CostProfile* profile, const PredictOptions& options) {
  if (options.memory_limit_bytes) {
    check_capacity(result, *options.memory_limit_bytes, "--memory allows");
  } else if (!result.spec.synthetic) {
    check_capacity(result, profile->host_description.memory_capacity_bytes, "its GPU has");
  }
}

const RepeatedRuns* repeated(const MadePlan& made) {
  return made.runs ? &*made.runs : nullptr;
}

/// What the host has to do with the step, and how far off the step may be.
void judge(const MadePlan& made, LayerFamilies& families, const PricedWork& priced, const PredictOptions& options,
           RunResult& result) {
  const SlowHost slow = slow_host(made.plan, families, repeated(made));
  const double usual_ns = 1e6 * result.step_time.median_ms;
  result.host_share = slow.share;
  result.error_bar =
      error_bar(priced.errors, made.plan.graph, priced.costs, std::max(0.0, slow.step_ns / usual_ns - 1));
  if (options.warn_where_host_bound && *result.host_share > kHostBoundShare) {
    result.warnings.push_back(host_bound_warning());
  }
}

}  // namespace

RunResult predict(const RunSpec& asked, const CostProfile* profile, const PredictOptions& options) {
  if (!asked.synthetic && !profile) throw std::logic_error("a prediction needs a profile or synthetic costs");
  std::optional<LayerFamilies> own;
  LayerFamilies* families = asked.synthetic ? nullptr : options.families;
  if (!asked.synthetic && !families) families = &own.emplace(*profile);
  std::optional<PlanMaker> own_plans;
  PlanMaker& plans = options.plans ? *options.plans : own_plans.emplace();
  const MadePlan& made = plans.plan(planned_spec(asked, families, options));
  const Plan& plan = made.plan;
  const RunSpec& spec = plan.spec;
  RunResult result = begin_result(plan);
  if (options.memory_before_prices) {
    result.peak_memory_bytes = predict_memory_bytes(plan, workspaces_of(plan, profile));
    check_capacity(result, profile, options);
  }
  StepOfPlan step = step_of_plan(plan, families, /*with_ideal=*/!options.step_alone, repeated(made));
  result.warnings.insert(result.warnings.end(), step.priced.warnings.begin(), step.priced.warnings.end());
  result.warning_shares = std::move(step.priced.warning_shares);
  if (spec.loss_scale != RunSpec().loss_scale) result.warnings.push_back(loss_scale_warning(spec.loss_scale));
  result.timeline = std::move(step.timeline);
  const std::int64_t whole_ns = step_ns(result.timeline, steps_overlap(spec));
  result.step_time.median_ms = in_ms(whole_ns);
  if (!options.step_alone)
    result.bound_ms = in_ms(steps_overlap(spec) ? step.ideal.longest_worker_ns : step.ideal.last_end_ns);
  result.workspaces = step.workspaces;
  result.peak_memory_bytes = std::move(step.peak_memory_bytes);
  if (!spec.synthetic) result.environment = describe_profile(*profile);
  check_capacity(result, profile, options);
  if (options.step_alone) {
    const bool host_issues = !spec.synthetic && profile->host_description.device != "cpu";
    result.host_share = host_issues ? usual_host_share(plan, step.priced, whole_ns) : 0;
    return result;
  }
  if (options.noise && spec.synthetic) throw InputError("--noise", "costs without a spread", "costs of a profile");
  if (options.noise) result.noise = draw_steps(plan, *families, *options.noise);
  if (!spec.synthetic) judge(made, *families, step.priced, options, result);
  if (result.error_bar && !result.error_bar->probed()) result.probe_command = probe_command(asked, options.samples);
  return result;
}

}  // namespace pdl
