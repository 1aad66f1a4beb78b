// Homework 2: mixed precision and accumulation of gradients.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "sim/course/answer_words.hpp"
#include "sim/course/scaling_words.hpp"
#include "sim/course/series.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/words.hpp"
#include "sim/run/measured_facts.hpp"

namespace pdl {
namespace {

std::vector<double> training_of(const ScenarioRow& row) {
  return row.measured ? losses_of_training(measured_facts(row.measured->result)) : std::vector<double>{};
}

/// How far a loss gets below its first value within so many steps.
double fall_of(const std::vector<double>& losses, std::size_t steps) {
  if (losses.empty()) return 0;
  const auto end = losses.begin() + static_cast<std::ptrdiff_t>(std::min(steps, losses.size()));
  return losses.front() - *std::min_element(losses.begin(), end);
}

double largest_difference(const std::vector<double>& reference, const std::vector<double>& other, std::size_t steps) {
  double most = 0;
  for (std::size_t i = 0; i < std::min({steps, reference.size(), other.size()}); ++i)
    most = std::max(most, std::abs(other[i] - reference[i]));
  return most;
}

/// The steps from the first one on in which both losses fall.
std::size_t steadily_falling_steps(const std::vector<double>& one, const std::vector<double>& other) {
  std::size_t steps = 1;
  while (steps < std::min(one.size(), other.size()) && one[steps] < one[steps - 1] && other[steps] < other[steps - 1])
    ++steps;
  return steps;
}

/// "at most 0.6 % of the fall (0.00390) in the first 9 steps, in which both fall; 215.4 % of it (0.01144) in all 40"
std::string apart_text(const std::vector<double>& reference, const std::vector<double>& other) {
  const std::size_t all = std::min(reference.size(), other.size()), steady = steadily_falling_steps(reference, other);
  const auto share = [&](std::size_t steps) {
    const double fall = fall_of(reference, steps), apart = largest_difference(reference, other, steps);
    if (fall <= 0) return fixed(apart, 6) + " of a loss that does not fall,";
    return fixed(100 * apart / fall, 1) + " % of the fall (" + fixed(fall, 6) + ")";
  };
  const std::string in_all = share(all) + " in all " + std::to_string(all) + " steps";
  if (steady < 2 || steady == all) return "at most " + in_all;
  return "at most " + share(steady) + " in the first " + std::to_string(steady) + " steps, in which both fall, and " +
         in_all;
}

/// Far more after the steps in which both fall than in them.
bool is_taken_apart(const std::vector<double>& reference, const std::vector<double>& other) {
  constexpr double kFarMore = 2;
  const double steady = largest_difference(reference, other, steadily_falling_steps(reference, other));
  return largest_difference(reference, other, SIZE_MAX) > kFarMore * steady;
}

/// Of one model, batch, GPUs and learning rate: rows that differ in precision and accumulation.
std::vector<Series> code_series(const Tables& tables) {
  return series_over(tables, {"dtype", "loss-scale", "accum", "no-sync"});
}

/// Of a series of code_series(), measured with its losses; nullptr if there is none.
const ScenarioRow* trained_row(const Series& series, bool amp, std::int64_t accum) {
  return find_row_of(series, [&](const ScenarioRow& row) {
    return (amp ? is_amp(row.spec.dtype) : row.spec.dtype == Dtype::fp32) && row.spec.accum == accum &&
           !training_of(row).empty();
  });
}

std::vector<std::int64_t> accumulations_of(const Series& series) {
  std::vector<std::int64_t> steps;
  for (const ScenarioRow* row : series.rows) {
    if (std::find(steps.begin(), steps.end(), row->spec.accum) == steps.end()) steps.push_back(row->spec.accum);
  }
  return steps;
}

/// The series whose fp32 loss falls most, of those that have AMP with as many accumulation steps: curves of a loss that
/// stands still agree whatever was trained. nullptr if there is none.
const Series* series_of_losses(const std::vector<Series>& all) {
  const Series* best = nullptr;
  double most = 0;
  for (const Series& series : all) {
    for (const std::int64_t accum : accumulations_of(series)) {
      const ScenarioRow* full = trained_row(series, false, accum);
      if (!full || !trained_row(series, true, accum)) continue;
      const double fall = fall_of(training_of(*full), SIZE_MAX);
      if (best && fall <= most) continue;
      best = &series;
      most = fall;
    }
  }
  return best;
}

/// "measured on h200x2": source_of() without what some of the rows are.
std::string side_of_codes(const Series& series) {
  return source_of(Series{series.table, {}, series.side});
}

std::string training_place(const Series& series) {
  const ScenarioRow& row = *series.rows.front();
  return model_text(row.spec) + " on " + gpus_of(row) + " at learning rate " + to_text(row.spec.learning_rate) + ", " +
         side_of_codes(series);
}

/// All rows of a run feed one batch, in each accumulation step too (runtime/program/ddp_program.cpp).
std::string accumulation_loss_text(const Series& series) {
  const ScenarioRow* plain = trained_row(series, false, 1);
  for (const std::int64_t accum : accumulations_of(series)) {
    const ScenarioRow* other = trained_row(series, false, accum);
    if (accum == 1 || !plain || !other) continue;
    return " Accumulation makes the effective batch " + std::to_string(accum) +
           " times as large; these runs feed the same batch in each accumulation step, so the mean gradient is the "
           "same but for rounding, and fp32 with " +
           std::to_string(accum) + " against fp32 with 1 differs by " +
           apart_text(training_of(*plain), training_of(*other)) +
           (is_taken_apart(training_of(*plain), training_of(*other))
                ? ": rounding alone takes the curves that far apart once the loss goes up and down."
                : ".");
  }
  return "";
}

std::string loss_text(const std::vector<Series>& all) {
  const Series* series = series_of_losses(all);
  if (!series) return "No run of fp32 and AMP with as many accumulation steps was measured with its losses.";
  constexpr double kMoves = 0.001;
  std::vector<std::string> pairs;
  double fall = 0;
  for (const std::int64_t accum : accumulations_of(*series)) {
    const ScenarioRow *full = trained_row(*series, false, accum), *amp = trained_row(*series, true, accum);
    if (!full || !amp) continue;
    pairs.push_back("with ACCUM_STEPS " + std::to_string(accum) + " " +
                    apart_text(training_of(*full), training_of(*amp)));
    fall = std::max(fall, fall_of(training_of(*full), SIZE_MAX) / training_of(*full).front());
  }
  std::string text = "Losses of AMP and fp32, step by step (" + training_place(*series) + "), differ ";
  for (const std::string& pair : pairs) text += (&pair == &pairs.front() ? "" : "; ") + pair;
  return text + (fall < kMoves ? ", which says little, as the loss hardly moves at this rate." : ".") +
         accumulation_loss_text(*series);
}

/// "0.98968 to 1.01640 in fp32"
std::string loss_range_text(const Rows& rows, const std::string& precision) {
  double least = INFINITY, most = -INFINITY;
  for (const ScenarioRow* row : rows) {
    for (const double loss : training_of(*row)) {
      least = std::min(least, loss);
      most = std::max(most, loss);
    }
  }
  return fixed(least, 5) + " to " + fixed(most, 5) + " in " + precision;
}

std::size_t skipped_of(const Rows& rows) {
  std::size_t skipped = 0;
  for (const ScenarioRow* row : rows) {
    if (row->measured) skipped += measured_facts(row->measured->result).skipped.size();
  }
  return skipped;
}

std::string stability_text(const Series& series) {
  Rows full, amp;
  bool finite = true;
  for (const ScenarioRow* row : series.rows) {
    const std::vector<double> losses = training_of(*row);
    finite = finite && std::all_of(losses.begin(), losses.end(), [](double loss) { return std::isfinite(loss); });
    if (losses.empty()) continue;
    (is_amp(row->spec.dtype) ? amp : full).push_back(row);
  }
  return " Stability (" + training_place(series) +
         "): " + count_of(static_cast<std::int64_t>(skipped_of(series.rows)), "step") + " skipped by GradScaler, " +
         (finite ? "all losses finite" : "NOT all losses finite") + ", which start at " +
         fixed(training_of(*full.front()).front(), 5) + " and are " + loss_range_text(full, "fp32") + ", " +
         loss_range_text(amp, to_string(amp.front()->spec.dtype)) + ".";
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

/// " (host-bound)", " (host-bound with ACCUM_STEPS 4)": of the rows whose predictions say so.
std::string host_bound_codes(const Rows& rows) {
  std::vector<std::string> steps;
  for (const ScenarioRow* row : rows) {
    if (is_host_bound(*row)) steps.push_back(std::to_string(row->spec.accum));
  }
  if (steps.empty()) return "";
  return steps.size() == rows.size() ? " (host-bound)" : " (host-bound with ACCUM_STEPS " + listed(steps) + ")";
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
         host_bound_codes(rows) + ", peak memory " + memory_range(series, rows) + (code >= 2 ? stability : "");
}

/// Of one model, batch and GPUs: rows that differ in accumulation, exchange and precision.
std::vector<Series> accumulation_series(const Tables& tables) {
  std::vector<Series> all = series_over(tables, {"dtype", "accum", "no-sync"});
  std::erase_if(all, [](const Series& series) {
    return !find_row_of(series, [](const ScenarioRow& row) { return row.spec.accum > 1; });
  });
  return all;
}

/// Of one precision, fewest accumulation steps first; one step exchanges gradients either way. Nothing where there is
/// no row of two steps or more.
Rows rows_of_code(const Series& series, Dtype dtype, bool no_sync) {
  Rows rows = series.rows;
  std::erase_if(rows, [&](const ScenarioRow* row) {
    return row->spec.dtype != dtype || (row->spec.accum > 1 && row->spec.no_sync != no_sync);
  });
  std::stable_sort(rows.begin(), rows.end(), [](auto* a, auto* b) { return a->spec.accum < b->spec.accum; });
  return rows.empty() || rows.back()->spec.accum < 2 ? Rows{} : rows;
}

/// What one more accumulation step takes: over all rows, and the least and most between two neighbours.
struct StepCost {
  double ms = 0, least_ms = 0, most_ms = 0;
};

/// Nothing for one row.
std::optional<StepCost> each_step(const Series& series, const Rows& rows) {
  if (rows.size() < 2 || rows.front()->spec.accum == rows.back()->spec.accum) return std::nullopt;
  const auto between = [&](const ScenarioRow& few, const ScenarioRow& many) {
    return (step_ms(series, many) - step_ms(series, few)) / static_cast<double>(many.spec.accum - few.spec.accum);
  };
  StepCost cost{between(*rows.front(), *rows.back()), INFINITY, 0};
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i]->spec.accum == rows[i - 1]->spec.accum) continue;
    const double own = between(*rows[i - 1], *rows[i]);
    cost.least_ms = std::min(cost.least_ms, own);
    cost.most_ms = std::max(cost.most_ms, own);
  }
  return cost;
}

/// "1.66 ms", "2.16 ms (1.88 to 2.49)" where the times lie on no straight line.
std::string step_cost_text(const StepCost& cost) {
  constexpr double kStraight = 0.02;
  if (cost.most_ms - cost.least_ms < kStraight * cost.ms) return ms(cost.ms);
  return ms(cost.ms) + " (" + fixed(cost.least_ms, 2) + " to " + fixed(cost.most_ms, 2) + ")";
}

Dtype lower_precision(const Series& series) {
  const ScenarioRow* row = find_row_of(series, [](const ScenarioRow& own) { return own.spec.dtype != Dtype::fp32; });
  return row ? row->spec.dtype : Dtype::fp32;
}

std::string synchronisation_text(const Series& series) {
  const Rows synced = rows_of_code(series, Dtype::fp32, false), no_sync = rows_of_code(series, Dtype::fp32, true);
  const auto with = each_step(series, synced), without = each_step(series, no_sync);
  if (!with || !without) return "";
  return " Synchronisation: an accumulation step in fp32 takes " + step_cost_text(*with) + host_bound_codes(synced) +
         " where gradients are exchanged in each, " + step_cost_text(*without) + host_bound_codes(no_sync) +
         " under no_sync, so the exchange is " + percent(std::max(0.0, 1 - without->ms / with->ms)) + " of it.";
}

std::string faster_or_slower(double ms_of_lower, double ms_of_full) {
  constexpr double kDifferent = 0.02;
  if (std::abs(ms_of_lower / ms_of_full - 1) < kDifferent) return "no difference here";
  if (ms_of_lower < ms_of_full) return fixed(ms_of_full / ms_of_lower, 2) + " times as fast";
  return fixed(100 * (ms_of_lower / ms_of_full - 1), 0) + " % slower";
}

std::string precision_text(const Series& series) {
  const Dtype lower = lower_precision(series);
  for (const bool no_sync : {true, false}) {
    const Rows full_rows = rows_of_code(series, Dtype::fp32, no_sync), rows = rows_of_code(series, lower, no_sync);
    const auto full = each_step(series, full_rows), own = each_step(series, rows);
    if (lower == Dtype::fp32 || !full || !own) continue;
    const bool waits =
        own->ms > full->ms && std::any_of(rows.begin(), rows.end(), [](auto* r) { return is_host_bound(*r); });
    return std::string(" Precision") + (no_sync ? ", under no_sync: " : ": ") + step_cost_text(*own) +
           host_bound_codes(rows) + " in " + to_string(lower) + " instead of " + step_cost_text(*full) +
           host_bound_codes(full_rows) + " in fp32, " + faster_or_slower(own->ms, full->ms) +
           (waits ? ": autocast's casts are more kernels to issue, and the GPUs wait for the host that issues them."
                  : ".");
  }
  return "";
}

std::string code_place(const Series& series) {
  return model_text(series.rows.front()->spec) + " on " + gpus_of(*series.rows.front()) + " (" + side_of_codes(series) +
         ")";
}

/// "1.19 GiB without accumulation, 1.26 GiB with ACCUM_STEPS 4 to 32"
std::string memory_by_steps(const Series& series, const Rows& rows) {
  Rows plain, accumulated;
  for (const ScenarioRow* row : rows) (row->spec.accum > 1 ? accumulated : plain).push_back(row);
  const std::string least = std::to_string(accumulated.front()->spec.accum),
                    most = std::to_string(accumulated.back()->spec.accum);
  return (plain.empty() ? "" : memory_range(series, plain) + " without accumulation, ") +
         memory_range(series, accumulated) + " with ACCUM_STEPS " + (least == most ? least : least + " to " + most);
}

Rows rows_of_memory(const Series& series, Dtype dtype) {
  const Rows rows = rows_of_code(series, dtype, true);
  return rows.empty() ? rows_of_code(series, dtype, false) : rows;
}

std::string code_memory_text(const Series& series) {
  const Rows full = rows_of_memory(series, Dtype::fp32), own = rows_of_memory(series, lower_precision(series));
  if (full.empty()) return "";
  std::string text = code_place(series) + ": in fp32 " + memory_by_steps(series, full);
  if (own.empty() || lower_precision(series) == Dtype::fp32) return text + ".";
  const std::int64_t half = largest_memory(run_of(series, *own.back()));
  const std::int64_t whole = largest_memory(run_of(series, *full.back()));
  return text + "; in " + to_string(own.back()->spec.dtype) + " " + memory_by_steps(series, own) + ", " +
         (half > whole ? "more, because autocast keeps a copy of the weights in half precision beside the fp32 weights "
                         "and gradients, and the activations of this batch save less."
                       : "less, because activations are kept in half precision.");
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
         python_text(tables) + " " + loss_text(code_series(tables));
}

std::string hw2_2_experiment(const Tables& tables) {
  const std::vector<Series> all = code_series(tables);
  const Series* of_losses = series_of_losses(all);
  std::string text;
  for (const Series& series : all) {
    if (series.rows.size() < 2) continue;
    const bool for_losses_alone = &series == of_losses && of_losses != &all.front();
    if (for_losses_alone) continue;
    std::string codes;
    for (const int code : {0, 1, 2, 3}) {
      if (const std::string own = code_text(series, code); !own.empty()) codes += (codes.empty() ? "" : "; ") + own;
    }
    text += (text.empty() ? "" : " ") + code_place(series) + ": " + codes + ".";
  }
  return text + (of_losses ? stability_text(*of_losses) : "");
}

std::string hw2_3_time(const Tables& tables) {
  std::string text;
  for (const Series& series : accumulation_series(tables)) {
    const std::string own = synchronisation_text(series) + precision_text(series);
    if (!own.empty()) text += (text.empty() ? "" : " ") + code_place(series) + "." + own;
  }
  return text;
}

std::string hw2_3_memory(const Tables& tables) {
  std::string text;
  bool first_needs_more = false;
  for (const Series& series : accumulation_series(tables)) {
    if (const std::string own = code_memory_text(series); !own.empty()) text += " " + own;
    const Rows full = rows_of_memory(series, Dtype::fp32);
    first_needs_more = first_needs_more || (!full.empty() && largest_memory(run_of(series, *full.front())) <
                                                                 largest_memory(run_of(series, *full.back())));
  }
  if (text.empty()) return "";
  return std::string(
             "Many accumulation steps need the memory of a few, because the activations of one are freed before "
             "the next and all add to the same gradients") +
         (first_needs_more ? "; against no accumulation a new gradient is beside the sum that it is added to." : ".") +
         text;
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
