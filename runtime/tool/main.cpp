// pdl-run: real training of a plan on the devices of this host, measured.
#include <iostream>

#include "runtime/tool/commands.hpp"
#include "runtime/tool/launch.hpp"
#include "sim/io/error.hpp"
#include "sim/io/installation.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/program_texts.hpp"

namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  pdl-run --gpus 4 --depth 16 --dim 4096 --batch 4096 --schedule 1f1b --json run.json\n"
    "  pdl-run --device cpu --gpus 2 --depth 8 --dim 256 --batch 64 --microbatches 4 --schedule gpipe --check\n"
    "  pdl-run scenario scenarios/hw3_4_more_gpus.json --out runs\n"
    "  torchrun --nproc-per-node 4 --no-python pdl-run --workers process --transport nccl --gpus 4\n"
    "Exit codes: 0 fine, 2 the input is wrong, 3 the run cannot be done (out of memory, a dead worker), 1 a bug of "
    "pdl-run.";

int run_command_line(int argc, char** argv) {
  CLI::App app("Trains a model as planned and measures the step: without a subcommand, one run.", "pdl-run");
  app.footer(kFooter);
  app.set_version_flag("--version", pdl::version_text("pdl-run"), "name and version");
  app.get_formatter()->column_width(38);
  app.require_subcommand(0, 1);
  const auto code = std::make_shared<int>(pdl::kExitFine);
  pdl::add_run(app, {argv + 1, argv + argc}, code);
  pdl::add_scenario(app, code);
  pdl::add_program_texts(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help);
  } catch (const CLI::ParseError& error) {
    pdl::refuse_command_line(app, error);
  }
  if (!std::cout.flush()) throw pdl::InputError("standard output", "a place that takes no more", "a writable one");
  return *code;
}

}  // namespace

int main(int argc, char** argv) {
  pdl::end_with_launcher();
  try {
    return run_command_line(argc, argv);
  } catch (const pdl::InputError& error) {
    std::cerr << "pdl-run: " << pdl::printable(error.what()) << "\n";
    return pdl::kExitInput;
  } catch (const pdl::CannotRun& error) {
    std::cerr << "pdl-run: " << pdl::printable(error.what()) << "\n";
    return pdl::kExitCannotRun;
  } catch (const std::exception& error) {
    std::cerr << "pdl-run: a bug of pdl-run: " << pdl::printable(error.what()) << "\n";
    return pdl::kExitBug;
  }
}
