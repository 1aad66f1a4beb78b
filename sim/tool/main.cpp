// pdl-sim: predicts a step of multi-GPU training from a profile of measured costs.
#include <csignal>
#include <iostream>

#include "sim/io/error.hpp"
#include "sim/io/installation.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/program_texts.hpp"

namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  pdl-sim --gpus 5 --depth 20 --schedule gpipe\n"
    "  pdl-sim --gpus 8 --microbatches 1 --schedule 1f1b --tf 1 --tb 2 --tcomm 0\n"
    "  pdl-sim sweep --gpus 4 --schedule gpipe,1f1b,zb-v --microbatches 4,8\n"
    "  pdl-sim scenario --all\n"
    "Exit codes: 0 fine, 2 the input is wrong, 3 the plan cannot run (deadlock, out of memory), 1 a bug of pdl-sim.";

void run_command_line(int argc, char** argv) {
  CLI::App app("Predicts the step time of multi-GPU training: without a subcommand, of one run.", "pdl-sim");
  app.footer(kFooter);
  app.set_version_flag("--version", pdl::version_text("pdl-sim"), "name and version");
  app.get_formatter()->column_width(38);
  app.require_subcommand(0, 1);
  pdl::add_simulate(app);
  pdl::add_compare(app);
  pdl::add_import_trace(app);
  pdl::add_validate(app);
  pdl::add_scenario(app);
  pdl::add_sweep(app);
  pdl::add_plan(app);
  pdl::add_schedules(app);
  pdl::add_profiles(app);
  for (CLI::App* subcommand : app.get_subcommands([](const CLI::App*) { return true; })) {
    subcommand->set_version_flag("--version", pdl::version_text("pdl-sim"), "name and version");
  }
  pdl::add_program_texts(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help);
  } catch (const CLI::ParseError& error) {
    pdl::refuse_command_line(app, error);
  }
  if (!std::cout.flush()) throw pdl::InputError("standard output", "a place that takes no more", "a writable one");
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that outgrows the limit of the shell is refused by name, as a full disk is
  try {
    run_command_line(argc, argv);
    return pdl::kExitFine;
  } catch (const pdl::InputError& error) {
    std::cerr << "pdl-sim: " << pdl::printable(error.what()) << "\n";
    return pdl::kExitInput;
  } catch (const pdl::CannotRun& error) {
    std::cerr << "pdl-sim: " << pdl::printable(error.what()) << "\n";
    return pdl::kExitCannotRun;
  } catch (const std::bad_alloc&) {
    std::cerr << "pdl-sim: not enough memory on this machine for a plan of this size\n";
    return pdl::kExitCannotRun;
  } catch (const std::exception& error) {
    std::cerr << "pdl-sim: a bug of pdl-sim: " << pdl::printable(error.what()) << "\n";
    return pdl::kExitBug;
  }
}
