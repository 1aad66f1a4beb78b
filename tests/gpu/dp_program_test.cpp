// DataParallel on the GPUs of this host. Run where there are at least two.
#include "runtime/program/dp_program.hpp"

#include <ATen/ATen.h>

#include <algorithm>
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

void check_equal(const std::string& flags, const std::string& optimizer) {
  INFO(flags << " --optimizer " << optimizer);
  const Plan plan = make_plan(spec("--strategy dp --dim 256 --depth 5 " + flags + " --optimizer " + optimizer));
  const RuntimeOptions options = gpu_options(optimizer);
  check_trains_as_one_gpu(*make_dp_program(plan, options), plan, options);
}

}  // namespace

TEST_CASE("DataParallel on GPUs trains as one GPU with the whole batch does", "[gpu][data_parallel]") {
  for (const int gpus : {1, 2, 3, 4}) {
    if (!enough_gpus(gpus)) return;
    const std::string on = "--gpus " + std::to_string(gpus);
    for (const std::string optimizer : {"sgd", "adam"}) {
      check_equal(on + " --batch 127", optimizer);
      check_equal(on + " --batch 127 --accum 4", optimizer);
    }
    check_equal(on + " --batch " + std::to_string(gpus + 1), "sgd");  // with 4 GPUs one is idle
  }
}

TEST_CASE("Parameters and gradients in several chunks on GPUs", "[gpu][data_parallel]") {
  const int gpus = std::min(gpu_count(), 4);
  if (!enough_gpus(2)) return;
  const at::Device first(at::kCUDA, 0);
  const Plan plan = make_plan(spec("--strategy dp --dim 2048 --depth 5 --batch 127 --gpus " + std::to_string(gpus)));
  CHECK(plan.parameter_chunks.size() > 2);
  RuntimeOptions options = gpu_options();
  options.learning_rate = 100;
  auto program = make_dp_program(plan, options);
  for (int step = 0; step < 2; ++step) program->step(nullptr);
  const Agreement agreement = compare_parameters(plan.spec, options, first, {}, program->parameters(),
                                                 train_reference(plan.spec, options, first, 2));
  CHECK(agreement.smallest_change > 1e-5);
  CHECK(agreement.equal);
}

TEST_CASE("Mixed precision of DataParallel on GPUs follows fp32", "[gpu][data_parallel]") {
  const int gpus = std::min(gpu_count(), 4);
  if (!enough_gpus(2)) return;
  for (const std::string dtype : {"amp-bf16", "amp-fp16"}) {
    INFO(dtype);
    const Plan plan = make_plan(
        spec("--strategy dp --dim 512 --depth 4 --batch 256 --gpus " + std::to_string(gpus) + " --dtype " + dtype));
    RuntimeOptions options = gpu_options();
    options.learning_rate = clear_learning_rate(plan.spec, options, at::Device(at::kCUDA, 0), kSteps);
    auto program = make_dp_program(plan, options);
    std::vector<double> losses;
    for (int step = 0; step < kSteps; ++step) {
      program->step(nullptr);
      CHECK_FALSE(program->skipped());
      losses.push_back(program->loss());
    }
    CHECK(compare_losses(losses, reference_losses(plan.spec, options, at::Device(at::kCUDA, 0), kSteps, {})).equal);
  }
}

TEST_CASE("Spans of DataParallel: tasks follow those that they depend on", "[gpu][data_parallel]") {
  const int gpus = std::min(gpu_count(), 4);
  if (!enough_gpus(2)) return;
  for (const std::string flags : {"", " --accum 2", " --accum 2 --delay-ms 3 --straggler 1:10", " --dtype amp-fp16"}) {
    const Plan plan =
        make_plan(spec("--strategy dp --dim 4096 --depth 6 --batch 2048 --gpus " + std::to_string(gpus) + flags));
    const RuntimeOptions options = gpu_options();
    auto program = make_dp_program(plan, options);
    SpanRecorder recorder(plan.graph, options);
    program->step(nullptr);
    program->step(nullptr);
    recorder.begin_step();
    program->step(&recorder);
    recorder.end_step();
    const RecordedStep& step = recorder.recorded();
    const auto tolerance_ns = static_cast<std::int64_t>(2 * step.clock_uncertainty_us * 1e3) + 5000;
    std::vector<std::int64_t> done(static_cast<std::size_t>(gpus), 0);
    for (TaskId t = 0; t < step.times.size(); ++t) {
      const Task& task = plan.graph.tasks[t];
      INFO(flags << ": task " << t << ", GPU " << task.worker << ", "
                 << task_name(task.kind, task.stage, task.microbatch, true, task.part));
      CHECK(step.times[t].start_ns > 0);
      CHECK(step.times[t].end_ns > step.times[t].start_ns);
      if (task.kind == TaskKind::sleep) continue;
      // A GPU does one thing at a time: all is on its default stream.
      CHECK(step.times[t].start_ns >= done[static_cast<std::size_t>(task.worker)] - 5000);
      done[static_cast<std::size_t>(task.worker)] = step.times[t].end_ns;
      for (const TaskId after : plan.graph.edges.after(t)) {
        if (plan.graph.tasks[after].worker != task.worker) continue;
        CHECK(step.times[t].end_ns <= step.times[after].start_ns + tolerance_ns);
      }
    }
  }
}
