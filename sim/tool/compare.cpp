// pdl-sim compare A.json B.json; pdl-sim compare RUN.json TRACE.json...
#include <algorithm>
#include <memory>
#include <optional>

#include "sim/io/error.hpp"
#include "sim/io/output_file.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/io/words.hpp"
#include "sim/report/compare_document.hpp"
#include "sim/report/progress_bar.hpp"
#include "sim/report/trace.hpp"
#include "sim/report/trace_explain_document.hpp"
#include "sim/report/traced_compare_document.hpp"
#include "sim/run/comparison.hpp"
#include "sim/run/plan_of_run.hpp"
#include "sim/run/run_json.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/output_flags.hpp"
#include "sim/tool/screen.hpp"

namespace pdl {
namespace {

struct CompareFlags {
  explicit CompareFlags(CLI::App& app)
      : json(app, "--json", "FILE|-", "write the comparison as JSON; -: to standard output, without tables"),
        trace(app, "--trace", "FILE|-", "write both as one trace that Perfetto opens, each GPU's beside each other"),
        explain(app, "--explain", "where the two steps go"),
        step(app, "--step", "N", "of traces: which step, N of ProfilerStep#N, else from 1 (default: the last)"),
        no_gantt(app, "--no-gantt", "tables only"),
        outputs(app, {.json = false}) {
    app.add_option("files", files, "two runs, predicted or measured; or a run and traces of torch.profiler, one a rank")
        ->type_name("A.json B.json");
  }
  std::vector<std::string> files;
  OnceFlag json, trace;
  Switch explain;
  OnceFlag step;
  Switch no_gantt;
  OutputFlags outputs;
};

/// A file, read: a run, or a trace of torch.profiler.
struct ReadFile {
  std::string path;
  std::shared_ptr<const RunResult> run;  // null: a trace
  std::optional<KinetoTrace> trace;
};

ReadFile read_file(const std::string& path) {
  ProgressBar bar;
  bar.show("reading " + printable(path));
  const nlohmann::json document = parse_possible_trace(path);
  if (is_kineto_trace(document)) return {path, nullptr, kineto_trace_from_json(document, path)};
  return {path, std::make_shared<const RunResult>(run_from_json(document, path)), std::nullopt};
}

[[noreturn]] void refuse_spans(const std::string& path) {
  throw InputError(path, "spans that are not those of the plan of its settings",
                   "a run that this version of pdl-sim or pdl-run wrote");
}

ComparedRun compared_run(const ReadFile& file, bool explained) {
  ComparedRun side{.name = file.path, .run = file.run};
  if (!explained) return side;
  side.explanation = explain(*side.run);
  if (!side.explanation) {
    throw InputError(file.path, "spans that are not those of the plan of its settings",
                     "a run that this version of pdl-sim or pdl-run wrote, or no --explain");
  }
  return side;
}

void compare_runs(const CompareFlags& flags, const std::vector<ReadFile>& read) {
  const auto json = flags.json.value();
  const std::vector<const OnceFlag*> files = {&flags.json, &flags.trace};
  if (flags.step.value()) throw InputError("--step", "two runs", "a trace, which may have several steps");
  const bool explained = flags.explain.on();
  const ComparedRun a = compared_run(read[0], explained), b = compared_run(read[1], explained);
  if (json) {
    nlohmann::ordered_json comparison = compare_json(*a.run, a.name, *b.run, b.name);
    if (explained) comparison["explain"] = {{"a", to_json(*a.explanation)}, {"b", to_json(*b.explanation)}};
    write_json(*json, comparison);
  }
  if (const auto trace = flags.trace.value()) write_trace(*trace, traced_runs(*a.run, *b.run));
  flags.outputs.show(compare_document(a, b, screen_style(!flags.no_gantt.on())), files);
}

std::vector<TracedStep> traced_steps(std::vector<ReadFile>& read, std::optional<std::int64_t> wanted) {
  std::vector<TracedStep> steps;
  for (ReadFile& file : read) {
    if (file.trace) steps.push_back(traced_step(std::move(*file.trace), wanted));
  }
  check_are_of_one_training(steps);
  return steps;
}

/// Tables of tasks; where all ranks are given and every task is known, also what two runs have.
void compare_traces(const CompareFlags& flags, std::vector<ReadFile>& read) {
  const auto run = std::find_if(read.begin(), read.end(), [](const ReadFile& file) { return file.run != nullptr; });
  std::optional<std::int64_t> wanted;
  if (const auto step = flags.step.value()) wanted = parse_whole(flags.step.flag(), *step, 1, 1'000'000);
  const std::vector<TracedStep> steps = traced_steps(read, wanted);
  const std::optional<Plan> plan = plan_of_run(*run->run);
  if (!plan) refuse_spans(run->path);
  const TracedComparison comparison = compare_with_traces(*run->run, run->path, *plan, steps);
  const std::optional<RunResult> measured = measured_run(steps, trace_ranks(steps), comparison.tasks, *plan);
  const std::vector<const OnceFlag*> files = {&flags.json, &flags.trace};
  if (flags.trace.value() && !measured)
    throw InputError("--trace",
                     "traces of " + std::to_string(steps.size()) + " of " + std::to_string(run->run->spec.gpus) +
                         " ranks, or tasks that they do not tell apart",
                     "traces of all ranks, with a kernel of each task");
  if (const auto json = flags.json.value()) {
    nlohmann::ordered_json document = traced_compare_json(comparison);
    if (flags.explain.on()) document["explain"] = trace_explain_json(steps, comparison.of_traces);
    write_json(*json, document);
  }
  if (const auto trace = flags.trace.value()) write_trace(*trace, traced_runs(*run->run, *measured));
  Document document = traced_compare_document(comparison);
  if (flags.explain.on()) document.add(trace_explain_document(steps, comparison.of_traces));
  if (measured) {
    document.add(compare_document({.name = run->path, .run = run->run},
                                  {.name = "traces", .run = std::make_shared<const RunResult>(*measured)},
                                  screen_style(!flags.no_gantt.on())));
  }
  flags.outputs.show(document, files);
}

void compare(const CompareFlags& flags) {
  if (flags.files.size() < 2) {
    throw InputError("compare", std::to_string(flags.files.size()) + " files", "two: A.json B.json");
  }
  const std::vector<const OnceFlag*> files = {&flags.json, &flags.trace};
  flags.outputs.check(files);
  std::vector<ReadFile> read;
  for (const std::string& file : flags.files) read.push_back(read_file(file));
  flags.outputs.check_inputs(files);
  const auto runs = std::count_if(read.begin(), read.end(), [](const ReadFile& file) { return file.run != nullptr; });
  if (runs == 2 && read.size() == 2) return compare_runs(flags, read);
  if (runs == 1) return compare_traces(flags, read);
  throw InputError(
      "compare",
      std::to_string(runs) + " runs and " + std::to_string(read.size() - static_cast<std::size_t>(runs)) + " traces",
      "two runs, or a run and the traces of its ranks");
}

}  // namespace

void add_compare(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("compare", "two runs side by side, such as predicted and measured, or a run and traces");
  command->footer(
      "Example: pdl-sim --gpus 4 --schedule 1f1b --json predicted.json && pdl-sim compare predicted.json "
      "measured.json\n"
      "         pdl-sim compare predicted.json rank0.json rank1.json    traces of torch.profiler");
  auto flags = std::make_shared<CompareFlags>(*command);
  command->callback([flags] { compare(*flags); });
}

}  // namespace pdl
