// One function a question. No number is typed here: each comes from the table.
#include "sim/report/answers.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/report/concurrency.hpp"
#include "sim/report/number_text.hpp"
#include "sim/report/scenario_table.hpp"
#include "sim/report/terminal.hpp"

namespace pdl {
namespace {

using Sentences = std::vector<std::string>;

double step_ms(const ScenarioRow& row) { return row.best().result.step_time.median_ms; }
std::string ms(double value) { return fixed(value, 2) + " ms"; }
std::string ms_of(std::int64_t ns) { return ms(static_cast<double>(ns) / 1e6); }
std::string source(const ScenarioRow& row) { return row.measured ? "measured" : "predicted"; }
std::string step_text(const ScenarioRow& row) { return ms(step_ms(row)) + " (" + source(row) + ")"; }
std::string count_of(std::int64_t count, const std::string& what, const std::string& plural = "s") {
  return grouped(count) + " " + what + (count == 1 ? "" : plural);
}
std::string gpus_of(const ScenarioRow& row) { return count_of(row.spec.gpus, "GPU"); }

/// "3.1 % slower", "as fast (within 0.1 %)".
std::string slower(double time_ms, double than_ms) {
  const double change = 100 * (time_ms / than_ms - 1);
  if (std::abs(change) < 0.1) return "as fast (within 0.1 %)";
  return fixed(std::abs(change), 1) + " % " + (change > 0 ? "slower" : "faster");
}

std::string least_to_most(double least, double most, const std::string& unit) {
  const std::string from = fixed(least, 1), to = fixed(most, 1);
  return (from == to ? from : from + " to " + to) + " " + unit;
}

std::string busy_range(const EvaluatedRun& run) {
  double least = 100, most = 0;
  for (const GpuMetrics& gpu : run.metrics.gpus) {
    const double share = 100 * static_cast<double>(gpu.busy_ns) / static_cast<double>(run.metrics.step_ns);
    least = std::min(least, share);
    most = std::max(most, share);
  }
  return least_to_most(least, most, "%");
}

std::int64_t largest_memory(const EvaluatedRun& run) {
  const auto& bytes = run.result.peak_memory_bytes;
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

/// Rows with the same model and batch, in the order of the table.
std::vector<std::vector<const ScenarioRow*>> rows_by_model(const ScenarioTable& table) {
  std::vector<std::vector<const ScenarioRow*>> groups;
  std::vector<std::size_t> baselines;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const std::size_t base = baseline_row(table, r);
    const auto found = std::find(baselines.begin(), baselines.end(), base);
    if (found == baselines.end()) {
      baselines.push_back(base);
      groups.push_back({&table.rows[r]});
    } else {
      groups[static_cast<std::size_t>(found - baselines.begin())].push_back(&table.rows[r]);
    }
  }
  return groups;
}

std::string model_text(const RunSpec& spec) {
  return std::to_string(spec.depth) + " layers of " + std::to_string(spec.dim) + ", batch " + std::to_string(spec.batch);
}

Sentences current_behaviour(const ScenarioTable& table) {
  Sentences out;
  for (const ScenarioRow& row : table.rows) {
    const EvaluatedRun& run = row.best();
    std::string holds;
    const std::vector<std::string> layers = layers_of_gpus(run.result);
    for (std::size_t g = 0; g < layers.size(); ++g) {
      holds += (g == 0 ? "GPU " : ", GPU ") + std::to_string(g) + " holds " + layers[g];
    }
    out.push_back("Layers: " + holds + ", of " + std::to_string(row.spec.depth) + " in all.");
    const ForwardTransfers forward = forward_transfers(run.result);
    out.push_back("The data moves " + count_of(forward.count, "time") + " in the forward pass, " + decimal_bytes(forward.bytes) +
                  " from each GPU's last layer to the next GPU, and " +
                  count_of(run.metrics.transfer_count - forward.count, "time") + " in the backward pass, " +
                  decimal_bytes(run.metrics.transfer_bytes - forward.bytes) + " of gradients the other way.");
    std::string waits;
    for (std::size_t g = 0; g < run.metrics.gpus.size(); ++g) {
      waits += (g == 0 ? "GPU " : ", GPU ") + std::to_string(g) + " " + ms_of(run.metrics.gpus[g].idle_ns);
    }
    const Concurrency at_once = concurrency(run.result);
    out.push_back("Idle in a step of " + step_text(row) + ": " + waits + ". At most " + count_of(at_once.most, "GPU") +
                  " of " + std::to_string(row.spec.gpus) + " compute at the same time.");
  }
  return out;
}

Sentences model_size(const ScenarioTable& table) {
  std::vector<const ScenarioRow*> rows;
  for (const ScenarioRow& row : table.rows) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) { return a->spec.depth < b->spec.depth; });
  Sentences out;
  std::string times;
  std::string faster;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    times += (i == 0 ? "" : "; ") + std::to_string(rows[i]->spec.depth) + " layers " + step_text(*rows[i]) + ", " +
             ms(step_ms(*rows[i]) / static_cast<double>(rows[i]->spec.depth)) + " a layer";
    if (i > 0 && step_ms(*rows[i]) < step_ms(*rows[i - 1])) {
      faster = std::to_string(rows[i]->spec.depth) + " layers are faster than " + std::to_string(rows[i - 1]->spec.depth);
    }
  }
  out.push_back("Step time: " + times + ".");
  const ScenarioRow &least = *rows.front(), &most = *rows.back();
  const double growth = step_ms(most) / step_ms(least);
  const double depth_growth = static_cast<double>(most.spec.depth) / static_cast<double>(least.spec.depth);
  out.push_back((faster.empty() ? "No, more depth never runs faster: " : "Yes: " + faster + "; ") + fixed(depth_growth, 1) +
                " times the layers take " + fixed(growth, 2) + " times the time. The GPUs take turns (at most " +
                count_of(concurrency(most.best().result).most, "GPU") + " of " + std::to_string(most.spec.gpus) +
                " compute at once), so every layer adds its whole time.");
  return out;
}

/// Layer -> GPU when `depth` layers are spread as evenly as possible and the first GPUs take the layers that are left.
std::int64_t gpu_by_rule(std::int64_t layer, std::int64_t depth, std::int64_t gpus) {
  const std::int64_t each = depth / gpus, more = depth % gpus, boundary = more * (each + 1);
  return layer < boundary ? layer / (each + 1) : more + (layer - boundary) / each;
}

Sentences all_gpus(const ScenarioTable& table) {
  Sentences out;
  bool holds = true;
  for (const ScenarioRow& row : table.rows) {
    std::string counts;
    for (const Stage& stage : row.predicted.result.stages) {
      counts += (counts.empty() ? "" : ", ") + std::to_string(stage.layer_count);
      for (std::int32_t i = stage.first_layer; i < stage.first_layer + stage.layer_count; ++i) {
        holds = holds && gpu_by_rule(i, row.spec.depth, row.spec.gpus) == stage.worker;
      }
    }
    out.push_back(std::to_string(row.spec.depth) + " layers on " + gpus_of(row) + ": " + counts + "; step time " + step_text(row) + ".");
  }
  out.push_back("Rule: with q = DEPTH div GPUs and r = DEPTH mod GPUs, the first r GPUs hold q + 1 layers, the others q; layer "
                "i is on GPU i div (q + 1) if i < r (q + 1), else on GPU r + (i - r (q + 1)) div q. " +
                std::string(holds ? "It gives the map of every row above." : "It does NOT give the map of every row above."));
  return out;
}

Sentences more_gpus(const ScenarioTable& table) {
  Sentences out;
  for (const ScenarioRow& row : table.rows) {
    const Concurrency at_once = concurrency(row.best().result);
    out.push_back("Are all GPUs busy? On " + gpus_of(row) + " each computes " + busy_range(row.best()) + " of the step; at most " +
                  count_of(at_once.most, "GPU") + " at once, " + fixed(at_once.average, 2) + " on average (" + source(row) + ").");
  }
  const ScenarioRow& first = table.rows.front();
  for (std::size_t r = 1; r < table.rows.size(); ++r) {
    const ScenarioRow& row = table.rows[r];
    std::string sentence = "Is it faster on " + gpus_of(row) + " than on " + std::to_string(first.spec.gpus) + "? " + step_text(row) +
                           " against " + step_text(first) + ": " + slower(step_ms(row), step_ms(first)) + ".";
    if (row.measured.has_value() != first.measured.has_value()) {
      const double a = row.predicted.result.step_time.median_ms, b = first.predicted.result.step_time.median_ms;
      sentence += " Both predicted: " + ms(a) + " against " + ms(b) + ", " + slower(a, b) + ".";
    }
    const std::int64_t here = largest_memory(row.best()), there = largest_memory(first.best());
    if (here > 0 && there > 0) {
      sentence += " The fullest GPU holds " + gib(here) + " GiB instead of " + gib(there) + " GiB.";
    }
    out.push_back(sentence);
  }
  return out;
}

Sentences data_transfer(const ScenarioTable& table) {
  Sentences out;
  bool one_less = true, whole_activation = true;
  for (const ScenarioRow& row : table.rows) {
    const ForwardTransfers forward = forward_transfers(row.best().result);
    const std::int64_t moves = static_cast<std::int64_t>(row.best().result.microbatch_rows.size());
    one_less = one_less && forward.count == (row.spec.gpus - 1) * moves;
    whole_activation = whole_activation && forward.bytes == (row.spec.gpus - 1) * row.spec.batch * row.spec.dim * 4;
    out.push_back("On " + gpus_of(row) + " one forward pass moves data " + count_of(forward.count, "time") + ", " +
                  decimal_bytes(forward.bytes) + " in all; with the backward pass " +
                  count_of(row.best().metrics.transfer_count, "transfer") + " and " +
                  decimal_bytes(row.best().metrics.transfer_bytes) + " a step.");
  }
  if (one_less) out.push_back("Communication grows with GPUs - 1: each boundary between two GPUs is crossed once.");
  if (whole_activation) out.push_back("Each crossing carries the whole activation, batch x dim x 4 bytes, whatever the number of GPUs.");
  return out;
}

/// "2 micro-batches 60.1 ms (measured), 4 ..., 8 ...".
std::string times_by_microbatches(const std::vector<const ScenarioRow*>& rows) {
  std::string text;
  for (const ScenarioRow* row : rows) {
    text += (text.empty() ? "" : ", ") + count_of(row->spec.microbatches, "micro-batch", "es") + " " + step_text(*row);
  }
  return text;
}

std::string fastest_text(const std::vector<const ScenarioRow*>& rows) {
  const ScenarioRow* fastest = *std::min_element(rows.begin(), rows.end(), [](auto* a, auto* b) { return step_ms(*a) < step_ms(*b); });
  return "fastest with " + std::to_string(fastest->spec.microbatches) + "; with " + std::to_string(rows.back()->spec.microbatches) +
         " the step is " + slower(step_ms(*rows.back()), step_ms(*rows.front())) + " than with " +
         std::to_string(rows.front()->spec.microbatches);
}

std::string order_of_first_gpu(const EvaluatedRun& run) {
  std::string text;
  for (const std::string& operation : run.metrics.gpus.front().ops) text += (text.empty() ? "" : " ") + operation;
  return text;
}

Sentences option_a_naive(const ScenarioTable& table) {
  Sentences out;
  for (const auto& rows : rows_by_model(table)) {
    out.push_back(model_text(rows.front()->spec) + ": " + times_by_microbatches(rows) + "; " + fastest_text(rows) + ".");
    const ScenarioRow& last = *rows.back();
    const Concurrency at_once = concurrency(last.best().result);
    out.push_back("Why it is not pipelining: the order on GPU 0 is " + order_of_first_gpu(rows.front()->best()) +
                  ", a forward waits for the backward before it. With " + std::to_string(last.spec.microbatches) +
                  " micro-batches at most " + count_of(at_once.most, "GPU") + " of " + std::to_string(last.spec.gpus) +
                  " compute at once, " + fixed(at_once.average, 2) + " on average; bubble " +
                  percent(last.best().metrics.bubble_fraction) + " (" + source(last) + ").");
  }
  return out;
}

Sentences option_b_gpipe(const ScenarioTable& table) {
  Sentences out;
  for (const auto& rows : rows_by_model(table)) {
    out.push_back(model_text(rows.front()->spec) + ": " + times_by_microbatches(rows) + "; " + fastest_text(rows) + ".");
    for (const ScenarioRow* row : rows) {
      const FillAndDrain ends = fill_and_drain(row->best().result);
      const auto stages = static_cast<double>(row->spec.gpus), slices = static_cast<double>(row->best().result.microbatch_rows.size());
      out.push_back("Bubble with " + std::to_string(row->spec.microbatches) + ": " + percent(row->best().metrics.bubble_fraction) +
                    " of the time of all GPUs (" + source(*row) + "); equal stages without any other cost would have (P - 1) / (M + P - 1) = " +
                    percent((stages - 1) / (slices + stages - 1)) + ". Fill: the last GPU starts after " + ms_of(ends.fill_ns) +
                    "; drain: GPU 0 ends " + ms_of(ends.drain_ns) + " after the last GPU.");
    }
  }
  return out;
}

const std::array kAnswers = {
    Answer{"current_behaviour", current_behaviour}, Answer{"model_size", model_size},
    Answer{"all_gpus", all_gpus},                   Answer{"more_gpus", more_gpus},
    Answer{"data_transfer", data_transfer},         Answer{"option_a_naive", option_a_naive},
    Answer{"option_b_gpipe", option_b_gpipe},
};

}  // namespace

std::span<const Answer> answers() { return kAnswers; }

const Answer* find_answer(const std::string& name) {
  const auto found = std::find_if(kAnswers.begin(), kAnswers.end(), [&](const Answer& answer) { return answer.name == name; });
  return found == kAnswers.end() ? nullptr : &*found;
}

}  // namespace pdl
