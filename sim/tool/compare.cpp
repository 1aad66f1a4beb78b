// pdl-sim compare A.json B.json
#include "sim/report/compare_text.hpp"

#include <iostream>
#include <memory>

#include "sim/io/error.hpp"
#include "sim/io/output_file.hpp"
#include "sim/run/comparison.hpp"
#include "sim/run/run_json.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/screen.hpp"

namespace pdl {
namespace {

struct CompareFlags {
  explicit CompareFlags(CLI::App& app)
      : json(app, "--json", "FILE|-", "write the comparison as JSON; -: to standard output, without tables"),
        no_gantt(app, "--no-gantt", "tables only") {
    app.add_option("files", files, "two runs, predicted or measured")->type_name("A.json B.json");
  }
  std::vector<std::string> files;
  OnceFlag json;
  Switch no_gantt;
};

void compare(const CompareFlags& flags) {
  if (flags.files.size() != 2) {
    throw InputError("compare", std::to_string(flags.files.size()) + " files", "two: A.json B.json");
  }
  const auto json = flags.json.value();
  const bool with_gantt = !flags.no_gantt.on();
  const std::string &name_a = flags.files[0], &name_b = flags.files[1];
  const RunResult a = read_run(name_a), b = read_run(name_b);
  if (json) {
    write_json(*json, compare_json(a, name_a, b, name_b));
  }
  if (json != "-") std::cout << compare_text(a, name_a, b, name_b, screen_style(with_gantt));
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
