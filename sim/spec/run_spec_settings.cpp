// A spec back in words: for files, for other programs, for people.
#include "sim/io/words.hpp"
#include "sim/spec/mesh.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {
namespace {

/// "1", or "1,1,2,1".
std::string by_stage(const std::vector<double>& costs) {
  std::string text;
  for (const double ms : costs) text += (text.empty() ? "" : ",") + to_text(ms);
  return text;
}

}  // namespace

std::vector<SettingValue> to_settings(const RunSpec& spec) {
  std::vector<SettingValue> settings;
  const auto add = [&](const char* name, const std::string& value) { settings.push_back({name, value, name}); };
  add("model", spec.model_name);
  if (spec.model_name == "mlp") {
    add("depth", std::to_string(spec.depth));
    add("dim", std::to_string(spec.dim));
  }
  add("batch", std::to_string(spec.batch));
  add("microbatches", std::to_string(spec.microbatches));
  add("gpus", std::to_string(spec.gpus));
  if (spec.dp > 1) {
    add("pp", std::to_string(pipeline_workers(spec)));
    add("dp", std::to_string(spec.dp));
  }
  add("strategy", to_string(spec.strategy));
  if (spec.strategy == Strategy::pp) {
    add("schedule", spec.schedule);
    add("chunks", std::to_string(spec.chunks));
  }
  if (spec.recompute) add("recompute", "1");
  if (spec.overlap_steps || steps_overlap(spec)) add("overlap-steps", steps_overlap(spec) ? "1" : "0");
  add("dtype", to_string(spec.dtype));
  add("optimizer", to_string(spec.optimizer));
  add("transport", to_string(spec.transport));
  add("p2p", to_string(spec.p2p));
  add("workers", to_string(spec.workers));
  const RunSpec usual;
  constexpr double kBytesPerMib = 1 << 20;
  if (spec.accum > 1) add("accum", std::to_string(spec.accum));
  if (spec.no_sync) add("no-sync", "1");
  if (spec.bucket_bytes != usual.bucket_bytes)
    add("bucket-mb", to_text(static_cast<double>(spec.bucket_bytes) / kBytesPerMib));
  if (spec.first_bucket_bytes != usual.first_bucket_bytes)
    add("first-bucket-mb", to_text(static_cast<double>(spec.first_bucket_bytes) / kBytesPerMib));
  if (spec.bucket_views) add("bucket-views", "1");
  if (spec.delay_ms > 0) add("delay-ms", to_text(spec.delay_ms));
  if (spec.straggler) add("straggler", std::to_string(spec.straggler->rank) + ":" + to_text(spec.straggler->ms));
  if (spec.loss_scale != usual.loss_scale) add("loss-scale", to_text(spec.loss_scale));
  if (spec.seed != usual.seed) add("seed", std::to_string(spec.seed));
  if (spec.repeat != usual.repeat) add("repeat", std::to_string(spec.repeat));
  if (spec.hosts > 1) {
    add("hosts", std::to_string(spec.hosts));
    add("network-gb-per-s", to_text(spec.network_gb_per_s));
    add("network-latency-us", to_text(spec.network_latency_us));
  }
  if (spec.synthetic) {
    add("tf", by_stage(spec.synthetic->tf_ms));
    add("tb", by_stage(spec.synthetic->tb_ms));
    if (spec.synthetic->tw_ms) add("tw", by_stage(*spec.synthetic->tw_ms));
    add("tcomm", to_text(spec.synthetic->tcomm_ms));
  }
  return settings;
}

std::string describe(const RunSpec& spec) {
  std::string text = spec.model_name == "mlp" ? "mlp " + std::to_string(spec.depth) + " x " + std::to_string(spec.dim)
                                              : spec.model_name + " (" + std::to_string(spec.depth) + " layers)";
  text += ", batch " + std::to_string(spec.batch);
  if (spec.accum > 1) text += " x " + std::to_string(spec.accum) + " rounds" + (spec.no_sync ? " (no_sync)" : "");
  if (!is_data_parallel(spec))
    text += " in " + std::to_string(spec.microbatches) + " micro-batch" + (spec.microbatches == 1 ? "" : "es");
  if (is_data_parallel(spec) && spec.microbatches > 1)
    text += " in " + std::to_string(spec.microbatches) + " micro-batches";
  text += ", " + to_string(spec.dtype) + ", " + to_string(spec.optimizer) + "; " + to_string(spec.strategy);
  if (spec.strategy == Strategy::pp) text += " " + spec.schedule;
  if (spec.chunks > 1) text += ", " + std::to_string(spec.chunks) + " chunks a GPU";
  if (spec.recompute) text += ", recomputed";
  if (spec.dp > 1) text += ", " + std::to_string(spec.dp) + " replicas of " + std::to_string(pipeline_workers(spec));
  if (spec.chunks > 1 || spec.recompute || spec.dp > 1) text += ",";
  text += " on " + std::to_string(spec.gpus) + (spec.gpus == 1 ? " GPU" : " GPUs");
  if (spec.hosts > 1) text += " of " + std::to_string(spec.hosts) + " hosts";
  if (spec.gpus > 1) text += ", transport " + to_string(spec.transport) + ", workers " + to_string(spec.workers);
  return text;
}

}  // namespace pdl
