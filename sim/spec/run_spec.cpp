#include "sim/spec/run_spec.hpp"

#include <algorithm>

#include "sim/spec/mesh.hpp"
#include "sim/spec/presets.hpp"
#include "sim/spec/schedule.hpp"

namespace pdl {

const Schedule* named_schedule(const RunSpec& spec) {
  return spec.schedule_file ? nullptr : find_schedule(spec.schedule);
}

bool steps_overlap(const RunSpec& spec) {
  const Schedule* schedule = named_schedule(spec);
  return spec.overlap_steps.value_or(schedule && schedule->steps_overlap);
}

const SettingValue* find_setting(std::span<const SettingValue> values, const std::string& name) {
  const auto found = std::find_if(values.begin(), values.end(), [&](const SettingValue& s) { return s.name == name; });
  return found == values.end() ? nullptr : &*found;
}

PointToPoint point_to_point_of(Transport transport) {
  return transport == Transport::copy ? PointToPoint::eager : PointToPoint::rendezvous;
}

RunSpec on_cpu(RunSpec spec) {
  const bool by_nccl = spec.strategy == Strategy::ddp || is_pytorch_pipeline(spec);
  if (by_nccl && !spec.given.contains("transport")) spec.transport = Transport::gloo;
  return spec;
}

bool exchanges_in_round(const RunSpec& spec, std::int64_t round) {
  return !spec.no_sync || round + 1 == spec.accum;
}

bool has_model_file(const RunSpec& spec) {
  return spec.model_name != "mlp" && !find_preset(spec.model_name);
}

std::string describe_model(const RunSpec& spec) {
  if (spec.model_name == "mlp") return "mlp " + std::to_string(spec.depth) + " x " + std::to_string(spec.dim);
  const auto sizes = transformer_sizes(spec.model);
  if (!sizes) return spec.model_name + " (" + std::to_string(spec.depth) + " layers)";
  return spec.model_name + " (" + std::to_string(sizes->layers) + (sizes->layers == 1 ? " block" : " blocks") +
         ", hidden " + std::to_string(sizes->hidden) + ", " + std::to_string(sizes->heads) +
         (sizes->heads == 1 ? " head" : " heads") + ", sequence " + std::to_string(sizes->sequence) + ")";
}

std::string to_string(const Split& split) {
  if (split.layers.empty()) return split.is_auto ? kAutoSplit : "";
  std::string text;
  for (const std::int64_t layers : split.layers) text += (text.empty() ? "" : ",") + std::to_string(layers);
  return text;
}

std::string describe(const RunSpec& spec) {
  std::string text = describe_model(spec) + ", batch " + std::to_string(spec.batch);
  if (spec.accum > 1)
    text += " x " + std::to_string(spec.accum) + " gradient accumulation steps" + (spec.no_sync ? " (no_sync)" : "");
  if (!is_data_parallel(spec))
    text += " in " + std::to_string(spec.microbatches) + " micro-batch" + (spec.microbatches == 1 ? "" : "es");
  if (is_data_parallel(spec) && spec.microbatches > 1)
    text += " in " + std::to_string(spec.microbatches) + " micro-batches";
  text += ", " + to_string(spec.dtype) + ", " + to_string(spec.optimizer) + "; " + to_string(spec.strategy);
  if (spec.strategy == Strategy::pp) text += " " + spec.schedule;
  if (spec.chunks > 1) text += ", " + std::to_string(spec.chunks) + " chunks a GPU";
  if (spec.recompute) text += ", recomputed";
  if (spec.dp > 1) text += ", " + std::to_string(spec.dp) + " replicas of " + std::to_string(pipeline_workers(spec));
  const std::string split = to_string(spec.split);
  if (!split.empty()) text += ", split " + split;
  if (spec.chunks > 1 || spec.recompute || spec.dp > 1 || !split.empty()) text += ",";
  text += " on " + std::to_string(spec.gpus) + (spec.gpus == 1 ? " GPU" : " GPUs");
  if (spec.hosts > 1) text += " of " + std::to_string(spec.hosts) + " hosts";
  if (spec.gpus > 1) text += ", transport " + to_string(spec.transport) + ", workers " + to_string(spec.workers);
  if (spec.program == ProgramOf::pytorch) text += ", program pytorch";
  return text;
}

}  // namespace pdl
