#include "sim/study/configuration_search.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <new>
#include <numeric>
#include <set>
#include <utility>

#include "sim/cost/hosts_of_profile.hpp"
#include "sim/io/by_threads.hpp"
#include "sim/io/error.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/shell_word.hpp"
#include "sim/predict/find_order.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/planned_spec.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/step_alone.hpp"
#include "sim/predict/what_if.hpp"
#include "sim/run/communication.hpp"
#include "sim/run/describe_run.hpp"
#include "sim/run/metrics.hpp"
#include "sim/spec/settings.hpp"
#include "sim/study/measured_runs.hpp"

namespace pdl {
namespace {

/// Whatever the number of threads: so that they all find the same best so far.
constexpr std::size_t kDecidedTogether = 8;
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

SearchedStep step_of(const RunResult& run) {
  const RunMetrics metrics = compute_metrics(run);
  SearchedStep step;
  step.step_time_ms = run.step_time.median_ms;
  step.has_bubble = has_bubble(run.spec);
  step.bubble_fraction = metrics.bubble_fraction;
  step.idle_fraction = metrics.idle_fraction;
  step.exposed_communication_fraction = exposed_communication_fraction(metrics);
  for (const GpuMetrics& gpu : metrics.gpus) {
    step.busy_ms += static_cast<double>(gpu.busy_ns) / 1e6 / static_cast<double>(metrics.gpus.size());
    step.idle_ms += static_cast<double>(gpu.idle_ns) / 1e6 / static_cast<double>(metrics.gpus.size());
  }
  step.host_share = run.host_share.value_or(0);
  step.peak_memory_bytes = *std::max_element(run.peak_memory_bytes.begin(), run.peak_memory_bytes.end());
  step.steps_overlap = steps_overlap(run.spec);
  return step;
}

/// Below 10 MiB to the byte, where a limit that the user gave is found again; and wherever two would read the same.
std::string unlike_bytes(std::int64_t bytes, std::int64_t other) {
  const bool exact = bytes < 10 << 20 || binary_bytes(bytes) == binary_bytes(other);
  return exact ? grouped(bytes) + " bytes" : binary_bytes(bytes);
}

/// What has grown most from the best step to this one.
Drawback loss_against(const SearchedStep& step, const SearchedStep& best) {
  const auto grown = [&](double (*ms)(const SearchedStep&)) { return ms(step) - ms(best); };
  std::array<std::pair<double, Drawback>, 3> parts = {
      std::pair{grown([](const SearchedStep& s) { return s.busy_ms; }), Drawback::compute},
      std::pair{grown([](const SearchedStep& s) { return s.idle_ms; }), Drawback::bubble},
      std::pair{grown([](const SearchedStep& s) { return s.exposed_communication_fraction * s.step_time_ms; }),
                Drawback::communication}};
  const auto most =
      std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const double host_ms = grown([](const SearchedStep& s) { return s.host_share * s.step_time_ms; });
  return step.host_share > kHostBoundShare && host_ms >= most->first ? Drawback::host : most->second;
}

/// The best of some rows, the least step time first.
struct Ranking {
  std::size_t most = 1;
  double below_ms = std::numeric_limits<double>::infinity();  // what takes as long or longer is none of them
  std::vector<std::size_t> rows = {};
};

class Search {
 public:
  Search(const ConfigurationSpace& space, const CostProfile* profile, const SearchOptions& options)
      : profile_(profile), options_(options) {
    if (profile) families_.emplace(*profile);
    found_.space = space;
    found_.memory_limit_bytes = options.memory_limit_bytes;
    found_.synthetic = profile == nullptr;
    found_.on_cpu = profile && profile->host_description.device == "cpu";
    if (!options.memory_limit_bytes && profile && profile->host_description.memory_capacity_bytes > 0) {
      found_.memory_limit_bytes = profile->host_description.memory_capacity_bytes;
      found_.limit_is_capacity = true;
    }
    for (const Configuration& configuration : space.configurations) {
      SearchRow& row = found_.rows.emplace_back();
      row.words = configuration.words;
      row.refusal = configuration.refusal;
      row.exit_code = configuration.exit_code;
    }
  }

  ConfigurationSearch find() && {
    know_bounds();
    predict_until_none_can_be_better();
    say_why_others_lost();
    if (found_.best.empty()) {
      find_least_memory();
    } else {
      find_faster_with_more_memory();
      predict_best_again();
      find_measured_runs();
    }
    return std::move(found_);
  }

 private:
  RunSpec spec_of(const SearchRow& row) const {
    const RunSpec spec = parse_run_spec(row.words);
    return profile_ && !spec.synthetic ? on_device_of(spec, profile_->host_description) : spec;
  }

  void know_bounds() {
    StepBounds bounds(families());
    for (SearchRow& row : found_.rows) {
      if (row.refusal.empty()) bounds.will_ask(spec_of(row));
    }
    for (SearchRow& row : found_.rows) {
      if (!row.refusal.empty()) {
        row.loss = Drawback::refused;
        ++decided_;
        continue;
      }
      const RunSpec spec = spec_of(row);
      row.settings = to_settings(spec);
      row.has_replicas = resolve(spec).mesh.dp > 1;
      row.has_order = !needs_search(spec);
      row.bound = bounds.of(spec);
      row.least_memory_bytes = least_memory_bytes(spec);
    }
    found_.priced_pieces = bounds.priced_pieces();
  }

  std::int64_t limit() const { return found_.memory_limit_bytes.value_or(kNoLimit); }

  /// Predicts the row, or says why not. `limit`: bytes.
  void predict_row(SearchRow& row, std::int64_t limit) {
    try {
      RunResult run = predict_step_alone(spec_of(row), families(), limit);
      if (!run.host_share) {
        if (!row.replica) row.replica = bound_of_first_replica(run.spec, families());
        run.host_share = row.replica->host_share();
      }
      row.settings = to_settings(run.spec);
      if (run.spec.split.is_auto) row.found_split = to_string(run.spec.split);
      row.step = step_of(run);
      row.needed_memory_bytes = row.step->peak_memory_bytes;
      row.source = describe_source(run);
    } catch (const OutOfMemory& error) {
      row.needed_memory_bytes = error.needed_bytes;
      row.loss = Drawback::memory;
    } catch (const BrokenFile&) {
      throw;
    } catch (const InputError& error) {
      refuse(row, error.what(), kExitInput);
    } catch (const CannotRun& error) {
      refuse(row, error.what(), kExitCannotRun);
    } catch (const std::bad_alloc&) {
      refuse(row, "not enough memory on this machine for a plan of this size", kExitCannotRun);
    }
  }

  static void refuse(SearchRow& row, const std::string& why, int exit_code) {
    row.loss = Drawback::refused;
    row.refusal = why;
    row.exit_code = exit_code;
  }

  /// The bound of its first replica; none where there is no such plan or no price: the prediction says why.
  void bound_row(SearchRow& row) {
    try {
      row.replica = bound_of_first_replica(planned_spec(spec_of(row), families(), limit()), families());
    } catch (const InputError&) {
      row.replica = ReplicaBound();
    } catch (const CannotRun&) {
      row.replica = ReplicaBound();
    } catch (const std::bad_alloc&) {
      row.replica = ReplicaBound();
    }
  }

  void show_progress() const {
    const std::size_t all = found_.rows.size();
    if (options_.progress) options_.progress(std::min<std::size_t>(decided_, all), all);
  }

  /// `work` of each of the rows, by some threads; it must not matter which does what.
  void for_rows(const std::vector<std::size_t>& rows, const std::function<void(SearchRow&)>& work) {
    by_threads(
        rows.size(), options_.threads, [&](std::size_t i) { work(found_.rows[rows[i]]); }, [&] { show_progress(); });
    for (const std::size_t row : rows) {
      if (found_.source.empty()) found_.source = found_.rows[row].source;
    }
  }

  double step_ms(std::size_t row) const { return found_.rows[row].step->step_time_ms; }

  static double bound_ms(std::int64_t ns) { return static_cast<double>(ns) / 1e6; }

  /// What is known of its step before it is predicted.
  static std::int64_t least_step_ns(const SearchRow& row) {
    return std::max(row.bound.step_ns, row.replica ? row.replica->step_ns : 0);
  }

  /// A bound that is cheaper than the prediction is still to come.
  static bool can_be_bounded(const SearchRow& row) { return row.has_replicas && row.has_order && !row.replica; }

  /// Puts a predicted row among the best.
  void take(std::size_t row, Ranking& ranking) const {
    if (!found_.rows[row].step || step_ms(row) >= ranking.below_ms) return;
    const auto better = [&](std::size_t a, std::size_t b) {
      return step_ms(a) != step_ms(b) ? step_ms(a) < step_ms(b) : a < b;
    };
    ranking.rows.insert(std::upper_bound(ranking.rows.begin(), ranking.rows.end(), row, better), row);
    if (ranking.rows.size() > ranking.most) ranking.rows.pop_back();
  }

  bool cannot_be_best(std::int64_t least_ns, const Ranking& ranking) const {
    if (options_.exhaustive) return false;
    const bool full = ranking.rows.size() == ranking.most;
    return bound_ms(least_ns) >= ranking.below_ms || (full && bound_ms(least_ns) > step_ms(ranking.rows.back()));
  }

  /// Predicts what could be among the best, those that could be fastest first. Returns the rows that could not.
  std::vector<std::size_t> rank(const std::vector<std::size_t>& rows, std::int64_t limit, Ranking& ranking) {
    std::set<std::pair<std::int64_t, std::size_t>> open;  // at least so long, row
    for (const std::size_t row : rows) open.emplace(least_step_ns(found_.rows[row]), row);
    while (!open.empty() && !cannot_be_best(open.begin()->first, ranking)) {
      std::vector<std::size_t> together, bounded, predicted;
      while (!open.empty() && together.size() < kDecidedTogether && !cannot_be_best(open.begin()->first, ranking))
        together.push_back(open.extract(open.begin()).value().second);
      for (const std::size_t row : together) (can_be_bounded(found_.rows[row]) ? bounded : predicted).push_back(row);
      for_rows(bounded, [&](SearchRow& row) { bound_row(row); });
      for_rows(predicted, [&](SearchRow& row) {
        predict_row(row, limit);
        ++decided_;
      });
      for (const std::size_t row : bounded) open.emplace(least_step_ns(found_.rows[row]), row);
      for (const std::size_t row : predicted) take(row, ranking);
    }
    std::vector<std::size_t> left;
    for (const auto& [least_ns, row] : open) left.push_back(row);
    return left;
  }

  /// Those that are not decided, without those that are by their memory.
  std::vector<std::size_t> candidates() {
    std::vector<std::size_t> rows;
    for (std::size_t r = 0; r < found_.rows.size(); ++r) {
      SearchRow& row = found_.rows[r];
      if (row.loss == Drawback::none && !options_.exhaustive && row.least_memory_bytes > limit()) {
        row.loss = Drawback::memory;
        ++decided_;
      }
      if (row.loss == Drawback::none) rows.push_back(r);
    }
    return rows;
  }

  void predict_until_none_can_be_better() {
    Ranking ranking{options_.best};
    const std::vector<std::size_t> left = rank(candidates(), limit(), ranking);
    found_.best = ranking.rows;
    for (const std::size_t row : left)
      found_.rows[row].loss = loss_by_bounds(found_.rows[row], step_ms(found_.best.back()));
  }

  /// What alone takes longer than the worst of the best.
  static Drawback loss_by_bounds(const SearchRow& row, double worst_ms) {
    const ReplicaBound replica = row.replica.value_or(ReplicaBound());
    if (bound_ms(std::max(row.bound.compute_ns, replica.compute_ns)) > worst_ms) return Drawback::compute;
    if (bound_ms(row.bound.step_ns) > worst_ms) return Drawback::bubble;
    return bound_ms(replica.without_host_ns) > worst_ms ? Drawback::communication : Drawback::host;
  }

  void say_why_others_lost() {
    if (found_.best.empty()) return;
    const SearchedStep& winner = *found_.rows[found_.best.front()].step;
    for (SearchRow& row : found_.rows) {
      if (!row.step) continue;
      row.loss = loss_against(*row.step, winner);
      row.behind = row.step->step_time_ms > winner.step_time_ms ? row.loss : Drawback::none;
    }
    for (const std::size_t row : found_.best) found_.rows[row].loss = Drawback::none;
  }

  /// Of those that were not reckoned the ones that may need least first.
  void find_least_memory() {
    const auto needs = [&](std::size_t row) { return *found_.rows[row].needed_memory_bytes; };
    const auto take_least = [&](std::size_t row) {
      if (!found_.rows[row].needed_memory_bytes) return;
      const auto order = [&](std::size_t r) { return std::pair(needs(r), r); };
      if (!found_.least_memory || order(row) < order(*found_.least_memory)) found_.least_memory = row;
    };
    std::vector<std::size_t> unknown;
    for (std::size_t r = 0; r < found_.rows.size(); ++r) {
      take_least(r);
      if (found_.rows[r].loss == Drawback::memory && !found_.rows[r].needed_memory_bytes) unknown.push_back(r);
    }
    std::stable_sort(unknown.begin(), unknown.end(), [&](std::size_t a, std::size_t b) {
      return found_.rows[a].least_memory_bytes < found_.rows[b].least_memory_bytes;
    });
    for (std::size_t begin = 0; begin < unknown.size(); begin += kDecidedTogether) {
      if (found_.least_memory && found_.rows[unknown[begin]].least_memory_bytes > needs(*found_.least_memory)) return;
      const std::size_t end = std::min(begin + kDecidedTogether, unknown.size());
      const std::vector<std::size_t> together(unknown.begin() + static_cast<std::ptrdiff_t>(begin),
                                              unknown.begin() + static_cast<std::ptrdiff_t>(end));
      for_rows(together, [&](SearchRow& row) { predict_row(row, limit()); });
      for (const std::size_t row : together) take_least(row);
    }
  }

  /// Those that lost by their memory and could win, as if there were enough.
  void find_faster_with_more_memory() {
    std::vector<std::size_t> rows;
    for (std::size_t r = 0; r < found_.rows.size(); ++r) {
      if (found_.rows[r].loss == Drawback::memory) rows.push_back(r);
    }
    Ranking ranking{.most = 1, .below_ms = step_ms(found_.best.front())};
    rank(rows, kNoLimit, ranking);
    if (!ranking.rows.empty()) found_.faster_with_more_memory = ranking.rows.front();
  }

  /// With their error bars and warnings; of the first two also where their steps go.
  void predict_best_again() {
    std::vector<ExplainedStep> explained(2);
    by_threads(found_.best.size(), options_.threads, [&](std::size_t i) {
      SearchRow& row = found_.rows[found_.best[i]];
      auto run = std::make_shared<const RunResult>(
          predict(spec_of(row), profile_, {.memory_limit_bytes = limit(), .families = families()}));
      row.step->error_bar = run->error_bar;
      row.step->warnings = run->warnings;
      row.step->warning_shares = run->warning_shares;
      if (i < explained.size()) explained[i] = {run, explain_prediction(*run, profile_)};
    });
    if (found_.best.size() > 1) found_.best_two = {std::move(explained[0]), std::move(explained[1])};
  }

  /// In the folders of the profile, then in those of other hosts with its cards.
  std::vector<std::filesystem::path> folders_of_runs() const {
    std::vector<std::filesystem::path> folders;
    const auto add = [&](const ProfileSummary& profile) {
      folders.push_back(runs_folder(profile.path));
      for (const auto& folder : runs_of_other_hosts(profile.path)) folders.push_back(folder);
    };
    const std::vector<ProfileSummary> all = list_profiles();
    for (const ProfileSummary& profile : all) {
      if (profile.name == profile_->name) add(profile);
    }
    for (const ProfileSummary& profile : all) {
      const bool same_card = profile.error.empty() && profile.environment.card == profile_->host_description.card &&
                             profile.environment.device == profile_->host_description.device;
      if (profile.name != profile_->name && same_card) add(profile);
    }
    return folders;
  }

  void find_measured_runs() {
    found_.measured.resize(found_.best.size());
    if (!profile_) return;
    const std::vector<std::filesystem::path> folders = folders_of_runs();
    for (std::size_t i = 0; i < found_.best.size(); ++i) {
      const RunSpec spec = spec_of(found_.rows[found_.best[i]]);
      if (spec.schedule == kAutoSchedule) continue;  // the order that was found is in no file's name
      for (const auto& folder : folders) {
        const auto run = find_measured(folder, on_hosts_of_profile(spec, *profile_));
        if (!run) continue;
        found_.measured[i] = {run->step_time.median_ms,
                              folder.parent_path().filename().string() + "/" + folder.filename().string()};
        break;
      }
    }
  }

  LayerFamilies* families() { return families_ ? &*families_ : nullptr; }

  const CostProfile* profile_;
  std::optional<LayerFamilies> families_;  // of the profile
  const SearchOptions& options_;
  ConfigurationSearch found_;
  std::atomic<std::size_t> decided_ = 0;
};

}  // namespace

std::string command_line(const std::string& program, const std::vector<SettingValue>& words) {
  std::string command = program;
  for (const SettingValue& word : words) command += " --" + word.name + " " + shell_word(word.value);
  return command;
}

const char* to_string(Drawback loss) {
  constexpr std::array<const char*, kLosses> kWords = {"none",   "refused",       "memory", "compute",
                                                       "bubble", "communication", "host"};
  return kWords[static_cast<std::size_t>(loss)];
}

std::vector<std::size_t> ConfigurationSearch::tied_with_first() const {
  std::vector<std::size_t> tied;
  const auto half_width_ms = [&](const SearchedStep& step) {
    return step.step_time_ms * step.error_bar->half_width_percent / 100;
  };
  for (std::size_t i = 1; i < best.size(); ++i) {
    const SearchedStep &first = *rows[best[0]].step, &other = *rows[best[i]].step;
    if (!first.error_bar || !other.error_bar) continue;
    const double apart_ms = other.step_time_ms - first.step_time_ms;
    if (apart_ms < std::hypot(half_width_ms(first), half_width_ms(other))) tied.push_back(best[i]);
  }
  return tied;
}

const char* ConfigurationSearch::verdict(std::size_t rank) const {
  const std::vector<std::size_t> tied = tied_with_first();
  const bool is_tied = rank == 0 ? !tied.empty() : std::find(tied.begin(), tied.end(), best[rank]) != tied.end();
  return is_tied ? "tie" : rank == 0 ? "fastest" : "";
}

std::string ConfigurationSearch::nothing_fits() const {
  if (!best.empty()) return "";
  if (least_memory) {
    const SearchRow& row = rows[*least_memory];
    return "out of memory: none of the " + grouped(std::ssize(rows)) + " configurations needs " +
           unlike_bytes(*memory_limit_bytes, *row.needed_memory_bytes) + " or less on every GPU; the least is " +
           unlike_bytes(*row.needed_memory_bytes, *memory_limit_bytes) + ", by " + command_line("pdl-sim", row.words);
  }
  if (rows.size() == 1) return rows.front().refusal;
  return "none of the " + grouped(std::ssize(rows)) + " configurations can run; the first: " + rows.front().refusal;
}

bool ConfigurationSearch::is_input_error() const {
  return best.empty() && !least_memory && rows.front().exit_code == kExitInput;
}

std::optional<CostProfile> costs_of_space(ConfigurationSpace& space, const std::optional<std::string>& profile) {
  const bool synthetic = std::any_of(space.given.begin(), space.given.end(),
                                     [](const SettingValue& word) { return is_synthetic_cost(word.name); });
  std::optional<CostProfile> costs = choose_costs(synthetic, profile, [&] { return kinds_of_configurations(space); });
  if (costs && costs->host_description.device == "cpu") space = configuration_space(space.given, /*on_cpu=*/true);
  return costs;
}

std::size_t ConfigurationSearch::count(Drawback loss) const {
  return static_cast<std::size_t>(
      std::count_if(rows.begin(), rows.end(), [&](const SearchRow& row) { return row.loss == loss; }));
}

std::size_t ConfigurationSearch::predicted() const {
  return static_cast<std::size_t>(
      std::count_if(rows.begin(), rows.end(), [](const SearchRow& row) { return row.step.has_value(); }));
}

ConfigurationSearch search_configurations(const ConfigurationSpace& space, const CostProfile* profile,
                                          const SearchOptions& options) {
  return Search(space, profile, options).find();
}

}  // namespace pdl
