// The JSON of runs: what is read is written and read back as the same bytes, and every view of it is drawn.
#include <sstream>

#include "sim/io/json_place.hpp"
#include "sim/report/document.hpp"
#include "sim/report/html.hpp"
#include "sim/report/run_document.hpp"
#include "sim/report/trace.hpp"
#include "sim/run/explain.hpp"
#include "sim/run/run_json.hpp"
#include "tests/fuzz/fuzzing.hpp"

using namespace pdl;

namespace {

RunResult read_run_text(const std::string& text) {
  return run_from_json(parse_json(text, "run.json"), "run.json");
}

/// A view makes the plan of a run anew: of a run that says it has millions of tasks in a file of a few bytes, that is
/// most of its time.
bool has_small_plan(const RunSpec& spec) {
  constexpr double kMostTasks = 2000;
  return static_cast<double>(spec.depth) * static_cast<double>(spec.gpus) * static_cast<double>(spec.accum) *
             static_cast<double>(spec.microbatches) * static_cast<double>(spec.chunks) <
         kMostTasks;
}

void draw(const RunResult& read) {
  const auto run = std::make_shared<const RunResult>(read);
  const auto explanation = unless_refused([&] { return explain(*run); });
  const bool explained = explanation && *explanation;
  const auto document =
      unless_refused([&] { return run_document(run, RunStyle(), explained ? &**explanation : nullptr); });
  if (!document) return;
  to_terminal(*document, {});
  to_markdown(*document);
  to_csv(*document);
  to_html(*document);
  std::ostringstream trace;
  write_trace(trace, traced_runs(*run));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto run = unless_refused([&] { return read_run_text(text_of(data, size)); });
  if (!run || !has_small_plan(run->spec)) return 0;
  const auto written = unless_refused([&] { return run_text(*run); });
  if (!written) return 0;
  require_equal(*written, run_text(read_run_text(*written)), "a run and what it is read back as");
  draw(*run);
  return 0;
}
