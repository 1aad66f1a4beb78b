// pdl-sim plan: the best configuration for a number of GPUs, under a limit of memory.
#include <algorithm>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/io/shell_word.hpp"
#include "sim/io/words.hpp"
#include "sim/predict/predict.hpp"
#include "sim/report/progress_bar.hpp"
#include "sim/report/search_document.hpp"
#include "sim/spec/settings.hpp"
#include "sim/study/configuration_search.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/output_flags.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kMostSearchThreads = 1024;

/// A dimension of the search: it takes lists.
bool is_searched(const std::string& name) {
  const std::span<const SearchDimension> all = search_dimensions();
  return std::any_of(all.begin(), all.end(), [&](const SearchDimension& dimension) { return name == dimension.name; });
}

struct PlanFlags {
  explicit PlanFlags(CLI::App& app)
      : profile(app, "--profile", "NAME|FILE",
                "costs measured on a machine (default: the largest in data/ that has measured what most of them need)"),
        memory(app, "--memory", "SIZE", "the most that a GPU may need, such as 40GiB (default: what the GPU has)"),
        threads(app, "--threads", "N", "configurations at a time (default: one a core)"),
        outputs(app, {}),
        searched(
            app, [](const SettingRow& row) { return is_searched(row.name); }, ",..."),
        held(app, [](const SettingRow& row) { return !is_searched(row.name); }) {}

  std::vector<SettingValue> given() const {
    std::vector<SettingValue> words = searched.given();
    for (const SettingValue& word : held.given()) words.push_back(word);
    return words;
  }

  OnceFlag profile, memory, threads;
  OutputFlags outputs;
  SettingFlags searched, held;
};

SearchOptions options_of(const PlanFlags& flags) {
  SearchOptions options;
  if (const auto memory = flags.memory.value()) options.memory_limit_bytes = parse_bytes("--memory", *memory);
  const auto threads = flags.threads.value();
  options.threads = threads ? parse_whole("--threads", *threads, 1, kMostSearchThreads)
                            : std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  return options;
}

ConfigurationSearch search_with_progress(const ConfigurationSpace& space, const CostProfile* profile,
                                         SearchOptions options) {
  ProgressBar bar;
  options.progress = [&](std::size_t decided, std::size_t of) {
    bar.show(static_cast<double>(decided) / static_cast<double>(of),
             std::to_string(decided) + " of " + std::to_string(of) + " configurations");
  };
  return search_configurations(space, profile, options);
}

/// What the command line of one prediction needs beside its words. Always the profile: the one that prices all
/// configurations need not be the one that a single prediction takes where none is named.
std::string flags_of_prediction(const PlanFlags& flags, const CostProfile* costs) {
  std::string text;
  const std::optional<std::string> given = flags.profile.value();
  if (costs) text += " " + flags.profile.flag() + " " + shell_word(given.value_or(costs->name));
  if (const auto memory = flags.memory.value()) text += " " + flags.memory.flag() + " " + shell_word(*memory);
  return text;
}

void plan_as_asked(const PlanFlags& flags) {
  flags.outputs.check();
  const std::vector<SettingValue> given = flags.given();
  const SearchOptions options = options_of(flags);
  ConfigurationSpace space = configuration_space(given);
  const std::optional<CostProfile> costs = costs_of_space(space, flags.profile.value());
  const CostProfile* profile = costs ? &*costs : nullptr;
  const ConfigurationSearch search = search_with_progress(space, profile, options);
  flags.outputs.show(search_document(search, flags_of_prediction(flags, profile)));
  if (!search.best.empty()) return;
  if (search.is_input_error()) throw InputError(search.nothing_fits());
  throw CannotRun(search.nothing_fits());
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "plan", "the fastest strategy, mesh, schedule and micro-batches for the GPUs, and why the others lost");
  command->footer(
      "What is given is fixed; a list (1f1b,gpipe) or range (2:8, 4:64:x2) is searched; the rest is searched through\n"
      "values that are printed. Model, batch, accumulation, optimizer, number format and program are never changed, "
      "but\n"
      "for --dtype any, --program any, or lists of them.\n"
      "Example: pdl-sim plan --gpus 4 --memory 20GiB --depth 16 --dim 4096 --batch 4096");
  auto flags = std::make_shared<PlanFlags>(*command);
  command->callback([flags] { plan_as_asked(*flags); });
}

}  // namespace pdl
