// Homeworks 1 and 2: the answers, from tables whose numbers are known: textbook costs, and measured runs written by hand.
#include "sim/report/evaluate_scenario.hpp"
#include "sim/report/measured_facts.hpp"
#include "sim/report/predict.hpp"
#include "sim/report/run_json.hpp"
#include "sim/report/run_name.hpp"
#include "sim/report/scenario.hpp"
#include "sim/spec/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

/// 4 layers: forward 4 ms, backward 8 ms, all gradients exchanged in 8 ms.
const std::string kTextbook = "--depth 4 --dim 8192 --tf 4 --tb 8 --tcomm 8 ";
const std::string kTextbookKeys = R"("depth": 4, "dim": 8192, "tf": 4, "tb": 8, "tcomm": 8)";

class Machine {
 public:
  Machine() {
    folder_.write("tiny/runs/nothing", "");
    save_profile(tiny_profile(), folder_ / "tiny/profile.json");
  }

  /// A measured run whose steps took `median_ms`, 1 % less and 2 % more at the quartiles.
  void measure(const std::string& flags, double median_ms, const nlohmann::json& extra = {}) const {
    RunResult run = predict(spec(kTextbook + flags), nullptr);
    run.measured = true;
    run.step_time = {median_ms, median_ms * 0.99, median_ms * 1.02, 30};
    run.environment = {{"card", "Tiny GPU"}};
    run.extra = extra;
    write_run(run, folder_ / ("tiny/runs/" + run_name(run.spec) + ".json"));
  }

  std::string answer(const std::string& name, const std::string& columns, const std::string& settings, const std::string& vary) const {
    const std::string path = folder_.write("scenario.json", R"({"id": "x", "title": "t", "question": "?", "columns": [)" + columns + R"(], "answer": ")" +
                                                                name + R"(", "settings": {)" + kTextbookKeys + ", " + settings + R"(}, "vary": )" + vary + "}");
    return scenario_text(evaluate_scenario(load_scenario(path), folder_ / "tiny/profile.json"), 100'000);
  }

 private:
  TemporaryFolder folder_;
};

/// Runs of spaces as one: what a row holds, wherever its columns stand.
std::string squeezed(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || out.empty() || (out.back() != ' ' && out.back() != '\n')) out += c;
  }
  return out;
}

}  // namespace

TEST_CASE("HW1.1: the first steps against the others, and losses of the same seed", "[data_parallel]") {
  const Machine machine;
  machine.measure("--strategy ddp --gpus 1 --batch 64", 10, {{"losses", {0.5, 0.4}}, {"warmup_ms", {500, 20, 10, 10, 10}}, {"step_time_stddev_ms", 0.25}});
  machine.measure("--strategy ddp --gpus 2 --batch 64", 8, {{"losses", {0.500001, 0.4}}, {"warmup_ms", {800, 8, 8, 8, 8}}});
  const std::string text = machine.answer("reproducible_benchmark", R"("gpus", "step_time_ms", "step_quartiles", "step_stddev", "warmup", "first_loss", "last_loss")",
                                          R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2]})");
  CHECK_THAT(squeezed(text), ContainsSubstring(" 9.90..10.20 0.250 50.0 0.500000 0.400000\n"));
  CHECK_THAT(squeezed(text), ContainsSubstring(" 7.92..8.16 - 100.0 0.500001 0.400000\n"));
  CHECK_THAT(text, ContainsSubstring("4 layers of 8192, batch 64 on 1 GPU: the first 5 steps took 500.0, 20.0, 10.0, 10.0, 10.0 ms, the median of the others is 10.00 ms; the very "
                                     "first is 50.0 times as long. A mean that kept them would be about 24.29 ms, 142.9 % more time than a step takes."));
  CHECK_THAT(text, ContainsSubstring("the loss of the first step is 0.5 in the first of 2 runs, and differs by at most 2.0 millionths in the others."));
  CHECK_THAT(text, ContainsSubstring("batch 64 on 2 GPUs: 3.0 % of the median from p25 to p75, over 30 steps."));
}

TEST_CASE("HW1.1 without measurements: columns that only a measurement has are left out", "[data_parallel]") {
  const std::string text = Machine().answer("reproducible_benchmark", R"("gpus", "step_time_ms", "step_quartiles", "warmup", "first_loss")",
                                            R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2]})");
  CHECK_THAT(squeezed(text), ContainsSubstring("row GPUs step\ntime\npredicted\nms\n"));
  CHECK_THAT(text, ContainsSubstring("Warm-up: no run here was measured"));
  CHECK(text.find("p25") == std::string::npos);
}

TEST_CASE("HW1.2: speed-up, efficiency, where it drops, what is exposed", "[data_parallel]") {
  const Machine machine;
  machine.measure("--strategy ddp --gpus 1 --batch 64", 12);
  machine.measure("--strategy ddp --gpus 2 --batch 64", 8);
  const std::string text = machine.answer("strong_scaling", R"("gpus", "step_time_ms", "speedup", "efficiency", "exposed_communication")",
                                          R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2, 4]})");
  // Row 2: predicted 14 ms (the last bucket, 2 ms, is exposed), measured 8.
  CHECK_THAT(squeezed(text), ContainsSubstring("\n2 2 14.00 8.00 +75.0 0.86 1.50 42.9 75.0 14.3"));
  CHECK_THAT(text, ContainsSubstring("is it linear? No: 1.50 times on 2 GPUs (efficiency 75 %) as fast as on 1 GPU (measured against measured), and 0.86 times on "
                                     "4 GPUs (efficiency 21 %) as fast as on 1 GPU (predicted against predicted). "
                                     "Below 1 more GPUs make the step longer."));
  CHECK_THAT(text, ContainsSubstring("The efficiency drops most from 1 to 2 GPUs: from 100 % to 43 % (predicted)."));
  CHECK_THAT(text, ContainsSubstring("On 4 GPUs communication runs 8.00 ms of 14.00 ms, of which 2.00 ms, 14.3 % of the step, are exposed (75 % hidden behind computation; predicted)."));
}

TEST_CASE("HW1.3: what the backward can hide", "[data_parallel]") {
  const Machine machine;
  const std::string text = machine.answer("communication_computation", R"("depth", "batch", "gpus", "exposed_communication")", R"("strategy": "ddp", "gpus": 2)",
                                          R"([{"batch": 64}, {"batch": 128, "accum": 8, "no-sync": 1}])");
  CHECK_THAT(text, ContainsSubstring("4 layers of 8192, batch 64 on 2 GPUs, 32 samples a GPU: communication runs 8.00 ms of 14.00 ms"));
  CHECK_THAT(text, ContainsSubstring("the backward takes 1.00 times as long as the exchange."));
  // 8 rounds of 12 ms, one exchange: 2 of 98 ms.
  CHECK_THAT(text, ContainsSubstring("Less than 5.0 % of the step is exposed with 4 layers of 8192, batch 128, 8 rounds (2.0 % of the step exposed)."));
}

TEST_CASE("HW1.4: what GPU 0 leads under DataParallel", "[data_parallel]") {
  const Machine machine;
  const std::string text = machine.answer("dataparallel_ddp", R"("strategy", "step_time_ms", "busy", "comm", "peak_memory_gib")", R"("gpus": 2, "batch": 64)",
                                          R"({"strategy": ["ddp", "dp"]})");
  // dp: broadcast 8, forward 4, backward 8, reduce 8
  CHECK_THAT(text, ContainsSubstring("DataParallel takes 28.00 ms, DDP 14.00 ms (predicted), 100.0 % more time. Under DataParallel GPU 0 works 16.00 ms of a step of 28.00 ms, 57.1 %, "
                                     "at what no GPU can compute beside: broadcast of the parameters 8.00 ms and reduce of the gradients 8.00 ms (predicted)."));
  CHECK_THAT(text, ContainsSubstring("Computing, by GPU: 43 %, 43 % of the step; under DDP 86 %, 86 %."));
}

TEST_CASE("HW1.5A: the law of Amdahl beside what was measured", "[data_parallel]") {
  const Machine machine;
  for (const auto& [gpus, plain_ms, delayed_ms] : {std::tuple{1, 12.0, 24.0}, {2, 6.0, 18.5}, {4, 4.0, 16.0}}) {
    const std::string flags = "--strategy ddp --batch 64 --gpus " + std::to_string(gpus);
    machine.measure(flags, plain_ms);
    machine.measure(flags + " --delay-ms 12", delayed_ms);
  }
  const std::string text = machine.answer("artificial_delay", R"("gpus", "delay_ms", "step_time_ms", "speedup")", R"("strategy": "ddp", "batch": 64)",
                                          R"({"gpus": [1, 2, 4], "delay-ms": [0, 12]})");
  CHECK_THAT(text, ContainsSubstring("with a delay of 12 ms a step is 1.30 times on 2 GPUs (efficiency 65 %) and 1.50 times on 4 GPUs (efficiency 38 %) as fast as "
                                     "on 1 GPU (measured against measured); without it 2.00 times on 2 GPUs (efficiency 100 %) and 3.00 times on 4 GPUs (efficiency 75 %) as fast as on 1 GPU "
                                     "(measured against measured)."));
  // s = 1/2: 1 / (1/2 + 1/4) and 1 / (1/2 + 1/8)
  CHECK_THAT(text, ContainsSubstring("s = 12 of 24.00 ms = 50.0 % of the step on 1 GPU (measured). 1 / (s + (1 - s) / n) gives 1.33 times on 2 GPUs (measured: 1.30) and 1.60 times on "
                                     "4 GPUs (measured: 1.50), and never more than 2.00 times on any number of GPUs."));
  CHECK(text.find("The sleep adds less") == std::string::npos);
}

TEST_CASE("HW1.5A: a sleep that the forward hides is said to be", "[data_parallel]") {
  // The host sleeps 6 ms while the GPU is at its 4 ms of forward.
  const std::string text = Machine().answer("artificial_delay", R"("gpus", "delay_ms", "step_time_ms")", R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2], "delay-ms": [0, 6]})");
  CHECK_THAT(text, ContainsSubstring("The sleep adds less than its length to a step, 2.00 ms on 1 GPU (predicted) and 2.00 ms on 2 GPUs (predicted): the GPUs are still at the forward"));
}

TEST_CASE("HW1.5B: where a doubling of the batch stops paying", "[data_parallel]") {
  const Machine machine;
  for (const auto& [batch, one_ms, four_ms] : {std::tuple{32, 8.0, 4.0}, {64, 10.0, 4.0}, {256, 40.0, 12.0}}) {
    const std::string flags = "--strategy ddp --batch " + std::to_string(batch);
    machine.measure(flags + " --gpus 1", one_ms);
    machine.measure(flags + " --gpus 4", four_ms);
  }
  const std::string text = machine.answer("batch_size", R"("batch", "gpus", "step_time_ms", "speedup")", R"("strategy": "ddp")", R"({"batch": [32, 64, 256], "gpus": [1, 4]})");
  // 32 to 64: twice the samples in the same time. 64 to 256: 4 times the samples in 3 times the time: 1.33 = 1.15 x 1.15.
  CHECK_THAT(text, ContainsSubstring("batch 32 4.00 ms, 8,000 samples/s, batch 64 4.00 ms, 16,000 samples/s (x 2.00 a doubling) and batch 256 12.00 ms, 21,333 samples/s (x 1.15 a "
                                     "doubling). They stop paying from 64 to 256"));
  CHECK_THAT(text, ContainsSubstring("4 layers of 8192, batch 256: 3.33 times on 4 GPUs (efficiency 83 %) as fast as on 1 GPU (measured against measured)."));
}

TEST_CASE("HW1.5C: one straggler costs everyone", "[data_parallel]") {
  const std::string text = Machine().answer("imbalance", R"("straggler", "step_time_ms", "idle")", R"("strategy": "ddp", "gpus": 4, "batch": 64)", R"([{}, {"straggler": "0:20"}])");
  CHECK_THAT(squeezed(text), ContainsSubstring("\n2 0: 20 34.00\n"));
  CHECK_THAT(text, ContainsSubstring("rank 0 sleeps 20.00 ms, the step of everyone takes 34.00 ms instead of 14.00 ms (predicted): 20.00 ms more, 100 % of the sleep."));
  CHECK_THAT(text, ContainsSubstring("together the 4 GPUs lose 80.00 ms of GPU time a step, 4.0 times what one of them sleeps. Throughput falls to 41.2 %."));
}

TEST_CASE("HW2.1: effective batch, and loss curves without the skipped steps", "[data_parallel]") {
  const Machine machine;
  machine.measure("--strategy ddp --gpus 2 --batch 64", 10, {{"losses", {1.0, 0.5, 0.25}}});
  machine.measure("--strategy ddp --gpus 2 --batch 64 --accum 4", 30, {{"losses", {1.0, 0.5, 0.25}}});
  machine.measure("--strategy ddp --gpus 2 --batch 64 --dtype amp-fp16", 5,
                  {{"losses", {1.0, 1.0, 0.505, 0.25}}, {"skipped", {0}}, {"skipped_steps", 0}});
  const std::string text = machine.answer("amp_accumulation", R"("dtype", "accum", "effective_batch", "step_time_ms", "first_loss", "last_loss", "skipped_steps")",
                                          R"("strategy": "ddp", "gpus": 2, "batch": 64)", R"([{"accum": [1, 4]}, {"dtype": "amp-fp16"}])");
  CHECK_THAT(text, ContainsSubstring("1 round of 64: 64 and 4 rounds of 64: 256."));
  CHECK_THAT(text, ContainsSubstring("fp32, 4 rounds: step by step at most 0.000 % from that curve, over 3 steps."));
  CHECK_THAT(text, ContainsSubstring("amp-fp16, 1 round: step by step at most 1.000 % from that curve, over 3 steps; 1 step skipped by GradScaler, left out."));
  CHECK_THAT(text, ContainsSubstring("Precision, amp-fp16, 1 round: 5.00 ms against 10.00 ms in fp32 (measured), 2.00 times as fast"));
}

TEST_CASE("HW2.1: curves of a loss that stands still are not compared", "[data_parallel]") {
  const Machine machine;
  machine.measure("--strategy ddp --gpus 2 --batch 64", 10, {{"losses", {1.0, 0.9995, 0.9991}}});
  machine.measure("--strategy ddp --gpus 2 --batch 64 --accum 4", 30, {{"losses", {1.0, 0.9995, 0.9991}}});
  const std::string text = machine.answer("amp_accumulation", R"("accum", "step_time_ms")", R"("strategy": "ddp", "gpus": 2, "batch": 64)", R"([{"accum": [1, 4]}])");
  CHECK_THAT(text, ContainsSubstring("It moves by less than 1.0 %: whether the others train as well does not follow from it"));
  CHECK_THAT(text, !ContainsSubstring("from that curve"));
}

TEST_CASE("HW2.2: what an exchange costs", "[data_parallel]") {
  // 4 rounds of 12 ms. With an exchange in each: 4 x 14; with one: 3 x 12 + 14.
  const std::string text = Machine().answer("three_codes", R"("accum", "no_sync", "step_time_ms", "throughput", "exposed_communication")",
                                            R"("strategy": "ddp", "gpus": 2, "batch": 64)", R"([{}, {"accum": 4, "no-sync": [0, 1]}])");
  CHECK_THAT(text, ContainsSubstring("Synchronisation, fp32, 4 rounds: 56.00 ms with 4 exchanges a step, 50.00 ms with one (predicted): each of the others costs 2.00 ms, 10.7 % of "
                                     "the step in all."));
  CHECK_THAT(squeezed(text), ContainsSubstring("\n3 4 yes 50.00 5120 4.0\n"));  // 64 x 4 samples in 50 ms
}

TEST_CASE("HW2.3: memory is flat, time is not", "[data_parallel]") {
  const std::string text = Machine().answer("accumulation_sweep", R"("accum", "no_sync", "step_time_ms", "fullest_gpu_gib")", R"("strategy": "ddp", "gpus": 2, "batch": 64)",
                                            R"({"no-sync": [0, 1], "accum": [4, 8]})");
  CHECK_THAT(text, ContainsSubstring("Time, fp32 (predicted): 4 rounds 56.00 ms and 8 rounds 112.00 ms: a further round takes 14.00 ms"));
  CHECK_THAT(text, ContainsSubstring("Time, fp32, no_sync (predicted): 4 rounds 50.00 ms and 8 rounds 98.00 ms: a further round takes 12.00 ms, and 2.00 ms of a step are there "
                                     "whatever the rounds."));
  CHECK_THAT(text, ContainsSubstring("a round that exchanges its gradients takes 14.00 ms, one under no_sync 12.00 ms: the exchange costs 2.00 ms a round, 14.3 % of it."));
  CHECK_THAT(text, ContainsSubstring("Memory, fp32, 4 to 8 rounds (predicted): "));
  CHECK(text.find("GiB to ") == std::string::npos);  // one amount of memory, not a range
}

TEST_CASE("Facts of a run that are of another kind are named", "[data_parallel]") {
  RunResult run = predict(spec(kTextbook + "--strategy ddp --gpus 2 --batch 64"), nullptr);
  run.measured = true;
  run.extra = {{"losses", "many"}};
  CHECK_THROWS_WITH(measured_facts(run), ContainsSubstring("extra.losses: found \"many\""));
  run.extra = nullptr;
  CHECK(measured_facts(run).losses.empty());
}

TEST_CASE("A profile that lacks what a scenario needs is told from a broken file", "[data_parallel]") {
  const TemporaryFolder folder;
  save_profile(tiny_profile(), folder.write("tiny/profile.json", ""));
  const std::string path = folder.write("a.json", R"({"id": "x", "title": "t", "columns": ["gpus"], "settings": {"strategy": "ddp", "gpus": 2, "dim": 64, "depth": 2, "batch": 64}})");
  CHECK_THROWS_AS(evaluate_scenario(load_scenario(path), folder / "tiny/profile.json"), NotInProfile);
}

TEST_CASE("The scenarios of homeworks 1 and 2, and their runs in the matrix that is measured", "[data_parallel]") {
  const Scenario matrix = load_scenario(PDL_SOURCE_DIR "/scenarios/validation_data_parallel.json");
  CHECK(matrix.configurations.size() >= 80);
  for (const char* name : {"hw1_1_reproducible_benchmark", "hw1_2_strong_scaling", "hw1_3_communication_computation", "hw1_4_dataparallel_ddp", "hw1_5a_artificial_delay",
                           "hw1_5b_batch_size", "hw1_5c_imbalance", "hw2_1_amp_accumulation", "hw2_2_three_codes", "hw2_3_accumulation_sweep"}) {
    INFO(name);
    const Scenario scenario = load_scenario(std::string(PDL_SOURCE_DIR "/scenarios/") + name + ".json");
    CHECK_FALSE(scenario.answer.empty());
    for (const RunSpec& spec : scenario.configurations) {
      INFO(run_name(spec));
      const bool measured = std::any_of(matrix.configurations.begin(), matrix.configurations.end(), [&](const RunSpec& other) { return same_run(spec, other); });
      CHECK((measured || spec.gpus > 4));
    }
  }
}
