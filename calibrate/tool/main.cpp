// pdl-calibrate: measures this host and fits a profile for pdl-sim; or only fits samples measured before.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <set>

#include "calibrate/fit/added_samples.hpp"
#include "calibrate/fit/fit.hpp"
#include "calibrate/fit/nccl_tests.hpp"
#include "calibrate/fit/samples.hpp"
#include "calibrate/fit/summary.hpp"
#include "calibrate/probe/probe.hpp"
#ifdef PDL_PROBE
#include "runtime/comm/waiting.hpp"
#endif
#include "sim/io/error.hpp"
#include "sim/io/installation.hpp"
#include "sim/io/number_text.hpp"
#include "sim/io/output_file.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/io/words.hpp"
#include "sim/report/document.hpp"
#include "sim/report/progress_bar.hpp"
#include "sim/spec/settings.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/program_texts.hpp"

namespace pdl {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  pdl-calibrate --gpus 4 --samples data/h100x4/samples.json --out data/h100x4/profile.json\n"
    "  pdl-calibrate --from data/h100x4/samples.json --out profile.json\n"
    "  pdl-calibrate --gpus 4 --depth 20 --dim 5120 --batch 2048 --microbatches 8 --schedule 1f1b --out profile.json\n"
    "  pdl-calibrate --from samples.json --gpus 1 --plan-gpus 4 --model mine.json --dtype amp-bf16 --samples all.json "
    "--out profile.json\n"
    "  pdl-calibrate --from data/h100x4/samples.json --python python3 --samples all.json --out profile.json\n"
    "  pdl-calibrate --from data/h100x4/samples.json --from-nccl-tests all_reduce_16.txt --out profile.json\n"
    "  pdl-calibrate --device cpu --gpus 2 --out p.json && pdl-sim --profile p.json --gpus 2 --dim 256\n"
    "Exit codes: 0 fine, 2 the input or the measurements are wrong, 3 measuring failed, 1 a bug of pdl-calibrate.";

struct CommandLine {
  ProbeOptions probe;
  std::unique_ptr<SettingFlags> plan;
  std::vector<std::string> dtypes;
  std::string out;
  std::string samples;
  std::string from;
  std::string products;
  std::vector<std::string> nccl_tests;
  NcclTestsOptions nccl_tests_options;
  std::string name;
  double wait_limit_s = 120;
};

/// Flags that only mean something when this host is measured.
const std::vector<std::string>& flags_of_probe() {
  static const std::vector<std::string> flags = {"--samples",       "--device",     "--gpus",        "--plan-gpus",
                                                 "--dims",          "--rows",       "--dtypes",      "--optimizers",
                                                 "--random-shapes", "--transports", "--max-seconds", "--seed",
                                                 "--resume",        "--wait-limit", "--python",      "--transformers"};
  return flags;
}

/// Of these, those that say what is measured of every host, not of a plan.
const std::vector<std::string>& flags_of_lists() {
  static const std::vector<std::string> flags = {"--dims",          "--rows",       "--dtypes", "--optimizers",
                                                 "--random-shapes", "--transports", "--python", "--transformers"};
  return flags;
}

/// Of those, all but what may be measured by itself.
std::vector<std::string> flags_of_other_probes() {
  std::vector<std::string> flags = flags_of_lists();
  std::erase(flags, "--python");
  std::erase(flags, "--transformers");
  return flags;
}

/// The settings that say what a step computes. Not here: `gpus`, of which this program has a flag of its own, and what
/// costs nothing to compute: hosts, network, sleeps, seeds.
bool is_of_plan(const SettingRow& setting) {
  static const std::set<std::string> others = {"gpus",     "hosts",        "network-gb-per-s", "network-latency-us",
                                               "delay-ms", "straggler",    "loss-scale",       "seed",
                                               "repeat",   "learning-rate"};
  return !is_synthetic_cost(setting) && !others.contains(setting.name);
}

void add_flags(CLI::App& app, CommandLine& line) {
  app.add_option("--out", line.out, "the profile to write ('-': standard output)")->type_name("FILE")->required();
  app.add_option("--samples", line.samples, "write the raw measurements too")->type_name("FILE");
  app.add_option("--from", line.from,
                 "fit these samples instead of measuring; needs no hardware. With the words of a plan: measures what "
                 "the plan needs and these have not, on this host, and fits both (--samples writes both); with "
                 "--python the host times of Python alone, with --transformers what those are made of alone")
      ->type_name("FILE");
  app.add_option(
         "--products", line.products,
         "beside --from: matrix products of these samples, of another host with GPUs of as many multiprocessors, price "
         "layers of sizes that --from has not")
      ->type_name("FILE");
  app.add_option("--from-nccl-tests", line.nccl_tests,
                 "outputs of nccl-tests (all_reduce_perf ..., printed or -J), a test a file: collectives of any number "
                 "of ranks and hosts, alone or added to --from; their in-place times are taken")
      ->type_name("FILE ...");
  app.add_option(
         "--collective", line.nccl_tests_options.collective,
         "what those files measured, where they do not say: all_reduce, all_gather, broadcast, reduce, reduce_scatter")
      ->type_name("WORD");
  app.add_option("--ranks", line.nccl_tests_options.ranks, "how many ranks they had, where they do not say")
      ->type_name("N");
  app.add_option("--hosts", line.nccl_tests_options.hosts, "on how many hosts these ranks were, where they do not say")
      ->type_name("H");
  app.add_option("--name", line.name, "name of the profile [the folder of a profile.json, or GPU and count]")
      ->type_name("NAME");
  app.add_option("--device", line.probe.device, "what to measure [cuda]")->type_name("cuda|cpu");
  app.add_option("--gpus", line.probe.gpus, "GPUs, or workers on CPU [all GPUs; 2 workers on CPU]")->type_name("N");
  app.add_option("--dims", line.probe.dims, "widths of layers, separated by commas")->type_name("N")->delimiter(',');
  app.add_option("--rows", line.probe.rows, "samples of a micro-batch, separated by commas")
      ->type_name("N")
      ->delimiter(',');
  app.add_option("--dtypes", line.dtypes,
                 "fp32, tf32, amp-fp16, amp-bf16, separated by commas [all on GPUs, fp32 on CPU]")
      ->type_name("WORD")
      ->delimiter(',');
  app.add_flag("--transformers", line.probe.transformers,
               "measure what transformers are made of too [on CUDA always, unless --dims or --rows are given]");
  app.add_option("--optimizers", line.probe.optimizers, "sgd, adam, adamw, adamw-fused")
      ->type_name("WORD")
      ->delimiter(',');
  app.add_option("--random-shapes", line.probe.random_shapes,
                 "how many layers between the widths, and not square, of fp32; two thirds as many of each other data "
                 "type [24 on GPUs where --dims and --rows are left open, else 0]")
      ->type_name("N");
  app.add_option("--transports", line.probe.transports,
                 "copy, nccl, gloo [copy and nccl on GPUs, copy and gloo on CPU]")
      ->type_name("WORD")
      ->delimiter(',');
  app.add_option("--max-seconds", line.probe.max_seconds, "about how long: layers are repeated less often for it [290]")
      ->type_name("S");
  app.add_option("--python", line.probe.python,
                 "an interpreter that has PyTorch, such as python3: what its thread takes to issue a step is measured "
                 "too, for predictions of --program pytorch")
      ->type_name("PROGRAM");
  app.add_flag("--resume", line.probe.resume,
               "goes on with a calibration that was interrupted: what it had measured is in the file of --samples "
               "(else of --out) with .partial behind its name");
  app.add_option("--wait-limit", line.wait_limit_s, "ends (exit code 3) where nothing has moved for so long [120]")
      ->type_name("S");
  app.add_option("--seed", line.probe.seed, "of weights and data [0]")->type_name("N");
  const std::string usual_group = app.option_defaults()->get_group();
  app.option_defaults()->group("The words of a plan (as pdl-sim has them), whose own shapes are measured too");
  app.add_option("--plan-gpus", line.probe.plan_gpus, "GPUs of the plan [as many as are measured]")->type_name("N");
  line.plan = std::make_unique<SettingFlags>(app, is_of_plan);
  app.option_defaults()->group(usual_group);
}

/// Values that the names of the flags' values do not list.
KnownWords known_words() {
  std::vector<std::string> dtypes;
  for (const Dtype dtype : kAllDtypes) dtypes.push_back(to_string(dtype));
  return {{"--dtypes", dtypes},
          {"--optimizers", {"sgd", "adam", "adamw", "adamw-fused"}},
          {"--transports", {"copy", "nccl", "gloo"}},
          {"--collective", nccl_tests_collectives()}};
}

Dtype dtype_of(const std::string& word) {
  if (const std::optional<Dtype> dtype = find_dtype(word)) return *dtype;
  std::vector<std::string> known;
  for (const Dtype dtype : kAllDtypes) known.push_back(to_string(dtype));
  throw InputError("--dtypes", word, list_words(known));
}

[[noreturn]] void refuse_unknown(const CLI::App& app) {
  const std::string word = app.remaining(true).front();
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const std::string nearest = nearest_word(word.substr(0, word.find('=')), known);
  throw InputError("command line", "an unknown option " + word, nearest.empty() ? list_words(known) : nearest);
}

void check_nccl_tests(const CLI::App& app, const CommandLine& line) {
  for (const char* flag : {"--collective", "--ranks", "--hosts"}) {
    if (app.count(flag) > 0 && line.nccl_tests.empty())
      throw InputError(flag, "it without --from-nccl-tests", "both or none");
  }
  const std::string& collective = line.nccl_tests_options.collective;
  const std::vector<std::string>& known = nccl_tests_collectives();
  if (app.count("--collective") > 0 && std::find(known.begin(), known.end(), collective) == known.end()) {
    throw InputError("--collective", collective, list_words(known));
  }
  const std::int64_t ranks = line.nccl_tests_options.ranks;
  if (app.count("--ranks") > 0 && (ranks < 2 || ranks > 1000000)) {
    throw InputError("--ranks", std::to_string(ranks), "a whole number from 2 to 1000000");
  }
  const std::int64_t hosts = line.nccl_tests_options.hosts;
  if (app.count("--hosts") > 0 && (hosts < 1 || hosts > 1000000)) {
    throw InputError("--hosts", std::to_string(hosts), "a whole number from 1 to 1000000");
  }
  for (const std::string& file : line.nccl_tests) {
    if (file == line.out) throw InputError("--out", "the same file as --from-nccl-tests", "another file");
    if (std::count(line.nccl_tests.begin(), line.nccl_tests.end(), file) > 1)
      throw InputError("--from-nccl-tests", file + " twice", "each file once");
  }
}

/// Numbers in range and words that fit together, before minutes are spent on measuring.
void check(const CLI::App& app, const CommandLine& line) {
  const bool has_plan = !line.probe.plan.empty();
  if (has_plan && !line.nccl_tests.empty()) {
    throw InputError(line.probe.plan.front().place, "it together with --from-nccl-tests",
                     "one of them: --from-nccl-tests measures nothing");
  }
  const auto refuse_beside = [&](const char* from, const std::vector<std::string>& flags, const char* why) {
    for (const std::string& flag : flags) {
      if (app.count(flag) > 0)
        throw InputError(flag, std::string("it together with ") + from, std::string("one of them: ") + from + why);
    }
  };
  if (!line.from.empty() && has_plan) {
    refuse_beside("--from", flags_of_lists(), " with the words of a plan measures what the plan needs alone");
  } else if (!line.from.empty() && (!line.probe.python.empty() || line.probe.transformers)) {
    refuse_beside("--from", flags_of_other_probes(), " with --python or --transformers measures those alone");
  } else if (!line.from.empty()) {
    refuse_beside("--from", flags_of_probe(), " measures nothing");
  }
  if (!line.nccl_tests.empty()) refuse_beside("--from-nccl-tests", flags_of_probe(), " measures nothing");
  check_nccl_tests(app, line);
  const auto positive = [](const char* flag, const std::vector<std::int64_t>& values) {
    for (const std::int64_t value : values) {
      if (value < 1 || value > 1000000)
        throw InputError(flag, std::to_string(value), "whole numbers from 1 to 1000000");
    }
  };
  positive("--dims", line.probe.dims);
  positive("--rows", line.probe.rows);
  if (app.count("--gpus") > 0) positive("--gpus", {line.probe.gpus});
  if (app.count("--plan-gpus") > 0) positive("--plan-gpus", {line.probe.plan_gpus});
  if (app.count("--plan-gpus") > 0 && !has_plan)
    throw InputError("--plan-gpus", "it without the words of a plan", "both or none");
  if (app.count("--random-shapes") > 0 && (line.probe.random_shapes < 0 || line.probe.random_shapes > 1000))
    throw InputError("--random-shapes", std::to_string(line.probe.random_shapes), "a whole number from 0 to 1000");
  if (!(line.probe.max_seconds > 0))
    throw InputError("--max-seconds", to_text(line.probe.max_seconds), "a positive time");
#ifdef PDL_PROBE
  if (!(line.wait_limit_s >= kShortestWaitLimit_s && line.wait_limit_s <= kLongestWaitLimit_s)) {
    throw InputError("--wait-limit", to_text(line.wait_limit_s),
                     "a number from " + to_text(kShortestWaitLimit_s) + " to " + to_text(kLongestWaitLimit_s));
  }
#endif
  if (line.probe.resume && line.samples.empty() && line.out == "-") {
    throw InputError("--resume", "it with --out - and no --samples",
                     "a file of --samples or --out, beside which is what was measured");
  }
  if (!line.samples.empty() && line.samples == line.out) {
    throw InputError("--samples", "the same file as --out", "another file");
  }
  if (!line.products.empty() && line.from.empty())
    throw InputError("--products", "it without --from", "both: products of another host for the samples of one");
  if (!line.products.empty() && line.products == line.out)
    throw InputError("--out", "the same file as --products", "another file");
  if (!line.from.empty() && line.from == line.out) throw InputError("--out", "the same file as --from", "another file");
}

/// data/h100x4/profile.json is found by the name h100x4, so that is what it is called.
std::string name_of(const CommandLine& line) {
  if (!line.name.empty()) return line.name;
  const std::filesystem::path path(line.out);
  return path.filename() == "profile.json" ? path.parent_path().filename().string() : "";
}

/// Where the samples go as they come; empty: nowhere.
std::string journal_of(const CommandLine& line) {
  const std::string& beside = line.samples.empty() ? line.out : line.samples;
  return beside == "-" ? "" : beside + ".partial";
}

#ifdef PDL_PROBE
/// Where standard error is left when the program is interrupted: what a signal handler may do is write.
char on_interrupt[512];

void say_interrupted(int signal) {
  static_cast<void>(write(STDERR_FILENO, on_interrupt, std::strlen(on_interrupt)) + 0);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void say_when_interrupted(const std::string& journal) {
  std::snprintf(on_interrupt, sizeof on_interrupt, "%spdl-calibrate: interrupted%s%s%s\n",
                isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", journal.empty() ? "" : "; what was measured is in ",
                journal.c_str(), journal.empty() ? "" : ": --resume goes on with it");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, say_interrupted);
}
#endif

/// `beside`: samples of --from, to which what the plan needs is added; null: everything is measured.
Samples measure(const CommandLine& line, const Samples* beside) {
#ifdef PDL_PROBE
  ProbeOptions options = line.probe;
  options.beside = beside;
  options.beside_place = line.from;
  options.journal = journal_of(line);
  limit_waiting(
      "pdl-calibrate", std::chrono::milliseconds(std::llround(line.wait_limit_s * 1e3)),
      options.journal.empty() ? "" : "what was measured is in " + options.journal + ": --resume goes on with it");
  ProgressBar bar("pdl-calibrate");
  say_when_interrupted(options.journal);
  options.note = [](const std::string& text) { std::cerr << "pdl-calibrate: " << text << "\n"; };
  options.progress = [&](double fraction, const std::string& what) { bar.show(fraction, what); };
  return probe_host(options);
#else
  (void)line, (void)beside;
  throw InputError("pdl-calibrate", "a build without LibTorch, which cannot measure",
                   "--from samples.json alone, or the full build (cmake --preset all)");
#endif
}

/// Products are of a GPU and its libraries, not of a host: those of another one serve.
void take_products(const std::string& file, Samples& samples) {
  const Samples other = load_samples(file);
  if (other.products.empty()) throw InputError(file, "no products", "samples of a calibration that measured them");
  const auto of = [](const Samples& each, const char* key) { return each.environment.value(key, nlohmann::json()); };
  if (of(other, "multiprocessors") != of(samples, "multiprocessors")) {
    throw InputError(file, "a GPU of " + of(other, "multiprocessors").dump() + " multiprocessors",
                     of(samples, "multiprocessors").dump() + ", as the samples of --from");
  }
  if (!samples.products.empty())
    throw InputError("--products", file + " beside samples of --from that have products of their own",
                     "samples without: they would be replaced by those of another host");
  samples.products = other.products;
  samples.environment["products_of"] = {{"card", of(other, "card")}, {"date", of(other, "date")}};
}

Samples read_samples(const CommandLine& line) {
  Samples samples = line.from.empty() ? Samples{} : load_samples(line.from);
  if (!line.products.empty()) take_products(line.products, samples);
  for (const std::string& file : line.nccl_tests) {
    add_nccl_tests(load_nccl_tests(file, line.nccl_tests_options), file, samples);
  }
  return samples;
}

bool measures(const CommandLine& line) {
  return !line.probe.plan.empty() || !line.probe.python.empty() || line.probe.transformers ||
         (line.from.empty() && line.nccl_tests.empty());
}

Samples measure_or_read(const CommandLine& line) {
  if (!measures(line)) return read_samples(line);
  Samples samples;
  if (line.from.empty()) {
    samples = measure(line, nullptr);
  } else {
    const Samples known = load_samples(line.from);
    samples = with_added(known, measure(line, &known));
  }
  // Before the fit: if that refuses them, they can be looked at.
  if (!line.samples.empty()) save_samples(samples, line.samples);
  return samples;
}

TableCell count_cell(std::int64_t count) {
  return {grouped(count), static_cast<double>(count)};
}

TableCell percent_cell(const std::optional<double>& fraction) {
  return fraction ? TableCell(fixed(100 * *fraction, 1), 100 * *fraction) : TableCell("-");
}

Table summary_table(const CostProfile& profile) {
  Table table{.name = "curves",
              .columns = {{"measured", "measured", "", "", Align::left},
                          {"curves", "curves"},
                          {"points", "points"},
                          {"values", "values"},
                          {"least_size", "least size"},
                          {"largest_size", "largest size"},
                          {"spread_percent", "spread", "%", "(p75 - p25) / median, the median over the points"},
                          {"deviation_percent", "deviation from a line", "%",
                           "how far the straight line latency + size / rate is from a curve at most, the median over "
                           "the curves; predictions use the curve, not the line"},
                          {"left_out", "points left out"}}};
  for (const FitSummaryRow& row : summarize_profile(profile)) {
    table.rows.push_back({row.what, count_cell(static_cast<std::int64_t>(row.curves)),
                          count_cell(static_cast<std::int64_t>(row.points)), count_cell(row.measurements),
                          row.largest == 0 ? TableCell("-") : count_cell(row.least),
                          row.largest == 0 ? TableCell("-") : count_cell(row.largest), percent_cell(row.spread),
                          percent_cell(row.line_residual), count_cell(static_cast<std::int64_t>(row.left_out))});
  }
  return table;
}

void print_summary(const CostProfile& profile, std::ostream& out) {
  const Environment& host = profile.host_description;
  Document document{.title = "profile " + profile.name};
  document.add(Paragraph{"profile " + profile.name + ": " + (host.card.empty() ? "GPU not named" : host.card) + " x " +
                         (host.count > 0 ? std::to_string(host.count) : "?")});
  document.add(summary_table(profile));
  for (const MeasuredCurve& measured : profile.curves) {
    for (const LeftOutPoint& point : measured.curve.left_out) {
      MeasuredKey key = measured.key;
      key.size = point.size;
      document.add(
          Paragraph{"left out: " + describe(key) + ", " + fixed(point.time_ns / 1e3, 2) + " us: " + point.reason, 2});
    }
  }
  for (const std::string& note : profile.notes) document.add(Paragraph{"note: " + note, 2});
  for (const std::string& warning : profile.warnings) document.add(Warning{warning});
  out << to_terminal(document, {.width = 100, .all_warnings = true});
}

void run_command_line(int argc, char** argv) {
  CLI::App app("Measures this host and fits a profile, from which pdl-sim predicts.", "pdl-calibrate");
  app.footer(kFooter);
  app.set_version_flag("--version", version_text("pdl-calibrate"), "name and version");
  CommandLine line;
  add_flags(app, line);
  add_program_texts(app, known_words());
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help);
    return;
  } catch (const CLI::ExtrasError&) {
    refuse_unknown(app);
  } catch (const CLI::ParseError& error) {
    throw InputError(std::string("command line: ") + error.what() + " (pdl-calibrate --help lists the flags)");
  }
  line.probe.plan = line.plan->given();
  line.probe.command = "pdl-calibrate";
  for (int i = 1; i < argc; ++i) line.probe.command += " " + std::string(argv[i]);
  check(app, line);
  for (const std::string& word : line.dtypes) line.probe.dtypes.push_back(dtype_of(word));
  check_writable("--out", line.out);
  check_writable("--samples", line.samples);

  const Samples samples = measure_or_read(line);
  const std::string place = !line.from.empty()         ? line.from
                            : !line.nccl_tests.empty() ? line.nccl_tests.front()
                            : !line.samples.empty()    ? line.samples
                                                       : "samples";
  const CostProfile profile = fit_profile(samples, place, name_of(line));
  save_profile(profile, line.out);
  if (measures(line) && !journal_of(line).empty()) std::filesystem::remove(journal_of(line));
  print_summary(profile, line.out == "-" ? std::cerr : std::cout);
  if (!std::cout.flush()) throw InputError("standard output", "a place that takes no more", "a writable one");
}

}  // namespace
}  // namespace pdl

int main(int argc, char** argv) {
  try {
    pdl::run_command_line(argc, argv);
    return pdl::kExitFine;
  } catch (const pdl::InputError& error) {
    std::cerr << "pdl-calibrate: " << pdl::printable(error.what()) << "\n";
    return pdl::kExitInput;
  } catch (const pdl::CannotRun& error) {
    std::cerr << "pdl-calibrate: " << pdl::printable(error.what()) << "\n";
    return pdl::kExitCannotRun;
  } catch (const std::exception& error) {
    std::cerr << "pdl-calibrate: a bug of pdl-calibrate: " << pdl::printable(error.what()) << "\n";
    return pdl::kExitBug;
  }
}
