// The combinations of a sweep, predicted by some threads; each row is of its own, so that their number changes nothing.
#include "sim/study/sweep.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <new>
#include <numeric>
#include <set>
#include <thread>

#include "sim/cost/hosts_of_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/io/input_file.hpp"
#include "sim/io/installation.hpp"
#include "sim/io/words.hpp"
#include "sim/predict/auto_split.hpp"
#include "sim/predict/predict.hpp"
#include "sim/run/communication.hpp"
#include "sim/run/describe_run.hpp"
#include "sim/run/metrics.hpp"
#include "sim/spec/settings.hpp"
#include "sim/study/row_queue.hpp"
#include "sim/study/shared_sweep.hpp"
#include "sim/study/sweep_journal.hpp"
#include "sim/study/sweep_record.hpp"
#include "sim/study/sweep_scaling.hpp"
#include "sim/study/sweep_values.hpp"

namespace pdl {
namespace {

SweepResult result_of(const RunResult& run) {
  SweepResult result;
  result.step_time_ms = run.step_time.median_ms;
  result.error_bar = run.error_bar;
  if (result.error_bar) result.error_bar->carriers.clear();  // of no row shown
  const SpansOfGpus spans(run.timeline, static_cast<std::size_t>(run.spec.gpus));
  const RunMetrics metrics = compute_metrics(run, spans, Operations::left_out);
  result.throughput_samples_per_s = metrics.throughput_samples_per_s;
  result.throughput_tokens_per_s = metrics.tokens_per_s;
  if (metrics.tokens_per_s) result.mfu = metrics.mfu;
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

/// Predicts rows, by any number of threads.
class RowPredictor {
 public:
  RowPredictor(const CostProfile* profile, std::optional<std::int64_t> memory_limit_bytes)
      : profile_(profile), memory_limit_bytes_(memory_limit_bytes) {
    if (profile) families_.emplace(*profile);
  }

  /// `plans`: of the calling thread.
  SweepRecord predict(std::size_t row, const RowSettings& given, PlanMaker& plans) {
    SweepRecord record;
    record.row = row;
    std::optional<RunSpec> spec;
    const auto refuse = [&](const std::string& reason, int exit_code) {
      record.refusal = reason;
      record.exit_code = exit_code;
      if (spec)
        record.settings = RowSettings(to_settings(profile_ ? on_device_of(*spec, profile_->host_description) : *spec));
    };
    try {
      spec = parse_run_spec(given.list());
      // Named schedules above the limit are shown; the search for one is told of it.
      const bool searched = spec->schedule == kAutoSchedule;
      const RunResult run = pdl::predict(*spec, profile_,
                                         {.memory_limit_bytes = searched ? memory_limit_bytes_ : std::nullopt,
                                          .with_probe_command = false,
                                          .families = families_ ? &*families_ : nullptr,
                                          .plans = &plans});
      record.settings = RowSettings(to_settings(run.spec));  // a search decides chunks and overlap
      record.result = result_of(run);
      record.source = describe_source(run);
    } catch (const BrokenFile&) {
      throw;
    } catch (const InputError& error) {
      refuse(error.what(), kExitInput);
    } catch (const CannotRun& error) {
      refuse(error.what(), kExitCannotRun);
    } catch (const std::bad_alloc&) {
      refuse("not enough memory on this machine for a plan of this size", kExitCannotRun);
    }
    return record;
  }

 private:
  const CostProfile* profile_;
  std::optional<std::int64_t> memory_limit_bytes_;
  std::optional<LayerFamilies> families_;
};

/// The source of all rows that can run: that of the first. Of costs that differ, row by row, only what they are.
class Sources {
 public:
  void add(std::size_t row, const std::string& source) {
    if (source.empty()) return;
    differ_ = differ_ || (!first_.empty() && source != first_);
    if (!first_.empty() && row > first_row_) return;
    first_row_ = row;
    first_ = source;
  }

  std::string of_all(const std::vector<std::string>& varying) const {
    const bool vary =
        std::any_of(varying.begin(), varying.end(), [](const std::string& name) { return is_synthetic_cost(name); });
    return !first_.empty() && (vary || differ_) ? first_.substr(0, first_.find(':')) + ": other ones for each row"
                                                : first_;
  }

 private:
  std::string first_;
  std::size_t first_row_ = 0;
  bool differ_ = false;
};

/// Rows that have been predicted, by threads, ranks or an earlier process, put into the sweep.
class PredictedRows {
 public:
  explicit PredictedRows(Sweep& sweep) : sweep_(sweep), known_(sweep.rows.size(), false) {}

  void add(SweepRecord record) {
    const std::lock_guard lock(mutex_);
    if (known_[record.row]) return;
    known_[record.row] = true;
    SweepRow& row = sweep_.rows[record.row];
    row.settings = std::move(record.settings);
    row.result = std::move(record.result);
    row.refusal = std::move(record.refusal);
    row.exit_code = record.exit_code;
    sources_.add(record.row, record.source);
    ++done_;
  }

  std::vector<std::size_t> others() const {
    std::vector<std::size_t> rows;
    for (std::size_t r = 0; r < known_.size(); ++r) {
      if (!known_[r]) rows.push_back(r);
    }
    return rows;
  }

  std::size_t done() const { return done_; }
  const Sources& sources() const { return sources_; }

 private:
  Sweep& sweep_;
  std::mutex mutex_;
  std::vector<bool> known_;
  std::atomic<std::size_t> done_ = 0;
  Sources sources_;
};

using RowWork = std::function<void(std::size_t row, PlanMaker& plans_of_thread, bool calling)>;

/// Of `threads` threads, of which the calling one is the first. What one throws ends the others' work, and is thrown.
void on_threads(std::int64_t threads, RowQueue& queue, const RowWork& work) {
  std::mutex mutex;
  std::exception_ptr problem;
  const auto take_rows = [&](bool calling) {
    try {
      PlanMaker plans;
      for (std::vector<std::size_t> rows; !(rows = queue.take(1)).empty();) work(rows.front(), plans, calling);
    } catch (...) {
      queue.stop();
      const std::lock_guard lock(mutex);
      if (!problem) problem = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    const std::int64_t useful = std::min(threads, static_cast<std::int64_t>(queue.left()));
    for (std::int64_t t = 1; t < useful; ++t) others.emplace_back(take_rows, false);
    take_rows(true);
  }
  if (problem) std::rethrow_exception(problem);
}

/// What is in a file, as a number: rows predicted by another content are other rows.
std::string fingerprint(const std::string& content) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (const char c : content) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

/// " (8d2f...)" for each file among the values of a setting: models, schedules.
std::string fingerprints_of_files(const SettingValue& setting) {
  constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 30;
  if (setting.name != "model" && setting.name != "schedule") return "";
  std::string text;
  for (const std::string& value : split_at(setting.value, ',')) {
    std::error_code none;
    if (std::filesystem::is_regular_file(value, none))
      text += " (" + fingerprint(read_input_file(value, kMostBytes, "a file")) + ")";
  }
  return text;
}

SweepIdentity identity_of(std::span<const SettingValue> given, const CostProfile* profile, const Sweep& sweep) {
  SweepIdentity identity;
  for (const SettingValue& setting : given)
    identity.sweep +=
        (identity.sweep.empty() ? "" : ", ") + setting.name + " " + setting.value + fingerprints_of_files(setting);
  if (sweep.memory_limit_bytes) identity.sweep += ", memory " + std::to_string(*sweep.memory_limit_bytes);
  if (sweep.scaling) identity.sweep += ", scaling " + to_string(*sweep.scaling);
  identity.costs =
      profile ? "profile " + profile->name + " " + fingerprint(to_json(*profile).dump()) : "synthetic costs";
  if (profile && !profile->chosen_as.empty()) identity.costs += " (" + profile->chosen_as + ")";
  identity.costs += ", version " + project_version();
  identity.rows = sweep.rows.size();
  return identity;
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

template <typename Value>
std::optional<std::size_t> least(const Sweep& sweep, Value value) {
  std::optional<std::size_t> best;
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    if (!sweep.can_win(sweep.rows[r])) continue;
    if (!best || value(sweep.rows[r]) < value(sweep.rows[*best])) best = r;
  }
  return best;
}

/// All rows that have a result have the same whole number of `value`.
template <typename Value>
bool all_the_same(const std::vector<SweepRow>& rows, Value value) {
  std::optional<std::int64_t> first;
  for (const SweepRow& row : rows) {
    if (!row.result) continue;
    const std::int64_t own = std::llround(value(*row.result));
    if (first && *first != own) return false;
    first = own;
  }
  return true;
}

/// Of a sample; 0 of models that take none.
double tokens_of(const SweepResult& result) {
  return result.throughput_tokens_per_s.value_or(0) / result.throughput_samples_per_s;
}

/// The rows with what was given for each.
Sweep rows_to_predict(std::span<const SettingValue> given, const SweepOptions& options) {
  Sweep sweep;
  sweep.memory_limit_bytes = options.memory_limit_bytes;
  Combinations combinations = combine_settings(given);
  sweep.varying = std::move(combinations.varying);
  for (RowSettings& settings : combinations.rows) {
    sweep.rows.emplace_back();
    sweep.rows.back().given = std::move(settings);
  }
  begin_scaling(options.scaling, sweep);
  return sweep;
}

}  // namespace

double compared(const SweepResult& result, Comparison comparison) {
  switch (comparison) {
    case Comparison::tokens_per_s: return -*result.throughput_tokens_per_s;
    case Comparison::samples_per_s: return -result.throughput_samples_per_s;
    case Comparison::step_time: break;
  }
  return result.step_time_ms;
}

bool Sweep::can_win(const SweepRow& row) const {
  return row.result && (!memory_limit_bytes || row.result->peak_memory_bytes <= *memory_limit_bytes);
}

bool Sweep::same_samples() const {
  return all_the_same(rows, [](const SweepResult& r) { return r.throughput_samples_per_s * r.step_time_ms / 1e3; });
}

Comparison Sweep::comparison() const {
  const bool tokens = std::all_of(
      rows.begin(), rows.end(), [](const SweepRow& row) { return !row.result || row.result->throughput_tokens_per_s; });
  if (tokens && !all_the_same(rows, tokens_of)) return Comparison::tokens_per_s;
  return same_samples() ? Comparison::step_time : Comparison::samples_per_s;
}

std::vector<std::string> Sweep::words_of_other_models() const {
  std::vector<std::string> words;
  std::copy_if(varying.begin(), varying.end(), std::back_inserter(words),
               [](const std::string& word) { return is_of_model(*find_row(word)) && word != "sequence"; });
  return words;
}

std::optional<std::size_t> Sweep::fastest() const {
  const Comparison by = comparison();
  return least(*this, [by](const SweepRow& row) { return compared(*row.result, by); });
}

std::optional<std::size_t> Sweep::least_memory() const {
  return least(*this, [](const SweepRow& row) { return row.result->peak_memory_bytes; });
}

std::vector<std::size_t> Sweep::tied_with_fastest() const {
  const auto best = fastest();
  std::vector<std::size_t> tied;
  if (!best || !rows[*best].result->error_bar) return tied;
  const Comparison by = comparison();
  const auto value = [by](const SweepRow& row) { return compared(*row.result, by); };
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

KindsOfSpecs kinds_of_sweep(std::span<const SettingValue> given, const SweepOptions& options) {
  KindsOfSpecs kinds;
  for (const SweepRow& row : rows_to_predict(given, options).rows) {
    try {
      kinds.add(evenly_split(parse_run_spec(row.given.list())));
    } catch (const InputError&) {  // told when the row is predicted
    } catch (const CannotRun&) {
    }
  }
  return kinds;
}

std::optional<CostProfile> costs_of_sweep(std::span<const SettingValue> given, const SweepOptions& options,
                                          const std::optional<std::string>& profile) {
  const bool synthetic =
      std::any_of(given.begin(), given.end(), [](const SettingValue& s) { return is_synthetic_cost(s.name); });
  if (!synthetic && !profile) return load_default_profile(kinds_of_sweep(given, options));
  return choose_costs(synthetic, profile, [] { return std::vector<RunSpec>(); });  // what is given decides
}

Sweep run_sweep(std::span<const SettingValue> given, const CostProfile* profile, const SweepOptions& options) {
  Sweep sweep = rows_to_predict(given, options);
  PredictedRows rows(sweep);
  const bool has_identity = options.ranks || !options.resume.empty();
  const SweepIdentity identity = has_identity ? identity_of(given, profile, sweep) : SweepIdentity();
  std::optional<SweepJournal> journal;
  if (!options.resume.empty()) {
    journal.emplace(options.resume, identity);
    for (const SweepRecord& record : journal->found()) rows.add(record);
  }
  const auto add = [&](SweepRecord record) {
    if (journal) journal->add(record);
    rows.add(std::move(record));
  };
  const auto show_progress = [&] {
    if (options.progress) options.progress(rows.done(), sweep.rows.size());
  };
  RowQueue queue(rows.others());
  std::optional<SharedSweep> others;
  if (options.ranks) {
    others.emplace(*options.ranks, identity, queue, [&](const std::string& line) {
      add(parse_record(line, "a record of another rank", sweep.rows.size()));
    });
  }
  RowPredictor predictor(profile, options.memory_limit_bytes);
  on_threads(options.threads, queue, [&](std::size_t row, PlanMaker& plans, bool calling) {
    add(predictor.predict(row, sweep.rows[row].given, plans));
    if (calling) show_progress();
  });
  for (; others && !others->done(); show_progress()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (others) others->finish();
  sweep.source = rows.sources().of_all(sweep.varying);
  say_where_stages_are_more_work(sweep);
  compare_with_fewest_gpus(sweep);
  return sweep;
}

void join_sweep(std::span<const SettingValue> given, const CostProfile* profile, const SweepOptions& options) {
  const Sweep sweep = rows_to_predict(given, options);
  RowPredictor predictor(profile, options.memory_limit_bytes);
  work_for_sweep(*options.ranks, identity_of(given, profile, sweep), options.threads,
                 [&](const std::vector<std::size_t>& asked) {
                   std::vector<std::string> records(asked.size());
                   std::vector<std::size_t> places(asked.size());
                   std::iota(places.begin(), places.end(), std::size_t{0});
                   RowQueue queue(std::move(places));
                   on_threads(options.threads, queue, [&](std::size_t i, PlanMaker& plans, bool) {
                     records[i] = to_line(predictor.predict(asked[i], sweep.rows[asked[i]].given, plans));
                   });
                   return records;
                 });
}

}  // namespace pdl
