// Homework 2: mixed precision and accumulation of gradients.
#include "sim/report/exercises.hpp"

#include <algorithm>
#include <cmath>

#include "sim/report/answer_words.hpp"
#include "sim/report/measured_facts.hpp"
#include "sim/report/number_text.hpp"

namespace pdl {
namespace {

/// "fp32, 4 rounds, no_sync".
std::string code_text(const RunSpec& spec) {
  return to_string(spec.dtype) + ", " + count_of(spec.accum, "round") + (spec.no_sync ? ", no_sync" : "");
}

/// Rows with the same model and batch, whatever their rounds and numbers.
std::vector<Rows> rows_by_batch(const ScenarioTable& table) {
  std::vector<Rows> groups;
  for (const ScenarioRow& row : table.rows) {
    const auto same = [&](const Rows& group) {
      const RunSpec& spec = group.front()->spec;
      return spec.model_name == row.spec.model_name && spec.depth == row.spec.depth && spec.dim == row.spec.dim && spec.batch == row.spec.batch;
    };
    const auto known = std::find_if(groups.begin(), groups.end(), same);
    if (known == groups.end()) {
      groups.push_back({&row});
    } else {
      known->push_back(&row);
    }
  }
  return groups;
}

/// The row that differs from `spec` in the given words only; nullptr if there is none.
const ScenarioRow* row_like(const Rows& rows, const RunSpec& spec, Dtype dtype, std::int64_t accum, bool no_sync) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](auto* row) {
    return row->spec.dtype == dtype && row->spec.accum == accum && row->spec.no_sync == no_sync && row->spec.gpus == spec.gpus &&
           row->spec.strategy == spec.strategy;
  });
  return found == rows.end() ? nullptr : *found;
}

std::vector<double> training_of(const ScenarioRow& row) {
  return row.measured ? losses_of_training(measured_facts(row.measured->result)) : std::vector<double>{};
}

/// The largest difference of two loss curves, step by step, in per cent of the first one's loss.
struct CurveDifference {
  std::size_t steps = 0;
  double most_percent = 0;
};
CurveDifference curve_difference(const std::vector<double>& reference, const std::vector<double>& other) {
  CurveDifference difference;
  difference.steps = std::min(reference.size(), other.size());
  for (std::size_t i = 0; i < difference.steps; ++i) {
    difference.most_percent = std::max(difference.most_percent, 100 * std::abs(other[i] / reference[i] - 1));
  }
  return difference;
}

void compare_losses(const Rows& rows, Sentences& out) {
  const ScenarioRow& reference = *rows.front();
  const std::vector<double> losses = training_of(reference);
  if (losses.empty()) {
    out.push_back("The losses are facts of measured runs; none of " + code_text(reference.spec) + " is beside this profile.");
    return;
  }
  out.push_back("Loss of " + code_text(reference.spec) + ": " + fixed(losses.front(), 6) + " in the first, " + fixed(losses.back(), 6) + " in the last of " +
                count_of(static_cast<std::int64_t>(losses.size()), "step") + " (measured).");
  // Curves of a loss that stands still agree whatever was trained.
  constexpr double kMoves = 0.01;
  if (std::abs(losses.back() - losses.front()) < kMoves * std::abs(losses.front())) {
    out.push_back("It moves by less than " + percent(kMoves) + ": whether the others train as well does not follow from it. pdl-run --check "
                  "trains at a rate at which the loss moves, and compares.");
    return;
  }
  for (const ScenarioRow* row : rows) {
    const std::vector<double> own = training_of(*row);
    if (row == &reference || own.empty()) continue;
    const CurveDifference difference = curve_difference(losses, own);
    const auto skipped = measured_facts(row->measured->result).skipped;
    out.push_back(code_text(row->spec) + ": step by step at most " + fixed(difference.most_percent, 3) + " % from that curve, over " +
                  count_of(static_cast<std::int64_t>(difference.steps), "step") +
                  (row->spec.dtype == Dtype::amp_fp16 ? "; " + count_of(static_cast<std::int64_t>(skipped.size()), "step") + " skipped by GradScaler, left out" : "") + ".");
  }
}

/// Exchange in every round against the last one only.
void compare_sync(const Rows& rows, Sentences& out) {
  for (const ScenarioRow* row : rows) {
    if (!row->spec.no_sync || row->spec.accum < 2) continue;
    const ScenarioRow* synced = row_like(rows, row->spec, row->spec.dtype, row->spec.accum, false);
    if (!synced) continue;
    const Side side = side_of(Rows{row, synced});
    const double saved_ms = step_ms(*synced, side) - step_ms(*row, side);
    out.push_back("Synchronisation, " + to_string(row->spec.dtype) + ", " + count_of(row->spec.accum, "round") + ": " + ms(step_ms(*synced, side)) + " with " +
                  count_of(row->spec.accum, "exchange") + " a step, " + ms(step_ms(*row, side)) + " with one (" + name(side) + "): " +
                  (saved_ms >= 0 ? "each of the others costs " + ms(saved_ms / static_cast<double>(row->spec.accum - 1)) : "the others cost nothing that shows") +
                  ", " + percent(std::max(0.0, saved_ms / step_ms(*synced, side))) + " of the step in all.");
  }
}

void compare_precision(const Rows& rows, Sentences& out) {
  for (const ScenarioRow* row : rows) {
    if (row->spec.dtype == Dtype::fp32) continue;
    const ScenarioRow* full = row_like(rows, row->spec, Dtype::fp32, row->spec.accum, row->spec.no_sync);
    if (!full) continue;
    const Side side = side_of(Rows{row, full});
    const double faster = step_ms(*full, side) / step_ms(*row, side);
    const std::int64_t bytes = largest_memory(of(*row, side)), than = largest_memory(of(*full, side));
    out.push_back("Precision, " + code_text(row->spec) + ": " + ms(step_ms(*row, side)) + " against " + ms(step_ms(*full, side)) + " in fp32 (" + name(side) + "), " +
                  fixed(faster, 2) + " times as fast" + (faster < 1 ? ": the casts cost more than the products gain" : "") +
                  (bytes > 0 && than > 0 ? "; the fullest GPU holds " + binary_bytes(bytes) + " instead of " + binary_bytes(than) : "") + ".");
  }
}

void say_stability(const Rows& rows, Sentences& out) {
  for (const ScenarioRow* row : rows) {
    if (!row->measured || row->spec.dtype != Dtype::amp_fp16) continue;
    const MeasuredFacts facts = measured_facts(row->measured->result);
    const bool finite = std::all_of(facts.losses.begin(), facts.losses.end(), [](double loss) { return std::isfinite(loss); });
    out.push_back("Stability, " + code_text(row->spec) + ": " + count_of(static_cast<std::int64_t>(facts.skipped.size()), "step") + " of " +
                  std::to_string(facts.losses.size()) + " skipped because gradients were not finite, " + (finite ? "every loss finite" : "NOT every loss finite") +
                  " (measured).");
  }
}

/// Rows of one code whose rounds vary, fewest first.
std::vector<Rows> rows_by_code(const Rows& rows) {
  std::vector<Rows> groups;
  for (const ScenarioRow* row : rows) {
    const auto known = std::find_if(groups.begin(), groups.end(), [&](const Rows& group) {
      return group.front()->spec.dtype == row->spec.dtype && group.front()->spec.no_sync == row->spec.no_sync;
    });
    if (known == groups.end()) {
      groups.push_back({row});
    } else {
      known->push_back(row);
    }
  }
  for (Rows& group : groups) {
    std::stable_sort(group.begin(), group.end(), [](auto* a, auto* b) { return a->spec.accum < b->spec.accum; });
  }
  return groups;
}

/// What a further round takes: between the fewest and the most rounds of a group.
double round_ms(const Rows& group, Side side) {
  const ScenarioRow &least = *group.front(), &most = *group.back();
  return (step_ms(most, side) - step_ms(least, side)) / static_cast<double>(most.spec.accum - least.spec.accum);
}

void say_time_of_rounds(const Rows& group, Sentences& out) {
  const Side side = side_of(group);
  std::vector<std::string> times;
  for (const ScenarioRow* row : group) times.push_back(std::to_string(row->spec.accum) + " rounds " + ms(step_ms(*row, side)));
  const double each_ms = round_ms(group, side);
  const ScenarioRow& least = *group.front();
  const double fixed_ms = step_ms(least, side) - static_cast<double>(least.spec.accum) * each_ms;
  out.push_back("Time, " + to_string(least.spec.dtype) + (least.spec.no_sync ? ", no_sync" : "") + " (" + name(side) + "): " + listed(times) + ": a further round takes " + ms(each_ms) +
                (fixed_ms > 0 ? ", and " + ms(fixed_ms) + " of a step are there whatever the rounds" : "") + ".");
}

void say_memory(const Rows& rows, Sentences& out) {
  const Side side = side_of(rows);
  std::int64_t least = 0, most = 0;
  for (const ScenarioRow* row : rows) {
    const std::int64_t bytes = largest_memory(of(*row, side));
    if (bytes == 0) return;
    least = least == 0 ? bytes : std::min(least, bytes);
    most = std::max(most, bytes);
  }
  out.push_back("Memory, " + to_string(rows.front()->spec.dtype) + (rows.front()->spec.no_sync ? ", no_sync" : "") + ", " + std::to_string(rows.front()->spec.accum) + " to " +
                count_of(rows.back()->spec.accum, "round") + " (" + name(side) + "): " + (least == most ? binary_bytes(least) : binary_bytes(least) + " to " + binary_bytes(most)) +
                " on the fullest GPU.");
}

void say_cost_of_exchange(const std::vector<Rows>& codes, Sentences& out) {
  for (const Rows& group : codes) {
    if (!group.front()->spec.no_sync || group.size() < 2) continue;
    const auto synced = std::find_if(codes.begin(), codes.end(), [&](const Rows& other) {
      return !other.front()->spec.no_sync && other.front()->spec.dtype == group.front()->spec.dtype && other.size() > 1;
    });
    if (synced == codes.end()) continue;
    Rows both = group;
    both.insert(both.end(), synced->begin(), synced->end());
    const Side side = side_of(both);
    const double with_ms = round_ms(*synced, side), without_ms = round_ms(group, side);
    out.push_back("Synchronisation, " + to_string(group.front()->spec.dtype) + " (" + name(side) + "): a round that exchanges its gradients takes " + ms(with_ms) + ", one under no_sync " +
                  ms(without_ms) + ": the exchange costs " + ms(with_ms - without_ms) + " a round, " + percent((with_ms - without_ms) / with_ms) + " of it.");
  }
}

}  // namespace

Sentences amp_accumulation(const ScenarioTable& table) {
  Sentences out;
  for (const Rows& rows : rows_by_batch(table)) {
    std::vector<std::string> batches;
    for (const ScenarioRow* row : rows) {
      const std::string text = count_of(row->spec.accum, "round") + " of " + std::to_string(row->spec.batch) + ": " + grouped(row->spec.batch * row->spec.accum);
      if (std::find(batches.begin(), batches.end(), text) == batches.end()) batches.push_back(text);
    }
    out.push_back("Effective batch, samples whose gradients make one step: " + listed(batches) +
                  ". Each loss is divided by the rounds, so that the gradient is the mean over all of them.");
    compare_losses(rows, out);
    out.push_back("The rounds of a step have the same samples here, so accumulation must follow the curve of one round.");
    say_stability(rows, out);
    compare_precision(rows, out);
  }
  return out;
}

Sentences three_codes(const ScenarioTable& table) {
  Sentences out;
  for (const Rows& rows : rows_by_batch(table)) {
    out.push_back(model_text(rows.front()->spec) + " on " + gpus_of(*rows.front()) + ":");
    compare_sync(rows, out);
    compare_precision(rows, out);
    say_stability(rows, out);
  }
  return out;
}

Sentences accumulation_sweep(const ScenarioTable& table) {
  Sentences out;
  for (const Rows& rows : rows_by_batch(table)) {
    out.push_back(model_text(rows.front()->spec) + " on " + gpus_of(*rows.front()) + ":");
    const std::vector<Rows> codes = rows_by_code(rows);
    for (const Rows& group : codes) say_memory(group, out);
    out.push_back("Why it is flat: the activations of a round are freed in its backward before the next round begins, and all rounds add to the same gradients.");
    for (const Rows& group : codes) {
      if (group.size() > 1) say_time_of_rounds(group, out);
    }
    out.push_back("Why time is not: every round computes its forward and backward; only the optimizer, and with no_sync the exchange, is paid once a step.");
    say_cost_of_exchange(codes, out);
  }
  return out;
}

}  // namespace pdl
