// Homework 2: mixed precision and accumulation of gradients.
#include "sim/course/exercises.hpp"

#include <algorithm>
#include <cmath>

#include "sim/course/answer_words.hpp"
#include "sim/io/number_text.hpp"
#include "sim/run/measured_facts.hpp"

namespace pdl {
namespace {

/// "fp32, 4 rounds, no_sync".
std::string code_text(const RunSpec& spec) {
  return to_string(spec.dtype) + ", " + count_of(spec.accum, "round") + (spec.no_sync ? ", no_sync" : "");
}

/// The row that differs from `spec` in the given words only; nullptr if there is none.
const ScenarioRow* row_like(const Rows& rows, const RunSpec& spec, Dtype dtype, std::int64_t accum, bool no_sync) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](auto* row) {
    return row->spec.dtype == dtype && row->spec.accum == accum && row->spec.no_sync == no_sync &&
           row->spec.gpus == spec.gpus && row->spec.strategy == spec.strategy;
  });
  return found == rows.end() ? nullptr : *found;
}

std::vector<double> training_of(const ScenarioRow& row) {
  return row.measured ? losses_of_training(measured_facts(row.measured->result)) : std::vector<double>{};
}

/// The largest difference of two loss curves, step by step, as a fraction of the first one's loss.
struct CurveDifference {
  std::size_t steps = 0;
  double most = 0;
};
CurveDifference curve_difference(const std::vector<double>& reference, const std::vector<double>& other) {
  CurveDifference difference;
  difference.steps = std::min(reference.size(), other.size());
  for (std::size_t i = 0; i < difference.steps; ++i) {
    difference.most = std::max(difference.most, std::abs(other[i] / reference[i] - 1));
  }
  return difference;
}

void compare_losses(const Rows& rows, Sentences& out) {
  const ScenarioRow& reference = *rows.front();
  const std::vector<double> losses = training_of(reference);
  if (losses.empty()) {
    out.push_back("The losses are facts of measured runs; none of " + code_text(reference.spec) +
                  " is beside this profile.");
    return;
  }
  out.push_back("Loss of " + code_text(reference.spec) + ": " + fixed(losses.front(), 6) + " in the first, " +
                fixed(losses.back(), 6) + " in the last of " +
                count_of(static_cast<std::int64_t>(losses.size()), "step") + " (measured).");
  // Curves of a loss that stands still agree whatever was trained.
  constexpr double kMoves = 0.01;
  const double moves = std::abs(losses.back() / losses.front() - 1);
  for (const ScenarioRow* row : rows) {
    const std::vector<double> own = training_of(*row);
    if (row == &reference || own.empty()) continue;
    const CurveDifference difference = curve_difference(losses, own);
    const auto skipped = measured_facts(row->measured->result).skipped;
    out.push_back(code_text(row->spec) + ": step by step at most " + difference_text(difference.most) +
                  " from that curve, over " + count_of(static_cast<std::int64_t>(difference.steps), "step") +
                  (row->spec.dtype != Dtype::amp_fp16 ? ""
                   : skipped.empty()                  ? "; no step skipped by GradScaler"
                                     : "; " + count_of(static_cast<std::int64_t>(skipped.size()), "step") +
                                           " skipped by GradScaler, left out") +
                  ".");
  }
  if (moves < kMoves) {
    out.push_back("The loss itself moves by " + difference_text(moves) +
                  " only: that the others train as well does not follow from curves that agree. pdl-run "
                  "--check trains at a rate at which the loss moves, and compares.");
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
    out.push_back("Synchronisation, " + to_string(row->spec.dtype) + ", " + count_of(row->spec.accum, "round") + ": " +
                  ms(step_ms(*synced, side)) + " with " + count_of(row->spec.accum, "exchange") + " a step, " +
                  ms(step_ms(*row, side)) + " with one (" + kind_text({row, synced}, side) + "): " +
                  (saved_ms >= 0 ? "each of the others costs " + ms(saved_ms / static_cast<double>(row->spec.accum - 1))
                                 : "the others cost nothing that shows") +
                  ", " + percent(std::max(0.0, saved_ms / step_ms(*synced, side))) + " of the step in all.");
  }
}

/// Why a step in lower precision is not shorter, where it is not: the GPUs' computation is (RunResult::bound_ms), or
/// not even that.
std::string why_slower(const ScenarioRow& row, const ScenarioRow& full) {
  const auto &own = row.predicted.result.bound_ms, &than = full.predicted.result.bound_ms;
  if (!own || !than || *own == *than) return "";
  if (*own > *than)
    return ": the casts cost more than the products gain, the GPUs' computation alone takes " + ms(*own) +
           " instead of " + ms(*than) + " (predicted)";
  return ": the GPUs' computation alone becomes shorter, " + ms(*own) + " instead of " + ms(*than) + " (predicted), " +
         (is_host_bound(row)
              ? "but the casts are more kernels to issue, and the GPUs wait for the host that issues them"
              : std::string("but what is not computation (exchange, optimizer") +
                    (row.spec.dtype == Dtype::amp_fp16 ? " with its unscaling" : "") + ", host) does not");
}

/// Parameters in half precision live beside everything that fp32 has.
std::string why_more_memory(const ScenarioRow& row, std::int64_t most) {
  const std::int64_t copies = 2 * row.predicted.metrics.parameters;
  return " Why more memory: autocast keeps a copy of the weights in half precision, 2 bytes a parameter, " +
         memory_like(copies, most) +
         " in all, until the backward has used it, and the gradients, which are in fp32, exist by then; activations in "
         "half precision save less than that here.";
}

void compare_precision(const Rows& rows, Sentences& out) {
  bool explained = false;  // once is enough
  for (const ScenarioRow* row : rows) {
    if (row->spec.dtype == Dtype::fp32) continue;
    const ScenarioRow* full = row_like(rows, row->spec, Dtype::fp32, row->spec.accum, row->spec.no_sync);
    if (!full) continue;
    const Side side = side_of(Rows{row, full});
    const double faster = step_ms(*full, side) / step_ms(*row, side);
    const std::int64_t bytes = largest_memory(of(*row, side)), than = largest_memory(of(*full, side));
    out.push_back("Precision, " + code_text(row->spec) + ": " + ms(step_ms(*row, side)) + " against " +
                  ms(step_ms(*full, side)) + " in fp32 (" + kind_text({row, full}, side) + "), " + fixed(faster, 2) +
                  " times as fast" +
                  (is_amp(row->spec.dtype) && faster < 1 - kTellable ? why_slower(*row, *full) : "") +
                  (bytes > 0 && than > 0 ? "; the fullest GPU holds " + memory_like(bytes, std::max(bytes, than)) +
                                               " instead of " + memory_like(than, std::max(bytes, than))
                                         : "") +
                  ".");
    if (explained || than == 0 || bytes <= than || !is_amp(row->spec.dtype)) continue;
    out.back() += why_more_memory(*row, bytes);
    explained = true;
  }
}

void say_stability(const Rows& rows, Sentences& out) {
  for (const ScenarioRow* row : rows) {
    if (!row->measured) continue;
    const MeasuredFacts facts = measured_facts(row->measured->result);
    if (facts.losses.empty()) continue;
    const std::string of_all = " of " + std::to_string(facts.losses.size());
    out.push_back("Stability, " + code_text(row->spec) + ": " +
                  (row->spec.dtype == Dtype::amp_fp16
                       ? count_of(static_cast<std::int64_t>(facts.skipped.size()), "step") + of_all +
                             " skipped because gradients were not finite"
                       : "no scaler that could skip steps") +
                  "; every loss is finite, pdl-run stops at one that is not (measured).");
  }
}

/// Rows of one code whose rounds vary, fewest first.
std::vector<Rows> rows_by_code(const Rows& rows) {
  std::vector<Rows> groups;
  for (const ScenarioRow* row : rows) {
    add_to_group(groups, *row, [&](const ScenarioRow& other) {
      return other.spec.dtype == row->spec.dtype && other.spec.no_sync == row->spec.no_sync;
    });
  }
  for (Rows& group : groups) {
    std::stable_sort(group.begin(), group.end(), [](auto* a, auto* b) { return a->spec.accum < b->spec.accum; });
  }
  return groups;
}

/// The line through the times of a group, by least squares over all its rows: fixed + rounds x each.
struct RoundsLine {
  double each_ms = 0;
  double fixed_ms = 0;
  double off = 0;  // of the row that is farthest from the line, as a fraction of its time
  std::int64_t off_rounds = 0;
};

/// Groups are in the order of their rounds; one number of rounds has no line.
bool has_line(const Rows& group) {
  return group.front()->spec.accum != group.back()->spec.accum;
}

/// `group`: has_line().
RoundsLine rounds_line(const Rows& group, Side side) {
  double rounds = 0, times_ms = 0, square = 0, product = 0;
  const auto count = static_cast<double>(group.size());
  for (const ScenarioRow* row : group) {
    rounds += static_cast<double>(row->spec.accum) / count;
    times_ms += step_ms(*row, side) / count;
  }
  for (const ScenarioRow* row : group) {
    const double from_mean = static_cast<double>(row->spec.accum) - rounds;
    square += from_mean * from_mean;
    product += from_mean * (step_ms(*row, side) - times_ms);
  }
  RoundsLine line;
  line.each_ms = product / square;
  line.fixed_ms = times_ms - rounds * line.each_ms;
  for (const ScenarioRow* row : group) {
    const double off =
        std::abs((line.fixed_ms + static_cast<double>(row->spec.accum) * line.each_ms) / step_ms(*row, side) - 1);
    if (off <= line.off) continue;
    line.off = off;
    line.off_rounds = row->spec.accum;
  }
  return line;
}

void say_time_of_rounds(const Rows& group, Sentences& out) {
  const Side side = side_of(group);
  std::vector<std::string> times;
  for (const ScenarioRow* row : group)
    times.push_back(std::to_string(row->spec.accum) + " rounds " + ms(step_ms(*row, side)));
  const RoundsLine line = rounds_line(group, side);
  const ScenarioRow& least = *group.front();
  constexpr double kStraight = 0.05;
  out.push_back(
      "Time, " + to_string(least.spec.dtype) + (least.spec.no_sync ? ", no_sync" : "") + " (" + kind_text(group, side) +
      "): " + listed(times) + ": " +
      (line.each_ms > 0 ? "a further round takes " + ms(line.each_ms) : "a further round costs nothing that shows") +
      (line.fixed_ms > 0 ? ", and " + ms(line.fixed_ms) + " of a step are there whatever the rounds" : "") +
      (line.off > kStraight ? " (the line nearest to all of them; farthest from it are " +
                                  std::to_string(line.off_rounds) + " rounds, by " + percent(line.off) + ")"
                            : "") +
      ".");
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
  out.push_back("Memory, " + to_string(rows.front()->spec.dtype) + (rows.front()->spec.no_sync ? ", no_sync" : "") +
                ", " + std::to_string(rows.front()->spec.accum) + " to " + count_of(rows.back()->spec.accum, "round") +
                " (" + name(side) +
                "): " + (memory_like(least, most) == memory_like(most, most) ? "" : memory_like(least, most) + " to ") +
                memory_like(most, most) + " on the fullest GPU.");
}

void say_cost_of_exchange(const std::vector<Rows>& codes, Sentences& out) {
  for (const Rows& group : codes) {
    if (!group.front()->spec.no_sync || !has_line(group)) continue;
    const auto synced = std::find_if(codes.begin(), codes.end(), [&](const Rows& other) {
      return !other.front()->spec.no_sync && other.front()->spec.dtype == group.front()->spec.dtype && has_line(other);
    });
    if (synced == codes.end()) continue;
    Rows both = group;
    both.insert(both.end(), synced->begin(), synced->end());
    const Side side = side_of(both);
    const double with_ms = rounds_line(*synced, side).each_ms, without_ms = rounds_line(group, side).each_ms;
    out.push_back("Synchronisation, " + to_string(group.front()->spec.dtype) + " (" + kind_text(both, side) +
                  "): a round that exchanges its gradients takes " + ms(with_ms) + ", one under no_sync " +
                  ms(without_ms) + ": the exchange costs " +
                  (with_ms > without_ms && without_ms > 0
                       ? ms(with_ms - without_ms) + " a round, " + percent((with_ms - without_ms) / with_ms) + " of it."
                       : "nothing that shows."));
  }
}

}  // namespace

Sentences amp_accumulation(const ScenarioTable& table) {
  Sentences out;
  for (const Rows& rows : rows_by_batch(table)) {
    std::vector<std::string> batches;
    for (const ScenarioRow* row : rows) {
      const std::string text = count_of(row->spec.accum, "round") + " of " + std::to_string(row->spec.batch) + ": " +
                               grouped(row->spec.batch * row->spec.accum);
      if (std::find(batches.begin(), batches.end(), text) == batches.end()) batches.push_back(text);
    }
    out.push_back("Effective batch, samples whose gradients make one step: " + listed(batches) +
                  ". Each loss is divided by the rounds, so that the gradient is the mean over all of them.");
    const ScenarioRow& most =
        **std::max_element(rows.begin(), rows.end(), [](auto* a, auto* b) { return a->spec.accum < b->spec.accum; });
    if (most.spec.accum > 1) {
      out.push_back("That is as large as " + grouped(most.spec.batch * most.spec.accum) +
                    " different samples would be; here each round of a step has the same " + grouped(most.spec.batch) +
                    ", so accumulation must follow the curve of one round.");
    }
    compare_losses(rows, out);
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
    out.push_back(
        "Why it is flat: the activations of a round are freed in its backward before the next round begins, and all "
        "rounds add to the same gradients.");
    for (const Rows& group : codes) {
      if (has_line(group)) say_time_of_rounds(group, out);
    }
    out.push_back(
        "Why time is not: every round computes its forward and backward; only the optimizer, and with no_sync the "
        "exchange, is paid once a step.");
    say_cost_of_exchange(codes, out);
  }
  return out;
}

}  // namespace pdl
