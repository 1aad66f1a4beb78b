// Traces of torch.profiler, one or a list of them, ranks of one training: what is taken adds up, its critical path has
// no gap, and it is compared with a run or refused.
#include "sim/io/json_place.hpp"
#include "sim/report/trace_document.hpp"
#include "sim/report/trace_explain_document.hpp"
#include "sim/report/traced_compare_document.hpp"
#include "tests/fuzz/fuzzing.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// A run to compare with: tasks of a microsecond each, one after the other.
struct ComparedWith {
  Plan plan;
  RunResult run;
};

ComparedWith compared_with(const std::string& flags) {
  ComparedWith with{make_plan(spec(flags)), {}};
  std::vector<TaskTimes> times;
  for (std::size_t t = 0; t < with.plan.graph.tasks.size(); ++t)
    times.push_back({static_cast<std::int64_t>(t) * 1000, static_cast<std::int64_t>(t + 1) * 1000});
  with.run = begin_result(with.plan);
  with.run.timeline = make_timeline(with.plan.graph, static_cast<std::int32_t>(with.plan.stages.size()), times);
  with.run.step_time.median_ms = static_cast<double>(with.run.timeline.step_ns) / 1e6;
  return with;
}

std::vector<TracedStep> read_traces(const std::string& text) {
  const nlohmann::json document = parse_json(text, "trace.json");
  std::vector<TracedStep> steps;
  if (!document.is_array()) return {traced_step(kineto_trace_from_json(document, "trace.json"), std::nullopt)};
  for (const nlohmann::json& trace : document)
    steps.push_back(traced_step(kineto_trace_from_json(trace, "trace.json"), std::nullopt));
  if (steps.empty()) throw InputError("trace.json", "no trace", "at least one");
  check_are_of_one_training(steps);
  return steps;
}

void check(const std::vector<TracedStep>& steps, const TraceExplanation& explanation) {
  for (std::size_t s = 0; s < steps.size(); ++s) {
    std::int64_t sum_ns = 0;
    for (const std::int64_t ns : parts_of(steps[s].trace, steps[s].step())) sum_ns += ns;
    require(sum_ns == steps[s].step().duration_ns(), "parts add up to the step");
    require(explanation.ranks[s].sum_ns() == steps[s].step().duration_ns(), "explained parts add up to the step");
    for (const std::int64_t ns : explanation.ranks[s].ns) require(ns >= 0, "no part is below 0");
  }
  std::int64_t end_ns = 0;
  for (const TracePathSegment& segment : explanation.critical_path) {
    require(segment.start_ns == end_ns, "the critical path has no gap");
    end_ns = segment.end_ns;
  }
  require(end_ns == explanation.step_ns, "the critical path is as long as the step");
  for (const TraceWithout& without : explanation.without) {
    require(without.step_ns >= 0, "a step without a part takes some time");
    require(without.part == TraceCost::host || without.step_ns <= explanation.step_ns,
            "without a part it is no longer");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<ComparedWith> runs = {
      compared_with("--depth 1 --dim 4 --batch 4 --gpus 2 --strategy ddp"),
      compared_with("--depth 2 --dim 4 --batch 4 --gpus 2 --schedule gpipe --microbatches 2 --program pytorch"),
      compared_with("--depth 1 --dim 4 --batch 4 --gpus 1")};
  const auto steps = unless_refused([&] { return read_traces(text_of(data, size)); });
  if (!steps) return 0;
  to_terminal(trace_document(*steps), {});
  trace_json(*steps).dump();
  const auto explanation = unless_refused([&] { return explain_trace(*steps); });
  if (!explanation) return 0;
  check(*steps, *explanation);
  to_terminal(trace_explain_document(*steps, *explanation), {});
  for (const ComparedWith& with : runs) {
    const auto compared = unless_refused([&] { return compare_with_traces(with.run, "run.json", with.plan, *steps); });
    if (!compared) continue;
    to_terminal(traced_compare_document(*compared), {});
    measured_run(*steps, trace_ranks(*steps), compared->tasks, with.plan);
  }
  return 0;
}
