// pdl-sim schedules: what each schedule is, needs and costs in closed form.
//
//   schedule        stages a GPU     micro-batches       idle time of a GPU      in-flight micro-batches
//   ----------------------------------------------------------------------------------------------------
//   interleaved     V, usually 2     a multiple of ...   (P-1) (F+B+W) / V       min(M, G + (2P-1-G)/V)
//
// Everything shown is of the table in sim/spec/schedule.cpp.
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/io/output_file.hpp"
#include "sim/spec/run_spec.hpp"
#include "sim/spec/schedule.hpp"
#include "sim/tool/commands.hpp"
#include "sim/tool/flags.hpp"
#include "sim/tool/output_flags.hpp"

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

Table costs_table() {
  Table table{.name = "schedules",
              .columns = {{"schedule", "schedule", "", "", Align::left},
                          {"chunks", "stages a GPU", "", "", Align::left},
                          {"microbatches", "micro-batches", "", "", Align::left, true},
                          {"bubble", "idle time of a GPU", "", "of equal stages, without transfers", Align::left, true},
                          {"in_flight_microbatches", "in-flight micro-batches", "",
                           "the most on one GPU; one is what a P-th part of the model keeps for a micro-batch",
                           Align::left, true}}};
  for (const Schedule& s : schedules()) {
    table.rows.push_back(
        {std::string(s.name), chunks_text(s), microbatch_rule(s), std::string(s.bubble), std::string(s.memory)});
  }
  return table;
}

Table sources_table() {
  Table table{.name = "sources",
              .columns = {{"schedule", "schedule", "", "", Align::left},
                          {"operations", "sequence of operations", "", "", Align::left, true},
                          {"source", "source", "", "", Align::left, true}}};
  for (const Schedule& s : schedules())
    table.rows.push_back({std::string(s.name), std::string(s.summary), std::string(s.source)});
  return table;
}

Document schedules_document() {
  std::string one_thread;
  for (const Schedule& s : schedules()) {
    if (s.same_on_every_worker) one_thread += (one_thread.empty() ? "" : ", ") + std::string(s.name);
  }
  Document document{.title = "schedules"};
  document.add(costs_table());
  document.add(
      Paragraph{"P GPUs, M micro-batches, V stages a GPU (--chunks), G micro-batches a group (P where M is a multiple "
                "of P); F, B, "
                "W: time of a forward, an input gradient and a weight gradient of one micro-batch on all stages of a "
                "GPU (V times "
                "--tf, ...)."});
  document.add(sources_table());
  document.add(Paragraph{"The same sequence on every GPU, so that --workers one can run it: " + one_thread + "."});
  document.add(Paragraph{
      "--schedule FILE.csv takes a schedule in PyTorch's format; --schedule auto searches for the fastest one."});
  return document;
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
  struct Outputs {
    explicit Outputs(CLI::App& app)
        : json(app, "--json", "FILE|-", "write the table as JSON; -: to standard output, without the table"),
          documents(app, {.json = false}) {}
    OnceFlag json;
    OutputFlags documents;
  };
  auto outputs = std::make_shared<Outputs>(*command);
  command->callback([outputs] {
    outputs->documents.check({&outputs->json});
    if (const auto path = outputs->json.value()) write_json(*path, schedules_json());
    outputs->documents.show(schedules_document(), {&outputs->json});
  });
}

}  // namespace pdl
