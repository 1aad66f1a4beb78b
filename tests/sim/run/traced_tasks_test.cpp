// Traces beside runs of the same settings: which kernels are which task, and what is refused.
#include "sim/run/traced_tasks.hpp"

#include "sim/io/error.hpp"
#include "sim/report/traced_compare_document.hpp"
#include "sim/run/metrics.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/drawn_trace.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// A run whose tasks take 1 ms each, one after the other on all GPUs.
RunResult run_of(const Plan& plan) {
  std::vector<TaskTimes> times;
  for (std::size_t t = 0; t < plan.graph.tasks.size(); ++t) {
    const auto from = static_cast<std::int64_t>(t) * 1'000'000;
    times.push_back({from, from + 1'000'000});
  }
  RunResult run = begin_result(plan);
  run.timeline = make_timeline(plan.graph, static_cast<std::int32_t>(plan.stages.size()), times);
  run.step_time.median_ms = static_cast<double>(run.timeline.step_ns) / 1e6;
  return run;
}

Plan ddp_plan(std::int64_t depth = 1, std::int64_t gpus = 2) {
  return make_plan(
      spec("--depth " + std::to_string(depth) + " --dim 4 --batch 4 --strategy ddp --gpus " + std::to_string(gpus)));
}

TracedStep traced(const DrawnTrace& drawn) {
  return traced_step(read(drawn), std::nullopt);
}

/// "F0: 1 of 10-20": name, number of activities, when, microseconds from the first kernel.
std::string text_of(const TracedStep& step, const TracedTasks& tasks, const RunResult& run) {
  std::string text;
  for (const TracedTask& task : tasks.tasks) {
    const TaskTimes times = times_of(step, task.places);
    text += (text.empty() ? "" : ", ") + span_name(run, run.timeline.spans[task.tasks.front()], false) + ": " +
            std::to_string(task.places.size()) + " of " + std::to_string(times.start_ns / 1000) + "-" +
            std::to_string(times.end_ns / 1000);
  }
  return text;
}

std::string refusal(const DrawnTrace& drawn, const Plan& plan) {
  try {
    traced_tasks(traced(drawn), run_of(plan), "predicted.json", plan);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a step of DDP: each kernel is of a task") {
  const Plan plan = ddp_plan();
  const RunResult run = run_of(plan);
  const TracedStep step = traced(ddp_step(0, 41));
  const TracedTasks tasks = traced_tasks(step, run, "predicted.json", plan);
  CHECK(text_of(step, tasks, run) ==
        "F0: 1 of 0-10, B0: 2 of 10-31, bucket in 0: 1 of 31-32, all-reduce 0: 1 of 32-50, bucket out 0: 2 of 51-53, "
        "optimizer: 1 of 53-57");
  CHECK(tasks.others.empty());
  CHECK(tasks.layers_checked);
}

TEST_CASE("what is of no task has a row of its own, and one rank of two is said") {
  const Plan plan = ddp_plan();
  const RunResult run = run_of(plan);
  DrawnTrace drawn = ddp_step(0, 41);
  drawn.gpu("kernel", "stray", 7, 55, 58, 1, 4.5);  // a forward kernel after the all-reduce was launched
  const std::vector<TracedStep> steps = {traced(drawn)};
  const TracedComparison comparison = compare_with_traces(run, "predicted.json", plan, steps);
  const std::string text = to_terminal(traced_compare_document(comparison), {.width = 120, .all_warnings = true});
  CHECK_THAT(text, ContainsSubstring("other") && ContainsSubstring("0.003"));
  CHECK_THAT(text, ContainsSubstring("traces of 1 of 2 ranks are given"));
  const nlohmann::ordered_json json = traced_compare_json(comparison);
  CHECK(json["traces"][0]["other_activities"] == 1);
  CHECK(json["tasks"].size() == 6);
  CHECK(json["step_ms"]["traced"] == 0.057);
}

TEST_CASE("traces of all ranks are a measured run") {
  const Plan plan = ddp_plan();
  const RunResult run = run_of(plan);
  const std::vector<TracedStep> steps = {traced(ddp_step(0, 41)), traced(ddp_step(1, 50))};
  const TracedComparison comparison = compare_with_traces(run, "predicted.json", plan, steps);
  const std::optional<RunResult> measured = measured_run(steps, trace_ranks(steps), comparison.tasks, plan);
  REQUIRE(measured);
  CHECK(measured->measured);
  CHECK(measured->timeline.step_ns == 57'000);
  CHECK(measured->step_time.median_ms == 0.057);
  REQUIRE(measured->timeline.spans.size() == plan.graph.tasks.size());
  CHECK(measured->timeline.spans.front().end_ns == 10'000);
  // Of one rank, or with a task that has no kernel, there is none.
  CHECK_FALSE(measured_run({steps[0]}, trace_ranks({steps[0]}), {comparison.tasks[0]}, plan));
}

TEST_CASE("messages of a pipeline are joined in the order of the program") {
  const Plan plan =
      make_plan(spec("--depth 2 --dim 4 --batch 4 --microbatches 2 --gpus 2 --schedule gpipe --program pytorch"));
  const RunResult run = run_of(plan);
  // The first stage: F0, send, F1, send, receive, B0, receive, B1, optimizer.
  DrawnTrace drawn;
  drawn.rank = 0;
  double at = 10, launched = 0;
  const auto kernel = [&](const char* name, int stream, int thread) {
    drawn.gpu("kernel", name, stream, at, at + 5, thread, launched);
    at += 5;
    launched += 1;
  };
  for (int m = 0; m < 2; ++m) {
    kernel("sgemm", 7, 1);
    kernel(kMessageKernel, 9, 1);
  }
  for (int m = 0; m < 2; ++m) {
    kernel(kMessageKernel, 9, 1);
    drawn.call("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 2, launched, launched + 0.5);
    kernel("sgemm", 7, 2);
  }
  drawn.call("user_annotation", "Optimizer.step#SGD.step", 1, launched, launched + 2);
  kernel("sgd", 7, 1);
  const TracedStep step = traced(drawn);
  CHECK(
      text_of(step, traced_tasks(step, run, "predicted.json", plan), run) ==
      "F0: 1 of 0-5, send F0: 1 of 5-10, F1: 1 of 10-15, send F1: 1 of 15-20, receive B0: 1 of 20-25, B0: 1 of 25-30, "
      "receive B1: 1 of 30-35, B1: 1 of 35-40, optimizer: 1 of 40-45");
  drawn.erase(2, 2);
  CHECK_THAT(refusal(drawn, plan),
             ContainsSubstring("found 3 message kernels of NCCL (SendRecv) in step 1, expected 4"));
}

TEST_CASE("a trace of another run is refused with file, found and expected") {
  const Plan plan = ddp_plan();
  CHECK_THAT(
      refusal(ddp_step(0, 41, 21), plan),
      ContainsSubstring("trace.json: found 84 bytes in collective 0 of step 1, expected 80, as predicted.json has: "
                        "the trace is of another model, or of other settings"));
  CHECK_THAT(refusal(ddp_step(0, 41), ddp_plan(1, 4)),
             ContainsSubstring("found a process group of 2 ranks, expected 4 GPUs, as predicted.json has"));
  CHECK_THAT(refusal(ddp_step(0, 41, 40), ddp_plan(2)), ContainsSubstring("found 1 matrix product in the forwards"));
  DrawnTrace alone = ddp_step(0, 41);
  alone.world_size = 0;
  CHECK_THAT(refusal(alone, plan), ContainsSubstring("found no process group (distributedInfo), one GPU"));
  DrawnTrace no_nccl = ddp_step(0, 41);
  no_nccl.erase(11, 2);
  CHECK_THAT(refusal(no_nccl, plan), ContainsSubstring("found no collective of NCCL in step 1, expected 1 collective"));
  DrawnTrace no_calls = ddp_step(0, 41);
  no_calls.call("user_annotation", "ProfilerStep#1", 1, 0, 100);
  no_calls.erase(1, 1);  // the launch of the forward
  CHECK_THAT(refusal(no_calls, plan), ContainsSubstring("found 1 activities without the call that launched them"));
}
