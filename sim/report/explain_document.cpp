#include "sim/report/explain_document.hpp"

#include <algorithm>

#include "sim/io/number_text.hpp"
#include "sim/run/metrics.hpp"

namespace pdl {
namespace {

constexpr std::size_t kSegmentsShown = 12;

struct WordsOfPart {
  std::string title, meaning;
};

/// Outside pipelines nobody fills or drains anything.
WordsOfPart words_of(StepPart part, bool pipeline) {
  switch (part) {
    case StepPart::useful: return {"useful compute", "forward and backward"};
    case StepPart::fill_and_drain:
      if (!pipeline) return {"waiting for GPUs", "no work until other GPUs have computed"};
      return {"fill and drain", "no work until other stages have computed: before, between and after the own tasks"};
    case StepPart::imbalance:
      return {"imbalance", "waiting too, by as much as the GPU has less work than the GPU that has most"};
    case StepPart::transfers: return {"transfers exposed", "a transfer runs that the next task needs"};
    case StepPart::collectives: return {"collectives exposed", "a collective runs that the next task needs"};
    case StepPart::host: return {"host", "the next task or kernel was not yet issued, or the step's own overhead"};
    case StepPart::sleep:
      return {"sleep", "a host sleeps (--delay-ms, --straggler), its own or that of a GPU that is waited for"};
    case StepPart::optimizer: return {"optimizer", "with the loss where it is a task, and copies of gradients"};
    case StepPart::recomputation: return {"recomputation", "forward run again before the backward"};
    case StepPart::contention:
      return {"contention", "what compute tasks take longer because a collective runs beside them"};
  }
  return {};
}

/// What is on the critical path counts whole, whether computation hides it on some GPU or not.
std::string title_on_path(StepPart part, bool pipeline) {
  if (part == StepPart::transfers) return "transfers";
  if (part == StepPart::collectives) return "collectives";
  return words_of(part, pipeline).title;
}

bool is_there(const Explanation& explanation, StepPart part) {
  if (explanation.critical_path_by_part[part] > 0) return true;
  return std::any_of(explanation.gpus.begin(), explanation.gpus.end(),
                     [&](const TimeByPart& gpu) { return gpu[part] > 0; });
}

/// Useful compute is always said.
std::vector<StepPart> parts_there(const std::vector<const Explanation*>& explanations) {
  std::vector<StepPart> parts;
  for (std::size_t p = 0; p < kStepParts; ++p) {
    const auto part = static_cast<StepPart>(p);
    const bool there = std::any_of(explanations.begin(), explanations.end(),
                                   [&](const Explanation* explanation) { return is_there(*explanation, part); });
    if (there || part == StepPart::useful) parts.push_back(part);
  }
  return parts;
}

TableCell ms_cell(double ms) {
  return {fixed(ms, 3), ms};
}

TableCell ms_of_ns(std::int64_t ns) {
  return ms_cell(static_cast<double>(ns) / 1e6);
}

TableCell percent_cell(double part, double of) {
  return {fixed(100 * part / of, 1), 100 * part / of};
}

double step_ms(const Explanation& explanation) {
  return static_cast<double>(explanation.step_ns) / 1e6;
}

bool exposed_there(const std::vector<StepPart>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [](StepPart part) { return part == StepPart::transfers || part == StepPart::collectives; });
}

Table table_of_parts(const Explanation& explanation, const std::vector<StepPart>& parts, bool pipeline) {
  Table table{.name = "parts",
              .columns = {{"part", "part", "", "", Align::left},
                          {"mean_ms", "mean over GPUs", "ms"},
                          {"share_percent", "share of the step", "%"},
                          {"critical_path_ms", "critical path", "ms"}}};
  table.columns.back().meaning =
      "the chain of tasks, each of which waited for the one before it, that ends with the step";
  if (exposed_there(parts))
    table.columns.back().meaning +=
        "; what it has of transfers and collectives is whole, the mean only what is exposed";
  for (const StepPart part : parts) {
    const double ms = mean_ms(explanation, part);
    table.rows.push_back({title_on_path(part, pipeline), ms_cell(ms), percent_cell(ms, step_ms(explanation)),
                          ms_of_ns(explanation.critical_path_by_part[part])});
  }
  table.rows.push_back({"step", ms_of_ns(explanation.step_ns), percent_cell(1, 1),
                        ms_of_ns(explanation.critical_path_by_part.sum_ns())});
  return table;
}

Table table_of_gpu_parts(const Explanation& explanation, const std::vector<StepPart>& parts, bool pipeline) {
  Table table{.name = "parts_of_gpus", .columns = {{"gpu", "GPU"}}, .most_terminal_rows = 32};
  for (const StepPart part : parts) {
    const WordsOfPart words = words_of(part, pipeline);
    table.columns.push_back({std::string(to_string(part)) + "_ms", words.title, "ms", words.meaning});
  }
  for (std::size_t g = 0; g < explanation.gpus.size(); ++g) {
    std::vector<TableCell> row = {{std::to_string(g), static_cast<double>(g)}};
    for (const StepPart part : parts) row.push_back(ms_of_ns(explanation.gpus[g][part]));
    table.rows.push_back(std::move(row));
  }
  std::vector<TableCell> all = {"mean"};
  for (const StepPart part : parts) all.push_back(ms_cell(mean_ms(explanation, part)));
  table.rows.push_back(std::move(all));
  return table;
}

ChartFigure chart_of_gpu_parts(const Explanation& explanation, const std::vector<StepPart>& parts, bool pipeline) {
  ChartFigure chart{.title = "Where the step goes",
                    .kind = ChartKind::stacked_bar,
                    .x_title = "GPU",
                    .y_title = "time (ms)",
                    .x_labels = {},
                    .series = {}};
  for (std::size_t g = 0; g < explanation.gpus.size(); ++g) chart.x_labels.push_back("GPU " + std::to_string(g));
  for (const StepPart part : parts) {
    ChartSeries series{.name = words_of(part, pipeline).title};
    for (std::size_t g = 0; g < explanation.gpus.size(); ++g) {
      series.x.push_back(static_cast<double>(g));
      series.y.push_back(static_cast<double>(explanation.gpus[g][part]) / 1e6);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

/// "-7.3": a step that would be shorter.
Table table_of_steps_without(const Explanation& explanation) {
  Table table{.name = "without",
              .columns = {{"what", "predicted again", "", "", Align::left},
                          {"step_time_ms", "step time", "ms"},
                          {"change_ms", "change", "ms"},
                          {"change_percent", "change", "%"}}};
  table.columns.front().meaning = "without one cost, and without the host's time to issue what then costs nothing";
  const double step = step_ms(explanation);
  for (const StepWithout& without : explanation.without) {
    const double change_ms = without.step_time_ms - step;
    table.rows.push_back({without.words,
                          ms_cell(without.step_time_ms),
                          {signed_fixed(change_ms, 3), change_ms},
                          {signed_fixed(100 * change_ms / step, 1), 100 * change_ms / step}});
  }
  return table;
}

/// Of what would save most; the ideal, which removes everything, is no single cost.
std::string sentence_of_gain(const Explanation& explanation) {
  const StepWithout* best = nullptr;
  for (const StepWithout& without : explanation.without) {
    if (without.what != "ideal" && (!best || without.step_time_ms < best->step_time_ms)) best = &without;
  }
  const double step = step_ms(explanation);
  if (!best || best->step_time_ms >= step) return "The removal of no single cost shortens the step.";
  return best->words + " the step would take " + fixed(best->step_time_ms, 3) + " ms instead of " + fixed(step, 3) +
         " ms, " + percent(1 - best->step_time_ms / step) +
         " less: the most that the removal of one cost saves. Savings do not add up.";
}

/// The longest ones, in the order of time.
std::vector<const PathSegment*> longest_segments(const std::vector<PathSegment>& path) {
  std::vector<const PathSegment*> segments;
  for (const PathSegment& segment : path) segments.push_back(&segment);
  if (segments.size() <= kSegmentsShown) return segments;
  std::stable_sort(segments.begin(), segments.end(), [](const PathSegment* a, const PathSegment* b) {
    return a->end_ns - a->start_ns > b->end_ns - b->start_ns;
  });
  segments.resize(kSegmentsShown);
  std::sort(segments.begin(), segments.end(),
            [](const PathSegment* a, const PathSegment* b) { return a->start_ns < b->start_ns; });
  return segments;
}

/// Of the path's compute tasks: the waits for the host and the contention inside them.
std::int64_t within_tasks_ns(const Explanation& explanation) {
  std::int64_t host_ns = 0;
  for (const PathSegment& segment : explanation.critical_path) {
    if (segment.part == StepPart::host) host_ns += segment.end_ns - segment.start_ns;
  }
  const TimeByPart& path = explanation.critical_path_by_part;
  return path[StepPart::contention] + std::max<std::int64_t>(path[StepPart::host] - host_ns, 0);
}

void add_critical_path(Document& document, const Explanation& explanation, bool pipeline) {
  Table table{.name = "critical_path",
              .title = "The critical path",
              .columns = {{"start_ms", "from", "ms"},
                          {"end_ms", "to", "ms"},
                          {"gpu", "GPU"},
                          {"tasks", "tasks", "", "", Align::left},
                          {"part", "part", "", "", Align::left},
                          {"length_ms", "length", "ms"}},
              .key_columns = 2};
  std::int64_t shown_ns = 0;
  const std::vector<const PathSegment*> segments = longest_segments(explanation.critical_path);
  for (const PathSegment* segment : segments) {
    table.rows.push_back({ms_of_ns(segment->start_ns),
                          ms_of_ns(segment->end_ns),
                          {std::to_string(segment->gpu), static_cast<double>(segment->gpu)},
                          segment->name,
                          title_on_path(segment->part, pipeline),
                          ms_of_ns(segment->end_ns - segment->start_ns)});
    shown_ns += segment->end_ns - segment->start_ns;
  }
  document.add(std::move(table));
  const std::size_t hidden = explanation.critical_path.size() - segments.size();
  if (hidden > 0) {
    document.add(Paragraph{"The path has " + std::to_string(hidden) +
                           " further segments, none of them longer, which take " +
                           milliseconds(explanation.critical_path_by_part.sum_ns() - shown_ns) + " ms together."});
  }
  if (const std::int64_t inside_ns = within_tasks_ns(explanation); inside_ns > 0) {
    document.add(Paragraph{"The tasks of these segments have waits for the host and contention inside them, " +
                           milliseconds(inside_ns) +
                           " ms on the whole path, which the table of parts counts as host and as contention."});
  }
}

std::string sentence_about_tasks(const RunResult& run) {
  return run.measured ? "The step is the one whose tasks were recorded. Waits for the host between the kernels of a "
                        "task, and contention with collectives, cannot be told from the task itself."
                      : "A prediction that is read from a file does not say what its tasks take alone: waits for the "
                        "host between the kernels of a task, and contention with collectives, are part of the task. "
                        "pdl-sim --explain with the same settings tells them apart.";
}

}  // namespace

Document explain_document(const RunResult& run, const Explanation& explanation) {
  const bool pipeline = has_bubble(run.spec);
  const std::vector<StepPart> parts = parts_there({&explanation});
  Document document;
  document.add(Heading{"Where the step goes"});
  document.add(table_of_parts(explanation, parts, pipeline));
  if (explanation.gpus.size() > 1) document.add(table_of_gpu_parts(explanation, parts, pipeline));
  document.add(chart_of_gpu_parts(explanation, parts, pipeline));
  if (!explanation.times_alone_known) document.add(Paragraph{sentence_about_tasks(run)});
  if (!explanation.without.empty()) {
    document.add(table_of_steps_without(explanation));
    document.add(Paragraph{sentence_of_gain(explanation)});
  }
  if (steps_overlap(run.spec)) {
    document.add(Paragraph{
        "Steps overlap: the critical path is that of one step from the start of its first task to the end of its last, "
        "which is longer than the step time."});
  }
  add_critical_path(document, explanation, pipeline);
  return document;
}

Document compare_explanations(const RunResult& a, const Explanation& of_a, const RunResult& b,
                              const Explanation& of_b) {
  const bool pipeline = has_bubble(a.spec) || has_bubble(b.spec);
  const std::vector<StepPart> parts = parts_there({&of_a, &of_b});
  Table table{.name = "parts",
              .columns = {{"part", "part", "", "", Align::left},
                          {"a_ms", "mean A", "ms"},
                          {"b_ms", "mean B", "ms"},
                          {"difference_ms", "A - B", "ms"},
                          {"a_percent", "share of A", "%"},
                          {"b_percent", "share of B", "%"}}};
  const auto add_row = [&](const std::string& title, double a_ms, double b_ms) {
    table.rows.push_back({title,
                          ms_cell(a_ms),
                          ms_cell(b_ms),
                          {signed_fixed(a_ms - b_ms, 3), a_ms - b_ms},
                          percent_cell(a_ms, step_ms(of_a)),
                          percent_cell(b_ms, step_ms(of_b))});
  };
  ChartFigure chart{.title = "Where the steps go",
                    .kind = ChartKind::stacked_bar,
                    .x_title = "run",
                    .y_title = "mean over the GPUs (ms)",
                    .x_labels = {"A", "B"},
                    .series = {}};
  for (const StepPart part : parts) {
    const std::string title = words_of(part, pipeline).title;
    const double a_ms = mean_ms(of_a, part), b_ms = mean_ms(of_b, part);
    add_row(title, a_ms, b_ms);
    chart.series.push_back({.name = title, .x = {0, 1}, .y = {a_ms, b_ms}});
  }
  add_row("step", step_ms(of_a), step_ms(of_b));
  Document document;
  document.add(Heading{"Where the steps go"});
  document.add(std::move(table));
  document.add(std::move(chart));
  std::string explained;
  for (const StepPart part : parts) {
    const WordsOfPart words = words_of(part, pipeline);
    explained += (explained.empty() ? "" : "; ") + words.title + ": " + words.meaning;
  }
  document.add(Paragraph{explained + "."});
  const bool same = a.measured == b.measured && !of_a.times_alone_known && !of_b.times_alone_known;
  if (!of_a.times_alone_known)
    document.add(Paragraph{std::string(same ? "A and B: " : "A: ") + sentence_about_tasks(a)});
  if (!of_b.times_alone_known && !same) document.add(Paragraph{"B: " + sentence_about_tasks(b)});
  return document;
}

}  // namespace pdl
