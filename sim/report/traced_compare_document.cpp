#include "sim/report/traced_compare_document.hpp"

#include <algorithm>
#include <cstdlib>

#include "sim/io/error.hpp"
#include "sim/io/number_text.hpp"
#include "sim/run/describe_run.hpp"
#include "sim/run/metrics.hpp"

namespace pdl {
namespace {

double compared_ms(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

TableCell compared_cell(double ms) {
  return {fixed(ms, 3), ms};
}

TableCell difference_cell(double predicted, double traced) {
  return {signed_fixed(predicted - traced, 3), predicted - traced};
}

TableCell compared_percent_cell(double predicted, double traced) {
  if (traced == 0) return "-";
  const double percent = 100 * (predicted - traced) / traced;
  return {signed_fixed(percent, 1), percent};
}

std::string source_word(const RunResult& run) {
  return run.measured ? "measured" : "predicted";
}

/// A task of the run, or several, beside the kernels of the trace.
struct ComparedTask {
  std::int32_t gpu = 0;
  std::string name;
  double run_ms = 0;
  std::optional<double> traced_ms;  // nothing: the trace has no kernel of it
  double kernels_ms = 0;            // of traced_ms: the sum of its kernels
  std::size_t activities = 0;

  double distance() const { return traced_ms ? std::abs(run_ms - *traced_ms) : run_ms; }
};

std::string name_of(const TracedComparison& comparison, const TracedTask& task, bool with_stage) {
  const auto named = [&](TaskId id) {
    return span_name(comparison.run, comparison.run.timeline.spans[id], with_stage);
  };
  const Span& first = comparison.run.timeline.spans[task.tasks.front()];
  std::string name = named(task.tasks.front());
  if (first.kind == TaskKind::backward && first.part > 0) name += " part " + std::to_string(first.part);
  return task.tasks.size() == 1 ? name : name + " to " + named(task.tasks.back());
}

ComparedTask compared(const TracedComparison& comparison, std::size_t s, const TracedTask& task, bool with_stage) {
  const std::vector<Span>& spans = comparison.run.timeline.spans;
  ComparedTask row{.gpu = comparison.tasks[s].worker, .name = name_of(comparison, task, with_stage), .traced_ms = {}};
  std::int64_t start_ns = spans[task.tasks.front()].start_ns, end_ns = spans[task.tasks.front()].end_ns;
  for (const TaskId id : task.tasks) {
    start_ns = std::min(start_ns, spans[id].start_ns);
    end_ns = std::max(end_ns, spans[id].end_ns);
  }
  row.run_ms = compared_ms(end_ns - start_ns);
  row.activities = task.places.size();
  if (task.places.empty()) return row;
  const TaskTimes times = times_of(comparison.steps[s], task.places);
  row.traced_ms = compared_ms(times.end_ns - times.start_ns);
  for (const std::size_t place : task.places)
    row.kernels_ms += compared_ms(comparison.steps[s].activity(place).duration_ns());
  return row;
}

/// Of all ranks, the largest difference first.
std::vector<ComparedTask> compared_tasks(const TracedComparison& comparison) {
  const std::vector<bool> several = holds_several_stages(comparison.run);
  std::vector<ComparedTask> rows;
  for (std::size_t s = 0; s < comparison.steps.size(); ++s) {
    const bool with_stage = several[static_cast<std::size_t>(comparison.tasks[s].worker)];
    for (const TracedTask& task : comparison.tasks[s].tasks) rows.push_back(compared(comparison, s, task, with_stage));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.distance() > b.distance(); });
  return rows;
}

/// Activities that are of no task.
struct OtherActivities {
  std::size_t count = 0;
  double ms = 0;
};

OtherActivities others_of(const TracedComparison& comparison, std::size_t s) {
  OtherActivities others{comparison.tasks[s].others.size(), 0};
  for (const std::size_t place : comparison.tasks[s].others)
    others.ms += compared_ms(comparison.steps[s].activity(place).duration_ns());
  return others;
}

struct ComparedPart {
  const char* key;
  const char* title;
  double run_ms = 0, traced_ms = 0;  // mean over the ranks given
};

std::vector<ComparedPart> compared_parts(const TracedComparison& comparison) {
  std::vector<ComparedPart> parts = {{"computation", "computation"},       {"optimizer", "optimizer and copies"},
                                     {"fill_and_drain", "fill and drain"}, {"imbalance", "imbalance"},
                                     {"transfers", "transfers exposed"},   {"collectives", "collectives exposed"},
                                     {"host", "host and waiting"}};
  const auto count = static_cast<double>(comparison.steps.size());
  for (std::size_t s = 0; s < comparison.steps.size(); ++s) {
    const TimeByPart& run = comparison.of_run.gpus[static_cast<std::size_t>(comparison.tasks[s].worker)];
    const TraceCosts& traced = comparison.of_traces.ranks[s];
    const std::int64_t of_run[] = {run[StepPart::useful] + run[StepPart::recomputation] + run[StepPart::contention],
                                   run[StepPart::optimizer],
                                   run[StepPart::fill_and_drain],
                                   run[StepPart::imbalance],
                                   run[StepPart::transfers],
                                   run[StepPart::collectives],
                                   run[StepPart::host] + run[StepPart::sleep]};
    const std::int64_t of_trace[] = {
        traced[TraceCost::forward] + traced[TraceCost::backward] + traced[TraceCost::contention],
        traced[TraceCost::optimizer] + traced[TraceCost::copies],
        traced[TraceCost::fill] + traced[TraceCost::drain],
        traced[TraceCost::imbalance],
        traced[TraceCost::transfers],
        traced[TraceCost::collectives],
        traced[TraceCost::host] + traced[TraceCost::waiting]};
    for (std::size_t p = 0; p < parts.size(); ++p) {
      parts[p].run_ms += compared_ms(of_run[p]) / count;
      parts[p].traced_ms += compared_ms(of_trace[p]) / count;
    }
  }
  std::erase_if(parts, [](const ComparedPart& part) { return part.run_ms == 0 && part.traced_ms == 0; });
  return parts;
}

/// Mean over the ranks given.
double traced_step_ms(const TracedComparison& comparison) {
  double sum = 0;
  for (const TracedStep& traced : comparison.steps) sum += compared_ms(traced.step().duration_ns());
  return sum / static_cast<double>(comparison.steps.size());
}

Table table_of_parts(const TracedComparison& comparison) {
  const std::string run = source_word(comparison.run);
  Table table{.name = "parts",
              .columns = {{"part", "part", "", "", Align::left},
                          {"run_ms", run, "ms"},
                          {"traced_ms", "traced", "ms"},
                          {"difference_ms", run + " - traced", "ms"},
                          {"difference_percent", "difference", "% of traced"}}};
  const auto add = [&](const std::string& title, double run_ms, double traced_ms) {
    table.rows.push_back({title, compared_cell(run_ms), compared_cell(traced_ms), difference_cell(run_ms, traced_ms),
                          compared_percent_cell(run_ms, traced_ms)});
  };
  for (const ComparedPart& part : compared_parts(comparison)) add(part.title, part.run_ms, part.traced_ms);
  add("step", compared_ms(comparison.of_run.step_ns), traced_step_ms(comparison));
  return table;
}

Table table_of_tasks(const TracedComparison& comparison) {
  const std::string run = source_word(comparison.run);
  Table table{
      .name = "tasks",
      .title = "Task by task, the largest difference first",
      .columns = {{"gpu", "GPU"},
                  {"task", "task", "", "", Align::left},
                  {"run_ms", run, "ms"},
                  {"traced_ms", "traced", "ms", "from the start of its first kernel to the end of its last one"},
                  {"difference_ms", run + " - traced", "ms"},
                  {"kernels_ms", "in kernels", "ms", "of the traced task: the sum of what runs on the GPU"},
                  {"activities", "activities"}},
      .most_terminal_rows = 60};
  for (const ComparedTask& task : compared_tasks(comparison)) {
    table.rows.push_back({TableCell(std::to_string(task.gpu), task.gpu), TableCell(task.name),
                          compared_cell(task.run_ms), task.traced_ms ? compared_cell(*task.traced_ms) : TableCell("-"),
                          task.traced_ms ? difference_cell(task.run_ms, *task.traced_ms) : TableCell("-"),
                          compared_cell(task.kernels_ms),
                          TableCell(std::to_string(task.activities), static_cast<double>(task.activities))});
  }
  for (std::size_t s = 0; s < comparison.steps.size(); ++s) {
    const OtherActivities others = others_of(comparison, s);
    if (others.count == 0) continue;
    table.rows.push_back({TableCell(std::to_string(comparison.tasks[s].worker), comparison.tasks[s].worker), "other",
                          "-", "-", "-", compared_cell(others.ms),
                          TableCell(std::to_string(others.count), static_cast<double>(others.count))});
  }
  return table;
}

std::string text_of_trace(const TracedStep& traced, std::int32_t gpu) {
  std::string text = traced.trace.path + ": GPU " + std::to_string(gpu) + ", ";
  if (!traced.trace.gpu.empty()) text += traced.trace.gpu + ", ";
  text += "traced by torch.profiler; " + traced.step().name;
  if (traced.steps.size() > 1)
    text += " of " + std::to_string(traced.steps.size()) + " in the file (--step picks another one)";
  return text + ", " + milliseconds(traced.step().duration_ns()) + " ms";
}

void say_what_is_not_compared(Document& document, const TracedComparison& comparison) {
  document.add(Warning{"a trace does not say its batch, precision, optimizer or program: that they are those of " +
                           comparison.run_name + " is not checked; layers, GPUs, collectives and messages are",
                       ""});
  const auto gpus = static_cast<std::size_t>(comparison.run.spec.gpus);
  if (comparison.steps.size() < gpus) {
    document.add(
        Warning{"traces of " + std::to_string(comparison.steps.size()) + " of " + std::to_string(gpus) +
                    " ranks are given: the others are not compared, and what this one waits for others is in its "
                    "collectives and messages",
                ""});
  }
  std::size_t missing = 0, together = 0;
  bool layers_checked = true;
  for (const TracedTasks& tasks : comparison.tasks) {
    layers_checked = layers_checked && tasks.layers_checked;
    for (const TracedTask& task : tasks.tasks) {
      missing += task.places.empty();
      together += task.tasks.size() > 1;
    }
  }
  if (missing > 0) document.add(Warning{std::to_string(missing) + " tasks have no kernel in the trace", ""});
  if (together > 0)
    document.add(
        Warning{std::to_string(together) + " rows have several tasks, which the trace does not tell apart", ""});
  if (!layers_checked)
    document.add(
        Warning{"the number of layers was not checked: it is counted in matrix products of the forward, of an MLP, "
                "whose kernels have a known name",
                ""});
  if (comparison.of_traces.clocks_guessed)
    document.add(
        Warning{"the clocks of the traces differ: they were moved so that collectives end together, a guess", ""});
}

}  // namespace

TracedComparison compare_with_traces(const RunResult& run, const std::string& run_name, const Plan& plan,
                                     const std::vector<TracedStep>& steps) {
  std::vector<TracedTasks> tasks;
  for (const TracedStep& traced : steps) tasks.push_back(traced_tasks(traced, run, run_name, plan));
  std::optional<Explanation> of_run = explain(run);
  if (!of_run)
    throw InputError(run_name, "spans that are not those of the plan of its settings",
                     "a run that this version of pdl-sim or pdl-run wrote");
  return {run_name, run, std::move(*of_run), steps, explain_trace(steps), std::move(tasks)};
}

Document traced_compare_document(const TracedComparison& comparison) {
  Document document{.title = comparison.run_name + " and traces of torch.profiler"};
  document.add(Paragraph{
      comparison.run_name + ": " + describe(comparison.run.spec) + "; " + describe_source(comparison.run), 2});
  for (std::size_t s = 0; s < comparison.steps.size(); ++s)
    document.add(Paragraph{text_of_trace(comparison.steps[s], comparison.tasks[s].worker), 2});
  document.add(table_of_parts(comparison));
  document.add(Paragraph{
      "The parts of each add up to its step. A traced step lasts from the first start on its GPU to the last end. The "
      "computation of a run is its tasks from their first kernel to their last, waits for the host inside; of a trace "
      "it "
      "is kernels alone, and such waits are host and waiting."});
  document.add(table_of_tasks(comparison));
  say_what_is_not_compared(document, comparison);
  return document;
}

nlohmann::ordered_json traced_compare_json(const TracedComparison& comparison) {
  using nlohmann::ordered_json;
  ordered_json json = {
      {"format", "pdl-traced-comparison-1"},
      {"run", comparison.run_name},
      {"run_measured", comparison.run.measured},
      {"traces", ordered_json::array()},
      {"step_ms", {{"run", compared_ms(comparison.of_run.step_ns)}, {"traced", traced_step_ms(comparison)}}},
      {"parts", ordered_json::array()},
      {"tasks", ordered_json::array()}};
  for (std::size_t s = 0; s < comparison.steps.size(); ++s) {
    const OtherActivities others = others_of(comparison, s);
    json["traces"].push_back({{"file", comparison.steps[s].trace.path},
                              {"gpu", comparison.tasks[s].worker},
                              {"step", comparison.steps[s].step().name},
                              {"step_ms", compared_ms(comparison.steps[s].step().duration_ns())},
                              {"other_activities", others.count},
                              {"other_ms", others.ms}});
  }
  for (const ComparedPart& part : compared_parts(comparison))
    json["parts"].push_back({{"part", part.key}, {"run_ms", part.run_ms}, {"traced_ms", part.traced_ms}});
  for (const ComparedTask& task : compared_tasks(comparison))
    json["tasks"].push_back({{"gpu", task.gpu},
                             {"task", task.name},
                             {"run_ms", task.run_ms},
                             {"traced_ms", task.traced_ms ? ordered_json(*task.traced_ms) : ordered_json()},
                             {"kernels_ms", task.kernels_ms},
                             {"activities", task.activities}});
  return json;
}

}  // namespace pdl
