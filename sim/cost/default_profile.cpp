// The profile that is taken where the user names none: the largest host that has measured what all rows of the question
// need. Rows that are compared have one profile; what it lacks is found by pricing, so that there is one list of what a
// plan needs, that of price_by_profile().
//
//   --gpus 4 --pp 1,2,4    h100x4 can price pp 4 alone (no collectives), h200x4 all three: h200x4
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/price.hpp"
#include "sim/io/error.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {
namespace {

/// Specs that differ in sizes only: one of them is priced for all. What a profile lacks is a kind of operation; sizes
/// are extrapolated.
struct Kind {
  Plan plan;
  std::size_t rows = 0;
};

std::string text_of_kind(const RunSpec& spec) {
  const Mesh mesh = resolve(spec).mesh;
  std::string text = mesh.pp > 1 ? "pipeline, " : "";
  text += mesh.dp > 1 ? "replicas, " : "";
  for (const SettingValue& setting : to_settings(spec)) {
    constexpr std::array kSizes = {"depth", "dim", "batch", "microbatches", "gpus", "pp", "dp"};
    if (std::find(kSizes.begin(), kSizes.end(), setting.name) == kSizes.end())
      text += setting.name + " " + setting.value + ", ";
  }
  return text;
}

/// Without the specs that have no plan: they are refused whatever the profile.
std::vector<Kind> kinds_of(std::span<const RunSpec> specs) {
  std::map<std::string, std::optional<Kind>> kinds;
  for (RunSpec spec : specs) {
    const auto [found, added] = kinds.try_emplace(text_of_kind(spec));
    // Before its search "auto" has no order; any that it finds needs no more than one whose backwards are split.
    if (spec.schedule == kAutoSchedule && !spec.schedule_file) {
      spec.schedule = "zb-h1";
      spec.chunks = 1;
    }
    try {
      if (!found->second) found->second = Kind{make_plan(spec), 0};
      ++found->second->rows;
    } catch (const InputError&) {
    } catch (const CannotRun&) {
    }
  }
  std::vector<Kind> plans;
  for (auto& [text, kind] : kinds) {
    if (kind) plans.push_back(std::move(*kind));
  }
  return plans;
}

bool can_price(const CostProfile& profile, const Plan& plan) {
  try {
    const bool on_gpus = profile.host_description.device != "cpu";
    price_by_profile(on_gpus ? plan : make_plan(on_cpu(plan.spec)), profile);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

/// What is beyond what every profile has, for people: "collectives", "collectives and layers in tf32"; or nothing.
/// Every profile has the layers of `mlp`.
std::string needs_text(std::span<const RunSpec> specs) {
  std::vector<std::string> needs;
  const auto add = [&](const std::string& need) {
    if (std::find(needs.begin(), needs.end(), need) == needs.end()) needs.push_back(need);
  };
  for (const RunSpec& spec : specs) {
    const Parallelism parallel = resolve(spec);
    if (parallel.mesh.dp > 1 || is_data_parallel(parallel.program)) add("collectives");
  }
  for (const RunSpec& spec : specs) {
    if (spec.dtype != Dtype::fp32) add("layers in " + to_string(spec.dtype));
  }
  for (const RunSpec& spec : specs) {
    for (const Layer& layer : spec.model.layers) {
      if (layer.kind != linear_relu(1, 1).kind) add("layers of kind " + std::string(layer.kind->name));
    }
  }
  std::string text;
  for (const std::string& need : needs) text += (text.empty() ? "" : " and ") + need;
  return text;
}

/// `priced` of `rows` by the profile taken; `largest`: it is the first by preference.
std::string reason_for(const std::string& needs, std::size_t priced, std::size_t rows, bool largest) {
  const std::string host = "the largest host in data/";
  if (priced == rows)
    return needs.empty() ? host + (largest ? "" : " that has what is asked for") : host + " with " + needs;
  if (priced > 0)
    return "the one in data/ that can predict most rows, " + std::to_string(priced) + " of " + std::to_string(rows);
  return needs.empty() ? host : host + "; none has " + needs;
}

}  // namespace

CostProfile load_default_profile(std::span<const RunSpec> specs) {
  const std::vector<ProfileSummary> all = list_profiles(), profiles = profiles_by_preference(all);
  const std::vector<Kind> kinds = kinds_of(specs);
  std::size_t rows = 0, most = 0;
  for (const Kind& kind : kinds) rows += kind.rows;
  std::optional<CostProfile> best;
  bool largest = true;
  for (const ProfileSummary& candidate : profiles) {
    CostProfile profile = load_profile(candidate.path);
    std::size_t priced = 0;
    for (const Kind& kind : kinds) priced += can_price(profile, kind.plan) ? kind.rows : 0;
    if (best && priced <= most) continue;
    largest = !best;
    best = std::move(profile);
    most = priced;
    if (most == rows) break;
  }
  say_chosen(*best, reason_for(needs_text(specs), most, rows, largest), all);
  return std::move(*best);
}

}  // namespace pdl
