// The combinations of a sweep, predicted by some threads; each row is of its own, so that their number changes nothing.
#include "sim/study/sweep.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <new>
#include <set>
#include <thread>

#include "sim/cost/hosts_of_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/io/words.hpp"
#include "sim/predict/predict.hpp"
#include "sim/run/communication.hpp"
#include "sim/run/describe_run.hpp"
#include "sim/run/metrics.hpp"
#include "sim/spec/settings.hpp"
#include "sim/study/sweep_scaling.hpp"
#include "sim/study/sweep_values.hpp"

namespace pdl {
namespace {

SweepResult result_of(const RunResult& run) {
  SweepResult result;
  result.step_time_ms = run.step_time.median_ms;
  result.error_bar = run.error_bar;
  const RunMetrics metrics = compute_metrics(run);
  result.throughput_samples_per_s = metrics.throughput_samples_per_s;
  result.bubble_fraction = metrics.bubble_fraction;
  result.idle_fraction = metrics.idle_fraction;
  result.has_bubble = has_bubble(run.spec);
  result.exposed_communication_fraction = exposed_communication_fraction(metrics);
  result.bound_ms = run.bound_ms;
  result.peak_memory_bytes = *std::max_element(run.peak_memory_bytes.begin(), run.peak_memory_bytes.end());
  for (const LiveActivations& live : run.live) {
    result.live_activations = std::max(result.live_activations, live.count);
    result.live_activation_bytes = std::max(result.live_activation_bytes, live.bytes);
  }
  result.steps_overlap = steps_overlap(run.spec);
  result.warnings = run.warnings;
  result.warning_shares = run.warning_shares;
  return result;
}

/// Fills in the row; `source` too, where it can run.
void evaluate(LayerFamilies* families, const std::optional<std::int64_t>& memory_limit_bytes, SweepRow& row,
              std::string& source) {
  try {
    const RunSpec spec = parse_run_spec(row.given);
    const CostProfile* profile = families ? &families->profile() : nullptr;
    row.settings = to_settings(profile ? on_device_of(spec, profile->host_description) : spec);
    // Named schedules above the limit are shown; the search for one is told of it.
    const bool searched = spec.schedule == kAutoSchedule;
    const RunResult run = predict(spec, profile, {.memory_limit_bytes = searched ? memory_limit_bytes : std::nullopt, .families = families});
    row.settings = to_settings(run.spec);  // a search decides chunks and overlap
    row.result = result_of(run);
    source = describe_source(run);
  } catch (const InputError& error) {
    row.refusal = error.what();
    row.exit_code = kExitInput;
  } catch (const CannotRun& error) {
    row.refusal = error.what();
    row.exit_code = kExitCannotRun;
  } catch (const std::bad_alloc&) {
    row.refusal = "not enough memory on this machine for a plan of this size";
    row.exit_code = kExitCannotRun;
  }
}

std::int64_t chunks_of(const SweepRow& row) {
  const SettingValue* chunks = find_setting(row.settings, "chunks");
  return chunks ? parse_whole(chunks->place, chunks->value, 1, INT32_MAX) : 1;
}

/// Textbook costs are those of a stage: rows whose GPUs have other numbers of them are not of the same work.
void say_where_stages_are_more_work(Sweep& sweep) {
  std::set<std::int64_t> chunks;
  for (const SweepRow& row : sweep.rows) {
    if (row.result && find_setting(row.settings, "tf")) chunks.insert(chunks_of(row));
  }
  if (chunks.size() < 2) return;
  for (SweepRow& row : sweep.rows) {
    const std::string of_gpu = std::to_string(chunks_of(row));
    if (!row.result || of_gpu == "1") continue;
    row.result->warnings.push_back(
        "synthetic costs are those of a stage: a GPU with " + of_gpu + " stages has " + of_gpu +
        " times the work of a GPU with one (the same work: --tf, --tb and --tw divided by " + of_gpu + ")");
  }
}

std::optional<std::size_t> least(const Sweep& sweep, double (*value)(const SweepResult&)) {
  std::optional<std::size_t> best;
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    if (!sweep.can_win(sweep.rows[r])) continue;
    if (!best || value(*sweep.rows[r].result) < value(*sweep.rows[*best].result)) best = r;
  }
  return best;
}

/// The rows with what was given for each.
Sweep rows_to_predict(std::span<const SettingValue> given, const SweepOptions& options) {
  Sweep sweep;
  sweep.memory_limit_bytes = options.memory_limit_bytes;
  Combinations combinations = combine_settings(given);
  sweep.varying = std::move(combinations.varying);
  for (std::vector<SettingValue>& settings : combinations.rows) {
    sweep.rows.emplace_back();
    sweep.rows.back().given = std::move(settings);
  }
  begin_scaling(options.scaling, sweep);
  return sweep;
}

/// The one of all rows that can run. Of costs that differ, row by row, only what they are.
std::string source_of_all(const std::vector<std::string>& sources, const std::vector<std::string>& varying) {
  const auto first = std::find_if(sources.begin(), sources.end(), [](const std::string& s) { return !s.empty(); });
  if (first == sources.end()) return "";
  const bool vary =
      std::any_of(varying.begin(), varying.end(), [](const std::string& name) { return is_synthetic_cost(name); });
  const bool differ =
      std::any_of(first, sources.end(), [&](const std::string& s) { return !s.empty() && s != *first; });
  return vary || differ ? first->substr(0, first->find(':')) + ": other ones for each row" : *first;
}

}  // namespace

bool Sweep::can_win(const SweepRow& row) const {
  return row.result && (!memory_limit_bytes || row.result->peak_memory_bytes <= *memory_limit_bytes);
}

bool Sweep::same_samples() const {
  std::optional<std::int64_t> samples;
  for (const SweepRow& row : rows) {
    if (!row.result) continue;
    const std::int64_t own = std::llround(row.result->throughput_samples_per_s * row.result->step_time_ms / 1e3);
    if (samples && *samples != own) return false;
    samples = own;
  }
  return true;
}

std::optional<std::size_t> Sweep::fastest() const {
  if (!same_samples()) return least(*this, [](const SweepResult& result) { return -result.throughput_samples_per_s; });
  return least(*this, [](const SweepResult& result) { return result.step_time_ms; });
}

std::optional<std::size_t> Sweep::least_memory() const {
  return least(*this, [](const SweepResult& result) { return static_cast<double>(result.peak_memory_bytes); });
}

std::vector<std::size_t> Sweep::tied_with_fastest() const {
  const auto best = fastest();
  std::vector<std::size_t> tied;
  if (!best || !rows[*best].result->error_bar) return tied;
  const bool by_time = same_samples();
  const auto value = [&](const SweepRow& row) {
    return by_time ? row.result->step_time_ms : row.result->throughput_samples_per_s;
  };
  const auto half_width = [&](const SweepRow& row) {
    return value(row) * row.result->error_bar->half_width_percent / 100;
  };
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (r == *best || !can_win(rows[r]) || !rows[r].result->error_bar) continue;
    const double apart = std::abs(value(rows[r]) - value(rows[*best]));
    if (apart < std::hypot(half_width(rows[r]), half_width(rows[*best]))) tied.push_back(r);
  }
  return tied;
}

std::vector<RunSpec> specs_of_sweep(std::span<const SettingValue> given, const SweepOptions& options) {
  std::vector<RunSpec> specs;
  for (const SweepRow& row : rows_to_predict(given, options).rows) {
    try {
      specs.push_back(parse_run_spec(row.given));
    } catch (const InputError&) {  // told when the row is predicted
    } catch (const CannotRun&) {
    }
  }
  return specs;
}

std::optional<CostProfile> costs_of_sweep(std::span<const SettingValue> given, const SweepOptions& options,
                                          const std::optional<std::string>& profile) {
  const bool synthetic =
      std::any_of(given.begin(), given.end(), [](const SettingValue& s) { return is_synthetic_cost(s.name); });
  return choose_costs(synthetic, profile, [&] { return specs_of_sweep(given, options); });
}

Sweep run_sweep(std::span<const SettingValue> given, const CostProfile* profile, const SweepOptions& options) {
  Sweep sweep = rows_to_predict(given, options);
  std::optional<LayerFamilies> families;
  if (profile) families.emplace(*profile);
  std::vector<std::string> sources(sweep.rows.size());
  std::vector<std::exception_ptr> bugs(sweep.rows.size());
  std::atomic<std::size_t> next = 0, done = 0;
  const auto work = [&](bool shows) {
    for (std::size_t r = next++; r < sweep.rows.size(); r = next++) {
      try {
        evaluate(families ? &*families : nullptr, options.memory_limit_bytes, sweep.rows[r], sources[r]);
      } catch (...) {
        bugs[r] = std::current_exception();
      }
      ++done;
      if (shows && options.progress) options.progress(done, sweep.rows.size());
    }
  };
  {
    std::vector<std::jthread> threads;
    const auto most = static_cast<std::int64_t>(sweep.rows.size());
    for (std::int64_t t = 1; t < std::min(options.threads, most); ++t) threads.emplace_back(work, false);
    work(true);
  }
  for (const std::exception_ptr& bug : bugs) {
    if (bug) std::rethrow_exception(bug);
  }
  sweep.source = source_of_all(sources, sweep.varying);
  say_where_stages_are_more_work(sweep);
  compare_with_fewest_gpus(sweep);
  return sweep;
}

}  // namespace pdl
