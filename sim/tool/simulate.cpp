// pdl-sim without a subcommand: predict one run and show it.
#include <iostream>
#include <memory>

#include "sim/io/error.hpp"
#include "sim/io/output_file.hpp"
#include "sim/io/words.hpp"
#include "sim/predict/other_program.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/what_if.hpp"
#include "sim/report/progress_bar.hpp"
#include "sim/report/run_document.hpp"
#include "sim/report/trace.hpp"
#include "sim/run/run_json.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/noise_flags.hpp"
#include "sim/tool/output_flags.hpp"
#include "sim/tool/screen.hpp"

namespace pdl {
namespace {

struct SimulateFlags {
  std::unique_ptr<SettingFlags> settings;
  std::unique_ptr<OnceFlag> profile, json, trace, schedule_csv, memory;
  std::unique_ptr<NoiseFlags> noise;
  std::unique_ptr<Switch> explain, gantt, no_gantt;
  std::unique_ptr<OutputFlags> outputs;

  /// Outputs that are not of the document.
  std::vector<const OnceFlag*> files() const { return {json.get(), trace.get(), schedule_csv.get()}; }
};

std::optional<std::int64_t> memory_limit(const SimulateFlags& flags) {
  const auto text = flags.memory->value();
  return text ? std::optional(parse_bytes("--memory", *text)) : std::nullopt;
}

struct Prediction {
  std::shared_ptr<const RunResult> run;
  std::optional<OtherProgram> other;
  std::optional<Explanation> explanation;
};

Prediction predict_as_asked(const SimulateFlags& flags) {
  const RunSpec spec = parse_run_spec(flags.settings->given());
  const auto costs =
      choose_costs(spec.synthetic.has_value(), flags.profile->value(), [&] { return std::vector{spec}; });
  const CostProfile* profile = costs ? &*costs : nullptr;
  ProgressBar bar;
  bar.show(spec.schedule == kAutoSchedule ? "searching for a schedule" : "predicting");
  Prediction prediction;
  const std::string samples = costs ? samples_beside(flags.profile->value(), *costs) : "";
  prediction.run = std::make_shared<const RunResult>(predict(
      spec, profile, {.memory_limit_bytes = memory_limit(flags), .samples = samples, .noise = flags.noise->options()}));
  prediction.other = other_program(spec, profile, memory_limit(flags), prediction.run->timeline.spans.size());
  if (flags.explain->on()) prediction.explanation = explain_prediction(*prediction.run, profile);
  return prediction;
}

/// The file that was read, blank cells where they were, or the order of the schedule.
void write_schedule(const RunSpec& spec, const std::string& path) {
  const std::string text = spec.schedule_file ? to_csv(*spec.schedule_file) : to_csv(make_order(spec));
  write_output(path, [&](std::ostream& out) { out << text; });
}

void simulate(const SimulateFlags& flags) {
  const bool gantt = flags.gantt->on(), no_gantt = flags.no_gantt->on();
  if (gantt && no_gantt) throw InputError("--gantt", "--no-gantt beside it", "one of the two");
  flags.outputs->check(flags.files());
  const Prediction prediction = predict_as_asked(flags);
  const RunResult& run = *prediction.run;
  const Explanation* explanation = prediction.explanation ? &*prediction.explanation : nullptr;
  const auto json = flags.json->value(), schedule_csv = flags.schedule_csv->value();
  flags.outputs->check_inputs(flags.files());
  if (json) write_run(run, *json, explanation);
  if (const auto trace = flags.trace->value()) write_trace(*trace, traced_runs(run));
  if (schedule_csv) write_schedule(run.spec, *schedule_csv);
  if (schedule_csv && steps_overlap(run.spec)) {
    std::cerr << "pdl-sim: the schedule's steps overlap, which a CSV file cannot say: read it with --overlap-steps 1\n";
  }
  RunStyle style = screen_style(!no_gantt);
  if (prediction.other) style.other_program = other_program_text(*prediction.other);
  const Document document = run_document(prediction.run, style, explanation);
  flags.outputs->show(document, flags.files());
  // Where another output takes the standard output, a chart that was asked for goes to standard error.
  if (gantt && !flags.outputs->terminal_is_free(flags.files()))
    std::cerr << to_terminal(document, {.width = screen_width()});
}

}  // namespace

void add_simulate(CLI::App& app) {
  auto flags = std::make_shared<SimulateFlags>();
  flags->settings = std::make_unique<SettingFlags>(app);
  flags->profile = std::make_unique<OnceFlag>(app, "--profile", "NAME|FILE",
                                              "costs measured on a machine (default: the largest in data/ that has "
                                              "measured what this needs; see `pdl-sim profiles`)");
  flags->json = std::make_unique<OnceFlag>(app, "--json", "FILE|-",
                                           "write the run as JSON; -: to standard output, without tables");
  flags->trace = std::make_unique<OnceFlag>(
      app, "--trace", "FILE|-", "write the step as a trace that Perfetto opens (ui.perfetto.dev): spans, memory");
  flags->schedule_csv =
      std::make_unique<OnceFlag>(app, "--schedule-csv", "FILE|-",
                                 "write the schedule in PyTorch's format, a row a GPU; --schedule FILE.csv reads it");
  flags->memory = std::make_unique<OnceFlag>(app, "--memory", "SIZE",
                                             "the most that a GPU may need, such as 40GiB (default: what the GPU has)");
  flags->noise = std::make_unique<NoiseFlags>(app);
  flags->explain = std::make_unique<Switch>(app, "--explain",
                                            "where the step goes: its parts, the critical path, and what it would "
                                            "take without each cost");
  flags->outputs = std::make_unique<OutputFlags>(app, OutputFlags::Kinds{.json = false});
  flags->gantt =
      std::make_unique<Switch>(app, "--gantt", "chart of the step (as usual; with --json -, to standard error)");
  flags->no_gantt = std::make_unique<Switch>(app, "--no-gantt", "tables only");
  // Before a subcommand runs: its flags come after it, those of a simulation do not belong to it.
  app.parse_complete_callback([&app] {
    const auto subcommands = app.get_subcommands();
    if (subcommands.empty()) return;
    const std::string& name = subcommands.front()->get_name();
    for (const CLI::Option* option : app.get_options()) {
      if (option->count() > 0)
        throw InputError(option->get_name(), "given before " + name, "flags of " + name + " after it");
    }
  });
  app.callback([&app, flags] {
    if (app.get_subcommands().empty()) simulate(*flags);
  });
}

}  // namespace pdl
