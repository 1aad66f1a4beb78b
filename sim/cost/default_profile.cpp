// The profile that is taken where the user names none: the largest host that has measured what all rows of the question
// need. Rows that are compared have one profile; what it lacks is found by pricing, so that there is one list of what a
// plan needs, that of price_by_profile(). On tensor cores a smaller host whose power limit is known goes before one
// whose clocks are not, if it has the GPUs that are asked for.
//
//   --gpus 4 --pp 1,2,4       h100x4 can price pp 4 alone (no collectives), h200x4 all three: h200x4
//   --gpus 2 --dtype tf32     h200x4 can price it, h200x2 can and knows the power limit in TF32: h200x2
#include <algorithm>
#include <array>

#include "sim/cost/kinds_of_specs.hpp"
#include "sim/cost/power_limit.hpp"
#include "sim/cost/price.hpp"
#include "sim/io/error.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {
namespace {

template <typename Value>
void add_new(std::vector<Value>& known, const Value& value) {
  if (std::find(known.begin(), known.end(), value) == known.end()) known.push_back(value);
}

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

bool can_price(const CostProfile& profile, const Plan& plan) {
  try {
    const bool on_gpus = profile.host_description.device != "cpu";
    price_by_profile(on_gpus ? plan : make_plan(on_cpu(plan.spec)), profile);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

/// At which clocks it computes is known wherever cards are at their power limit: on tensor cores.
bool knows_clocks(const CostProfile& profile, const std::vector<Dtype>& dtypes) {
  return std::all_of(dtypes.begin(), dtypes.end(), [&](Dtype dtype) { return PowerLimit(profile, dtype).is_known(); });
}

/// How a profile was taken.
struct Taken {
  std::size_t priced = 0;   // rows
  bool clocks = false;      // knows_clocks()
  bool largest = true;      // it is the first by preference
  bool for_clocks = false;  // a larger host can price as many rows, at clocks that are not known
};

std::string reason_for(const std::string& needs, std::size_t rows, const Taken& taken) {
  const std::string host = "the largest host in data/";
  if (taken.priced == rows) {
    const std::string text =
        needs.empty() ? host + (taken.largest ? "" : " that has what is asked for") : host + " with " + needs;
    return text + (taken.for_clocks ? " whose power limit is known" : "");
  }
  if (taken.priced > 0) {
    return "the one in data/ that can predict most rows, " + std::to_string(taken.priced) + " of " +
           std::to_string(rows);
  }
  return needs.empty() ? host : host + "; none has " + needs;
}

}  // namespace

void KindsOfSpecs::add(RunSpec spec) {
  const Parallelism parallel = resolve(spec);
  most_gpus_ = std::max(most_gpus_, parallel.mesh.gpus());
  collectives_ = collectives_ || parallel.mesh.dp > 1 || is_data_parallel(parallel.program);
  if (spec.dtype != Dtype::fp32) add_new(dtypes_, spec.dtype);
  const LayerKind* const of_mlp = linear_relu(1, 1).kind;
  for (const Layer& layer : spec.model.layers) {
    if (layer.kind->inner || layer.kind->takes_tokens) {
      transformers_ = true;
    } else if (layer.kind != of_mlp && layer.kind->with_activation != of_mlp) {
      add_new(layers_, layer.kind);
    }
  }
  SpecKind& kind = kinds_[text_of_kind(spec)];
  // Before its search "auto" has no order; any that it finds needs no more than one whose backwards are split.
  if (spec.schedule == kAutoSchedule && !spec.schedule_file) {
    spec.schedule = "zb-h1";
    spec.chunks = 1;
  }
  try {
    if (!kind.plan) kind.plan = make_plan(spec);
    ++kind.rows;
  } catch (const InputError&) {
  } catch (const CannotRun&) {
  }
}

std::string KindsOfSpecs::needs_text() const {
  std::vector<std::string> needs;
  if (collectives_) needs.emplace_back("collectives");
  for (const Dtype dtype : dtypes_) needs.push_back("layers in " + to_string(dtype));
  if (transformers_) needs.emplace_back("what transformers are made of");
  for (const LayerKind* kind : layers_) needs.push_back("layers of kind " + std::string(kind->name));
  std::string text;
  for (const std::string& need : needs) text += (text.empty() ? "" : " and ") + need;
  return text;
}

CostProfile load_default_profile(std::span<const RunSpec> specs) {
  KindsOfSpecs kinds;
  for (const RunSpec& spec : specs) kinds.add(spec);
  return load_default_profile(kinds);
}

CostProfile load_default_profile(const KindsOfSpecs& kinds) {
  const std::vector<ProfileSummary> all = list_profiles(), profiles = profiles_by_preference(all);
  std::size_t rows = 0;
  for (const auto& [text, kind] : kinds.all()) rows += kind.rows;
  std::optional<CostProfile> best;
  Taken taken;
  for (const ProfileSummary& candidate : profiles) {
    const bool all_priced = best && taken.priced == rows;
    if (all_priced && candidate.environment.count < kinds.most_gpus()) continue;
    CostProfile profile = load_profile(candidate.path);
    Taken other;
    for (const auto& [text, kind] : kinds.all())
      other.priced += kind.plan && can_price(profile, *kind.plan) ? kind.rows : 0;
    other.clocks = knows_clocks(profile, kinds.dtypes());
    other.for_clocks = all_priced && other.priced == rows && other.clocks;
    other.largest = !best;
    if (best && other.priced <= taken.priced && !other.for_clocks) continue;
    best = std::move(profile);
    taken = other;
    if (taken.priced == rows && taken.clocks) break;
  }
  say_chosen(*best, reason_for(kinds.needs_text(), rows, taken), all);
  return std::move(*best);
}

}  // namespace pdl
