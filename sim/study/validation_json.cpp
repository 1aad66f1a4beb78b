// What validation says, as JSON: docs/formats-run.md, "Validation".
#include <filesystem>

#include "sim/study/plan_ranking.hpp"
#include "sim/study/validate.hpp"

namespace pdl {
namespace {

using nlohmann::ordered_json;

template <typename Value>
ordered_json known(const Value& value) {
  return value ? ordered_json(*value) : ordered_json();
}

ordered_json json_of(const ErrorSummary& summary) {
  if (summary.runs == 0) return nullptr;
  ordered_json json = {{"values", summary.runs},
                       {"mean_percent", summary.mean},
                       {"median_percent", summary.median},
                       {"max_percent", summary.max},
                       {"mean_signed_percent", summary.mean_signed}};
  if (summary.inside_noise_share) json["inside_p10_p90_share"] = *summary.inside_noise_share;
  if (!summary.inside_share) return json;
  json["inside_share"] = *summary.inside_share;
  json["median_half_width_90_percent"] = *summary.median_half_width_percent;
  return json;
}

ordered_json json_of(const ValidatedRun& run) {
  const StepTime& time = run.measured.step_time;
  const auto& bar = run.predicted.error_bar;
  ordered_json json = {{"run", std::filesystem::path(run.path).stem().string()},
                       {"path", run.path},
                       {"profile", run.profile_name},
                       {"program", to_string(run.measured.spec.program)},
                       {"measured_ms", time.median_ms},
                       {"measured_p25_ms", known(time.p25_ms)},
                       {"measured_p75_ms", known(time.p75_ms)},
                       {"predicted_ms", run.predicted.step_time.median_ms},
                       {"error_percent", run.error_percent},
                       {"half_width_90_percent", bar ? ordered_json(bar->half_width_percent) : ordered_json()},
                       {"inside", known(run.inside())},
                       {"probed", bar ? ordered_json(bar->probed()) : ordered_json()},
                       {"host_share", run.host_share},
                       {"host_bound", run.host_bound()},
                       {"memory_error_percent", run.memory_error_percent},
                       {"warnings", run.predicted.warnings}};
  if (!run.predicted.noise) return json;
  json["predicted_p10_ms"] = run.predicted.noise->p10_ms;
  json["predicted_p50_ms"] = run.predicted.noise->p50_ms;
  json["predicted_p90_ms"] = run.predicted.noise->p90_ms;
  return json;
}

ordered_json json_of(const PlanRanking& ranking) {
  return {{"model", ranking.model}, {"machine", ranking.machine},
          {"plans", ranking.plans}, {"rank_correlation", known(ranking.correlation)},
          {"named", ranking.named}, {"named_measured_ms", ranking.named_ms},
          {"best", ranking.best},   {"best_measured_ms", ranking.best_ms}};
}

/// `rankings`: those of PyTorch's pipelines too.
ordered_json summaries_of(const Validation& validation, bool rankings) {
  ordered_json json = {{"step_time_error", json_of(validation.step_time())},
                       {"gpu_bound_step_time_error", json_of(validation.step_time(false))},
                       {"host_bound_step_time_error", json_of(validation.step_time(true))},
                       {"probed", json_of(validation.step_time_where(/*probed=*/true))},
                       {"not_probed", json_of(validation.step_time_where(/*probed=*/false))},
                       {"memory_error", json_of(validation.memory())}};
  if (!rankings) return json;
  json["plan_rankings"] = ordered_json::array();
  for (const PlanRanking& ranking : plan_rankings(validation)) json["plan_rankings"].push_back(json_of(ranking));
  return json;
}

}  // namespace

ordered_json validation_json(std::span<const Validation> programs) {
  ordered_json out;
  out["runs"] = ordered_json::array();
  for (const Validation& validation : programs) {
    for (const ValidatedRun& run : validation.runs) out["runs"].push_back(json_of(run));
  }
  if (programs.size() == 1) out.update(summaries_of(programs.front(), false));
  out["programs"] = ordered_json::object();
  for (const Validation& validation : programs) {
    const ProgramOf program = validation.program();
    out["programs"][to_string(program)] = summaries_of(validation, program == ProgramOf::pytorch);
  }
  return out;
}

}  // namespace pdl
