// pdl-sim without a subcommand: predict one run and show it.
#include <iostream>
#include <memory>

#include "sim/report/predict.hpp"
#include "sim/report/run_json.hpp"
#include "sim/report/terminal.hpp"
#include "sim/spec/error.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/screen.hpp"

namespace pdl {
namespace {

struct SimulateFlags {
  std::vector<std::unique_ptr<OnceFlag>> settings;
  std::unique_ptr<OnceFlag> profile, json, gantt;
};

std::vector<SettingValue> given_settings(const SimulateFlags& flags) {
  std::vector<SettingValue> settings;
  for (const auto& flag : flags.settings) {
    if (const auto value = flag->value()) settings.push_back({flag->flag().substr(2), *value, flag->flag()});
  }
  return settings;
}

RunResult predict_as_asked(const SimulateFlags& flags) {
  const RunSpec spec = parse_run_spec(given_settings(flags));
  const auto profile = flags.profile->value();
  if (!spec.synthetic) {
    const CostProfile costs = load_profile(profile ? *profile : default_profile_name());
    return predict(spec, &costs);
  }
  if (profile) throw InputError("--profile", *profile + " beside synthetic costs", "either a profile or --tf and --tb");
  return predict(spec, nullptr);
}

bool wants_gantt(const SimulateFlags& flags) {
  const std::string value = flags.gantt->value().value_or("1");
  if (value != "0" && value != "1") throw InputError("--gantt", value, "0 or 1");
  return value == "1";
}

void simulate(const SimulateFlags& flags) {
  const bool with_gantt = wants_gantt(flags);
  const auto json = flags.json->value();
  const RunResult run = predict_as_asked(flags);
  if (json) write_run(run, *json);
  if (json != "-") std::cout << terminal_view(run, screen_style(with_gantt));
}

}  // namespace

void add_simulate(CLI::App& app) {
  auto flags = std::make_shared<SimulateFlags>();
  for (const SettingInfo& info : setting_infos()) {
    flags->settings.push_back(std::make_unique<OnceFlag>(app, "--" + info.name, info.value_name, info.help));
  }
  flags->profile =
      std::make_unique<OnceFlag>(app, "--profile", "NAME|FILE",
                                 "costs measured on a machine (default: the largest in data/; see `pdl-sim profiles`)");
  flags->json = std::make_unique<OnceFlag>(app, "--json", "FILE|-",
                                           "write the run as JSON; -: to standard output, without tables");
  flags->gantt = std::make_unique<OnceFlag>(app, "--gantt", "0|1", "chart of the step (default 1)");
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
