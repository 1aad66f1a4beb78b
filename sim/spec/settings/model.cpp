// What is trained, on how many samples.
#include <algorithm>
#include <iterator>

#include "sim/spec/presets.hpp"
#include "sim/spec/settings/rows.hpp"

namespace pdl::setting_rows {
namespace {

constexpr double kLargestBatch = 1e9;

bool is_mlp(const RunSpec& spec) {
  return spec.model_name == "mlp";
}

std::optional<NoMeaning> beside_another_model(const SettingValue& value, const RunSpec& spec) {
  return is_mlp(spec) ? std::nullopt : std::optional(of_another_model(value, spec));
}

std::optional<std::string> of_mlp(const RunSpec& spec, std::int64_t number) {
  return is_mlp(spec) ? std::optional(std::to_string(number)) : std::nullopt;
}

/// Which layers, and how wide they are.
std::vector<SettingRow> layers() {
  return {
      {.name = "model",
       .value_name = "mlp|NAME|FILE.json",
       .help = "the model: a stack of Linear+ReLU blocks (--depth, --dim), a transformer (" + preset_names() +
               "), a file of layers (docs/formats-model.md), or a config.json of Hugging Face",
       .usual = "mlp",
       .usual_in_help = false,
       .turn = Turn::model,
       .read = [](const SettingValue& value, const Range&, RunSpec& spec) { spec.model_name = value.value; },
       .write = [](const RunSpec& spec) { return std::optional(spec.model_name); },
       .in_run_name =
           [](const RunSpec& spec) {
             return "_" + (has_model_file(spec) ? name_text(spec.model_name) : spec.model_name);
           },
       .name_place = NamePlace::model},
      {.name = "depth",
       .value_name = "L",
       .help = "number of layers",
       .usual = "8",
       .values = Values::whole,
       .range = {1, kMillion},
       .turn = Turn::model,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { spec.depth = whole_of(value, range); },
       .write = [](const RunSpec& spec) { return of_mlp(spec, spec.depth); },
       .meaningful = "model mlp",
       .no_meaning = beside_another_model,
       .asked = Turn::layers,
       .in_run_name =
           [](const RunSpec& spec) {
             const std::string depth = std::to_string(spec.depth);
             return is_mlp(spec) ? depth : has_model_file(spec) ? "_" + depth + "layers" : "";
           },
       .name_place = NamePlace::model},
      {.name = "dim",
       .value_name = "D",
       .help = "width of every layer",
       .usual = "8192",
       .values = Values::whole,
       .range = {1, kMillion},
       .turn = Turn::model,
       .read = [](const SettingValue& value, const Range& range, RunSpec& spec) { spec.dim = whole_of(value, range); },
       .write = [](const RunSpec& spec) { return of_mlp(spec, spec.dim); },
       .meaningful = "model mlp",
       .no_meaning = beside_another_model,
       .asked = Turn::layers,
       .in_run_name = [](const RunSpec& spec) { return is_mlp(spec) ? "x" + std::to_string(spec.dim) : ""; },
       .name_place = NamePlace::model},
  };
}

/// How many samples, in which slices.
std::vector<SettingRow> samples() {
  return {
      {.name = "batch",
       .value_name = "B",
       .help = "samples of a step (of each gradient accumulation step with --accum), over all GPUs",
       .usual = "2048",
       .usual_words = "default 2048; of a model that takes tokens 8",
       .values = Values::whole,
       .range = {1, kLargestBatch},
       .turn = Turn::amounts,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { spec.batch = whole_of(value, range); },
       .write = [](const RunSpec& spec) { return std::optional(std::to_string(spec.batch)); },
       .in_run_name = [](const RunSpec& spec) { return "_batch" + std::to_string(spec.batch); },
       .name_place = NamePlace::model},
      {.name = "microbatches",
       .value_name = "M",
       .help = "slices of the batch, of a replica's part of it",
       .usual_words = "default 8 for a pipeline over several GPUs, else 1",
       .values = Values::whole,
       .range = {1, kMillion},
       .turn = Turn::amounts,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { spec.microbatches = whole_of(value, range); },
       .write = [](const RunSpec& spec) { return std::optional(std::to_string(spec.microbatches)); },
       .in_run_name = [](const RunSpec& spec) { return "_mb" + std::to_string(spec.microbatches); },
       .name_place = NamePlace::model},
  };
}

}  // namespace

std::vector<SettingRow> model() {
  std::vector<SettingRow> rows;
  for (auto* part : {layers, transformer, samples}) std::ranges::move(part(), std::back_inserter(rows));
  return rows;
}

}  // namespace pdl::setting_rows
