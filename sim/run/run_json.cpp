// The JSON of a run: how it is written, and the settings in it. The rest is read by run_json_read.cpp, which goes
// through the keys in the same order.
#include "sim/run/run_json.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <ostream>

#include "sim/io/json_place.hpp"
#include "sim/io/output_file.hpp"
#include "sim/io/words.hpp"
#include "sim/run/metrics.hpp"

namespace pdl {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// In the order of TaskKind.
constexpr std::array<const char*, kTaskKinds> kKinds = {
    "forward",      "backward",      "backward_input",  "backward_weight",  "recompute",       "optimizer",
    "send_forward", "send_backward", "receive_forward", "receive_backward", "all_reduce",      "broadcast",
    "reduce",       "scatter",       "gather",          "bucket_copy_in",   "bucket_copy_out", "loss",
    "sleep"};

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

ordered_json model_to_json(const RunSpec& spec, std::int64_t count) {
  ordered_json model = {{"parameters", count}};
  if (spec.model_name != "mlp") {
    for (const Layer& layer : spec.model.layers) {
      model["layers"].push_back({{"kind", "linear_relu"}, {"in", layer.in_features}, {"out", layer.out_features}});
    }
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

ordered_json stage_to_json(const Stage& stage) {
  return {{"gpu", stage.worker},
          {"first_layer", stage.first_layer},
          {"layer_count", stage.layer_count},
          {"replica", stage.replica},
          {"slots", stage.slots},
          {"live_microbatches", stage.live_microbatches}};
}

ordered_json span_to_json(const RunResult& run, const Span& span, bool with_stage) {
  ordered_json out = {{"name", span_name(run, span, with_stage)},
                      {"kind", kind_word(span.kind)},
                      {"worker", span.worker},
                      {"stage", span.stage},
                      {"microbatch", span.microbatch},
                      {"stream", to_string(span.stream)},
                      {"start_us", to_us(span.start_ns)},
                      {"end_us", to_us(span.end_ns)}};
  if (span.part > 0) out["part"] = span.part;
  return out;
}

ordered_json step_time_to_json(const StepTime& time) {
  ordered_json out = {{"median", time.median_ms}};
  if (time.p25_ms) out["p25"] = *time.p25_ms;
  if (time.p75_ms) out["p75"] = *time.p75_ms;
  if (time.n) out["n"] = *time.n;
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

std::shared_ptr<const ScheduleFile> read_schedule(const JsonPlace& root) {
  if (!root.has("schedule_rows")) return nullptr;
  const JsonPlace rows = root.at("schedule_rows").array();
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) text += rows.at(r).text() + "\n";
  return std::make_shared<ScheduleFile>(parse_schedule_csv(text, rows.name()));
}

/// Everything but the spans, which may be millions: "spans" is an empty list here.
ordered_json without_spans(const RunResult& run) {
  const RunMetrics metrics = compute_metrics(run);
  ordered_json out;
  out["config"] = config_to_json(run.spec);
  if (run.spec.schedule_file) out["schedule_rows"] = schedule_to_json(*run.spec.schedule_file);
  out["measured"] = run.measured;
  out["step_time_ms"] = step_time_to_json(run.step_time);
  for (const MeasuredStep& step : run.steps) out["steps"].push_back(step_to_json(step));
  if (run.bound_ms) out["bound_ms"] = *run.bound_ms;
  out["throughput_samples_per_s"] = metrics.throughput_samples_per_s;
  out["bubble_fraction"] = metrics.bubble_fraction;
  out["idle_fraction"] = metrics.idle_fraction;
  out["model"] = model_to_json(run.spec, metrics.parameters);
  out["transfers"] = {{"count", metrics.transfer_count}, {"bytes", metrics.transfer_bytes}};
  out["transfers"]["each_bytes"] = run.transfer_bytes;
  out["collectives"] = {{"count", metrics.collective_count}, {"bytes", metrics.collective_bytes}};
  if (!run.collective_bytes.empty()) out["collectives"]["each_bytes"] = run.collective_bytes;
  out["gpus"] = ordered_json::array();
  for (std::size_t g = 0; g < metrics.gpus.size(); ++g) out["gpus"].push_back(gpu_to_json(metrics.gpus[g], run, g));
  out["stages"] = ordered_json::array();
  for (const Stage& stage : run.stages) out["stages"].push_back(stage_to_json(stage));
  if (run.replica_rows.size() > 1) out["replica_rows"] = run.replica_rows;
  out["microbatch_rows"] = run.microbatch_rows;
  out["timeline_step_us"] = to_us(run.timeline.step_ns);
  out["spans"] = ordered_json::array();
  out["warnings"] = run.warnings;
  out["environment"] = run.environment;
  out["extra"] = run.extra;
  return out;
}

/// A name that is no UTF-8 has replacement characters.
std::string line_of(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// A list of objects has one line each, everything else a line of its own: small files, readable diffs.
void write_list(std::ostream& out, const ordered_json& list) {
  for (std::size_t i = 0; i < list.size(); ++i) out << (i == 0 ? "\n  " : ",\n  ") << line_of(list[i]);
}

void write_json_lines(std::ostream& out, const RunResult& run) {
  const ordered_json document = without_spans(run);
  const std::vector<bool> several = holds_several_stages(run);
  bool first = true;
  for (const auto& [key, value] : document.items()) {
    out << (first ? "{\n" : ",\n") << " " << line_of(key) << ": ";
    first = false;
    if (key == "gpus" || key == "stages" || key == "steps" || key == "schedule_rows") {
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

/// None if the text is not exactly what a number prints as.
std::optional<ordered_json> number_to_json(const std::string& text) {
  const char* end = text.data() + text.size();
  std::int64_t whole = 0;
  if (std::from_chars(text.data(), end, whole).ptr == end && std::to_string(whole) == text) return whole;
  double number = 0;
  const bool read = std::from_chars(text.data(), end, number).ptr == end && std::isfinite(number);
  return read && to_text(number) == text ? std::optional<ordered_json>(number) : std::nullopt;
}

bool has_value_a_stage(const std::string& name) {
  const auto infos = setting_infos();
  return std::any_of(infos.begin(), infos.end(),
                     [&](const SettingInfo& info) { return info.name == name && info.by_stage; });
}

std::string number_text(const JsonPlace& place, const char* expected) {
  if (!place.json().is_number()) place.refuse(expected);
  return place.json().is_number_float() ? to_text(place.json().get<double>()) : place.json().dump();
}

}  // namespace

RunSpec read_spec(const JsonPlace& root) {
  const JsonPlace config = root.at("config").object();
  const bool file_model = config.at("model").text() != "mlp";
  std::vector<SettingValue> settings;
  for (const auto& [key, value] : config.json().items()) {
    if (!(file_model && key == "model")) settings.push_back(read_setting(key, config.at(key)));
  }
  const auto schedule = read_schedule(root);
  const auto of_run = [&] {  // its hosts are known, though one is not written
    RunSpec spec = parse_run_spec(settings, schedule);
    spec.hosts_given = true;
    spec.network_given = false;  // every run of several hosts has one
    return spec;
  };
  if (!file_model) return of_run();
  // The layers of a model file are in the run: the file itself need not be here.
  const JsonPlace layers = root.at("model").at("layers");
  Model model = read_layers(layers);
  settings.push_back({"depth", std::to_string(model.layers.size()), layers.name()});
  settings.push_back({"dim", std::to_string(model.layers.front().in_features), layers.name()});
  RunSpec spec = of_run();
  spec.model_name = config.at("model").text();
  spec.model = std::move(model);
  return spec;
}

ordered_json setting_to_json(const SettingValue& setting) {
  const std::vector<std::string> parts = split_at(setting.value, ',');
  if (parts.size() == 1 || !has_value_a_stage(setting.name))
    return number_to_json(setting.value).value_or(setting.value);
  ordered_json list = ordered_json::array();
  for (const std::string& part : parts) list.push_back(number_to_json(part).value_or(part));
  return list;
}

SettingValue read_setting(const std::string& name, const JsonPlace& place) {
  if (place.json().is_string()) return {name, place.text(), place.name()};
  if (!place.json().is_array() || !has_value_a_stage(name))
    return {name, number_text(place, "text or a number"), place.name()};
  std::string text;
  for (std::size_t i = 0; i < place.size(); ++i) text += (i == 0 ? "" : ",") + number_text(place.at(i), "a number");
  if (text.empty()) place.refuse("at least one number");
  return {name, text, place.name()};
}

std::string kind_word(TaskKind kind) {
  return kKinds[static_cast<std::size_t>(kind)];
}

nlohmann::ordered_json to_json(const RunResult& run) {
  ordered_json out = without_spans(run);
  const std::vector<bool> several = holds_several_stages(run);
  for (const Span& span : run.timeline.spans) {
    out["spans"].push_back(span_to_json(run, span, several[static_cast<std::size_t>(span.worker)]));
  }
  return out;
}

void write_run(const RunResult& run, const std::string& path) {
  write_output(path, [&](std::ostream& out) { write_json_lines(out, run); });
}

}  // namespace pdl
