// On how many GPUs, and what each of them has of the model and of the batch.
#include "sim/spec/mesh.hpp"
#include "sim/spec/setting_words.hpp"
#include "sim/spec/settings/rows.hpp"

namespace pdl::setting_rows {
namespace {

/// One of gpus, pp and dp follows from the others: without the number of GPUs, what is left is another run.
std::optional<NoMeaning> beside_other_strategy(const SettingValue& value, const RunSpec& spec) {
  if (spec.strategy == Strategy::pp) return std::nullopt;
  return NoMeaning{value.name + " " + value.value + " with " + strategy_of(spec),
                   "strategy pp (dp and ddp: a replica a GPU, --gpus says how many)", spec.given.contains("gpus")};
}

std::optional<std::string> of_replicas(const RunSpec& spec, std::int64_t number) {
  return spec.dp > 1 ? std::optional(std::to_string(number)) : std::nullopt;
}

}  // namespace

std::vector<SettingRow> mesh() {
  return {
      {.name = "gpus",
       .value_name = "N",
       .help = "number of GPUs",
       .usual = "1",
       .values = Values::whole,
       .range = {1, kMillion},
       .turn = Turn::gpus,
       .read = [](const SettingValue& value, const Range& range, RunSpec& spec) { spec.gpus = whole_of(value, range); },
       .write = [](const RunSpec& spec) { return std::optional(std::to_string(spec.gpus)); },
       .in_run_name = [](const RunSpec& spec) { return "_gpus" + std::to_string(spec.gpus); },
       .name_place = NamePlace::gpus},
      {.name = "pp",
       .value_name = "P",
       .help = "GPUs of one pipeline",
       .usual_words = "default: gpus / dp",
       .values = Values::whole,
       .range = {1, kMillion},
       .turn = Turn::gpus,
       // No field of its own: fill_in_gpus() (sim/spec/defaults.hpp) has gpus and dp agree with it.
       .read = [](const SettingValue& value, const Range& range, RunSpec&) { whole_of(value, range); },
       .write = [](const RunSpec& spec) { return of_replicas(spec, pipeline_workers(spec)); },
       .meaningful = "strategy pp",
       .no_meaning = beside_other_strategy,
       .asked = Turn::schedule,
       .left_out = [](std::span<const SettingValue> row) { return find_setting(row, "gpus")->value; }},
      {.name = "dp",
       .value_name = "R",
       .help = "replicas of the pipeline, whose gradients are averaged",
       .usual_words = "default: gpus / pp",
       .values = Values::whole,
       .range = {1, kMillion},
       .turn = Turn::gpus,
       .read = [](const SettingValue& value, const Range& range, RunSpec& spec) { spec.dp = whole_of(value, range); },
       .write = [](const RunSpec& spec) { return of_replicas(spec, spec.dp); },
       .meaningful = "strategy pp",
       .no_meaning = beside_other_strategy,
       .asked = Turn::schedule,
       .in_run_name = [](const RunSpec& spec) { return spec.dp > 1 ? "_dp" + std::to_string(spec.dp) : ""; },
       .left_out = [](std::span<const SettingValue>) { return std::string("1"); }},
      {.name = "strategy",
       .value_name = setting_words::any_of(setting_words::kStrategies),
       .help = "one GPU, naive layer split in one program, pipeline, nn.DataParallel, or DistributedDataParallel",
       .usual_words = "default: single, or pp",
       .values = Values::word,
       .turn = Turn::strategy,
       .read = [](const SettingValue& value, const Range&,
                  RunSpec& spec) { spec.strategy = setting_words::parse_word(setting_words::kStrategies, value); },
       .write = [](const RunSpec& spec) { return std::optional(to_string(spec.strategy)); },
       .in_run_name = [](const RunSpec& spec) { return to_string(spec.strategy); },
       .name_place = NamePlace::strategy},
  };
}

}  // namespace pdl::setting_rows
