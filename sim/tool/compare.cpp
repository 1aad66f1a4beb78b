// pdl-sim compare A.json B.json
#include <memory>

#include "sim/io/error.hpp"
#include "sim/io/output_file.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/report/compare_document.hpp"
#include "sim/report/progress_bar.hpp"
#include "sim/report/trace.hpp"
#include "sim/run/comparison.hpp"
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
        no_gantt(app, "--no-gantt", "tables only"),
        outputs(app, {.json = false}) {
    app.add_option("files", files, "two runs, predicted or measured")->type_name("A.json B.json");
  }
  std::vector<std::string> files;
  OnceFlag json, trace;
  Switch explain, no_gantt;
  OutputFlags outputs;
};

ComparedRun read_compared_run(const std::string& path, bool explained) {
  ProgressBar bar;
  bar.show("reading " + printable(path));
  ComparedRun side{.name = path, .run = std::make_shared<const RunResult>(read_run(path))};
  if (!explained) return side;
  side.explanation = explain(*side.run);
  if (!side.explanation) {
    throw InputError(path, "spans that are not those of the plan of its settings",
                     "a run that this version of pdl-sim or pdl-run wrote, or no --explain");
  }
  return side;
}

void compare(const CompareFlags& flags) {
  if (flags.files.size() != 2) {
    throw InputError("compare", std::to_string(flags.files.size()) + " files", "two: A.json B.json");
  }
  const auto json = flags.json.value();
  const std::vector<const OnceFlag*> files = {&flags.json, &flags.trace};
  flags.outputs.check(files);
  const bool explained = flags.explain.on();
  const ComparedRun a = read_compared_run(flags.files[0], explained), b = read_compared_run(flags.files[1], explained);
  flags.outputs.check_inputs(files);
  if (json) {
    nlohmann::ordered_json comparison = compare_json(*a.run, a.name, *b.run, b.name);
    if (explained) comparison["explain"] = {{"a", to_json(*a.explanation)}, {"b", to_json(*b.explanation)}};
    write_json(*json, comparison);
  }
  if (const auto trace = flags.trace.value()) write_trace(*trace, traced_runs(*a.run, *b.run));
  flags.outputs.show(compare_document(a, b, screen_style(!flags.no_gantt.on())), files);
}

}  // namespace

void add_compare(CLI::App& app) {
  CLI::App* command = app.add_subcommand("compare", "two runs side by side, such as predicted and measured");
  command->footer(
      "Example: pdl-sim --gpus 4 --schedule 1f1b --json predicted.json && pdl-sim compare predicted.json "
      "measured.json");
  auto flags = std::make_shared<CompareFlags>(*command);
  command->callback([flags] { compare(*flags); });
}

}  // namespace pdl
