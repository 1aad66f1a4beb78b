// pdl-sim import-trace TRACE.json...
#include <memory>
#include <optional>

#include "sim/io/error.hpp"
#include "sim/io/output_file.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/io/words.hpp"
#include "sim/report/progress_bar.hpp"
#include "sim/report/trace_document.hpp"
#include "sim/report/trace_explain_document.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/output_flags.hpp"
#include "sim/tool/screen.hpp"

namespace pdl {
namespace {

struct TraceFlags {
  explicit TraceFlags(CLI::App& app)
      : json(app, "--json", "FILE|-", "write the step as JSON: parts, and everything that ran; -: to standard output"),
        explain(app, "--explain", "where the step goes, its critical path, and what it would take without a part"),
        step(app, "--step", "N", "which step of the trace: N of ProfilerStep#N, else from 1 (default: the last)"),
        outputs(app, {.json = false}) {
    app.add_option("files", files, "traces of torch.profiler, one a rank")->type_name("TRACE.json...");
  }
  std::vector<std::string> files;
  OnceFlag json;
  Switch explain;
  OnceFlag step;
  OutputFlags outputs;
};

void import_trace(const TraceFlags& flags) {
  if (flags.files.empty()) throw InputError("import-trace", "no files", "at least one: TRACE.json");
  std::optional<std::int64_t> wanted;
  if (const auto step = flags.step.value()) wanted = parse_whole(flags.step.flag(), *step, 1, 1'000'000);
  const std::vector<const OnceFlag*> files = {&flags.json};
  flags.outputs.check(files);
  std::vector<TracedStep> steps;
  {
    ProgressBar bar;
    for (const std::string& file : flags.files) {
      bar.show("reading " + printable(file));
      steps.push_back(traced_step(read_kineto_trace(file), wanted));
    }
  }
  check_are_of_one_training(steps);
  flags.outputs.check_inputs(files);
  std::optional<TraceExplanation> explanation;
  if (flags.explain.on()) explanation = explain_trace(steps);
  if (const auto json = flags.json.value()) {
    nlohmann::ordered_json document = trace_json(steps);
    if (explanation) document["explain"] = trace_explain_json(steps, *explanation);
    write_json(*json, document);
  }
  Document document = trace_document(steps);
  if (explanation) document.add(trace_explain_document(steps, *explanation));
  flags.outputs.show(document, files);
}

}  // namespace

void add_import_trace(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("import-trace", "where a step of PyTorch goes, from a trace of torch.profiler");
  command->footer(
      "Example: with torch.profiler.profile() as p: step()\n"
      "         p.export_chrome_trace(\"rank0.json\")\n"
      "         pdl-sim import-trace rank0.json rank1.json --explain");
  auto flags = std::make_shared<TraceFlags>(*command);
  command->callback([flags] { import_trace(*flags); });
}

}  // namespace pdl
