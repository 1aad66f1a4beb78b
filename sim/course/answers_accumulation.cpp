// Homework 2: mixed precision and accumulation of gradients.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <cmath>

#include "sim/course/answer_words.hpp"
#include "sim/course/scaling_words.hpp"
#include "sim/course/series.hpp"
#include "sim/course/straight_line.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/run/measured_facts.hpp"

namespace pdl {
namespace {

std::vector<double> training_of(const ScenarioRow& row) {
  return row.measured ? losses_of_training(measured_facts(row.measured->result)) : std::vector<double>{};
}

/// How far a loss falls from the first step to the last, as a fraction of the first.
double fall_of(const std::vector<double>& losses) {
  return losses.empty() ? 0 : 1 - losses.back() / losses.front();
}

double largest_difference(const std::vector<double>& reference, const std::vector<double>& other) {
  double most = 0;
  for (std::size_t i = 0; i < std::min(reference.size(), other.size()); ++i)
    most = std::max(most, std::abs(other[i] / reference[i] - 1));
  return most;
}

/// Of one model, batch, GPUs and learning rate: rows that differ in precision and accumulation.
std::vector<Series> code_series(const Tables& tables) {
  return series_over(tables, {"dtype", "loss-scale", "accum", "no-sync"});
}

/// Losses of a series against its plain fp32 row.
struct LossCurves {
  const Series* series = nullptr;
  const ScenarioRow* plain = nullptr;
  double fall = 0;
  double most_apart = 0;  // of the others, from the plain one
  std::size_t others = 0, skipped = 0;
};

/// Of the series whose loss falls most: curves of a loss that stands still agree whatever was trained.
LossCurves loss_curves(const std::vector<Series>& all) {
  LossCurves best;
  for (const Series& series : all) {
    LossCurves own{.series = &series};
    own.plain = find_row_of(series, [](const ScenarioRow& row) {
      return row.spec.dtype == Dtype::fp32 && row.spec.accum == 1 && !training_of(row).empty();
    });
    if (!own.plain) continue;
    const std::vector<double> losses = training_of(*own.plain);
    own.fall = fall_of(losses);
    for (const ScenarioRow* row : series.rows) {
      const std::vector<double> other = training_of(*row);
      if (row == own.plain || other.empty()) continue;
      ++own.others;
      own.skipped += measured_facts(row->measured->result).skipped.size();
      own.most_apart = std::max(own.most_apart, largest_difference(losses, other));
    }
    if (own.others > 0 && (!best.series || own.fall > best.fall)) best = own;
  }
  return best;
}

std::string loss_text(const LossCurves& curves) {
  if (!curves.series) return "No run of 2 of these codes was measured with its losses.";
  constexpr double kMoves = 0.001;
  const RunSpec& spec = curves.plain->spec;
  return "Losses of " + model_text(spec) + " on " + gpus_of(*curves.plain) + " at learning rate " +
         to_text(spec.learning_rate) + " (" + source_of(*curves.series) + "): in fp32 the loss falls by " +
         difference_text(std::max(0.0, curves.fall)) + ", and with AMP, accumulation or both it stays within " +
         difference_text(curves.most_apart) + " of that curve" +
         (curves.fall < kMoves ? ", which says little, as the loss hardly moves at this rate" : "") + "; " +
         count_of(static_cast<std::int64_t>(curves.skipped), "step") + " skipped by GradScaler, no loss not finite.";
}

/// "code 1": DDP and accumulation; "code 2": DDP and AMP; "code 3": both. 0: neither.
int code_of(const RunSpec& spec) {
  return spec.accum > 1 ? (is_amp(spec.dtype) ? 3 : 1) : (is_amp(spec.dtype) ? 2 : 0);
}

std::string memory_range(const Series& series, const Rows& rows) {
  std::int64_t least = INT64_MAX, most = 0;
  for (const ScenarioRow* row : rows) {
    const std::int64_t bytes = largest_memory(run_of(series, *row));
    if (bytes == 0) return "unknown";
    least = std::min(least, bytes);
    most = std::max(most, bytes);
  }
  const std::string from = memory_like(least, most), to = memory_like(most, most);
  return from == to ? to : from + " to " + to;
}

std::size_t skipped_of(const Rows& rows) {
  std::size_t skipped = 0;
  for (const ScenarioRow* row : rows) {
    if (row->measured) skipped += measured_facts(row->measured->result).skipped.size();
  }
  return skipped;
}

std::string code_text(const Series& series, int code) {
  Rows rows;
  for (const ScenarioRow* row : series.rows) {
    if (code_of(row->spec) == code) rows.push_back(row);
  }
  if (rows.empty()) return "";
  std::vector<std::string> times, steps;
  for (const ScenarioRow* row : rows) {
    times.push_back(fixed(step_ms(series, *row), 2));
    steps.push_back(std::to_string(row->spec.accum));
  }
  const std::string name = code == 0 ? "plain DDP" : "code " + std::to_string(code);
  const std::string stability = series.side == Side::predicted
                                    ? ""
                                    : ", " + count_of(static_cast<std::int64_t>(skipped_of(rows)), "step") + " skipped";
  return name + " " + listed(times) + " ms" + (code == 1 || code == 3 ? " with ACCUM_STEPS " + listed(steps) : "") +
         ", peak memory " + memory_range(series, rows) + (code >= 2 ? stability : "");
}

/// Over ACCUM_STEPS, fewest first: of each precision and no_sync one.
std::vector<Series> accumulation_series(const Tables& tables) {
  std::vector<Series> all;
  for (Series series : series_over(tables, {"accum"})) {
    std::erase_if(series.rows, [](const ScenarioRow* row) { return row->spec.accum < 2; });
    std::stable_sort(series.rows.begin(), series.rows.end(),
                     [](auto* a, auto* b) { return a->spec.accum < b->spec.accum; });
    if (series.rows.size() > 1) all.push_back(series);
  }
  return all;
}

const Series* with_code(const std::vector<Series>& all, Dtype dtype, bool no_sync) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Series& series) {
    const RunSpec& spec = series.rows.front()->spec;
    return spec.dtype == dtype && spec.no_sync == no_sync;
  });
  return found == all.end() ? nullptr : &*found;
}

/// What one more accumulation step takes.
double each_step_ms(const Series& series) {
  std::vector<double> steps, times;
  for (const ScenarioRow* row : series.rows) {
    steps.push_back(static_cast<double>(row->spec.accum));
    times.push_back(step_ms(series, *row));
  }
  return straight_line(steps, times).slope;
}

Dtype lower_precision(const std::vector<Series>& all) {
  for (const Series& series : all) {
    if (series.rows.front()->spec.dtype != Dtype::fp32) return series.rows.front()->spec.dtype;
  }
  return Dtype::fp32;
}

std::string synchronisation_text(const std::vector<Series>& all) {
  const Series *synced = with_code(all, Dtype::fp32, false), *no_sync = with_code(all, Dtype::fp32, true);
  if (!synced || !no_sync || synced->side != no_sync->side) return "";
  const double with_ms = each_step_ms(*synced), without_ms = each_step_ms(*no_sync);
  return "Synchronisation: an accumulation step takes " + ms(with_ms) + " where gradients are exchanged in each, " +
         ms(without_ms) + " under no_sync, so the exchange is " + percent(std::max(0.0, 1 - without_ms / with_ms)) +
         " of it (fp32, " + source_of(*synced) + "). ";
}

std::string faster_or_slower(double ms_of_lower, double ms_of_full) {
  if (ms_of_lower < ms_of_full) return fixed(ms_of_full / ms_of_lower, 2) + " times as fast";
  return fixed(100 * (ms_of_lower / ms_of_full - 1), 0) + " % slower";
}

std::string precision_text(const std::vector<Series>& all) {
  const Dtype lower = lower_precision(all);
  for (const bool no_sync : {true, false}) {
    const Series *full = with_code(all, Dtype::fp32, no_sync), *own = with_code(all, lower, no_sync);
    if (lower == Dtype::fp32 || !full || !own || full->side != own->side) continue;
    const double full_ms = each_step_ms(*full), own_ms = each_step_ms(*own);
    const ScenarioRow& row = *own->rows.front();
    return "Precision: " + ms(own_ms) + " in " + to_string(lower) + " instead of " + ms(full_ms) + " in fp32, " +
           faster_or_slower(own_ms, full_ms) + " (" + source_of(*own) + ")" +
           (own_ms > full_ms && is_host_bound(row)
                ? ": autocast's casts are more kernels to issue, and the GPUs wait for the host that issues them."
                : ".");
  }
  return "";
}

std::string python_text(const Tables& tables) {
  const std::string& file = tables.front().scenario.python;
  return file.empty() ? "" : " In Python: " + file + ".";
}

}  // namespace

std::string hw2_1_code(const Tables& tables) {
  const std::int64_t steps = [&] {
    std::int64_t most = 1;
    for (const ScenarioRow& row : tables.front().rows) most = std::max(most, row.spec.accum);
    return most;
  }();
  return "In each of the " + std::to_string(steps) +
         " accumulation steps: forward under autocast, scaler.scale(loss / ACCUM_STEPS).backward(); after the last "
         "scaler.step(optimizer), scaler.update(), zero_grad()." +
         python_text(tables) + " " + loss_text(loss_curves(code_series(tables)));
}

std::string hw2_2_experiment(const Tables& tables) {
  std::string text;
  for (const Series& series : code_series(tables)) {
    if (series.rows.size() < 2) continue;
    std::string codes;
    for (const int code : {0, 1, 2, 3}) {
      if (const std::string own = code_text(series, code); !own.empty()) codes += (codes.empty() ? "" : "; ") + own;
    }
    text += (text.empty() ? "" : " ") + model_text(series.rows.front()->spec) + " on " + gpus_of(*series.rows.front()) +
            " (" + source_of(series) + "): " + codes + ".";
  }
  return text;
}

std::string hw2_3_time(const Tables& tables) {
  const std::vector<Series> all = accumulation_series(tables);
  return synchronisation_text(all) + precision_text(all);
}

std::string hw2_3_memory(const Tables& tables) {
  const std::vector<Series> all = accumulation_series(tables);
  const Series *full = with_code(all, Dtype::fp32, true), *own = with_code(all, lower_precision(all), true);
  if (!full) full = with_code(all, Dtype::fp32, false);
  if (!full) return "";
  std::string text = "Accumulation: " + memory_range(*full, full->rows) + " with ACCUM_STEPS " +
                     std::to_string(full->rows.front()->spec.accum) + " to " +
                     std::to_string(full->rows.back()->spec.accum) + " (fp32, " + source_of(*full) +
                     "), because the activations of one accumulation step are freed before the next and all add to the "
                     "same gradients.";
  if (!own || own == full || own->side != full->side) return text;
  const std::int64_t half = largest_memory(run_of(*own, *own->rows.front()));
  const std::int64_t whole = largest_memory(run_of(*full, *full->rows.front()));
  return text + " Precision: " + memory_range(*own, own->rows) + " in " + to_string(own->rows.front()->spec.dtype) +
         ", " +
         (half > whole ? "more, because autocast keeps a copy of the weights in half precision beside the fp32 weights "
                         "and gradients, and the activations of this small batch save less."
                       : "less, because activations are kept in half precision.");
}

std::string hw2_3_effective_batch(const Tables& tables) {
  std::vector<std::string> items;
  for (const ScenarioRow& row : tables.front().rows) {
    const std::string text =
        grouped(row.spec.batch * row.spec.accum) + " with ACCUM_STEPS " + std::to_string(row.spec.accum);
    if (row.spec.accum > 1 && std::find(items.begin(), items.end(), text) == items.end()) items.push_back(text);
  }
  if (items.empty()) return "";
  return "Batch x ACCUM_STEPS: " + listed(items) +
         ". backward() adds gradients up, so without the division their sum would be ACCUM_STEPS times the mean "
         "gradient, as if the learning rate were that much larger.";
}

}  // namespace pdl
