// Reads the JSON of a run: run_from_json() and read_run() of run_json.hpp. What writes it: run_json_write.cpp.
#include "sim/run/run_json.hpp"

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/environment.hpp"
#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/words.hpp"
#include "sim/run/setting_json.hpp"
#include "sim/run/span_kinds.hpp"
#include "sim/spec/mesh.hpp"
#include "sim/spec/settings.hpp"
#include "sim/spec/stage_layers.hpp"

namespace pdl {
namespace {

constexpr double kLargestMs = 1e13;
constexpr double kLargestUs = 1e16;
constexpr double kLargestPercent = 1e9;
constexpr double kLargestLoss = 1e38;  // of a float
constexpr std::int64_t kLargestBytes = std::int64_t{1} << 62;

std::shared_ptr<const ScheduleFile> read_schedule(const JsonPlace& root) {
  if (!root.has("schedule_rows")) return nullptr;
  const JsonPlace rows = root.at("schedule_rows").array();
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) text += rows.at(r).text() + "\n";
  return std::make_shared<ScheduleFile>(parse_schedule_csv(text, rows.name()));
}

RunSpec read_spec(const JsonPlace& root) {
  const JsonPlace config = root.at("config").object();
  RunSpec named;
  named.model_name = config.at("model").text();
  const bool file_model = has_model_file(named);
  std::vector<SettingValue> settings;
  for (const auto& [key, value] : config.json().items()) {
    const SettingValue setting = read_setting(key, config.at(key));
    const SettingRow* row = find_row(key);
    const bool of_file = row && file_model && (is_of_model(*row) || key == "split");
    if (!of_file) settings.push_back(setting);
    if (of_file && key != "model") row->read(setting, row->range, named);
  }
  const auto schedule = read_schedule(root);
  const auto of_run = [&] {  // its hosts are known, though one is not written
    RunSpec spec = parse_run_spec(settings, schedule);
    spec.given.insert("hosts");
    for (const char* name : {"network-gb-per-s", "network-latency-us"})  // every run of several hosts has one
      spec.given.erase(name);
    return spec;
  };
  if (!file_model) return of_run();
  // The layers of a model file are in the run: the file itself need not be here.
  const JsonPlace place = root.at("model");
  Model model = read_model(place);
  const std::string layers = place.at("layers").name();
  settings.push_back({"depth", std::to_string(model.layers.size()), layers});
  settings.push_back({"dim", std::to_string(width_of(model)), layers});
  RunSpec spec = of_run();
  spec.model_name = named.model_name;
  spec.model = std::move(model);
  spec.transformer = named.transformer;
  spec.split = named.split;
  if (const auto refusal = split_refusal(spec.split, spec.model, stage_count(spec)))
    throw InputError(config.at("split").name(), refusal->found, refusal->expected);
  return spec;
}

StepTime read_step_time(const JsonPlace& place) {
  StepTime time;
  time.median_ms = place.at("median").number(0, kLargestMs);
  if (time.median_ms == 0) place.at("median").refuse("a time above 0");
  if (place.has("p25")) time.p25_ms = place.at("p25").number(0, time.median_ms);
  if (place.has("p75")) time.p75_ms = place.at("p75").number(time.median_ms, kLargestMs);
  if (place.has("n")) time.n = place.at("n").whole(1, INT64_MAX);
  return time;
}

/// Warm-up steps are the first ones.
std::vector<MeasuredStep> read_steps(const JsonPlace& root, bool measured) {
  std::vector<MeasuredStep> steps;
  if (!root.has("steps")) return steps;
  if (!measured) root.at("steps").refuse("none: a predicted run has no steps that were measured");
  const JsonPlace list = root.at("steps").array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonPlace in = list.at(i);
    MeasuredStep step{in.at("step_time_ms").number(0, kLargestMs), std::nullopt, false};
    if (step.step_time_ms == 0) in.at("step_time_ms").refuse("a time above 0");
    if (in.has("loss")) step.loss = in.at("loss").number(-kLargestLoss, kLargestLoss);
    if (in.has("warmup")) step.warmup = in.at("warmup").boolean();
    if (step.warmup && !steps.empty() && !steps.back().warmup)
      in.at("warmup").refuse("false: a step before it is not of the warm-up");
    steps.push_back(step);
  }
  return steps;
}

std::vector<Stage> read_stages(const JsonPlace& place, const RunSpec& spec) {
  const std::int64_t depth = static_cast<std::int64_t>(spec.model.layers.size());
  std::vector<Stage> stages;
  std::int64_t next_layer = 0;
  for (std::size_t i = 0; i < place.array().size(); ++i) {
    const JsonPlace in = place.at(i);
    Stage stage;
    if (in.has("replica")) {
      const std::int64_t now = stages.empty() ? 0 : stages.back().replica;
      stage.replica = static_cast<std::int32_t>(in.at("replica").whole(now, now + (next_layer == depth ? 1 : 0)));
      if (stage.replica > now) next_layer = 0;
    }
    stage.workers = {static_cast<std::int32_t>(in.at("gpu").whole(0, spec.gpus - 1))};
    stage.first_layer = static_cast<std::int32_t>(in.at("first_layer").whole(next_layer, next_layer));
    stage.layer_count = static_cast<std::int32_t>(in.at("layer_count").whole(1, depth - next_layer));
    stage.slots = static_cast<std::int32_t>(in.at("slots").whole(1, INT32_MAX));
    stage.live_microbatches = static_cast<std::int32_t>(in.at("live_microbatches").whole(0, INT32_MAX));
    next_layer += stage.layer_count;
    stages.push_back(stage);
  }
  if (next_layer != depth) {
    throw InputError(place.name(), std::to_string(next_layer) + " layers in all",
                     std::to_string(depth) + ", the depth");
  }
  const std::int64_t replicas = resolve(spec).mesh.dp;
  if (stages.back().replica + 1 != replicas) {
    throw InputError(place.name(), std::to_string(stages.back().replica + 1) + " replicas",
                     std::to_string(replicas) + ", as in config");
  }
  return stages;
}

/// The numbers of `--split auto` are those of the stages.
void take_found_split(RunResult& run) {
  for (const Stage& stage : run.stages) {
    if (stage.replica == 0) run.spec.split.layers.push_back(stage.layer_count);
  }
}

/// Samples that add up to `sum`, each at least `least`.
std::vector<std::int64_t> read_rows(const JsonPlace& place, std::int64_t sum, std::int64_t least, const char* what) {
  std::vector<std::int64_t> rows;
  std::int64_t left = sum;
  for (std::size_t i = 0; i < place.array().size(); ++i) {
    rows.push_back(place.at(i).whole(least, left));
    left -= rows.back();
  }
  if (left != 0)
    throw InputError(place.name(), std::to_string(sum - left) + " samples in all", std::to_string(sum) + ", " + what);
  return rows;
}

std::vector<std::int64_t> read_replica_rows(const JsonPlace& root, const RunSpec& spec) {
  const std::int64_t replicas = resolve(spec).mesh.dp;
  if (replicas == 1) return {spec.batch};
  const JsonPlace place = root.at("replica_rows");
  const std::vector<std::int64_t> rows = read_rows(place, spec.batch, 0, "the batch");
  if (static_cast<std::int64_t>(rows.size()) != replicas) {
    throw InputError(place.name(), std::to_string(rows.size()) + " replicas",
                     std::to_string(replicas) + ", as in config");
  }
  return rows;
}

/// Transfers or collectives.
std::vector<std::int64_t> read_bytes(const JsonPlace& place) {
  if (!place.has("each_bytes")) {  // none
    place.at("count").whole(0, 0);
    place.at("bytes").whole(0, 0);
    return {};
  }
  const JsonPlace each = place.at("each_bytes").array();
  std::vector<std::int64_t> bytes;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < each.size(); ++i) {
    bytes.push_back(each.at(i).whole(0, kLargestBytes - sum));
    sum += bytes.back();
  }
  const auto count = static_cast<std::int64_t>(bytes.size());
  place.at("count").whole(count, count);
  place.at("bytes").whole(sum, sum);
  return bytes;
}

std::vector<std::int64_t> read_memory(const JsonPlace& gpus, const RunSpec& spec) {
  if (static_cast<std::int64_t>(gpus.array().size()) != spec.gpus) {
    throw InputError(gpus.name(), std::to_string(gpus.size()) + " GPUs", std::to_string(spec.gpus) + ", as in config");
  }
  std::vector<std::int64_t> bytes;
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    const JsonPlace peak = gpus.at(g).at("peak_memory_bytes");
    if (!peak.json().is_null()) bytes.push_back(peak.whole(0, kLargestBytes));
  }
  if (!bytes.empty() && bytes.size() != gpus.size()) {
    throw InputError(gpus.name(), "peak_memory_bytes of " + std::to_string(bytes.size()) + " GPUs only",
                     "that of every GPU or of none");
  }
  return bytes;
}

std::vector<LiveActivations> read_live(const JsonPlace& gpus) {
  std::vector<LiveActivations> live;
  for (std::size_t g = 0; g < gpus.array().size(); ++g) {
    const JsonPlace gpu = gpus.at(g);
    if (!gpu.has("live_activations")) return {};
    live.push_back({static_cast<std::int32_t>(gpu.at("live_activations").whole(0, INT32_MAX)),
                    gpu.at("live_activation_bytes").whole(0, kLargestBytes)});
  }
  return live;
}

/// Of predictions; older ones and those whose errors are not known have none. Its milliseconds are computed from it.
std::optional<ErrorBar> read_error_bar(const JsonPlace& root, bool measured) {
  if (!root.has("uncertainty")) return std::nullopt;
  const JsonPlace place = root.at("uncertainty").object();
  if (measured) place.refuse("none: a measured run has no error bar of a prediction");
  ErrorBar bar{
      place.at("half_width_90_percent").number(0, kLargestPercent), place.at("unprobed_share").number(0, 1), {}};
  const JsonPlace carriers = place.at("carried_by").array();
  for (std::size_t i = 0; i < carriers.size(); ++i) {
    const JsonPlace in = carriers.at(i).object();
    bar.carriers.push_back({in.at("what").text(), in.at("share").number(0, 1),
                            in.at("half_width_90_percent").number(0, kLargestPercent), in.at("probed").boolean()});
  }
  return bar;
}

/// Of predictions by a profile; older ones have none, and a measured run does not know them. Their shares are computed
/// from them.
std::vector<NamedTime> read_times(const JsonPlace& root, const char* key, bool measured) {
  std::vector<NamedTime> times;
  if (measured || !root.has(key)) return times;
  const JsonPlace list = root.at(key).array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonPlace in = list.at(i).object();
    NamedTime& time = times.emplace_back();
    time.name = in.at("name").text();
    time.ms = in.at("ms").number(0, kLargestMs);
    if (in.has("overlaps")) time.overlaps = in.at("overlaps").boolean();
  }
  return times;
}

/// Of predictions with --noise.
std::optional<StepDistribution> read_noise(const JsonPlace& root, bool measured) {
  if (!root.has("noise")) return std::nullopt;
  const JsonPlace place = root.at("noise").object();
  if (measured) place.refuse("none: the steps of a measured run are not drawn");
  const JsonPlace time = root.at("step_time_ms");
  const StepDistribution noise{place.at("draws").whole(1, INT64_MAX), place.at("seed").whole(0, INT64_MAX),
                               time.at("p10").number(0, kLargestMs), time.at("p50").number(0, kLargestMs),
                               time.at("p90").number(0, kLargestMs)};
  if (noise.p10_ms > noise.p50_ms || noise.p50_ms > noise.p90_ms) time.refuse("p10, p50 and p90 in ascending order");
  return noise;
}

std::string read_probe_command(const JsonPlace& root) {
  const bool has_one = root.has("uncertainty") && root.at("uncertainty").has("command");
  return has_one ? root.at("uncertainty").at("command").text() : "";
}

/// Of predictions. There are none where costs are synthetic; files of older versions do not say them.
std::optional<WorkspaceBytes> read_workspaces(const JsonPlace& root, const RunResult& run) {
  if (run.spec.synthetic && !run.measured) return WorkspaceBytes{};
  if (!root.has("workspaces")) return std::nullopt;
  const JsonPlace place = root.at("workspaces").object();
  const auto whole = [&](const char* key) { return place.at(key).whole(0, kLargestBytes); };
  return WorkspaceBytes{whole("pipeline_bytes"), whole("pipeline_split_bytes"), whole("autograd_bytes"),
                        whole("multiprocessors")};
}

TaskKind read_kind(const JsonPlace& place) {
  const std::string text = place.text();
  for (std::size_t k = 0; k < kSpanKinds.size(); ++k) {
    if (text == kSpanKinds[k]) return static_cast<TaskKind>(k);
  }
  place.refuse("forward, backward, optimizer, send_forward, ... (docs/formats-run.md)");
}

StreamRole read_stream(const JsonPlace& place) {
  const std::string text = place.text();
  for (int role = 0; role <= static_cast<int>(StreamRole::none); ++role) {
    if (text == to_string(static_cast<StreamRole>(role))) return static_cast<StreamRole>(role);
  }
  place.refuse("compute, send forward, ... (docs/formats-run.md)");
}

std::int64_t read_us(const JsonPlace& place, std::int64_t least_ns, std::int64_t largest_ns) {
  return std::llround(place.number(static_cast<double>(least_ns) / 1e3, static_cast<double>(largest_ns) / 1e3) * 1e3);
}

/// The recorded step of a measured run is one of its steps. On a busy host it may be several times their median; not in
/// another unit.
void check_recorded_step(const JsonPlace& root, const RunResult& run, double recorded_ms) {
  constexpr double kFar = 300;
  const double median_ms = run.step_time.median_ms;
  if (!run.measured || (recorded_ms < kFar * median_ms && median_ms < kFar * recorded_ms)) return;
  root.at("timeline_step_us")
      .refuse("a step of some " + to_text(median_ms) + " ms, as step_time_ms.median has it (another unit?)");
}

/// What reports read of a measured run's `extra`.
void check_extra(const JsonPlace& extra) {
  if (extra.has("skipped_steps")) extra.at("skipped_steps").whole(0, INT64_MAX);
  for (std::size_t i = 0; extra.has("warmup_ms") && i < extra.at("warmup_ms").array().size(); ++i)
    extra.at("warmup_ms").at(i).number(0, kLargestMs);
}

Timeline read_timeline(const JsonPlace& root, const RunResult& run) {
  Timeline timeline;
  timeline.workers = static_cast<std::int32_t>(run.spec.gpus);
  timeline.stages = static_cast<std::int32_t>(run.stages.size());
  timeline.step_ns = std::llround(root.at("timeline_step_us").number(0, kLargestUs) * 1e3);
  if (timeline.step_ns == 0) root.at("timeline_step_us").refuse("a time above 0");
  check_recorded_step(root, run, static_cast<double>(timeline.step_ns) / 1e6);
  const JsonPlace spans = root.at("spans").array();
  if (spans.size() == 0) spans.refuse("at least one span");
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const JsonPlace in = spans.at(i);
    Span span;
    span.kind = read_kind(in.at("kind"));
    span.stream = read_stream(in.at("stream"));
    span.worker = static_cast<std::int32_t>(in.at("worker").whole(0, timeline.workers - 1));
    span.stage = static_cast<std::int32_t>(in.at("stage").whole(0, timeline.stages - 1));
    span.microbatch = static_cast<std::int32_t>(
        in.at("microbatch").whole(-1, static_cast<std::int64_t>(run.microbatch_rows.size()) - 1));
    if (in.has("part")) span.part = static_cast<std::uint16_t>(in.at("part").whole(0, UINT16_MAX));
    span.start_ns = read_us(in.at("start_us"), 0, timeline.step_ns);
    span.end_ns = read_us(in.at("end_us"), span.start_ns, timeline.step_ns);
    timeline.spans.push_back(span);
  }
  return timeline;
}

std::vector<std::string> read_warnings(const JsonPlace& place) {
  std::vector<std::string> warnings;
  for (std::size_t i = 0; i < place.array().size(); ++i) warnings.push_back(place.at(i).text());
  return warnings;
}

/// Older runs have none.
std::map<std::string, double> read_warning_shares(const JsonPlace& root) {
  std::map<std::string, double> shares;
  if (!root.has("warning_shares")) return shares;
  const JsonPlace place = root.at("warning_shares").object();
  for (const auto& [text, share] : place.json().items()) shares[text] = place.at(text).number(0, 1);
  return shares;
}

/// Files of data/ that have steps, and are no runs: data/h200x2/pytorch_pipelining.json, data/*/peers_*.json.
void refuse_steps_of_plans(const JsonPlace& root) {
  const nlohmann::json& file = root.json();
  if (file.contains("config") || !file.contains("cases") || !file["cases"].is_array()) return;
  throw InputError(root.name(),
                   "measured step times of " + std::to_string(file["cases"].size()) +
                       " plans, PyTorch's, without the settings and spans of a run",
                   "the file of one run; measure a plan of them as one with pdl-run --program pytorch ... --json "
                   "run.json (docs/recipes.md)");
}

}  // namespace

RunResult run_from_json(const nlohmann::json& document, const std::string& place) {
  const JsonPlace root(document, place);
  root.object();
  refuse_steps_of_plans(root);
  RunResult run;
  run.spec = read_spec(root);
  run.measured = root.at("measured").boolean();
  run.step_time = read_step_time(root.at("step_time_ms"));
  run.steps = read_steps(root, run.measured);
  if (root.has("bound_ms")) run.bound_ms = root.at("bound_ms").number(0, kLargestMs);
  run.stages = read_stages(root.at("stages"), run.spec);
  if (run.spec.split.is_auto) take_found_split(run);
  run.replica_rows = read_replica_rows(root, run.spec);
  const bool plain = run.replica_rows.size() == 1 && run.spec.accum == 1;
  run.microbatch_rows =
      read_rows(root.at("microbatch_rows"), run.replica_rows.front() * run.spec.accum, 1,
                plain ? "the batch" : "those of the first replica in all gradient accumulation steps");
  run.transfer_bytes = read_bytes(root.at("transfers"));
  run.collective_bytes = read_bytes(root.at("collectives"));
  run.peak_memory_bytes = read_memory(root.at("gpus"), run.spec);
  run.live = read_live(root.at("gpus"));
  run.error_bar = read_error_bar(root, run.measured);
  run.layer_kinds = read_times(root, "layer_kinds", run.measured);
  run.layer_parts = read_times(root, "layer_parts", run.measured);
  run.noise = read_noise(root, run.measured);
  run.probe_command = read_probe_command(root);
  run.workspaces = read_workspaces(root, run);
  run.timeline = read_timeline(root, run);
  run.warnings = read_warnings(root.at("warnings"));
  run.warning_shares = read_warning_shares(root);
  run.environment = root.at("environment").json();
  if (run.environment.is_object()) read_environment(root.at("environment"));  // others say nothing of a machine
  run.extra = root.at("extra").json();
  if (run.measured) check_extra(root.at("extra"));
  return run;
}

RunResult read_run(const std::string& path) {
  return run_from_json(read_json_file(path), path);
}

}  // namespace pdl
