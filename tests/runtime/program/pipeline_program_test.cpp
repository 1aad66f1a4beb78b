#include "runtime/program/pipeline_program.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "runtime/model/initial_values.hpp"
#include "runtime/model/reference_training.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "sim/io/error.hpp"
#include "sim/spec/schedule_csv.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/every_schedule.hpp"
#include "tests/support/layer_models.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace pdl;

namespace {

constexpr int kSteps = 5;

/// A learning rate so large that the parameters visibly move in a few steps: gradients fade from layer to layer.
RuntimeOptions cpu_options(const std::string& optimizer = "sgd", std::int64_t depth = 4) {
  RuntimeOptions options;
  options.device = DeviceKind::cpu;
  options.seed = 11;
  options.learning_rate = optimizer != "sgd" ? 0.01 : depth > 8 ? 20.0 : 1.0;
  return options;
}

Agreement train(const RunSpec& spec, const RuntimeOptions& options) {
  const Plan plan = make_plan(spec);
  auto program = make_pipeline_program(plan, options);
  for (int step = 0; step < kSteps; ++step) program->step(nullptr);
  return compare_parameters(plan.spec, options, at::kCPU, {}, program->parameters(),
                            train_reference(plan.spec, options, at::kCPU, kSteps));
}

/// A build without Gloo's headers has no transport gloo: said once a test, not tested.
bool cannot_be_tested(const std::string& flags) {
#if PDL_GLOO
  static_cast<void>(flags);
  return false;
#else
  const bool gloo = flags.find("--transport gloo") != std::string::npos;
  if (gloo) WARN("not tested, built without Gloo: " << flags);
  return gloo;
#endif
}

void check_equal(const std::string& flags, const std::string& optimizer = "sgd") {
  INFO(flags);
  if (cannot_be_tested(flags)) return;
  const RunSpec of = spec("--dim 8 " + flags + " --optimizer " + optimizer);
  const Agreement agreement = train(of, cpu_options(optimizer, of.depth));
  CHECK(agreement.smallest_change > 1e-4);  // else equality would say nothing
  CHECK(agreement.equal);
}

template <typename Error = InputError>
std::string message_of(const std::string& flags, RuntimeOptions options) {
  try {
    make_pipeline_program(make_plan(spec("--dim 8 --depth 4 --batch 8 " + flags)), options);
  } catch (const Error& error) {
    return error.what();
  }
  return "not refused";
}

}  // namespace

TEST_CASE("Every schedule trains as one device with the whole batch does", "[runtime][pipeline]") {
  for (const int gpus : {1, 2, 3, 4}) {
    for (const int microbatches : {1, 2, 4, 6, 7, 8}) {
      // Three samples a micro-batch, two in the last one; stages of two layers and of one.
      const std::string batch = "--depth 11 --batch " + std::to_string(3 * microbatches - 1) + " ";
      for (const std::string& flags : every_schedule(gpus, microbatches)) check_equal(batch + flags);
    }
  }
}

TEST_CASE("Recomputation trains the same", "[runtime][pipeline]") {
  for (const int gpus : {1, 2, 3, 4}) {
    for (const int microbatches : {1, 4, 6, 8}) {
      const std::string batch = "--depth 11 --batch " + std::to_string(3 * microbatches - 1) + " ";
      for (const std::string& flags : every_schedule(gpus, microbatches, true)) check_equal(batch + flags);
    }
  }
}

TEST_CASE("Layers of every kind train as on one device", "[runtime][pipeline]") {
  for (const std::vector<Layer>& layers : mixed_layers(8)) {
    if (!trains_alike(layers)) continue;
    for (const bool recompute : {false, true}) {
      for (const std::string& flags : every_schedule(3, 6, recompute)) {
        INFO(flags);
        for (const Layer& layer : layers) UNSCOPED_INFO(to_text(layer));
        const RunSpec of = with_layers(spec("--dim 8 --depth 11 --batch 17 " + flags), layers);
        const Agreement agreement = train(of, cpu_options());
        CHECK(agreement.smallest_change > 1e-5);  // else equality would say nothing
        CHECK(agreement.equal);
      }
    }
  }
}

TEST_CASE("More chunks", "[runtime][pipeline]") {
  for (const std::string schedule : {"interleaved", "interleaved-zb", "looped-bfs"}) {
    check_equal("--depth 13 --batch 23 --microbatches 8 --gpus 2 --chunks 5 --schedule " + schedule, "adam");
    check_equal("--depth 13 --batch 23 --microbatches 8 --gpus 4 --chunks 3 --transport gloo --schedule " + schedule,
                "adam");
  }
}

TEST_CASE("Layers and samples that do not divide, and Adam", "[runtime][pipeline]") {
  for (const std::string optimizer : {"sgd", "adam", "adamw", "adamw-fused"}) {
    check_equal("--depth 7 --batch 13 --microbatches 4 --gpus 3 --schedule 1f1b", optimizer);   // 4 4 4 1 samples
    check_equal("--depth 5 --batch 10 --microbatches 6 --gpus 4 --schedule gpipe", optimizer);  // 2 2 2 2 2 samples
    check_equal("--depth 7 --batch 13 --microbatches 4 --gpus 2 --schedule zb-v", optimizer);
    check_equal("--depth 3 --batch 9 --microbatches 2 --gpus 1 --strategy single", optimizer);
  }
}

TEST_CASE("Gloo messages between threads", "[runtime][pipeline]") {
  for (const auto& [gpus, microbatches] : {std::pair{2, 4}, {3, 6}, {4, 8}}) {
    const std::string batch = "--depth 11 --transport gloo --batch " + std::to_string(3 * microbatches - 1) + " ";
    for (const std::string& flags : every_schedule(gpus, microbatches)) check_equal(batch + flags);
  }
  for (const std::string& flags : every_schedule(3, 6, true))
    check_equal("--depth 7 --batch 17 --transport gloo " + flags);
}

TEST_CASE("Schedules of files", "[runtime][pipeline]") {
  const TemporaryFolder folder;
  const auto file = [&](const std::string& text) { return " --schedule " + folder.write("order.csv", text) + " "; };
  const std::string zb_v = to_csv(make_order(*find_schedule("zb-v"), {.workers = 2, .chunks = 2, .microbatches = 5}));
  check_equal("--depth 7 --batch 14" + file(zb_v));
  check_equal("--depth 7 --batch 14 --transport gloo" + file(zb_v));
  // Micro-batches in no order, some backwards whole and some split, gradients in another order than they are needed in.
  const std::string odd =
      "0F2,0F0,,0F1,0B0,0I2,0B1,0W2\n"
      "1F0,1B0,1F1,1I1,1F2,1I2,1W1,1W2\n";
  check_equal("--depth 5 --batch 8" + file(odd));
  // Buffers of a stage that reads in place are held until both stages have done: the W of the upper one comes late.
  const std::string late = "0F0,1F0,1I0,0B0,0F1,1F1,1I1,1W0,0I1,0F2,1F2,1W1,0W1,1B2,0B2\n";
  check_equal("--depth 5 --batch 8" + file(late));
  // Messages where the file puts them: each holds its worker until both ends are there.
  const std::string with_messages =
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n";
  check_equal("--depth 5 --batch 5" + file(with_messages));
  check_equal("--depth 5 --batch 5 --transport gloo" + file(with_messages));
}

TEST_CASE("The comparison notices a training that is wrong", "[runtime][pipeline]") {
  const Plan plan = make_plan(spec("--dim 8 --depth 4 --batch 16 --schedule 1f1b --gpus 2 --microbatches 4"));
  const RuntimeOptions options = cpu_options();
  const std::vector<at::Tensor> expected = train_reference(plan.spec, options, at::kCPU, kSteps);
  auto program = make_pipeline_program(plan, options);
  for (int step = 0; step + 1 < kSteps; ++step) program->step(nullptr);
  CHECK_FALSE(compare_parameters(plan.spec, options, at::kCPU, {}, program->parameters(), expected).equal);
  program->step(nullptr);
  std::vector<at::Tensor> parameters = program->parameters();
  CHECK(compare_parameters(plan.spec, options, at::kCPU, {}, parameters, expected).equal);
  parameters[3] = parameters[3] * 1.01;  // the bias of layer 1
  CHECK_FALSE(compare_parameters(plan.spec, options, at::kCPU, {}, parameters, expected).equal);
  parameters[3][0] = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(compare_parameters(plan.spec, options, at::kCPU, {}, parameters, expected).equal);
}

TEST_CASE("The loss is that of the whole batch, before the update", "[runtime][pipeline]") {
  const Plan plan = make_plan(spec("--dim 8 --depth 4 --batch 10 --schedule gpipe --gpus 2 --microbatches 4"));
  const RuntimeOptions options = cpu_options();
  auto program = make_pipeline_program(plan, options);
  program->step(nullptr);
  program->step(nullptr);
  const std::vector<at::Tensor> after_one = train_reference(plan.spec, options, at::kCPU, 1);
  const Batch batch = make_batch(mlp(1, 8), 10, at::kCPU, options.seed);
  at::Tensor x = batch.input;
  for (std::size_t i = 0; i < after_one.size(); i += 2) x = at::relu(at::linear(x, after_one[i], after_one[i + 1]));
  CHECK(program->loss() == Approx(at::mse_loss(x, batch.target).item<double>()).epsilon(1e-5));
}

TEST_CASE("Every task is recorded, after those that it depends on", "[runtime][pipeline]") {
  for (const std::string flags : {"--schedule 1f1b", "--schedule gpipe --transport gloo",
                                  "--schedule gpipe --recompute 1", "--schedule zb-h1 --transport gloo"}) {
    if (cannot_be_tested(flags)) continue;
    const Plan plan = make_plan(spec("--dim 8 --depth 4 --batch 16 --gpus 3 --microbatches 4 " + flags));
    const RuntimeOptions options = cpu_options();
    auto program = make_pipeline_program(plan, options);
    SpanRecorder recorder(plan.graph, options);
    program->step(nullptr);
    const std::int64_t before = steady_now_ns();
    recorder.begin_step();
    program->step(&recorder);
    recorder.end_step();
    const std::int64_t after = steady_now_ns();
    const std::vector<TaskTimes>& times = recorder.recorded().times;
    REQUIRE(times.size() == plan.graph.tasks.size());
    for (TaskId t = 0; t < times.size(); ++t) {
      CHECK(before <= times[t].start_ns);
      CHECK(times[t].start_ns <= times[t].end_ns);
      CHECK(times[t].end_ns <= after);
      for (const TaskId next : plan.graph.edges.after(t)) CHECK(times[t].end_ns <= times[next].start_ns);
    }
  }
}

TEST_CASE("What the pipeline program cannot do is refused", "[runtime][pipeline]") {
  const RuntimeOptions options = cpu_options();
  CHECK_THAT(message_of("--gpus 2 --transport nccl", options), ContainsSubstring("--transport: found nccl on CPU"));
  CHECK_THAT(message_of("--gpus 2 --workers process", options), ContainsSubstring("--workers thread"));
  CHECK_THAT(message_of("--gpus 2 --workers one", options), ContainsSubstring("--workers: found one"));
  CHECK_THAT(message_of("--gpus 2 --tf 1 --tb 2", options), ContainsSubstring("synthetic"));
  CHECK_THAT(message_of("--gpus 2 --dtype amp-fp16", options), ContainsSubstring("--dtype: found amp-fp16"));
  CHECK_THAT(message_of("--gpus 2 --dtype tf32", options), ContainsSubstring("--dtype: found tf32 on CPU"));
}

TEST_CASE("Orders of a file that cannot run are refused by name", "[runtime][pipeline]") {
  const RuntimeOptions options = cpu_options();
  const TemporaryFolder folder;
  const auto file = [&](const std::string& text) { return " --schedule " + folder.write("order.csv", text) + " "; };
  // With copies a message waits for nobody.
  const std::string crossed =
      "0F1,0F0,0B0,0B1\n"
      "1F0,1B0,1F1,1B1\n";
  CHECK(message_of<CannotRun>(file(crossed), options) == "not refused");
  CHECK_THAT(message_of<CannotRun>("--transport gloo" + file(crossed), options),
             ContainsSubstring("worker 0 sends 0SEND_F1, 0SEND_F0, worker 1 receives 1RECV_F0, 1RECV_F1"));
  const std::string blocked =
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";
  CHECK(message_of<CannotRun>(file(blocked), options) == "not refused");
  const std::string deadlock = message_of<CannotRun>("--transport gloo" + file(blocked), options);
  CHECK_THAT(deadlock, ContainsSubstring("deadlock: "));
  CHECK_THAT(deadlock, ContainsSubstring("0SEND_F1"));
  CHECK_THAT(deadlock, ContainsSubstring("1SEND_B0"));
  const std::string part =
      "0F0,0SEND_F0,0F1,0SEND_F1\n"
      "1RECV_F0,1F0,1RECV_F1,1F1\n";
  CHECK_THAT(message_of("--transport gloo" + file(part), options), ContainsSubstring("--schedule: found"));
  CHECK_THAT(message_of("--transport gloo" + file(part), options), ContainsSubstring("which is a part of a step"));
}
