// pdl-sim import-trace TRACE.json...
#include <memory>

#include "sim/io/error.hpp"
#include "sim/io/output_file.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/io/words.hpp"
#include "sim/report/progress_bar.hpp"
#include "sim/report/trace_document.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/output_flags.hpp"
#include "sim/tool/screen.hpp"

namespace pdl {
namespace {

struct TraceFlags {
  explicit TraceFlags(CLI::App& app)
      : json(app, "--json", "FILE|-", "write the step as JSON: parts, and everything that ran; -: to standard output"),
        step(app, "--step", "N", "which step of the trace: N of ProfilerStep#N, else from 1 (default: the last)"),
        outputs(app, {.json = false}) {
    app.add_option("files", files, "traces of torch.profiler, one a rank")->type_name("TRACE.json...");
  }
  std::vector<std::string> files;
  OnceFlag json, step;
  OutputFlags outputs;
};

void check_are_of_one_training(const std::vector<TracedStep>& steps) {
  for (std::size_t s = 1; s < steps.size(); ++s) {
    const KinetoTrace &first = steps.front().trace, &other = steps[s].trace;
    const auto agree = [&](const std::string& what, const std::string& own, const std::string& of_first) {
      if (own != of_first)
        throw InputError(other.path, own.empty() ? "no " + what : what + " " + own,
                         (of_first.empty() ? "none" : of_first) + ", as " + first.path);
    };
    agree("world size", std::to_string(other.world_size), std::to_string(first.world_size));
    agree("NCCL version", other.nccl, first.nccl);
    agree("step", steps[s].step().name, steps.front().step().name);
    for (std::size_t before = 0; before < s; ++before) {
      if (steps[before].trace.rank == other.rank && other.rank >= 0)
        throw InputError(other.path, "rank " + std::to_string(other.rank) + " again",
                         "another rank than " + steps[before].trace.path);
    }
  }
}

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
  if (const auto json = flags.json.value()) write_json(*json, trace_json(steps));
  flags.outputs.show(trace_document(steps), files);
}

}  // namespace

void add_import_trace(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("import-trace", "where a step of PyTorch goes, from a trace of torch.profiler");
  command->footer(
      "Example: with torch.profiler.profile() as p: step()\n"
      "         p.export_chrome_trace(\"rank0.json\")\n"
      "         pdl-sim import-trace rank0.json rank1.json");
  auto flags = std::make_shared<TraceFlags>(*command);
  command->callback([flags] { import_trace(*flags); });
}

}  // namespace pdl
