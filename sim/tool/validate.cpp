// pdl-sim validate RUN.json...
#include "sim/study/validate.hpp"

#include <memory>

#include "sim/io/error.hpp"
#include "sim/io/output_file.hpp"
#include "sim/report/progress_bar.hpp"
#include "sim/report/validation_document.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/noise_flags.hpp"
#include "sim/tool/output_flags.hpp"

namespace pdl {
namespace {

struct ValidateFlags {
  explicit ValidateFlags(CLI::App& app)
      : profile(app, "--profile", "NAME|FILE",
                "one profile for all runs (default: profile.json in the folder above each run's)"),
        noise(app),
        json(app, "--json", "FILE|-", "write the table as JSON; -: to standard output, without the table"),
        outputs(app, {.json = false}) {
    app.add_option("runs", runs, "runs measured by pdl-run, of its own programs and of PyTorch's")
        ->type_name("RUN.json...");
  }
  std::vector<std::string> runs;
  OnceFlag profile;
  NoiseFlags noise;
  OnceFlag json;
  OutputFlags outputs;
};

Validation validate_with_progress(const ValidateFlags& flags) {
  ProgressBar bar;
  const auto progress = [&](std::size_t done) {
    bar.show(static_cast<double>(done) / static_cast<double>(flags.runs.size()),
             std::to_string(done) + " of " + std::to_string(flags.runs.size()) + " runs");
  };
  return validate_runs(flags.runs, flags.profile.value(), {.noise = flags.noise.options(), .progress = progress});
}

void validate_as_asked(const ValidateFlags& flags) {
  if (flags.runs.empty()) throw InputError("validate", "no run", "one or more files: RUN.json...");
  flags.outputs.check({&flags.json});
  const std::vector<Validation> programs = by_program(validate_with_progress(flags));
  flags.outputs.check_inputs({&flags.json});
  if (const auto json = flags.json.value()) write_json(*json, validation_json(programs));
  flags.outputs.show(validation_document(programs), {&flags.json});
}

}  // namespace

void add_validate(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("validate", "measured runs against predictions: the error of each, worst first");
  command->footer("Example: pdl-sim validate data/*/runs/*.json");
  auto flags = std::make_shared<ValidateFlags>(*command);
  command->callback([flags] { validate_as_asked(*flags); });
}

}  // namespace pdl
