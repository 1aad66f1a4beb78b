#include "sim/spec/defaults.hpp"

#include <algorithm>

#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/words.hpp"
#include "sim/spec/cross_checks.hpp"
#include "sim/spec/hugging_face_config.hpp"
#include "sim/spec/mesh.hpp"
#include "sim/spec/presets.hpp"
#include "sim/spec/schedule.hpp"

namespace pdl::setting_words {
namespace {

bool is_path(const std::string& schedule) {
  return schedule.ends_with(".csv") || schedule.find('/') != std::string::npos;
}

/// What was given beside the file must agree with it.
void take_shape_of_file(const Given& given, RunSpec& spec) {
  const ScheduleShape& shape = spec.schedule_file->order.shape;
  const auto take = [&](const char* name, std::int64_t& into, std::int64_t of_file) {
    const SettingValue* s = find(given, name);
    if (s && into != of_file) {
      throw InputError(s->place, s->value + " beside the schedule " + spec.schedule,
                       std::to_string(of_file) + ", as in the schedule");
    }
    into = of_file;
  };
  const SettingValue* s = find(given, "pp") ? find(given, "pp") : find(given, "gpus");
  if (s && pipeline_workers(spec) != shape.workers) {
    throw InputError(s->place, s->value + " beside the schedule " + spec.schedule,
                     std::to_string(shape.workers) + (spec.dp > 1 ? " GPUs a replica" : "") + ", as in the schedule");
  }
  spec.gpus = shape.workers * spec.dp;
  take("chunks", spec.chunks, shape.chunks);
  take("microbatches", spec.microbatches, shape.microbatches);
}

/// A list of layers, or a config.json, which takes some of the settings of a transformer.
void load_model_file(const Given& given, RunSpec& spec) {
  const std::string& path = spec.model_name;
  check_model_is_there(path);
  const nlohmann::json document = read_json_file(path);
  const JsonPlace root(document, path);
  if (is_hugging_face_config(root)) {
    spec.model = read_hugging_face_config(root, spec.transformer);
    spec.model_warnings = warnings_of_hugging_face_config(root, spec.transformer);
    return;
  }
  for (const char* name : {"sequence", "dropout-percent"}) {
    const SettingValue* s = find(given, name);
    if (s) throw InputError(s->place, s->value, "no " + s->name + ": the model comes from " + path);
  }
  spec.model = read_model_file(root);
}

}  // namespace

void fill_in_gpus(const Given& given, RunSpec& spec) {
  const SettingValue* gpus = find(given, "gpus");
  const SettingValue* pp = find(given, "pp");
  const std::int64_t workers = pp ? parse_whole(pp->place, pp->value, 1, INT64_MAX) : 1;
  if (!gpus) spec.gpus = workers * spec.dp;
  check_number_of_gpus(given, spec);
  if (gpus && pp && !find(given, "dp") && spec.gpus % workers == 0) spec.dp = spec.gpus / workers;
  check_mesh(given, spec, workers);
}

void fill_in_strategy(const Given& given, RunSpec& spec) {
  if (find(given, "strategy")) return;
  const bool pipeline = find(given, "schedule") || find(given, "pp") || find(given, "dp") || spec.gpus > 1;
  spec.strategy = pipeline ? Strategy::pp : Strategy::single;
}

void fill_in_schedule(const Given& given, RunSpec& spec) {
  if (find(given, "schedule") || spec.strategy != Strategy::pp) return;
  const SettingValue* workers = find(given, "workers");
  spec.schedule = workers && workers->value == "one" ? "gpipe" : "1f1b";
}

void resolve_schedule(const Given& given, RunSpec& spec) {
  const bool from_path = find(given, "schedule") && is_path(spec.schedule);
  if (from_path && !spec.schedule_file)
    spec.schedule_file = std::make_shared<ScheduleFile>(load_schedule_csv(spec.schedule));
  if (spec.schedule_file) return take_shape_of_file(given, spec);
  if (spec.schedule == kAutoSchedule) return;
  // Beside its program, PyTorch's name of a schedule is one of its names: "ScheduleGPipe", "1F1B".
  const Schedule* of_pytorch = spec.program == ProgramOf::pytorch ? schedule_of_pytorch(spec.schedule) : nullptr;
  if (of_pytorch) spec.schedule = std::string(of_pytorch->name);
  check_schedule_is_known(given, spec);
  if (!find(given, "chunks")) spec.chunks = find_schedule(spec.schedule)->default_chunks;
  check_chunks(given, spec);
}

void fill_in_microbatches(const Given& given, RunSpec& spec) {
  constexpr std::int64_t kOfPipeline = 8;
  if (find(given, "microbatches") || spec.schedule_file) return;
  const Schedule* known = named_schedule(spec);
  if (spec.strategy == Strategy::pp && pipeline_workers(spec) > 1) {
    spec.microbatches = kOfPipeline;
  } else {
    spec.microbatches = known && known->refusal(shape_of(spec, 1)) ? stage_count(spec) : 1;
  }
}

void resolve_model(const Given& given, RunSpec& spec) {
  if (spec.model_name == "mlp") {
    // Textbook costs are those of a stage: the depth does not matter, there must only be a layer for every stage.
    if (spec.synthetic && !find(given, "depth")) spec.depth = std::max(spec.depth, stage_count(spec));
    check_parameters(given, spec);
    spec.model = mlp(spec.depth, spec.dim);
    return;
  }
  if (const Preset* preset = find_preset(spec.model_name)) {
    const TransformerSizes sizes = sizes_of(*preset, spec.transformer);
    check_transformer(given, sizes);
    spec.model = transformer(sizes);
    spec.transformer = settings_of(sizes, spec.transformer.tied);
  } else {
    load_model_file(given, spec);
  }
  if (stage_count(spec) > 1 && is_tied(spec.model)) {
    check_tied(given, spec);
    untie_head(spec.model);
    spec.head_untied = true;
  }
  spec.depth = static_cast<std::int64_t>(spec.model.layers.size());
  spec.dim = width_of(spec.model);
  constexpr std::int64_t kSequences = 8;  // of a thousand tokens and more each
  if (sequence_tokens(spec.model) > 0 && !find(given, "batch")) spec.batch = kSequences;
}

Workers default_workers(const RunSpec& spec) {
  if (spec.strategy == Strategy::ddp) return Workers::process;
  if (spec.strategy == Strategy::pp && spec.program == ProgramOf::pytorch) return Workers::process;
  const bool autograd = is_amp(spec.dtype) || spec.program == ProgramOf::pytorch;
  if (spec.strategy == Strategy::mp || (spec.strategy == Strategy::single && autograd)) return Workers::one;
  return Workers::thread;
}

Transport default_transport(const RunSpec& spec) {
  return spec.strategy == Strategy::ddp || is_pytorch_pipeline(spec) ? Transport::nccl : Transport::copy;
}

void fill_in_batch(const Given& given, RunSpec& spec) {
  if (find(given, "batch") || !spec.synthetic) return;
  const std::int64_t slices = spec.microbatches * replica_count(spec);
  spec.batch = (spec.batch + slices - 1) / slices * slices;
}

}  // namespace pdl::setting_words
