// The one-thread programs on the GPUs of this host. Run where there are at least two.
#include "runtime/program/autograd_program.hpp"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/model/reference_training.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "tests/gpu/gpu_host.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

constexpr int kSteps = 5;

}  // namespace

TEST_CASE("Autograd programs on GPUs train as one GPU with the whole batch does", "[gpu][autograd]") {
  const at::Device first(at::kCUDA, 0);
  for (const int gpus : {1, 2, 3, 4}) {
    if (!enough_gpus(gpus)) return;
    for (const std::string flags :
         {"--strategy mp --microbatches 1", "--schedule naive --workers one --microbatches 3",
          "--schedule gpipe --workers one --microbatches 4", "--schedule option-c --workers one --microbatches 4"}) {
      for (const std::string optimizer : {"sgd", "adam"}) {
        const std::string all = flags + " --gpus " + std::to_string(gpus) + " --optimizer " + optimizer;
        INFO(all);
        const Plan plan = make_plan(spec("--dim 256 --depth 6 --batch 130 " + all));
        const RuntimeOptions options = gpu_options(optimizer, 7);
        auto program = make_autograd_program(plan, options);
        for (int step = 0; step < kSteps; ++step) program->step(nullptr);
        const Agreement agreement = compare_parameters(plan.spec, options, first, {}, program->parameters(),
                                                       train_reference(plan.spec, options, first, kSteps));
        CHECK(agreement.smallest_change > 1e-3);
        CHECK(agreement.equal);
      }
    }
  }
}

TEST_CASE("Spans of an autograd program on GPUs: streams in order, transfers joined", "[gpu][autograd]") {
  if (!enough_gpus(2)) return;
  const RuntimeOptions options = gpu_options("sgd", 7);
  const Plan plan =
      make_plan(spec("--schedule gpipe --workers one --microbatches 2 --gpus 2 --dim 4096 --depth 8 --batch 2048"));
  auto program = make_autograd_program(plan, options);
  SpanRecorder recorder(plan.graph, options);
  program->step(nullptr);
  recorder.begin_step();
  const std::int64_t begin = steady_now_ns();
  program->step(&recorder);
  const std::int64_t end = steady_now_ns();
  recorder.end_step();
  const RecordedStep& recorded = recorder.recorded();
  const auto slack_ns = static_cast<std::int64_t>(2 * recorded.clock_uncertainty_us * 1000) + 5000;

  std::vector<std::int64_t> done(2, begin - slack_ns), busy(2, 0);
  for (TaskId t = 0; t < plan.graph.tasks.size(); ++t) {
    const Task& task = plan.graph.tasks[t];
    const TaskTimes& times = recorded.times[t];
    INFO(task_name(task.kind, task.stage, task.microbatch, true)
         << " " << times.start_ns - begin << " " << times.end_ns - begin);
    CHECK(times.start_ns >= done[task.worker] - 5000);
    CHECK(times.end_ns >= times.start_ns);
    CHECK(times.end_ns <= end + slack_ns);
    done[task.worker] = times.end_ns;
    if (is_compute(task.kind)) busy[task.worker] += times.end_ns - times.start_ns;
    // Both ends of a peer copy end together: PyTorch joins the streams.
    if (task.kind == TaskKind::receive_forward || task.kind == TaskKind::receive_backward) {
      CHECK(std::abs(times.end_ns - recorded.times[t - 1].end_ns) < slack_ns + 50'000);
    }
    // Four products of 1024 x 4096 x 4096 or more in each: never less than a peer copy of 16 MiB.
    if (task.kind == TaskKind::backward) CHECK(times.end_ns - times.start_ns > 500'000);
  }
  // Both GPUs compute the same number of layers, save one input gradient.
  CHECK(static_cast<double>(busy[0]) > 0.8 * static_cast<double>(busy[1]));
}
