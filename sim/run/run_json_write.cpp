// Writes the JSON of a run: to_json() and write_run() of run_json.hpp. What reads it goes through the keys in the same
// order (run_json.cpp).
#include <algorithm>
#include <array>
#include <ostream>
#include <sstream>
#include <string_view>

#include "sim/io/output_file.hpp"
#include "sim/run/metrics.hpp"
#include "sim/run/run_json.hpp"
#include "sim/run/setting_json.hpp"
#include "sim/run/span_kinds.hpp"

namespace pdl {
namespace {

using nlohmann::ordered_json;

double to_ms(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}
double to_us(std::int64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

ordered_json config_to_json(const RunSpec& spec) {
  ordered_json config = ordered_json::object();
  for (const SettingValue& setting : to_settings(spec)) config[setting.name] = setting_to_json(setting);
  return config;
}

ordered_json model_to_json(const RunSpec& spec, const RunMetrics& metrics) {
  ordered_json model = {{"parameters", metrics.parameters}, {"flops_per_step", metrics.model_flops}};
  if (spec.split.is_auto && !spec.split.layers.empty()) model["split"] = spec.split.layers;
  if (has_model_file(spec)) {
    if (spec.model.loss != Loss::mse) model["loss"] = to_string(spec.model.loss);
    for (const Layer& layer : spec.model.layers) model["layers"].push_back(to_json(layer));
  }
  return model;
}

ordered_json gpu_to_json(const GpuMetrics& gpu, const RunResult& run, std::size_t index) {
  ordered_json out;
  out["layers"] = gpu.layers;
  out["busy_ms"] = to_ms(gpu.busy_ns);
  out["comm_ms"] = to_ms(gpu.comm_ns);
  out["idle_ms"] = to_ms(gpu.idle_ns);
  out["bubble_fraction"] = gpu.bubble_fraction;
  out["peak_memory_bytes"] =
      run.peak_memory_bytes.empty() ? ordered_json() : ordered_json(run.peak_memory_bytes[index]);
  if (!run.live.empty()) {
    out["live_activations"] = run.live[index].count;
    out["live_activation_bytes"] = run.live[index].bytes;
  }
  out["ops"] = gpu.ops;
  return out;
}

ordered_json times_to_json(const std::vector<NamedTime>& times, double step_ms) {
  ordered_json out = ordered_json::array();
  for (const NamedTime& time : times) {
    out.push_back({{"name", time.name}, {"ms", time.ms}, {"share", time.ms / step_ms}});
    if (time.overlaps) out.back()["overlaps"] = true;
  }
  return out;
}

ordered_json workspaces_to_json(const WorkspaceBytes& workspaces) {
  return {{"pipeline_bytes", workspaces.pipeline},
          {"pipeline_split_bytes", workspaces.pipeline_split},
          {"autograd_bytes", workspaces.autograd},
          {"multiprocessors", workspaces.multiprocessors}};
}

ordered_json stage_to_json(const Stage& stage) {
  return {{"gpu", only_worker(stage)},
          {"first_layer", stage.first_layer},
          {"layer_count", stage.layer_count},
          {"replica", stage.replica},
          {"slots", stage.slots},
          {"live_microbatches", stage.live_microbatches}};
}

ordered_json span_to_json(const RunResult& run, const Span& span, bool with_stage) {
  ordered_json out = {{"name", span_name(run, span, with_stage)},
                      {"kind", kSpanKinds[static_cast<std::size_t>(span.kind)]},
                      {"worker", span.worker},
                      {"stage", span.stage},
                      {"microbatch", span.microbatch},
                      {"stream", to_string(span.stream)},
                      {"start_us", to_us(span.start_ns)},
                      {"end_us", to_us(span.end_ns)}};
  if (span.part > 0) out["part"] = span.part;
  return out;
}

ordered_json step_time_to_json(const RunResult& run) {
  const StepTime& time = run.step_time;
  ordered_json out = {{"median", time.median_ms}};
  if (const auto half_width = half_width_ms(run)) out["half_width_90"] = *half_width;
  if (run.noise) {
    out["p10"] = run.noise->p10_ms;
    out["p50"] = run.noise->p50_ms;
    out["p90"] = run.noise->p90_ms;
  }
  if (time.p25_ms) out["p25"] = *time.p25_ms;
  if (time.p75_ms) out["p75"] = *time.p75_ms;
  if (time.n) out["n"] = *time.n;
  return out;
}

ordered_json uncertainty_to_json(const RunResult& run) {
  const ErrorBar& bar = *run.error_bar;
  ordered_json out = {{"half_width_90_percent", bar.half_width_percent},
                      {"probed", bar.probed()},
                      {"unprobed_share", bar.unprobed_share},
                      {"carried_by", ordered_json::array()}};
  for (const ErrorCarrier& carrier : bar.carriers) {
    out["carried_by"].push_back({{"what", carrier.what},
                                 {"share", carrier.share},
                                 {"half_width_90_percent", carrier.half_width_percent},
                                 {"probed", carrier.probed}});
  }
  if (!run.probe_command.empty()) out["command"] = run.probe_command;
  return out;
}

ordered_json step_to_json(const MeasuredStep& step) {
  ordered_json out = {{"step_time_ms", step.step_time_ms}};
  if (step.loss) out["loss"] = *step.loss;
  if (step.warmup) out["warmup"] = true;
  return out;
}

/// The rows of a schedule's file, so that the run can be read without it.
ordered_json schedule_to_json(const ScheduleFile& file) {
  ordered_json rows = ordered_json::array();
  std::string text = to_csv(file);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    rows.push_back(text.substr(begin, end - begin));
    begin = end == std::string::npos ? text.size() : end + 1;
  }
  return rows;
}

/// Everything but the spans, which may be millions: "spans" is an empty list here.
ordered_json without_spans(const RunResult& run, const Explanation* explanation) {
  const RunMetrics metrics = compute_metrics(run);
  ordered_json out;
  out["config"] = config_to_json(run.spec);
  if (run.spec.schedule_file) out["schedule_rows"] = schedule_to_json(*run.spec.schedule_file);
  out["measured"] = run.measured;
  out["step_time_ms"] = step_time_to_json(run);
  if (run.error_bar && !run.measured) out["uncertainty"] = uncertainty_to_json(run);
  if (run.noise) out["noise"] = {{"draws", run.noise->draws}, {"seed", run.noise->seed}};
  for (const MeasuredStep& step : run.steps) out["steps"].push_back(step_to_json(step));
  if (run.bound_ms) out["bound_ms"] = *run.bound_ms;
  out["throughput_samples_per_s"] = metrics.throughput_samples_per_s;
  if (metrics.tokens_per_s) out["throughput_tokens_per_s"] = *metrics.tokens_per_s;
  if (metrics.mfu) out["mfu"] = *metrics.mfu;
  out["bubble_fraction"] = metrics.bubble_fraction;
  out["idle_fraction"] = metrics.idle_fraction;
  out["model"] = model_to_json(run.spec, metrics);
  out["transfers"] = {{"count", metrics.transfer_count}, {"bytes", metrics.transfer_bytes}};
  out["transfers"]["each_bytes"] = run.transfer_bytes;
  out["collectives"] = {{"count", metrics.collective_count}, {"bytes", metrics.collective_bytes}};
  if (!run.collective_bytes.empty()) out["collectives"]["each_bytes"] = run.collective_bytes;
  if (!run.layer_kinds.empty()) out["layer_kinds"] = times_to_json(run.layer_kinds, run.step_time.median_ms);
  if (!run.layer_parts.empty()) out["layer_parts"] = times_to_json(run.layer_parts, run.step_time.median_ms);
  out["gpus"] = ordered_json::array();
  for (std::size_t g = 0; g < metrics.gpus.size(); ++g) out["gpus"].push_back(gpu_to_json(metrics.gpus[g], run, g));
  if (run.workspaces && !run.spec.synthetic) out["workspaces"] = workspaces_to_json(*run.workspaces);
  out["stages"] = ordered_json::array();
  for (const Stage& stage : run.stages) out["stages"].push_back(stage_to_json(stage));
  if (run.replica_rows.size() > 1) out["replica_rows"] = run.replica_rows;
  out["microbatch_rows"] = run.microbatch_rows;
  out["timeline_step_us"] = to_us(run.timeline.step_ns);
  out["spans"] = ordered_json::array();
  out["warnings"] = run.warnings;
  if (!run.warning_shares.empty()) out["warning_shares"] = run.warning_shares;
  out["environment"] = run.environment;
  out["extra"] = run.extra;
  if (explanation) out["explain"] = to_json(*explanation);
  return out;
}

/// A name that is no UTF-8 has replacement characters.
std::string line_of(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

constexpr std::array<std::string_view, 6> kListsByLine = {"gpus",          "stages",      "steps",
                                                          "schedule_rows", "layer_kinds", "layer_parts"};

/// A list of objects has one line each, everything else a line of its own: small files, readable diffs.
void write_list(std::ostream& out, const ordered_json& list) {
  for (std::size_t i = 0; i < list.size(); ++i) out << (i == 0 ? "\n  " : ",\n  ") << line_of(list[i]);
}

void write_json_lines(std::ostream& out, const RunResult& run, const Explanation* explanation) {
  const ordered_json document = without_spans(run, explanation);
  const std::vector<bool> several = holds_several_stages(run);
  bool first = true;
  for (const auto& [key, value] : document.items()) {
    out << (first ? "{\n" : ",\n") << " " << line_of(key) << ": ";
    first = false;
    if (std::find(kListsByLine.begin(), kListsByLine.end(), key) != kListsByLine.end()) {
      out << "[";
      write_list(out, value);
      out << "]";
    } else if (key == "spans") {
      out << "[";
      for (std::size_t i = 0; i < run.timeline.spans.size(); ++i) {
        const Span& span = run.timeline.spans[i];
        out << (i == 0 ? "\n  " : ",\n  ")
            << line_of(span_to_json(run, span, several[static_cast<std::size_t>(span.worker)]));
      }
      out << "]";
    } else {
      out << line_of(value);
    }
  }
  out << "\n}\n";
}

}  // namespace

nlohmann::ordered_json to_json(const RunResult& run, const Explanation* explanation) {
  ordered_json out = without_spans(run, explanation);
  const std::vector<bool> several = holds_several_stages(run);
  for (const Span& span : run.timeline.spans) {
    out["spans"].push_back(span_to_json(run, span, several[static_cast<std::size_t>(span.worker)]));
  }
  return out;
}

std::string run_text(const RunResult& run, const Explanation* explanation) {
  std::ostringstream text;
  write_json_lines(text, run, explanation);
  return std::move(text).str();
}

void write_run(const RunResult& run, const std::string& path, const Explanation* explanation) {
  write_output(path, [&](std::ostream& out) { write_json_lines(out, run, explanation); });
}

}  // namespace pdl
