// Homework 1.1 to 1.3: a benchmark that can be repeated, speed-ups, what hides communication.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/course/answer_words.hpp"
#include "sim/course/scaling_words.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/run/communication.hpp"
#include "sim/run/measured_facts.hpp"

namespace pdl {
namespace {

// ---- HW1.1

/// "8 layers of 8192, batch 64 on 2 GPUs, seed 1, repeat 2".
std::string run_text(const RunSpec& spec) {
  return work_text(spec) + " on " + count_of(spec.gpus, "GPU") +
         (spec.seed != 0 ? ", seed " + std::to_string(spec.seed) : "") +
         (spec.repeat > 1 ? ", repeat " + std::to_string(spec.repeat) : "");
}

/// "490.3, 13.1, 13.1".
std::string list_of_times(const std::vector<double>& times_ms, int digits) {
  std::string text;
  for (const double time_ms : times_ms) text += (text.empty() ? "" : ", ") + fixed(time_ms, digits);
  return text;
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// What a mean over all steps would be: exact where every step was kept, else as if the others all took the median.
struct MeanOfAll {
  double ms = 0;
  bool exact = false;
};
MeanOfAll mean_of_all(const RunResult& run, const MeasuredFacts& facts) {
  const bool exact = !facts.steps_ms.empty();
  const double others =
      exact ? static_cast<double>(facts.steps_ms.size()) : static_cast<double>(run.step_time.n.value_or(1));
  const double others_ms = exact ? sum_of(facts.steps_ms) : others * run.step_time.median_ms;
  return {(sum_of(facts.warmup_ms) + others_ms) / (static_cast<double>(facts.warmup_ms.size()) + others), exact};
}

std::string warmup_of(const ScenarioRow& row) {
  if (!row.measured) return "";
  const MeasuredFacts facts = measured_facts(row.measured->result);
  if (facts.warmup_ms.empty()) return "";
  const double median_ms = row.measured->result.step_time.median_ms;
  const MeanOfAll mean = mean_of_all(row.measured->result, facts);
  return run_text(row.spec) + ": the first " + count_of(static_cast<std::int64_t>(facts.warmup_ms.size()), "step") +
         " took " + list_of_times(facts.warmup_ms, 1) + " ms, the median of the others is " + ms(median_ms) +
         "; the very first is " + fixed(facts.warmup_ms.front() / median_ms, 1) +
         " times as long. A mean that kept them would be " + (mean.exact ? "" : "about ") + ms(mean.ms) + ", " +
         time_against(mean.ms, median_ms) + " than a step takes.";
}

/// The list that the exercise asks for.
std::string steps_of(const ScenarioRow& row) {
  if (!row.measured) return "";
  const MeasuredFacts facts = measured_facts(row.measured->result);
  if (facts.steps_ms.empty()) return "";
  return run_text(row.spec) + ", each of the " + count_of(static_cast<std::int64_t>(facts.steps_ms.size()), "step") +
         " after the warm-up, ms: " + list_of_times(facts.steps_ms, 2) + ".";
}

std::vector<double> losses_of(const ScenarioRow& row) {
  return row.measured ? measured_facts(row.measured->result).losses : std::vector<double>{};
}

/// The largest difference of first losses in a group of rows with one seed, relative to the first row's.
std::string seeds_of(const Rows& rows) {
  std::vector<double> first;
  for (const ScenarioRow* row : rows) {
    const auto losses = losses_of(*row);
    if (!losses.empty() && row->spec.seed == rows.front()->spec.seed) first.push_back(losses.front());
  }
  if (first.size() < 2) return "";
  double most = 0;
  for (const double loss : first) most = std::max(most, std::abs(loss / first.front() - 1));
  return work_text(rows.front()->spec) + ": the loss of the first step is " + to_text(first.front()) +
         " in the first of " + count_of(static_cast<std::int64_t>(first.size()), "run") + ", and differs by at most " +
         fixed(1e6 * most, 1) + " millionths in the others.";
}

/// Losses of two runs step by step: how many are equal to the last digit, and the largest difference relative to the
/// first run's.
std::string losses_against(const std::vector<double>& losses, const std::vector<double>& other) {
  const std::size_t steps = std::min(losses.size(), other.size());
  std::size_t equal = 0;
  double most = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    equal += losses[i] == other[i] ? 1 : 0;
    most = std::max(most, std::abs(other[i] / losses[i] - 1));
  }
  if (equal == steps) return "all " + std::to_string(steps) + " losses are equal, to the last digit";
  return std::to_string(equal) + " of " + std::to_string(steps) + " losses are equal; at most they differ by " +
         difference_text(most) + ", in the first step " + to_text(other.front()) + " against " +
         to_text(losses.front());
}

/// The same run again, and with another seed, each against the first measured row that differs from it in nothing else.
void compare_seeds(const ScenarioTable& table, Sentences& out) {
  for (const Rows& rows : rows_alike(table, {"seed", "repeat"})) {
    const auto has_losses = [](const ScenarioRow* row) { return !losses_of(*row).empty(); };
    const auto reference = std::find_if(rows.begin(), rows.end(), has_losses);
    if (reference == rows.end()) continue;
    const ScenarioRow& first = **reference;
    const std::vector<double> losses = losses_of(first);
    for (const ScenarioRow* row : rows) {
      const std::vector<double> other = losses_of(*row);
      if (row == &first || other.empty()) continue;
      const bool same_seed = row->spec.seed == first.spec.seed;
      out.push_back(
          "Seeds: " + work_text(first.spec) + " on " + gpus_of(first) + ", " +
          (same_seed ? "two runs with seed " + std::to_string(first.spec.seed)
                     : "seed " + std::to_string(row->spec.seed) + " against seed " + std::to_string(first.spec.seed)) +
          ": " + losses_against(losses, other) + "; a step takes " + ms(step_ms(*row, Side::measured)) + " and " +
          ms(step_ms(first, Side::measured)) + ".");
    }
  }
}

constexpr double kLinearEfficiency = 0.9;

/// Without the kind of the numbers, which the sentence says.
std::string communication_text(const ScenarioRow& row, Side side) {
  const EvaluatedRun& run = of(row, side);
  const CommunicationTime time = communication_time(run.result, run.metrics);
  const double hidden =
      time.running_ns == 0 ? 0 : 1 - static_cast<double>(time.exposed_ns) / static_cast<double>(time.running_ns);
  return "communication runs " + ms_of(time.running_ns) + " of " + ms_of(run.metrics.step_ns) + ", of which " +
         ms_of(time.exposed_ns) + ", " + percent(exposed_communication_fraction(run.metrics)) +
         " of the step, are exposed (" +
         (is_host_bound(row) ? "host-bound" : whole_percent(hidden) + " hidden behind computation") +
         recording_text(run) + ")";
}

/// One sentence a series: "Measured: on 2 GPUs communication runs ...; on 4 GPUs ...".
std::string communication_of_series(const std::vector<ScalingPoint>& points) {
  std::string text = points.front().side == Side::measured ? "Measured: " : "Predicted: ";
  Rows rows;
  for (std::size_t i = 0; i < points.size(); ++i) {
    text +=
        (i == 0 ? "on " : "; on ") + gpus_of(*points[i].row) + " " + communication_text(*points[i].row, points[i].side);
    rows.push_back(points[i].row);
  }
  return text + "." + host_bound_note(rows);
}

// ---- HW1.3

constexpr double kHiddenShare = 0.05;

/// Rows on so many GPUs that communicate and differ in their batch alone, fewest samples a GPU first.
std::vector<Rows> rows_by_size(const ScenarioTable& table, std::int64_t gpus) {
  std::vector<Rows> groups;
  for (Rows group : rows_alike(table, {"batch"})) {
    std::erase_if(group, [&](const ScenarioRow* row) {
      return row->spec.gpus != gpus ||
             communication_time(row->predicted.result, row->predicted.metrics).running_ns == 0;
    });
    std::stable_sort(group.begin(), group.end(), [](auto* a, auto* b) { return a->spec.batch < b->spec.batch; });
    if (!group.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

/// "256 samples a GPU".
std::string samples_a_gpu(const ScenarioRow& row) {
  return to_text(static_cast<double>(row.spec.batch) / static_cast<double>(row.spec.gpus)) + " samples a GPU";
}

/// Shares of a group are of one kind: measured if every row has one that counts.
Side side_of_shares(const Rows& rows) {
  const bool measured =
      std::all_of(rows.begin(), rows.end(), [](auto* row) { return side_of_shares(*row) == Side::measured; });
  return measured ? Side::measured : Side::predicted;
}

double exposed_share(const ScenarioRow& row, Side side) {
  return exposed_communication_fraction(of(row, side).metrics);
}

std::string exposed_text(const ScenarioRow& row, Side side) {
  return percent(exposed_share(row, side)) + " exposed with " + samples_a_gpu(row);
}

/// What was measured of a group that is said as predicted: "Measured of these: 41.4 % exposed with 16 samples a GPU and
/// ...".
std::string measured_shares(const Rows& rows) {
  std::vector<std::string> items;
  for (const ScenarioRow* row : rows) {
    if (side_of_shares(*row) == Side::measured && !is_host_bound(*row))
      items.push_back(exposed_text(*row, Side::measured));
  }
  return items.empty() ? "" : "Measured of these: " + listed(items) + ".";
}

/// Backward work of a GPU that could hide the exchange, against the exchange itself.
std::string hiding_text(const ScenarioRow& row, Side side) {
  const CommunicationTime time = communication_time(of(row, side).result, of(row, side).metrics);
  const double longer = static_cast<double>(time.backward_ns) / static_cast<double>(time.running_ns);
  return work_text(row.spec) + " on " + gpus_of(row) + ", " + samples_a_gpu(row) + " (" + name(side) +
         "): " + communication_text(row, side) +
         (is_host_bound(row) || time.running_ns == 0
              ? ""
              : "; the backward takes " + fixed(longer, 2) + " times as long as the exchange") +
         ".";
}

/// "8 layers of 8192, from 256 samples a GPU on (...)". `rows`: one of rows_by_size(). Host-bound rows say nothing.
std::string hidden_from(const Rows& rows, Side side) {
  const RunSpec& spec = rows.front()->spec;
  const std::string model = layers_text(spec) + (spec.accum > 1 ? " with " + count_of(spec.accum, "round") : "") + ": ";
  Rows usable;
  for (const ScenarioRow* row : rows) {
    if (!is_host_bound(*row)) usable.push_back(row);
  }
  if (usable.empty()) return model + "no size follows, the host bounds every row";
  const auto text = [&](const ScenarioRow* row) { return exposed_text(*row, side); };
  std::size_t from = usable.size();
  while (from > 0 && exposed_share(*usable[from - 1], side) < kHiddenShare) --from;
  if (from == usable.size()) return model + "in no row (" + text(usable.back()) + "; " + name(side) + ")";
  return model + "from " + samples_a_gpu(*usable[from]) + " on, of the rows (" +
         (from > 0 ? text(usable[from - 1]) + ", " : "") + text(usable[from]) + "; " + name(side) + ")";
}

/// The bucket that no backward is left to hide; nothing where every row has several exchanges a step.
std::string last_bucket_text(const std::vector<Rows>& groups) {
  std::vector<std::string> items;
  for (const Rows& rows : groups) {
    const RunSpec& spec = rows.front()->spec;
    const std::vector<std::int64_t>& bytes = rows.front()->predicted.result.collective_bytes;
    if (resolve(spec).program != Program::ddp || spec.accum > 1 || bytes.empty()) continue;
    const double all = static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}));
    items.push_back(percent(static_cast<double>(bytes.back()) / all) + " of the gradients of " + layers_text(spec) +
                    " (" + count_of(static_cast<std::int64_t>(bytes.size()), "bucket") + ")");
  }
  if (items.empty()) return "";
  return "What no backward hides is the last bucket, which is ready only when the backward ends: " + listed(items) +
         ". The fewer the buckets, the more of the exchange that is.";
}

}  // namespace

Sentences reproducible_benchmark(const ScenarioTable& table) {
  Sentences out;
  for (const ScenarioRow& row : table.rows) {
    if (const std::string text = warmup_of(row); !text.empty()) out.push_back("Warm-up: " + text);
  }
  if (out.empty())
    out.push_back(
        "Warm-up: no run here was measured with the times of its first steps; a prediction is of a step as it is after "
        "them.");
  for (const ScenarioRow& row : table.rows) {
    if (const std::string text = steps_of(row); !text.empty()) out.push_back("Steps: " + text);
  }
  out.push_back(
      "Why warm-up matters: the first steps create what later ones use again: the CUDA context, the handles and "
      "workspaces of cuBLAS and NCCL, the allocator's blocks.");
  std::size_t compared = 0;
  for (const Rows& rows : rows_by_model(table)) {
    const std::string text = seeds_of(rows);
    if (text.empty()) continue;
    out.push_back("Seeds: " + text);
    ++compared;
  }
  compare_seeds(table, out);
  out.push_back(compared > 0 ? "Because parameters and data come from the same seed, runs on more GPUs train the same "
                               "model on the same samples, and their times may be compared."
                             : "Seeds: with the same seed every run begins with the same parameters and data, so that "
                               "losses can be compared number by number and times are those of "
                               "the same work.");
  for (const ScenarioRow& row : table.rows) {
    if (!row.measured || !row.measured->result.step_time.p25_ms) continue;
    out.push_back("Spread: " + run_text(row.spec) + ": " + spread_text(row) + " of the median from p25 to p75, over " +
                  count_of(row.measured->result.step_time.n.value_or(0), "step") + ".");
  }
  return out;
}

Sentences strong_scaling(const ScenarioTable& table) {
  Sentences out;
  for (const Rows& rows : rows_by_model(table)) {
    const std::vector<ScalingPoint> points = scaling_of(rows, side_of(rows));
    if (points.empty()) continue;
    const bool linear = std::all_of(points.begin(), points.end(),
                                    [](const ScalingPoint& p) { return p.gain.efficiency >= kLinearEfficiency; });
    const bool slower =
        std::any_of(points.begin(), points.end(), [](const ScalingPoint& p) { return p.gain.speedup < 1; });
    out.push_back(work_text(rows.front()->spec) + ": is it linear? " + (linear ? "Nearly: " : "No: ") +
                  speedups_text(points) + "." + (slower ? " Below 1 more GPUs make the step longer." : "") +
                  disagreement_text(rows));
    out.push_back(drop_text(points));
    out.push_back(communication_of_series(points));
  }
  return out;
}

Sentences communication_computation(const ScenarioTable& table) {
  Sentences out;
  const std::int64_t gpus = most_gpus(table);
  const std::vector<Rows> groups = rows_by_size(table, gpus);
  std::vector<std::string> sizes;
  Rows all;
  for (const Rows& rows : groups) {
    const Side side = side_of_shares(rows);
    for (const ScenarioRow* row : rows) out.push_back(hiding_text(*row, side));
    if (side == Side::predicted) {
      if (const std::string measured = measured_shares(rows); !measured.empty()) out.push_back(measured);
    }
    all.insert(all.end(), rows.begin(), rows.end());
    sizes.push_back(hidden_from(rows, side));
  }
  std::string answer = "From which size on does computation hide communication, all but " + percent(kHiddenShare) +
                       " of the step, on " + count_of(gpus, "GPU") + "? ";
  for (std::size_t i = 0; i < sizes.size(); ++i) answer += (i == 0 ? "" : ". ") + sizes[i];
  out.push_back(answer + (sizes.empty() ? "No row communicates." : ".") + host_bound_note(all));
  if (const std::string last = last_bucket_text(groups); !last.empty()) out.push_back(last);
  out.push_back(
      "A layer's exchange carries 4 D^2 bytes and its backward computes 4 D^2 operations a sample: the width cancels, "
      "and what hides the exchange is the number of samples a GPU. A model too small to keep the GPU busy is bound by "
      "the host that launches its kernels instead.");
  return out;
}

}  // namespace pdl
