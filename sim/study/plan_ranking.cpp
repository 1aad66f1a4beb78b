#include "sim/study/plan_ranking.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>

#include "sim/spec/mesh.hpp"

namespace pdl {
namespace {

using Runs = std::vector<const ValidatedRun*>;

/// What plans of one training have in common: all but schedule, micro-batches and chunks.
std::string model_of(const RunSpec& spec) {
  return (has_model_file(spec) ? spec.model_name : describe_model(spec)) + ", batch " + std::to_string(spec.batch) +
         (spec.accum > 1 ? " x " + std::to_string(spec.accum) + " accumulation steps" : "") + ", " +
         to_string(spec.dtype) + ", " + to_string(spec.optimizer) + ", " + std::to_string(spec.gpus) + " GPUs";
}

std::string machine_of(const ValidatedRun& run) {
  return run.profile_name + "/" + std::filesystem::path(run.path).parent_path().filename().string();
}

/// From 0; equal values share the mean of their places.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (std::size_t i = first; i < end; ++i) ranks[order[i]] = static_cast<double>(first + end - 1) / 2;
    first = end;
  }
  return ranks;
}

PlanRanking ranking_of(const std::string& model, const std::string& machine, const Runs& runs) {
  std::vector<double> predicted, measured;
  for (const ValidatedRun* run : runs) {
    predicted.push_back(run->predicted.step_time.median_ms);
    measured.push_back(run->measured.step_time.median_ms);
  }
  const auto least = [](const std::vector<double>& values) {
    return static_cast<std::size_t>(std::min_element(values.begin(), values.end()) - values.begin());
  };
  const std::size_t named = least(predicted), best = least(measured);
  return {.model = model,
          .machine = machine,
          .plans = runs.size(),
          .correlation = rank_correlation(predicted, measured),
          .named = runs[named]->name,
          .best = runs[best]->name,
          .named_ms = measured[named],
          .best_ms = measured[best]};
}

}  // namespace

std::optional<double> rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = (static_cast<double>(x.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  if (xx == 0 || yy == 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

std::vector<PlanRanking> plan_rankings(const Validation& validation) {
  std::map<std::pair<std::string, std::string>, Runs> groups;
  for (const ValidatedRun& run : validation.runs) {
    const RunSpec& spec = run.measured.spec;
    if (is_pytorch_pipeline(spec)) groups[{model_of(spec), machine_of(run)}].push_back(&run);
  }
  std::vector<PlanRanking> rankings;
  for (const auto& [group, runs] : groups) {
    if (runs.size() > 1) rankings.push_back(ranking_of(group.first, group.second, runs));
  }
  return rankings;
}

}  // namespace pdl
