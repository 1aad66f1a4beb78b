// Textbook costs in place of a profile. All of them have a meaning only where tf and tb are given
// (check_costs_are_complete, sim/spec/cross_checks.hpp).
#include "sim/io/error.hpp"
#include "sim/io/words.hpp"
#include "sim/spec/settings/rows.hpp"

namespace pdl::setting_rows {
namespace {

constexpr Range kCosts = {0, kLargestSyntheticCostMs};

SyntheticCosts& costs_of(RunSpec& spec) {
  return spec.synthetic ? *spec.synthetic : spec.synthetic.emplace();
}

double read_cost(const SettingValue& value, const Range& range) {
  const double ms = number_of(value, range);
  if (ms > 0 && ms < 1e-6) throw InputError(value.place, value.value, "0, or at least 0.000001 (one nanosecond)");
  return ms;
}

/// "1", or a value a stage: "1,1,2,1", or "1/1/2/1", which a sweep can tell from a list of its own values.
std::vector<double> read_costs(const SettingValue& value, const Range& range) {
  const bool commas = value.value.find(',') != std::string::npos, slashes = value.value.find('/') != std::string::npos;
  if (commas && slashes)
    throw InputError(value.place, value.value, "the times of the stages with commas between them, or with slashes");
  std::vector<double> costs;
  for (const std::string& text : split_at(value.value, slashes ? '/' : ','))
    costs.push_back(read_cost({value.name, text, value.place}, range));
  return costs;
}

/// "1", or "1,1,2,1".
std::string by_stage(const std::vector<double>& costs) {
  std::string text;
  for (const double ms : costs) text += (text.empty() ? "" : ",") + to_text(ms);
  return text;
}

/// As many GPUs as it has times.
Needs needs_stages(const SettingValue& value) {
  const std::size_t stages = split_at(value.value, '/').size();
  return stages > 1 ? Needs{{"gpus", std::to_string(stages)}} : Needs();
}

}  // namespace

std::vector<SettingRow> synthetic_costs() {
  return {
      {.name = "tf",
       .value_name = "MS|MS,MS...",
       .help = "synthetic cost, milliseconds: forward of one micro-batch on one stage, of which a GPU has as many as "
               "--chunks; a list has one time a stage (1,1,2,1 or 1/1/2/1)",
       .values = Values::cost_by_stage,
       .range = kCosts,
       .turn = Turn::costs,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { costs_of(spec).tf_ms = read_costs(value, range); },
       .write = [](const RunSpec& spec) -> std::optional<std::string> {
         return spec.synthetic ? std::optional(by_stage(spec.synthetic->tf_ms)) : std::nullopt;
       },
       .meaningful = "without a profile",
       .needs = needs_stages},
      {.name = "tb",
       .value_name = "MS|MS,MS...",
       .help = "synthetic cost: the same of the whole backward, or of the input gradient alone if --tw is given",
       .values = Values::cost_by_stage,
       .range = kCosts,
       .turn = Turn::costs,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { costs_of(spec).tb_ms = read_costs(value, range); },
       .write = [](const RunSpec& spec) -> std::optional<std::string> {
         return spec.synthetic ? std::optional(by_stage(spec.synthetic->tb_ms)) : std::nullopt;
       },
       .meaningful = "without a profile",
       .needs = needs_stages},
      {.name = "tw",
       .value_name = "MS|MS,MS...",
       .help = "synthetic cost: the same of the weight gradient",
       .values = Values::cost_by_stage,
       .range = kCosts,
       .turn = Turn::costs,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { costs_of(spec).tw_ms = read_costs(value, range); },
       .write = [](const RunSpec& spec) -> std::optional<std::string> {
         return spec.synthetic && spec.synthetic->tw_ms ? std::optional(by_stage(*spec.synthetic->tw_ms))
                                                        : std::nullopt;
       },
       .meaningful = "with tf and tb",
       .needs = needs_stages},
      {.name = "tcomm",
       .value_name = "MS",
       .help = "synthetic cost: one message between two GPUs, one after the other on the link from one to the other; "
               "one exchange of all parameters or gradients",
       .usual = "0",
       .values = Values::cost,
       .range = kCosts,
       .turn = Turn::costs,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { costs_of(spec).tcomm_ms = read_cost(value, range); },
       .write = [](const RunSpec& spec) -> std::optional<std::string> {
         return spec.synthetic ? std::optional(to_text(spec.synthetic->tcomm_ms)) : std::nullopt;
       },
       .meaningful = "with tf and tb",
       .needs = needs_stages},
  };
}

}  // namespace pdl::setting_rows
