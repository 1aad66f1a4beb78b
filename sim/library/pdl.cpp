#include "sim/library/pdl.hpp"

#include <algorithm>
#include <thread>

#include "sim/cost/cost_profile.hpp"
#include "sim/io/installation.hpp"
#include "sim/io/words.hpp"
#include "sim/predict/predict.hpp"
#include "sim/run/metrics.hpp"
#include "sim/run/run_json.hpp"
#include "sim/run/span_kinds.hpp"
#include "sim/spec/settings.hpp"
#include "sim/study/configuration_search.hpp"
#include "sim/study/sweep.hpp"
#include "sim/study/sweep_words.hpp"

namespace pdl {
namespace {

std::vector<SettingValue> given_words(const Settings& settings) {
  std::vector<SettingValue> words;
  for (const Setting& setting : settings) words.push_back({setting.name, setting.value, setting.name});
  return words;
}

Settings plain(const std::vector<SettingValue>& words) {
  Settings settings;
  for (const SettingValue& word : words) settings.push_back({word.name, word.value});
  return settings;
}

std::optional<std::string> unless_empty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

std::optional<std::int64_t> memory_limit(const std::string& memory) {
  return memory.empty() ? std::nullopt : std::optional(parse_bytes("memory", memory));
}

double to_ms(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

std::vector<GpuPrediction> gpus_of(const RunResult& run, const RunMetrics& metrics) {
  std::vector<GpuPrediction> gpus;
  for (std::size_t g = 0; g < metrics.gpus.size(); ++g) {
    const GpuMetrics& gpu = metrics.gpus[g];
    gpus.push_back({gpu.layers, to_ms(gpu.busy_ns), to_ms(gpu.comm_ns), to_ms(gpu.idle_ns), gpu.bubble_fraction,
                    run.peak_memory_bytes[g], run.live[g].count, run.live[g].bytes});
  }
  return gpus;
}

Prediction prediction_of(RunResult predicted) {
  const RunMetrics metrics = compute_metrics(predicted);
  Prediction out;
  out.settings = plain(to_settings(predicted.spec));
  if (!predicted.spec.synthetic) out.profile = predicted.environment["profile"]["name"].get<std::string>();
  out.step_time_ms = predicted.step_time.median_ms;
  out.half_width_90_ms = half_width_ms(predicted);
  if (predicted.error_bar) out.unprobed_share = predicted.error_bar->unprobed_share;
  out.probe_command = predicted.probe_command;
  out.bound_ms = predicted.bound_ms;
  out.throughput_samples_per_s = metrics.throughput_samples_per_s;
  out.bubble_fraction = metrics.bubble_fraction;
  out.idle_fraction = metrics.idle_fraction;
  out.host_share = predicted.host_share;
  out.parameters = metrics.parameters;
  out.peak_memory_bytes = *std::max_element(predicted.peak_memory_bytes.begin(), predicted.peak_memory_bytes.end());
  out.transfers = {metrics.transfer_count, metrics.transfer_bytes};
  out.collectives = {metrics.collective_count, metrics.collective_bytes};
  out.gpus = gpus_of(predicted, metrics);
  out.warnings = predicted.warnings;
  out.run = std::make_shared<const RunResult>(std::move(predicted));
  return out;
}

std::int64_t threads_of(std::int64_t asked) {
  return asked > 0 ? asked : std::max(1U, std::thread::hardware_concurrency());
}

SweepOptions sweep_options(const TableOptions& options) {
  SweepOptions sweep;
  sweep.memory_limit_bytes = memory_limit(options.memory);
  if (!options.scaling.empty()) sweep.scaling = parse_scaling("scaling", options.scaling);
  sweep.threads = threads_of(options.threads);
  return sweep;
}

PredictedRow predicted_row(const Sweep& sweep, const SweepRow& row) {
  PredictedRow out;
  out.settings = plain((row.settings.empty() ? row.given : row.settings).list());
  for (const std::string& name :
       sweep.varying) {  // also where the value is the default, which a spec's words leave out
    const auto is_it = [&](const Setting& setting) { return setting.name == name; };
    if (std::none_of(out.settings.begin(), out.settings.end(), is_it))
      out.settings.push_back({name, word_of(row, name)});
  }
  out.refused = row.refusal;
  if (!row.result) return out;
  const SweepResult& result = *row.result;
  out.step_time_ms = result.step_time_ms;
  if (result.error_bar) {
    out.half_width_90_ms = result.step_time_ms * result.error_bar->half_width_percent / 100;
    out.unprobed_share = result.error_bar->unprobed_share;
  }
  out.bound_ms = result.bound_ms;
  out.throughput_samples_per_s = result.throughput_samples_per_s;
  if (row.scaling) {
    out.speedup = row.scaling->speedup;
    out.efficiency = row.scaling->efficiency;
  }
  out.exposed_communication_fraction = result.exposed_communication_fraction;
  out.bubble_fraction = result.bubble_fraction;
  out.idle_fraction = result.idle_fraction;
  out.peak_memory_bytes = result.peak_memory_bytes;
  out.live_activations = result.live_activations;
  out.live_activation_bytes = result.live_activation_bytes;
  out.steps_overlap = result.steps_overlap;
  out.within_memory_limit = sweep.can_win(row);
  out.warnings = result.warnings;
  return out;
}

PlannedConfiguration planned_configuration(const ConfigurationSearch& search, std::size_t rank) {
  const SearchRow& row = search.rows[search.best[rank]];
  const SearchedStep& step = *row.step;
  PlannedConfiguration out;
  out.settings = plain(row.settings);
  out.verdict = search.verdict(rank);
  out.step_time_ms = step.step_time_ms;
  if (step.error_bar) {
    out.half_width_90_ms = step.step_time_ms * step.error_bar->half_width_percent / 100;
    out.unprobed_share = step.error_bar->unprobed_share;
  }
  out.bubble_fraction = step.bubble_fraction;
  out.idle_fraction = step.idle_fraction;
  out.exposed_communication_fraction = step.exposed_communication_fraction;
  out.peak_memory_bytes = step.peak_memory_bytes;
  out.steps_overlap = step.steps_overlap;
  if (const auto& measured = search.measured[rank]) out.measured_ms = measured->step_time_ms;
  out.behind_by = to_string(row.behind);
  out.warnings = step.warnings;
  return out;
}

PlannedTable planned_table(const ConfigurationSearch& search) {
  PlannedTable table;
  for (std::size_t rank = 0; rank < search.best.size(); ++rank)
    table.best.push_back(planned_configuration(search, rank));
  table.memory_limit_bytes = search.memory_limit_bytes;
  table.configurations = search.rows.size();
  table.predicted = search.predicted();
  for (const Drawback loss : {Drawback::refused, Drawback::memory, Drawback::compute, Drawback::bubble,
                              Drawback::communication, Drawback::host})
    table.lost.emplace_back(to_string(loss), search.count(loss));
  if (search.faster_with_more_memory) {
    const SearchRow& row = search.rows[*search.faster_with_more_memory];
    table.faster_with_more_memory = {plain(row.settings), row.step->peak_memory_bytes, row.step->step_time_ms};
  }
  return table;
}

}  // namespace

SpanColumns Prediction::spans() const {
  if (!run) return {};
  const std::vector<bool> several = holds_several_stages(*run);
  SpanColumns columns;
  for (const Span& span : run->timeline.spans) {
    columns.name.push_back(span_name(*run, span, several[static_cast<std::size_t>(span.worker)]));
    columns.kind.push_back(kSpanKinds[static_cast<std::size_t>(span.kind)]);
    columns.worker.push_back(span.worker);
    columns.stage.push_back(span.stage);
    columns.microbatch.push_back(span.microbatch);
    columns.stream.push_back(to_string(span.stream));
    columns.start_us.push_back(static_cast<double>(span.start_ns) / 1e3);
    columns.end_us.push_back(static_cast<double>(span.end_ns) / 1e3);
  }
  return columns;
}

std::string Prediction::json() const {
  return run ? run_text(*run) : "";
}

Prediction predict(const Settings& settings, const PredictionOptions& options) {
  const RunSpec spec = parse_run_spec(given_words(settings));
  const auto costs =
      choose_costs(spec.synthetic.has_value(), unless_empty(options.profile), [&] { return std::vector{spec}; });
  const std::string samples = costs ? samples_beside(unless_empty(options.profile), *costs) : "";
  return prediction_of(predict(spec, costs ? &*costs : nullptr,
                               {.memory_limit_bytes = memory_limit(options.memory), .samples = samples}));
}

PredictedTable predict_all(const Settings& settings, const TableOptions& options) {
  const std::vector<SettingValue> given = given_words(settings);
  const SweepOptions how = sweep_options(options);
  const auto costs = costs_of_sweep(given, how, unless_empty(options.profile));
  const Sweep sweep = run_sweep(given, costs ? &*costs : nullptr, how);
  PredictedTable table{sweep.varying, {}, sweep.fastest(), sweep.least_memory()};
  for (const SweepRow& row : sweep.rows) table.rows.push_back(predicted_row(sweep, row));
  return table;
}

PlannedTable plan(const Settings& settings, const PlanOptions& options) {
  if (options.best < 1) throw InputError("best", std::to_string(options.best), "at least 1");
  ConfigurationSpace space = configuration_space(given_words(settings));
  const std::optional<CostProfile> costs = costs_of_space(space, unless_empty(options.profile));
  SearchOptions how;
  how.memory_limit_bytes = memory_limit(options.memory);
  how.best = static_cast<std::size_t>(options.best);
  how.threads = threads_of(options.threads);
  const ConfigurationSearch search = search_configurations(space, costs ? &*costs : nullptr, how);
  if (search.is_input_error()) throw InputError(search.nothing_fits());
  if (search.best.empty()) throw CannotRun(search.nothing_fits());
  PlannedTable table = planned_table(search);
  if (costs) table.profile = costs->name;
  return table;
}

std::vector<KnownProfile> known_profiles() {
  std::vector<KnownProfile> known;
  for (const ProfileSummary& profile : list_profiles()) {
    const Environment& host = profile.environment;
    known.push_back({profile.name, profile.path, host.device, host.card, host.count, host.date, profile.error});
  }
  return known;
}

std::vector<KnownSetting> known_settings() {
  std::vector<KnownSetting> known;
  for (const SettingRow& row : all_settings()) known.push_back({row.name, row.value_name, help_of(row)});
  return known;
}

std::string version() {
  return project_version();
}

void set_files_folder(const std::string& folder) {
  set_bundled_folder(folder);
}

}  // namespace pdl
