// pdl-sim sweep: any setting takes a list or a range; one table of all combinations.
#include "sim/study/sweep.hpp"
#include "sim/study/sweep_values.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "sim/io/error.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/output_file.hpp"
#include "sim/io/words.hpp"
#include "sim/report/progress_bar.hpp"
#include "sim/report/sweep_document.hpp"
#include "sim/spec/settings.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/output_flags.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kMostThreads = 1024;

struct SweepFlags {
  explicit SweepFlags(CLI::App& app)
      : profile(app, "--profile", "NAME|FILE",
                "costs measured on a machine, for all rows (default: the largest in data/ that has measured what they "
                "need)"),
        memory(app, "--memory", "BYTES", "what needs more on a GPU is shown and cannot win: 40GiB, 80GB"),
        json(app, "--json", "FILE|-", "write the table as JSON; -: to standard output, without the table"),
        csv(app, "--csv", "FILE|-", "write the table as CSV; -: to standard output, without the table"),
        scaling(app, "--scaling", "strong|weak",
                "where the GPUs vary: the global batch is held, or the batch of a GPU, and --batch is that of the "
                "fewest GPUs (default strong)"),
        threads(app, "--threads", "N",
                "configurations at a time (default: one a core; of ranks on a host each its share of the cores)"),
        resume(
            app, "--resume", "FILE",
            "keep the rows in this file as they are predicted, and go on with those that an interrupted sweep left in "
            "it; removed at the end"),
        outputs(app, {.json = false, .csv = false}),
        settings(app, ",...") {}
  OnceFlag profile, memory, json, csv, scaling, threads, resume;
  OutputFlags outputs;
  SettingFlags settings;
};

/// A launcher may have given each rank cores of its own already.
std::int64_t default_threads(std::int64_t cores, const std::optional<Ranks>& ranks) {
  const std::int64_t all = std::thread::hardware_concurrency();
  const bool shares_cores = ranks && cores == all;
  return std::max<std::int64_t>(1, shares_cores ? cores / ranks->of_host : cores);
}

SweepOptions options_of(const SweepFlags& flags) {
  SweepOptions options;
  if (const auto memory = flags.memory.value()) options.memory_limit_bytes = parse_bytes("--memory", *memory);
  if (const auto scaling = flags.scaling.value()) options.scaling = parse_scaling("--scaling", *scaling);
  options.ranks = ranks_of_environment([](const char* name) { return std::getenv(name); });
  const auto threads = flags.threads.value();
  options.threads =
      threads ? parse_whole("--threads", *threads, 1, kMostThreads) : default_threads(usable_cores(), options.ranks);
  if (const auto resume = flags.resume.value()) options.resume = *resume;
  return options;
}

/// Nothing can win: why, with the exit code of it.
[[noreturn]] void refuse_all(const Sweep& sweep) {
  const auto ran =
      std::find_if(sweep.rows.begin(), sweep.rows.end(), [](const SweepRow& row) { return row.result.has_value(); });
  if (ran != sweep.rows.end()) {
    std::int64_t least = ran->result->peak_memory_bytes;
    for (const SweepRow& row : sweep.rows) {
      if (row.result) least = std::min(least, row.result->peak_memory_bytes);
    }
    throw CannotRun("out of memory: no configuration needs " + binary_bytes(*sweep.memory_limit_bytes) +
                    " or less on every GPU; the smallest needs " + binary_bytes(least));
  }
  const SweepRow& first = sweep.rows.front();
  const std::string message = (sweep.rows.size() == 1 ? ""
                                                      : "none of the " + std::to_string(sweep.rows.size()) +
                                                            " configurations can run; the first: ") +
                              first.refusal;
  if (first.exit_code == kExitInput) throw InputError(message);
  throw CannotRun(message);
}

void sweep_as_asked(const SweepFlags& flags) {
  const auto json = flags.json.value(), csv = flags.csv.value();
  const std::vector<const OnceFlag*> others = {&flags.json, &flags.csv};
  flags.outputs.check({&flags.json, &flags.csv, &flags.resume});
  const std::vector<SettingValue> given = flags.settings.given();
  SweepOptions options = options_of(flags);
  const std::optional<CostProfile> costs = costs_of_sweep(given, options, flags.profile.value());
  const CostProfile* profile = costs ? &*costs : nullptr;
  if (options.ranks && options.ranks->rank > 0) return join_sweep(given, profile, options);
  Sweep sweep;
  {
    ProgressBar bar;
    options.progress = [&](std::size_t done, std::size_t of) {
      bar.show(static_cast<double>(done) / static_cast<double>(of),
               std::to_string(done) + " of " + std::to_string(of) + " configurations");
    };
    sweep = run_sweep(given, profile, options);
  }
  flags.outputs.check_inputs(others);
  if (json) write_output(*json, [&](std::ostream& out) { write_sweep_json(sweep, out); });
  if (csv) write_output(*csv, [&](std::ostream& out) { write_sweep_csv(sweep, out); });
  if (flags.outputs.asked() || flags.outputs.terminal_is_free(others))
    flags.outputs.show(sweep_document(sweep), others);
  if (!options.resume.empty()) std::filesystem::remove(options.resume);
  if (!sweep.fastest()) refuse_all(sweep);
}

}  // namespace

void add_sweep(CLI::App& app) {
  CLI::App* command = app.add_subcommand("sweep", "every combination of lists and ranges of settings, in one table");
  command->footer(
      "A value may be a list (4,8) and, if it is a number, a range (2:8, 2:8:2, 1024:8192:x2).\n"
      "The times of the stages of one value are written with slashes: --tf 1/1/2/1,2/2/1/1 is two values.\n"
      "Example: pdl-sim sweep --gpus 4 --depth 16 --schedule gpipe,1f1b,zb-v --microbatches 4:16:x2 --memory 40GiB\n"
      "Several processes: mpirun -n 4 pdl-sim sweep ... shares the configurations, and rank 0 writes the table.\n"
      "Scaling: pdl-sim sweep --gpus 1,2,4,8 --strategy ddp --dim 8192 --depth 8 --batch 64");
  auto flags = std::make_shared<SweepFlags>(*command);
  command->callback([flags] { sweep_as_asked(*flags); });
}

}  // namespace pdl
