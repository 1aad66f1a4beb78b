// In which order a pipeline works.
#include "sim/spec/schedule.hpp"

#include "sim/spec/mesh.hpp"
#include "sim/spec/settings/rows.hpp"

namespace pdl::setting_rows {
namespace {

std::string schedule_names() {
  std::string names;
  for (const Schedule& schedule : schedules()) names += (names.empty() ? "" : ", ") + std::string(schedule.name);
  return names;
}

bool is_pipeline(const RunSpec& spec) {
  return spec.strategy == Strategy::pp;
}

/// The naive order is that of strategies without schedules too: it may be said beside them.
std::optional<NoMeaning> beside_no_pipeline(const SettingValue& value, const RunSpec& spec) {
  if (is_pipeline(spec) || value.value == "naive") return std::nullopt;
  return NoMeaning{value.value + " with " + strategy_of(spec), "strategy pp, which has schedules"};
}

/// "ZBVZeroBubble", which is a schedule's name beside PyTorch's program alone.
bool is_name_of_pytorch(const std::string& name) {
  return !find_schedule(name) && schedule_of_pytorch(name);
}

/// "-interleaved", "-mine" for mine.csv, "-gpipe-file" for gpipe.csv.
std::string schedule_in_name(const RunSpec& spec) {
  if (!is_pipeline(spec)) return "";
  if (named_schedule(spec) || spec.schedule == kAutoSchedule) return "-" + spec.schedule;
  const std::string stem = name_text(spec.schedule);
  return "-" + stem + (find_schedule(stem) || stem == kAutoSchedule ? "-file" : "");
}

/// "_c4" where it is not the schedule's usual number; a file has its own.
std::string chunks_in_name(const RunSpec& spec) {
  const Schedule* schedule = named_schedule(spec);
  const bool said = is_pipeline(spec) && (schedule || spec.schedule == kAutoSchedule);
  return said && spec.chunks != (schedule ? schedule->default_chunks : 1) ? "_c" + std::to_string(spec.chunks) : "";
}

/// Where steps do what is not usual for the schedule.
std::string overlap_in_name(const RunSpec& spec) {
  const Schedule* schedule = named_schedule(spec);
  const bool usual = schedule && schedule->steps_overlap;
  return steps_overlap(spec) == usual ? "" : usual ? "_barrier" : "_overlap";
}

std::optional<NoMeaning> beside_data_parallel(const SettingValue& value, const RunSpec& spec) {
  return is_data_parallel(spec) ? std::optional(no_meaning_with(value, strategy_of(spec))) : std::nullopt;
}

}  // namespace

std::vector<SettingRow> schedule() {
  return {
      {.name = "schedule",
       .value_name = "NAME|auto|FILE.csv",
       .help = "schedule of a pipeline: " + schedule_names() +
               ", auto (searched), or a file in PyTorch's format; implies --strategy pp",
       .usual_words = "default 1f1b; with --workers one gpipe",
       .turn = Turn::schedule,
       // What it names is looked up once chunks are read: resolve_schedule() (sim/spec/defaults.hpp).
       .read = [](const SettingValue& value, const Range&, RunSpec& spec) { spec.schedule = value.value; },
       .write = [](const RunSpec& spec) { return is_pipeline(spec) ? std::optional(spec.schedule) : std::nullopt; },
       .meaningful = "strategy pp",
       .no_meaning = beside_no_pipeline,
       .asked = Turn::stages,
       .in_run_name = schedule_in_name,
       .name_place = NamePlace::strategy,
       .needs = [](const SettingValue& value) -> Needs {
         if (is_name_of_pytorch(value.value)) return {{"program", "pytorch"}};
         return {};
       },
       .of_pipelines = true},
      {.name = "chunks",
       .value_name = "V",
       .help = "stages of a GPU, for schedules that interleave them",
       .usual_words = "default: 2 for those, else 1",
       .values = Values::whole,
       .range = {1, kMillion},
       .turn = Turn::schedule,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { spec.chunks = whole_of(value, range); },
       .write =
           [](const RunSpec& spec) {
             return is_pipeline(spec) ? std::optional(std::to_string(spec.chunks)) : std::nullopt;
           },
       .meaningful = "schedules that interleave stages",
       .in_run_name = chunks_in_name,
       .name_place = NamePlace::strategy,
       .needs = [](const SettingValue&) -> Needs { return {{"schedule", "interleaved"}}; },
       .of_pipelines = true},
      {.name = "recompute",
       .value_name = "0|1",
       .help =
           "keep only the input of each layer, of a transformer of each block, and run its forward again before its "
           "backward; pdl-run's pipelines: of a whole stage",
       .usual = "0",
       .values = Values::on_off,
       .range = {0, 1},
       .turn = Turn::recompute,
       .read = [](const SettingValue& value, const Range&, RunSpec& spec) { spec.recompute = is_on(value); },
       .write = [](const RunSpec& spec) { return std::optional(on_off_text(spec.recompute)); },
       .written_if_usual = false,
       .meaningful = "one GPU or ddp; a pipeline with a worker a GPU and whole backwards",
       .no_meaning =
           [](const SettingValue& value, const RunSpec& spec) {
             return spec.recompute && spec.strategy == Strategy::dp ? beside_data_parallel(value, spec) : std::nullopt;
           },
       .asked = Turn::overlap,
       .in_run_name = [](const RunSpec& spec) { return std::string(spec.recompute ? "_recompute" : ""); },
       .name_place = NamePlace::recompute},
      {.name = "overlap-steps",
       .value_name = "0|1",
       .help = "no barrier between steps: a step takes the maximum over the GPUs of the time from first task to last",
       .usual_words = "default: zb-h2 1, else 0",
       .values = Values::on_off,
       .range = {0, 1},
       .turn = Turn::overlap,
       .read = [](const SettingValue& value, const Range&, RunSpec& spec) { spec.overlap_steps = is_on(value); },
       .write =
           [](const RunSpec& spec) {
             const bool overlap = steps_overlap(spec);
             return spec.overlap_steps || overlap ? std::optional(on_off_text(overlap)) : std::nullopt;
           },
       .meaningful = "not dp, ddp; a worker a GPU",
       .no_meaning = beside_data_parallel,
       .asked = Turn::totals,
       .in_run_name = overlap_in_name,
       .name_place = NamePlace::last,
       .left_out = [](std::span<const SettingValue>) { return std::string("0"); }},
  };
}

}  // namespace pdl::setting_rows
