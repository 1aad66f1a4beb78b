// pdl-sim schedules: what each schedule is, needs and costs in closed form.
//
//   schedule        stages a GPU     micro-batches       idle time of a GPU      live activations
//   ---------------------------------------------------------------------------------------------
//   interleaved     V, usually 2     a multiple of ...   (P-1) (F+B+W) / V       min(M, G + (2P-1-G)/V)
//
// Everything shown is of the table in sim/spec/schedule.cpp.
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/io/output_file.hpp"
#include "sim/report/text_table.hpp"
#include "sim/spec/run_spec.hpp"
#include "sim/spec/schedule.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/screen.hpp"

namespace pdl {
namespace {

/// The rule as the schedule words it when it refuses a shape; "any" if it refuses none of some small ones.
std::string microbatch_rule(const Schedule& schedule) {
  constexpr std::int32_t kWorkers = 4;
  for (std::int32_t microbatches = 1; microbatches < 4 * kWorkers; ++microbatches) {
    if (const auto refusal = schedule.refusal({kWorkers, schedule.default_chunks, microbatches}))
      return refusal->expected;
  }
  return "any";
}

std::string chunks_text(const Schedule& schedule) {
  const std::string usual = std::to_string(schedule.default_chunks);
  return schedule.least_chunks == schedule.most_chunks ? usual : "V, usually " + usual;
}

/// A row of cells as the rows of its lines: `widths[c]` columns of cell c at most, 0: as it is.
std::vector<std::vector<std::string>> wrapped(const std::vector<std::string>& cells,
                                              const std::vector<std::size_t>& widths) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    std::istringstream lines(widths[c] == 0 ? cells[c] : wrap(cells[c], widths[c]));
    std::string line;
    for (std::size_t r = 0; std::getline(lines, line); ++r) {
      if (r == rows.size()) rows.emplace_back(cells.size());
      rows[r][c] = line;
    }
  }
  return rows;
}

std::string table_text(const std::vector<std::string>& titles, const std::vector<std::size_t>& widths,
                       std::vector<std::string> (*cells)(const Schedule&)) {
  TextTable table;
  for (const std::string& title : titles) table.columns.push_back({title, "", Align::left});
  for (const Schedule& schedule : schedules()) {
    for (auto& row : wrapped(cells(schedule), widths)) table.rows.push_back(std::move(row));
  }
  return to_text(table);
}

std::string schedules_text(std::size_t width) {
  // What is left beside the other columns.
  const std::size_t wide = std::clamp<std::size_t>(width, 80, 120);
  const std::string costs =
      table_text({"schedule", "stages a GPU", "micro-batches", "idle time of a GPU", "live activations"},
                 {0, 0, wide / 4, wide - wide / 4 - 56, 20}, [](const Schedule& s) {
                   return std::vector<std::string>{std::string(s.name), chunks_text(s), microbatch_rule(s),
                                                   std::string(s.bubble), std::string(s.memory)};
                 });
  const std::string orders = table_text(
      {"schedule", "order of operations", "source"}, {0, (wide - 18) / 2, (wide - 18) / 2}, [](const Schedule& s) {
        return std::vector<std::string>{std::string(s.name), std::string(s.summary), std::string(s.source)};
      });
  std::string one_thread;
  for (const Schedule& s : schedules()) {
    if (s.same_on_every_worker) one_thread += (one_thread.empty() ? "" : ", ") + std::string(s.name);
  }
  return costs + "\n" +
         wrap(
             "P GPUs, M micro-batches, V stages a GPU (--chunks), G micro-batches a group (P where M is a multiple of "
             "P); F, B, W: time of a forward, an input gradient and a weight gradient of one micro-batch on all stages "
             "of a GPU (V times --tf, ...). Idle time: equal stages, no transfers. Live activations: the most on one "
             "GPU, in activations of the P-th part of the model for one micro-batch.",
             width) +
         "\n" + orders + "\n" +
         wrap("The same order on every GPU, so that --workers one can run it: " + one_thread + ".", width) +
         wrap("--schedule FILE.csv takes an order in PyTorch's format; --schedule auto searches for the fastest one.",
              width);
}

nlohmann::ordered_json schedules_json() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Schedule& s : schedules()) {
    list.push_back({{"name", s.name},
                    {"least_chunks", s.least_chunks},
                    {"most_chunks", s.most_chunks},
                    {"default_chunks", s.default_chunks},
                    {"placement", s.placement == Placement::v ? "v" : "loop"},
                    {"microbatches", microbatch_rule(s)},
                    {"splits_backward", s.splits_backward},
                    {"same_on_every_worker", s.same_on_every_worker},
                    {"steps_overlap", s.steps_overlap},
                    {"bubble", s.bubble},
                    {"live_activations", s.memory},
                    {"summary", s.summary},
                    {"source", s.source}});
  }
  return {{"schedules", list}};
}

}  // namespace

void add_schedules(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("schedules", "the schedules there are: what each needs, its bubble, its memory");
  command->footer("Example: pdl-sim schedules");
  auto json = std::make_shared<OnceFlag>(*command, "--json", "FILE|-",
                                         "write the table as JSON; -: to standard output, without the table");
  command->callback([json] {
    const auto path = json->value();
    if (path) write_json(*path, schedules_json());
    if (path != "-") std::cout << schedules_text(screen_width());
  });
}

}  // namespace pdl
