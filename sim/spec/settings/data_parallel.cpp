// Rounds of accumulation, the exchange of gradients, hosts that sleep, and the scale of a loss.
#include <algorithm>
#include <iterator>

#include "sim/io/error.hpp"
#include "sim/io/words.hpp"
#include "sim/spec/mesh.hpp"
#include "sim/spec/settings/rows.hpp"

namespace pdl::setting_rows {
namespace {

constexpr double kLongestSleepMs = 3'600'000;
constexpr double kBytesPerMib = 1 << 20;
/// Each round is planned by itself (a million of them took minutes and 7.5 GB).
constexpr double kMostRounds = 10'000;

std::int64_t bytes_of_mib(const SettingValue& value, const Range& range) {
  const double mib = number_of(value, range);
  if (mib * kBytesPerMib < 1) throw InputError(value.place, value.value, "a size above 0, in MiB");
  return static_cast<std::int64_t>(mib * kBytesPerMib);
}

std::string mib_text(std::int64_t bytes) {
  return to_text(static_cast<double>(bytes) / kBytesPerMib);
}

std::optional<NoMeaning> beside_no_ddp(const SettingValue& value, const RunSpec& spec) {
  if (spec.strategy == Strategy::ddp) return std::nullopt;
  return no_meaning_with(value, strategy_of(spec));
}

Needs needs_ddp(const SettingValue&) {
  return {{"strategy", "ddp"}};
}

void read_straggler(const SettingValue& value, const Range& range, RunSpec& spec) {
  const std::size_t colon = value.value.find(':');
  if (colon == std::string::npos) throw InputError(value.place, value.value, "RANK:MS, such as 0:20");
  const std::string rank = value.value.substr(0, colon), ms = value.value.substr(colon + 1);
  spec.straggler = Straggler{whole_of({value.name, rank, value.place}, {0, kMillion}),
                             number_of({value.name, ms, value.place}, range)};
}

std::optional<std::string> straggler_text(const RunSpec& spec) {
  if (!spec.straggler) return std::nullopt;
  return std::to_string(spec.straggler->rank) + ":" + to_text(spec.straggler->ms);
}

std::vector<SettingRow> rounds() {
  return {
      {.name = "accum",
       .value_name = "K",
       .help = "gradient accumulation steps: batches whose gradients are added up before the optimizer's step, at most "
               "10,000",
       .usual = "1",
       .values = Values::whole,
       .range = {1, kMostRounds},
       .turn = Turn::amounts,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { spec.accum = whole_of(value, range); },
       .write = [](const RunSpec& spec) { return std::optional(std::to_string(spec.accum)); },
       .written_if_usual = false,
       .in_run_name = [](const RunSpec& spec) { return spec.accum > 1 ? "_accum" + std::to_string(spec.accum) : ""; }},
      {.name = "no-sync",
       .value_name = "0|1",
       .help = "exchange gradients in the last gradient accumulation step only",
       .usual = "0",
       .usual_words = "default 0: in every one",
       .values = Values::on_off,
       .range = {0, 1},
       .turn = Turn::no_sync,
       .read = [](const SettingValue& value, const Range&, RunSpec& spec) { spec.no_sync = is_on(value); },
       .write = [](const RunSpec& spec) { return std::optional(on_off_text(spec.no_sync)); },
       .written_if_usual = false,
       .meaningful = "strategy ddp, pp",
       .no_meaning =
           [](const SettingValue& value, const RunSpec& spec) {
             return spec.no_sync && spec.strategy != Strategy::pp ? beside_no_ddp(value, spec) : std::nullopt;
           },
       .asked = Turn::sleeps,
       .in_run_name = [](const RunSpec& spec) { return std::string(spec.no_sync ? "_nosync" : ""); },
       .needs = needs_ddp},
  };
}

std::vector<SettingRow> buckets() {
  return {
      {.name = "bucket-mb",
       .value_name = "MIB",
       .help = "ddp: size at which a bucket of gradients is full, MiB",
       .usual = "25",
       .values = Values::number,
       .range = {.least = 0, .largest = 1e9, .above_least = true},
       .turn = Turn::buckets,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { spec.bucket_bytes = bytes_of_mib(value, range); },
       .write = [](const RunSpec& spec) { return std::optional(mib_text(spec.bucket_bytes)); },
       .written_if_usual = false,
       .meaningful = "strategy ddp",
       .no_meaning = beside_no_ddp,
       .asked = Turn::buckets,
       .in_run_name =
           [](const RunSpec& spec) {
             return spec.bucket_bytes == RunSpec().bucket_bytes ? "" : "_bucket" + std::to_string(spec.bucket_bytes);
           },
       .needs = needs_ddp},
      {.name = "first-bucket-mb",
       .value_name = "MIB",
       .help = "ddp: the same of the first bucket, MiB",
       .usual = "1",
       .values = Values::number,
       .range = {.least = 0, .largest = 1e9, .above_least = true},
       .turn = Turn::buckets,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { spec.first_bucket_bytes = bytes_of_mib(value, range); },
       .write = [](const RunSpec& spec) { return std::optional(mib_text(spec.first_bucket_bytes)); },
       .written_if_usual = false,
       .meaningful = "strategy ddp",
       .no_meaning = beside_no_ddp,
       .asked = Turn::buckets,
       .in_run_name =
           [](const RunSpec& spec) {
             const std::int64_t bytes = spec.first_bucket_bytes;
             return bytes == RunSpec().first_bucket_bytes ? "" : "_first" + std::to_string(bytes);
           },
       .needs = needs_ddp},
      {.name = "bucket-views",
       .value_name = "0|1",
       .help = "ddp: gradients are views of the buckets, nothing is copied back",
       .usual = "0",
       .values = Values::on_off,
       .range = {0, 1},
       .turn = Turn::buckets,
       .read = [](const SettingValue& value, const Range&, RunSpec& spec) { spec.bucket_views = is_on(value); },
       .write = [](const RunSpec& spec) { return std::optional(on_off_text(spec.bucket_views)); },
       .written_if_usual = false,
       .meaningful = "strategy ddp",
       .no_meaning = beside_no_ddp,
       .asked = Turn::buckets,
       .in_run_name = [](const RunSpec& spec) { return std::string(spec.bucket_views ? "_views" : ""); },
       .needs = needs_ddp},
  };
}

std::vector<SettingRow> scaled_gradients() {
  return {
      {.name = "scale-grads",
       .value_name = "0|1",
       .help = "PyTorch's pipelines: divide gradients by the micro-batches after the last one, not the losses",
       .usual = "0",
       .values = Values::on_off,
       .range = {0, 1},
       .turn = Turn::buckets,
       .read = [](const SettingValue& value, const Range&, RunSpec& spec) { spec.scale_grads = is_on(value); },
       .write = [](const RunSpec& spec) { return std::optional(on_off_text(spec.scale_grads)); },
       .written_if_usual = false,
       .meaningful = "program pytorch, strategy pp",
       .no_meaning = [](const SettingValue& value, const RunSpec& spec) -> std::optional<NoMeaning> {
         if (value.value == "0" || is_pytorch_pipeline(spec)) return std::nullopt;
         return no_meaning_with(value, spec.program == ProgramOf::pytorch ? strategy_of(spec) : "program pdl");
       },
       .asked = Turn::buckets,
       .in_run_name = [](const RunSpec& spec) { return std::string(spec.scale_grads ? "_scaledgrads" : ""); },
       .needs = [](const SettingValue&) -> Needs { return {{"program", "pytorch"}, {"strategy", "pp"}}; }},
  };
}

std::vector<SettingRow> sleeps_and_scale() {
  return {
      {.name = "delay-ms",
       .value_name = "MS",
       .help = "the host sleeps before every backward",
       .usual = "0",
       .values = Values::number,
       .range = {0, kLongestSleepMs},
       .turn = Turn::sleeps,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { spec.delay_ms = number_of(value, range); },
       .write = [](const RunSpec& spec) { return std::optional(spec.delay_ms > 0 ? to_text(spec.delay_ms) : "0"); },
       .written_if_usual = false,
       .in_run_name = [](const RunSpec& spec) { return spec.delay_ms > 0 ? "_delay" + name_text(spec.delay_ms) : ""; }},
      {.name = "straggler",
       .value_name = "RANK:MS",
       .help = "the host of this GPU sleeps at the start of every step",
       .range = {0, kLongestSleepMs},
       .turn = Turn::sleeps,
       .read = read_straggler,
       .write = straggler_text,
       .in_run_name =
           [](const RunSpec& spec) {
             if (!spec.straggler) return std::string();
             return "_straggler" + std::to_string(spec.straggler->rank) + "-" + name_text(spec.straggler->ms);
           },
       .needs = [](const SettingValue& value) -> Needs {
         const std::string rank = value.value.substr(0, value.value.find(':'));
         const std::int64_t gpus = whole_of({value.name, rank, value.place}, {0, kMillion - 1}) + 1;
         return {{"strategy", "ddp"}, {"gpus", std::to_string(gpus)}};
       }},
      {.name = "loss-scale",
       .value_name = "X",
       .help = "amp-fp16: the scale that GradScaler starts with",
       .usual = "65536",
       .values = Values::number,
       .range = {1, 1e30},
       .turn = Turn::loss_scale,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { spec.loss_scale = number_of(value, range); },
       .write = [](const RunSpec& spec) { return std::optional(to_text(spec.loss_scale)); },
       .written_if_usual = false,
       .meaningful = "dtype amp-fp16",
       .no_meaning = [](const SettingValue& value, const RunSpec& spec) -> std::optional<NoMeaning> {
         if (spec.dtype == Dtype::amp_fp16) return std::nullopt;
         return no_meaning_with(value, "dtype " + to_string(spec.dtype));
       },
       .asked = Turn::loss_scale,
       .in_run_name =
           [](const RunSpec& spec) {
             return spec.loss_scale == RunSpec().loss_scale ? "" : "_scale" + name_text(spec.loss_scale);
           },
       .needs = [](const SettingValue&) -> Needs { return {{"dtype", "amp-fp16"}}; }},
  };
}

}  // namespace

std::vector<SettingRow> data_parallel() {
  std::vector<SettingRow> rows;
  for (auto* part : {rounds, buckets, scaled_gradients, sleeps_and_scale})
    std::ranges::move(part(), std::back_inserter(rows));
  return rows;
}

}  // namespace pdl::setting_rows
