// The sizes of a transformer, beside or in place of what its name says (sim/spec/presets.hpp).
#include <algorithm>
#include <charconv>

#include "sim/spec/presets.hpp"
#include "sim/spec/settings/rows.hpp"

namespace pdl::setting_rows {
namespace {

/// As large as a size of a layer may be (LayerSize::largest).
constexpr double kLargestSize = 1e7;
constexpr double kMostDropoutPercent = 99;

using Size = std::optional<std::int64_t>;

/// What it is for the model of that name, with everything else as in the spec.
TransformerSettings usual_sizes(const RunSpec& spec, Size TransformerSettings::* size) {
  TransformerSettings others = spec.transformer;
  others.*size = std::nullopt;
  return settings_of(sizes_of(*find_preset(spec.model_name), others), std::nullopt);
}

template <Size TransformerSettings::* size>
void read_size(const SettingValue& value, const Range& range, RunSpec& spec) {
  spec.transformer.*size = whole_of(value, range);
}

template <Size TransformerSettings::* size>
std::optional<std::string> write_size(const RunSpec& spec) {
  const Size& number = spec.transformer.*size;
  return number ? std::optional(std::to_string(*number)) : std::nullopt;
}

/// "seq512" -> "_seq512" where it is not what the name says.
template <Size TransformerSettings::* size>
std::string in_name(const RunSpec& spec, const char* word) {
  const Size& number = spec.transformer.*size;
  const bool is_usual = find_preset(spec.model_name) && number == usual_sizes(spec, size).*size;
  return number && !is_usual ? "_" + std::string(word) + std::to_string(*number) : "";
}

std::optional<NoMeaning> beside_no_name(const SettingValue& value, const RunSpec& spec) {
  return find_preset(spec.model_name) ? std::nullopt : std::optional(of_another_model(value, spec));
}

/// A config.json may have them too; other files are refused once they are read.
std::optional<NoMeaning> beside_mlp(const SettingValue& value, const RunSpec& spec) {
  return spec.model_name == "mlp" ? std::optional(of_another_model(value, spec)) : std::nullopt;
}

std::optional<NoMeaning> beside_family(const SettingValue& value, const RunSpec& spec, TransformerFamily family) {
  const Preset* preset = find_preset(spec.model_name);
  if (!preset || preset->published.family != family) return std::nullopt;
  return no_meaning_with(value, "model " + spec.model_name);
}

/// The smallest size of a head that there is: with it as many heads as can be go into a number of features.
constexpr std::int64_t kSmallestHead = 8;

/// 1 where it is no number of that range, which is what the user is told.
std::int64_t number_of_text(const SettingValue& value) {
  std::int64_t number = 0;
  const char *begin = value.value.data(), *end = begin + value.value.size();
  const bool is_number = std::from_chars(begin, end, number).ptr == end;
  return is_number ? std::clamp<std::int64_t>(number, 1, static_cast<std::int64_t>(kLargestSize)) : 1;
}

std::string hidden_of_heads(const SettingValue& value) {
  return std::to_string(std::min(kSmallestHead * number_of_text(value), static_cast<std::int64_t>(kLargestSize)));
}

Needs needs_gpt(const SettingValue&) {
  return {{"model", "gpt"}};
}

Needs needs_llama(const SettingValue&) {
  return {{"model", "llama"}};
}

constexpr const char* kOfTransformers = "a transformer by name";

}  // namespace

std::vector<SettingRow> transformer() {
  using S = TransformerSettings;
  return {
      {.name = "layers",
       .value_name = "L",
       .help = "blocks of a transformer",
       .usual_words = "default: as its name says",
       .values = Values::whole,
       .range = {1, kMillion},
       .turn = Turn::model,
       .read = read_size<&S::layers>,
       .write = write_size<&S::layers>,
       .meaningful = kOfTransformers,
       .no_meaning = beside_no_name,
       .asked = Turn::layers,
       .in_run_name = [](const RunSpec& spec) { return in_name<&S::layers>(spec, "layers"); },
       .name_place = NamePlace::model,
       .needs = needs_gpt},
      {.name = "hidden",
       .value_name = "H",
       .help = "numbers of a token between the blocks of a transformer",
       .usual_words = "default: as its name says",
       .values = Values::whole,
       .range = {1, kLargestSize},
       .turn = Turn::model,
       .read = read_size<&S::hidden>,
       .write = write_size<&S::hidden>,
       .meaningful = kOfTransformers,
       .no_meaning = beside_no_name,
       .asked = Turn::layers,
       .in_run_name = [](const RunSpec& spec) { return in_name<&S::hidden>(spec, "hidden"); },
       .name_place = NamePlace::model,
       .needs = [](const SettingValue& value) -> Needs {
         return {{"model", "gpt"},
                 {"heads", std::to_string(std::max<std::int64_t>(1, number_of_text(value) / kSmallestHead))}};
       }},
      {.name = "heads",
       .value_name = "N",
       .help = "heads of a transformer's attention",
       .usual_words = "default: as its name says",
       .values = Values::whole,
       .range = {1, kLargestSize},
       .turn = Turn::model,
       .read = read_size<&S::heads>,
       .write = write_size<&S::heads>,
       .meaningful = kOfTransformers,
       .no_meaning = beside_no_name,
       .asked = Turn::layers,
       .in_run_name = [](const RunSpec& spec) { return in_name<&S::heads>(spec, "heads"); },
       .name_place = NamePlace::model,
       .needs = [](const SettingValue& value) -> Needs {
         return {{"model", "gpt"}, {"hidden", hidden_of_heads(value)}};
       }},
      {.name = "kv-heads",
       .value_name = "N",
       .help = "heads of keys and values, each of which serves as many heads of queries",
       .usual_words = "default: as its name says, else heads",
       .values = Values::whole,
       .range = {1, kLargestSize},
       .turn = Turn::model,
       .read = read_size<&S::kv_heads>,
       .write = write_size<&S::kv_heads>,
       .meaningful = "a llama by name",
       .no_meaning =
           [](const SettingValue& value, const RunSpec& spec) {
             const auto refusal = beside_no_name(value, spec);
             return refusal ? refusal : beside_family(value, spec, TransformerFamily::gpt);
           },
       .asked = Turn::layers,
       .in_run_name = [](const RunSpec& spec) { return in_name<&S::kv_heads>(spec, "kv"); },
       .name_place = NamePlace::model,
       .needs = [](const SettingValue& value) -> Needs {
         return {{"model", "llama"}, {"heads", value.value}, {"hidden", hidden_of_heads(value)}};
       }},
      {.name = "inner",
       .value_name = "I",
       .help = "numbers of a token inside of a transformer's MLP",
       .usual_words = "default: as its name says; gpt: 4 x hidden, llama: 8/3 x hidden, up to a multiple of 256",
       .values = Values::whole,
       .range = {1, kLargestSize},
       .turn = Turn::model,
       .read = read_size<&S::inner>,
       .write = write_size<&S::inner>,
       .meaningful = kOfTransformers,
       .no_meaning = beside_no_name,
       .asked = Turn::layers,
       .in_run_name = [](const RunSpec& spec) { return in_name<&S::inner>(spec, "inner"); },
       .name_place = NamePlace::model,
       .needs = needs_gpt},
      {.name = "sequence",
       .value_name = "T",
       .help = "tokens of a sample",
       .usual_words = "default 1024; llama 2048",
       .values = Values::whole,
       .range = {1, kLargestSize},
       .turn = Turn::model,
       .read = read_size<&S::sequence>,
       .write = write_size<&S::sequence>,
       .meaningful = "a transformer by name, a config.json",
       .no_meaning = beside_mlp,
       .asked = Turn::layers,
       .in_run_name = [](const RunSpec& spec) { return in_name<&S::sequence>(spec, "seq"); },
       .name_place = NamePlace::model,
       .needs = needs_gpt},
      {.name = "vocabulary",
       .value_name = "V",
       .help = "tokens that there are",
       .usual_words = "default: as its name says; gpt 50304, llama 32000",
       .values = Values::whole,
       .range = {1, kLargestSize},
       .turn = Turn::model,
       .read = read_size<&S::vocabulary>,
       .write = write_size<&S::vocabulary>,
       .meaningful = kOfTransformers,
       .no_meaning = beside_no_name,
       .asked = Turn::layers,
       .in_run_name = [](const RunSpec& spec) { return in_name<&S::vocabulary>(spec, "vocabulary"); },
       .name_place = NamePlace::model,
       .needs = needs_gpt},
      {.name = "dropout-percent",
       .value_name = "P",
       .help = "numbers that dropout sets to 0, of a hundred",
       .usual_words = "default 0; of a config.json what it says",
       .values = Values::whole,
       .range = {0, kMostDropoutPercent},
       .turn = Turn::model,
       .read = read_size<&S::dropout_percent>,
       .write = write_size<&S::dropout_percent>,
       .meaningful = "a gpt by name, a config.json of gpt2",
       .no_meaning =
           [](const SettingValue& value, const RunSpec& spec) {
             const auto refusal = beside_mlp(value, spec);
             return refusal ? refusal : beside_family(value, spec, TransformerFamily::llama);
           },
       .asked = Turn::layers,
       .in_run_name = [](const RunSpec& spec) { return in_name<&S::dropout_percent>(spec, "dropout"); },
       .name_place = NamePlace::model,
       .needs = needs_gpt},
      {.name = "tied",
       .value_name = "0|1",
       .help = "the head has the embedding's weight",
       .usual_words = "default: gpt 1 on one stage, else 0",
       .values = Values::on_off,
       .range = {0, 1},
       .turn = Turn::model,
       .read = [](const SettingValue& value, const Range&, RunSpec& spec) { spec.transformer.tied = is_on(value); },
       .write =
           [](const RunSpec& spec) {
             const auto& tied = spec.transformer.tied;
             return tied ? std::optional(on_off_text(*tied)) : std::nullopt;
           },
       .meaningful = kOfTransformers,
       .no_meaning = beside_no_name,
       .asked = Turn::layers,
       .in_run_name =
           [](const RunSpec& spec) {
             const Preset* preset = find_preset(spec.model_name);
             const auto& tied = spec.transformer.tied;
             if (!preset || !tied || *tied == preset->published.tied) return std::string();
             return std::string(*tied ? "_tied" : "_untied");
           },
       .name_place = NamePlace::model,
       .needs = needs_llama},
  };
}

}  // namespace pdl::setting_rows
