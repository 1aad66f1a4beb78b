// Homeworks 1 and 2: the answers, from tables whose numbers are known: textbook costs, and measured runs written by
// hand.
#include "sim/course/answer_words.hpp"
#include "sim/io/error.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/predict.hpp"
#include "sim/report/scenario_text.hpp"
#include "sim/run/measured_facts.hpp"
#include "sim/run/run_json.hpp"
#include "sim/run/run_name.hpp"
#include "sim/study/evaluate_scenario.hpp"
#include "sim/study/scenario.hpp"
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
  void measure(const std::string& flags, double median_ms, const nlohmann::json& extra = {},
               const std::vector<MeasuredStep>& steps = {}) const {
    RunResult run = predict(spec(kTextbook + flags), nullptr);
    run.measured = true;
    run.step_time = {median_ms, median_ms * 0.99, median_ms * 1.02, 30};
    run.environment = {{"card", "Tiny GPU"}};
    run.extra = extra;
    run.steps = steps;
    write_run(run, folder_ / ("tiny/runs/" + run_name(run.spec) + ".json"));
  }

  /// The table of a file with the given settings and what varies.
  ScenarioTable table(const std::string& name, const std::string& columns, const std::string& settings,
                      const std::string& vary) const {
    const std::string path =
        folder_.write("scenario.json", R"({"id": "x", "title": "t", "question": "?", "columns": [)" + columns +
                                           R"(], "answer": ")" + name + R"(", "settings": {)" + kTextbookKeys + ", " +
                                           settings + R"(}, "vary": )" + vary + "}");
    return evaluate_scenario(load_scenario(path, scenario_names()), folder_ / "tiny/profile.json");
  }

  std::string answer(const std::string& name, const std::string& columns, const std::string& settings,
                     const std::string& vary) const {
    return scenario_text(table(name, columns, settings, vary), 100'000);
  }

 private:
  TemporaryFolder folder_;
};

/// The table as it would be if the predictions of these rows said that the host bounds them.
ScenarioTable host_bound(ScenarioTable table, std::initializer_list<std::size_t> rows) {
  for (const std::size_t r : rows) table.rows[r].predicted.result.warnings.push_back("bound by the host: drawn so");
  return table;
}

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
  machine.measure("--strategy ddp --gpus 1 --batch 64", 10,
                  {{"losses", {0.5, 0.4}}, {"warmup_ms", {500, 20, 10, 10, 10}}, {"step_time_stddev_ms", 0.25}});
  machine.measure("--strategy ddp --gpus 2 --batch 64", 8,
                  {{"losses", {0.500001, 0.4}}, {"warmup_ms", {800, 8, 8, 8, 8}}});
  const std::string text =
      machine.answer("reproducible_benchmark",
                     R"("gpus", "step_time_ms", "step_quartiles", "step_stddev", "warmup", "first_loss", "last_loss")",
                     R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2]})");
  CHECK_THAT(squeezed(text), ContainsSubstring(" 9.90..10.20 0.250 50.0 0.500000 0.400000\n"));
  CHECK_THAT(squeezed(text), ContainsSubstring(" 7.92..8.16 - 100.0 0.500001 0.400000\n"));
  CHECK_THAT(text, ContainsSubstring("4 layers of 8192, batch 64 on 1 GPU: the first 5 steps took 500.0, 20.0, 10.0, "
                                     "10.0, 10.0 ms, the median of the others is 10.00 ms; the very "
                                     "first is 50.0 times as long. A mean that kept them would be about 24.29 ms, "
                                     "142.9 % more time than a step takes."));
  CHECK_THAT(text, ContainsSubstring("the loss of the first step is 0.5 in the first of 2 runs, and differs by at most "
                                     "2.0 millionths in the others."));
  CHECK_THAT(text, ContainsSubstring("Why warm-up matters: the first steps create what later ones use again: the CUDA "
                                     "context, the handles and workspaces of cuBLAS and NCCL, the "
                                     "allocator's blocks."));
  CHECK_THAT(text, ContainsSubstring("batch 64 on 2 GPUs: 3.0 % of the median from p25 to p75, over 30 steps."));
}

TEST_CASE("HW1.1: every step, and the same seed twice against another", "[data_parallel]") {
  const Machine machine;
  const auto steps = [](double loss) {
    return std::vector<MeasuredStep>{{100, loss, true},
                                     {12, 0.9 * loss, true},
                                     {10, 0.8 * loss, false},
                                     {10.5, 0.7 * loss, false},
                                     {11.5, 0.6 * loss, false}};
  };
  machine.measure("--strategy ddp --gpus 2 --batch 64", 10.5, {}, steps(0.5));
  machine.measure("--strategy ddp --gpus 2 --batch 64 --repeat 2", 10.6, {}, steps(0.5));
  machine.measure("--strategy ddp --gpus 2 --batch 64 --seed 1", 10.7, {}, steps(0.6));
  const std::string text =
      machine.answer("reproducible_benchmark", R"("seed", "repeat", "warmup", "first_loss", "last_loss")",
                     R"("strategy": "ddp", "batch": 64, "gpus": 2)", R"([{"seed": 0}, {"repeat": 2}, {"seed": 1}])");
  CHECK_THAT(
      squeezed(text),
      ContainsSubstring("\n1 0 1 9.5 0.500000 0.300000\n2 0 2 9.4 0.500000 0.300000\n3 1 1 9.3 0.600000 0.360000\n"));
  CHECK_THAT(text, ContainsSubstring("on 2 GPUs: the first 2 steps took 100.0, 12.0 ms, the median of the others is "
                                     "10.50 ms; the very first is 9.5 times as long. A mean that kept them would be "
                                     "28.80 ms, 174.3 % more time"));
  CHECK_THAT(text, ContainsSubstring("\nSteps: 4 layers of 8192, batch 64 on 2 GPUs, seed 1, each of the 3 steps after "
                                     "the warm-up, ms: 10.00, 10.50, 11.50.\n"));
  CHECK_THAT(text, ContainsSubstring("\nSeeds: 4 layers of 8192, batch 64 on 2 GPUs, two runs with seed 0: all 5 "
                                     "losses are equal, to the last digit; a step takes 10.60 ms and 10.50 ms.\n"));
  CHECK_THAT(text,
             ContainsSubstring("\nSeeds: 4 layers of 8192, batch 64 on 2 GPUs, seed 1 against seed 0: 0 of 5 losses "
                               "are equal; at most they differ by 20.000 %, in the first step 0.6 "
                               "against 0.5; a step takes "));
  CHECK_THAT(text,
             ContainsSubstring(
                 "the loss of the first step is 0.5 in the first of 2 runs, and differs by at most 0.0 millionths"));
}

TEST_CASE("HW1.1 without measurements: columns that only a measurement has are left out", "[data_parallel]") {
  const std::string text =
      Machine().answer("reproducible_benchmark", R"("gpus", "step_time_ms", "step_quartiles", "warmup", "first_loss")",
                       R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2]})");
  CHECK_THAT(squeezed(text), ContainsSubstring("row GPUs step\ntime\npredicted\nms\n"));
  CHECK_THAT(text, ContainsSubstring("Warm-up: no run here was measured"));
  CHECK_THAT(text, ContainsSubstring("Why warm-up matters: "));
  CHECK(text.find("p25") == std::string::npos);
}

TEST_CASE("HW1.2: speed-up, efficiency, where it drops, what is exposed", "[data_parallel]") {
  const Machine machine;
  machine.measure("--strategy ddp --gpus 1 --batch 64", 12);
  machine.measure("--strategy ddp --gpus 2 --batch 64", 8);
  const std::string text =
      machine.answer("strong_scaling", R"("gpus", "step_time_ms", "speedup", "efficiency", "exposed_communication")",
                     R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2, 4]})");
  // Row 2: predicted 14 ms (the last bucket, 2 ms, is exposed), measured 8.
  CHECK_THAT(squeezed(text), ContainsSubstring("\n2 2 14.00 8.00 +75.0 0.86 1.50 42.9 75.0 14.3"));
  CHECK_THAT(
      text,
      ContainsSubstring(
          "is it linear? No: 1.50 times on 2 GPUs (efficiency 75 %) as fast as on 1 GPU (measured against measured). "
          "Measured and predicted disagree on whether more GPUs help: 1.50 and 0.86 times as fast on 2 GPUs."));
  CHECK_THAT(text, ContainsSubstring("\nNot measured: row 3. As predicted, with the rows that they are compared "
                                     "with:\n4 layers of 8192, batch 64: is it linear? No: 0.86 times on 2 GPUs "
                                     "(efficiency 43 %) and 0.86 times on 4 GPUs (efficiency 21 %) as fast as on 1 GPU "
                                     "(predicted against predicted). Below 1 more GPUs make the step longer.\n"));
  CHECK_THAT(text, ContainsSubstring("The efficiency drops most from 1 to 2 GPUs: from 100 % to 75 % (measured)."));
  CHECK_THAT(text, ContainsSubstring("\nPredicted: on 2 GPUs communication runs 8.00 ms of 14.00 ms, of which 2.00 ms, "
                                     "14.3 % of the step, are exposed (75 % hidden behind computation); "
                                     "on 4 GPUs communication runs 8.00 ms of 14.00 ms, of which 2.00 ms, 14.3 % of "
                                     "the step, are exposed (75 % hidden behind computation)."));
  CHECK_THAT(text, ContainsSubstring("\nMeasured: on 2 GPUs communication runs "));
}

TEST_CASE("HW1.2: all measured is one series, with no predicted one beside it", "[data_parallel]") {
  const Machine machine;
  machine.measure("--strategy ddp --gpus 1 --batch 64", 12);
  machine.measure("--strategy ddp --gpus 2 --batch 64", 8);
  const std::string text = machine.answer("strong_scaling", R"("gpus", "step_time_ms")",
                                          R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2]})");
  CHECK_THAT(
      text,
      ContainsSubstring(
          "No: 1.50 times on 2 GPUs (efficiency 75 %) as fast as on 1 GPU (measured against measured). Measured and"));
  CHECK_THAT(text, !ContainsSubstring("Predicted: "));
}

TEST_CASE("What the host bounds hides nothing that follows from its tasks", "[data_parallel]") {
  const Machine machine;
  const std::string text =
      scenario_text(host_bound(machine.table("strong_scaling", R"("gpus", "step_time_ms")",
                                             R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2]})"),
                               {1}),
                    100'000);
  CHECK_THAT(text, ContainsSubstring("2.00 ms, 14.3 % of the step, are exposed (host-bound). Host-bound: tasks have "
                                     "waits for the host inside, and what they would "
                                     "hide says nothing about computation.\n"));
  CHECK_THAT(text, !ContainsSubstring("hidden behind"));
}

TEST_CASE("The warning of a prediction is what tells that the host bounds a row", "[data_parallel]") {
  CostProfile slow = tiny_profile();
  for (HostTime& host : slow.host) {
    if (host.key.name == "step_overhead") host.time_ns = host.p25_ns = 200'000;
  }
  const RunSpec small = spec("--dim 64 --depth 1 --batch 256 --microbatches 1");
  ScenarioRow row;
  row.predicted.result = predict(small, &slow);
  CHECK(is_host_bound(row));
  std::erase_if(row.predicted.result.warnings,
                [](const std::string& warning) { return warning.starts_with("bound by the host"); });
  CHECK_FALSE(is_host_bound(row));
}

TEST_CASE("Shares of a recorded step that was unlike the median one are marked, and confirm nothing",
          "[data_parallel]") {
  const Machine machine;
  machine.measure("--strategy ddp --gpus 2 --batch 64", 14, {{"recording", {{"overhead_fraction", 0.865}}}});
  machine.measure("--strategy ddp --gpus 2 --batch 128", 14, {{"recording", {{"overhead_fraction", -0.05}}}});
  const std::string text =
      machine.answer("communication_computation", R"("batch", "exposed_communication", "throughput")",
                     R"("strategy": "ddp", "gpus": 2)", R"({"batch": [64, 128]})");
  CHECK_THAT(squeezed(text), ContainsSubstring("\n1 64 14.3 14.3 r 4571 4571\n2 128 14.3 14.3 9143 9143\n"));
  CHECK_THAT(text, ContainsSubstring("r: of one recorded step that took more than 10 % longer or shorter than the "
                                     "median step, which this share need not be like: row 1 +86 %\n"));
  CHECK_THAT(text, ContainsSubstring("batch 64 on 2 GPUs, 32 samples a GPU (predicted): "));
  CHECK_THAT(text, ContainsSubstring("batch 128 on 2 GPUs, 64 samples a GPU (predicted): "));  // a series of one kind
  CHECK_THAT(text, ContainsSubstring("\nMeasured of these: 14.3 % exposed with 64 samples a GPU.\n"));
  CHECK_THAT(text, ContainsSubstring("4 layers of 8192: in no row (14.3 % exposed with 64 samples a GPU; predicted)."));
}

TEST_CASE("HW1.3: what the backward can hide", "[data_parallel]") {
  const Machine machine;
  const std::string text =
      machine.answer("communication_computation", R"("depth", "batch", "gpus", "exposed_communication")",
                     R"("strategy": "ddp", "gpus": 2)", R"([{"batch": 64}, {"batch": 128, "accum": 8, "no-sync": 1}])");
  CHECK_THAT(text, ContainsSubstring("4 layers of 8192, batch 64 on 2 GPUs, 32 samples a GPU (predicted): "
                                     "communication runs 8.00 ms of 14.00 ms"));
  CHECK_THAT(text, ContainsSubstring("the backward takes 1.00 times as long as the exchange."));
  // 8 rounds of 12 ms, one exchange: 2 of 98 ms.
  CHECK_THAT(text, ContainsSubstring("all but 5.0 % of the step, on 2 GPUs? 4 layers of 8192: in no row (14.3 % "
                                     "exposed with 32 samples a GPU; predicted). "
                                     "4 layers of 8192 with 8 rounds: from 64 samples a GPU on, of the rows (2.0 % "
                                     "exposed with 64 samples a GPU; predicted)."));
  // Four equal layers, a bucket each.
  CHECK_THAT(text, ContainsSubstring("the last bucket, which is ready only when the backward ends: 25.0 % of the "
                                     "gradients of 4 layers of 8192 (4 buckets)."));
}

TEST_CASE("HW1.3: a size is the first from which on all rows hide, and a host-bound row is none", "[data_parallel]") {
  const Machine machine;
  ScenarioTable table = machine.table("communication_computation", R"("batch")", R"("strategy": "ddp", "gpus": 2)",
                                      R"({"batch": [64, 128, 256, 512]})");
  // Exposed: 20, 1, 10, 2 % of the step.
  const double shares[] = {0.2, 0.01, 0.1, 0.02};
  for (std::size_t r = 0; r < 4; ++r) {
    RunMetrics& metrics = table.rows[r].predicted.metrics;
    for (GpuMetrics& gpu : metrics.gpus)
      gpu.comm_ns = static_cast<std::int64_t>(shares[r] * static_cast<double>(metrics.step_ns));
  }
  CHECK_THAT(scenario_text(table, 100'000),
             ContainsSubstring("4 layers of 8192: from 256 samples a GPU on, of the rows (10.0 % exposed with 128 "
                               "samples a GPU, 2.0 % exposed with 256 "
                               "samples a GPU; predicted)."));
  CHECK_THAT(scenario_text(host_bound(table, {2}), 100'000),
             ContainsSubstring(
                 "4 layers of 8192: from 64 samples a GPU on, of the rows (20.0 % exposed with 32 samples a GPU, "));
  CHECK_THAT(scenario_text(host_bound(table, {0, 1, 2, 3}), 100'000),
             ContainsSubstring("4 layers of 8192: no size follows, the host bounds every row."));
}

TEST_CASE("HW1.4: what GPU 0 leads under DataParallel", "[data_parallel]") {
  const Machine machine;
  const std::string text =
      machine.answer("dataparallel_ddp", R"("strategy", "step_time_ms", "busy", "comm", "peak_memory_gib")",
                     R"("gpus": 2, "batch": 64)", R"({"strategy": ["ddp", "dp"]})");
  // dp: broadcast 8, forward 4, backward 8, reduce 8
  CHECK_THAT(text,
             ContainsSubstring(
                 "DataParallel takes 28.00 ms, DDP 14.00 ms (predicted), 100.0 % more time. Under DataParallel GPU 0 "
                 "is at what no GPU can compute beside for 16.00 ms of a step of 28.00 "
                 "ms, 57.1 %: broadcast of the parameters 8.00 ms and reduce of the gradients 8.00 ms (predicted)."));
  CHECK_THAT(text, ContainsSubstring("At tasks of computation, by GPU: 43 %, 43 % of the step; under DDP 86 %, 86 %."));
  CHECK_THAT(text, !ContainsSubstring("these add up to"));
  CHECK_THAT(text, !ContainsSubstring("The host bounds"));
}

TEST_CASE("HW1.4: a prediction that has it the other way round, and recorded steps that say little",
          "[data_parallel]") {
  const Machine machine;
  machine.measure("--strategy ddp --gpus 2 --batch 64", 14);
  machine.measure("--strategy dp --gpus 2 --batch 64", 10, {{"recording", {{"overhead_fraction", 0.2}}}});
  const std::string text = machine.answer("dataparallel_ddp", R"("strategy", "busy")", R"("gpus": 2, "batch": 64)",
                                          R"({"strategy": ["ddp", "dp"]})");
  CHECK_THAT(text, ContainsSubstring("DataParallel takes 10.00 ms, DDP 14.00 ms (measured), 28.6 % less time. The "
                                     "prediction has it the other way round: 28.00 ms and 14.00 ms."));
  CHECK_THAT(text, ContainsSubstring(
                       "The recorded step of DataParallel took +20 % against the median one: its shares say little."));
  CHECK_THAT(text, !ContainsSubstring("The recorded step of DDP"));
  CHECK_THAT(squeezed(text), ContainsSubstring("\n1 0 85.7 85.7\n"));
  CHECK_THAT(squeezed(text), ContainsSubstring("\n2 0 42.9 42.9 r\n"));
}

TEST_CASE("HW1.4: what a speed-up refers to, parts that overlap, waits for the host", "[data_parallel]") {
  const Machine machine;
  ScenarioTable table = machine.table("dataparallel_ddp", R"("strategy", "speedup", "busy")",
                                      R"("gpus": 2, "batch": 64)", R"({"strategy": ["ddp", "dp"]})");
  // The broadcast (0 to 8 ms) begins 1 ms early in the forward: drawn as a forward that begins 1 ms before its end.
  for (Span& span : table.rows[1].predicted.result.timeline.spans) {
    if (span.kind == TaskKind::forward) span.start_ns -= 1'000'000;
  }
  const std::string text = scenario_text(host_bound(table, {1}), 100'000);
  CHECK_THAT(text,
             ContainsSubstring(
                 "  speed-up: step time of ddp on the same GPUs, with this model and batch / that of this row\n"));
  CHECK_THAT(text, ContainsSubstring("GPU 0 is at what no GPU can compute beside for 15.00 ms of a step of 28.00 ms"));
  CHECK_THAT(text, ContainsSubstring(
                       "; these add up to 16.00 ms, because they overlap each other or forward and backward work."));
  CHECK_THAT(text, ContainsSubstring("The host bounds these steps: waits for it are inside the tasks"));
  CHECK_THAT(text, ContainsSubstring("  busy: share of the step in which the GPU is at a task of computation, from its "
                                     "first kernel to its last; where the host bounds the step, "
                                     "waits for the host are inside\n"));
}

TEST_CASE("HW1.5A: the law of Amdahl beside what was measured", "[data_parallel]") {
  const Machine machine;
  for (const auto& [gpus, plain_ms, delayed_ms] : {std::tuple{1, 12.0, 24.0}, {2, 6.0, 18.5}, {4, 4.0, 16.0}}) {
    const std::string flags = "--strategy ddp --batch 64 --gpus " + std::to_string(gpus);
    machine.measure(flags, plain_ms);
    machine.measure(flags + " --delay-ms 12", delayed_ms);
  }
  const std::string text =
      machine.answer("artificial_delay", R"("gpus", "delay_ms", "step_time_ms", "speedup")",
                     R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2, 4], "delay-ms": [0, 12]})");
  CHECK_THAT(text,
             ContainsSubstring("with a delay of 12 ms a step is 1.30 times on 2 GPUs (efficiency 65 %) and 1.50 times "
                               "on 4 GPUs (efficiency 38 %) as fast as "
                               "on 1 GPU (measured against measured); without it 2.00 times on 2 GPUs (efficiency 100 "
                               "%) and 3.00 times on 4 GPUs (efficiency 75 %) as fast as on 1 GPU "
                               "(measured against measured)."));
  // s = 1/2: 1 / (1/2 + 1/4) and 1 / (1/2 + 1/8)
  CHECK_THAT(text, ContainsSubstring("s = 12 of 24.00 ms = 50.0 % of the step on 1 GPU (measured). 1 / (s + (1 - s) / "
                                     "n) gives 1.33 times on 2 GPUs (measured: 1.30) and 1.60 times on "
                                     "4 GPUs (measured: 1.50), and never more than 2.00 times on any number of GPUs."));
  CHECK(text.find("The sleep adds less") == std::string::npos);
  CHECK_THAT(text, ContainsSubstring("the ratio tends to 1, from above or from below. It falls on 2 GPUs from 2.00 to "
                                     "1.30 and on 4 GPUs from 3.00 to 1.50."));
  CHECK_THAT(text, !ContainsSubstring("It rises"));
  CHECK_THAT(text, !ContainsSubstring("nothing to lose"));
  CHECK_THAT(text, ContainsSubstring("Measured and predicted disagree on whether more GPUs help: 1.30 and 0.91 times "
                                     "as fast on 2 GPUs and 1.50 and 0.91 times as fast on 4 GPUs."));
}

TEST_CASE("HW1.5A: a sleep that the forward hides is said to be", "[data_parallel]") {
  // The host sleeps 6 ms while the GPU is at its 4 ms of forward.
  const std::string text =
      Machine().answer("artificial_delay", R"("gpus", "delay_ms", "step_time_ms")", R"("strategy": "ddp", "batch": 64)",
                       R"({"gpus": [1, 2], "delay-ms": [0, 6]})");
  CHECK_THAT(text, ContainsSubstring("The sleep adds less than its length to a step, 2.00 ms on 1 GPU and 2.00 ms on 2 "
                                     "GPUs (predicted): the host runs ahead, and the GPUs are still at the "
                                     "forward while it sleeps."));
  // 12 and 14 ms without it, 14 and 16 with it: 0.86 and 0.88.
  CHECK_THAT(text, ContainsSubstring("It rises on 2 GPUs from 0.86 to 0.88. Where more GPUs make the step longer "
                                     "without the sleep there is no speed-up above 1 to lose"));
  CHECK_THAT(text,
             ContainsSubstring(
                 "Amdahl: what the sleep adds is the part that more GPUs do not shorten, s = 2.00 of 14.00 ms = 14.3 % "
                 "of the step on 1 GPU (predicted). "
                 "1 / (s + (1 - s) / n) gives 1.75 times on 2 GPUs (predicted: 0.88), and never more than 7.00 times"));
}

TEST_CASE("HW1.5A: what a sleep adds below the spread of the steps is no difference", "[data_parallel]") {
  const Machine machine;  // steps spread by 3 %
  for (const auto& [gpus, plain_ms, delayed_ms] : {std::tuple{1, 12.0, 11.99}, {2, 6.0, 9.0}, {4, 6.0, 6.1}}) {
    const std::string flags = "--strategy ddp --batch 64 --gpus " + std::to_string(gpus);
    machine.measure(flags, plain_ms);
    machine.measure(flags + " --delay-ms 6", delayed_ms);
  }
  CHECK_THAT(machine.answer("artificial_delay", R"("gpus")", R"("strategy": "ddp", "batch": 64)",
                            R"({"gpus": [1, 2, 4], "delay-ms": [0, 6]})"),
             ContainsSubstring(
                 "The sleep adds less than its length to a step, no difference beyond the spread on 1 GPU, 3.00 ms on "
                 "2 GPUs and no difference beyond the spread on 4 GPUs (measured)"));
}

TEST_CASE("HW1.5A: a sleep that the forward hides whole is no serial part, and batches are not mixed",
          "[data_parallel]") {
  const std::string text = Machine().answer("artificial_delay", R"("gpus")", R"("strategy": "ddp")",
                                            R"({"batch": [64, 128], "gpus": [1, 2], "delay-ms": [0, 3]})");
  CHECK_THAT(text,
             ContainsSubstring("\n4 layers of 8192, batch 64: with a delay of 3 ms a step is 0.86 times on 2 GPUs"));
  CHECK_THAT(text,
             ContainsSubstring("\n4 layers of 8192, batch 128: with a delay of 3 ms a step is 0.86 times on 2 GPUs"));
  CHECK_THAT(text, ContainsSubstring(" It stays on 2 GPUs at 0.86."));
  CHECK_THAT(text, ContainsSubstring("Amdahl: the sleep adds nothing to a step on 1 GPU (predicted), so it is no "
                                     "serial part of it, and the law takes nothing away."));
}

TEST_CASE("HW1.5A: several delays: is the speed-up linear in the delay?", "[data_parallel]") {
  const Machine machine;
  for (const double delay_ms : {0., 1., 5., 10.}) {
    const std::string flags = "--strategy ddp --batch 64 --delay-ms " + std::to_string(static_cast<int>(delay_ms));
    machine.measure(flags + " --gpus 1", 10 + delay_ms);
    machine.measure(flags + " --gpus 2", 5 + delay_ms);
    machine.measure(flags + " --gpus 4", 10 + delay_ms);
  }
  const std::string text =
      machine.answer("artificial_delay", R"("gpus", "delay_ms", "speedup")", R"("strategy": "ddp", "batch": 64)",
                     R"({"gpus": [1, 2, 4], "delay-ms": [0, 1, 5, 10]})");
  // 10 / 5, 11 / 6, 15 / 10, 20 / 15
  CHECK_THAT(text, ContainsSubstring("4 layers of 8192, batch 64, 2 GPUs against 1 (measured): 2.00 with 0 ms, 1.83 "
                                     "with 1 ms, 1.50 with 5 ms and 1.33 with 10 ms delay. Does the speed-up change "
                                     "linearly in the delay? -0.1667 for each ms from 0 to 1 ms, -0.0333 for each ms "
                                     "from 5 to 10 ms: not linear. Of a delay that shows in full it is "
                                     "(T1 + d) / (Tn + d), which flattens as d grows.\n"));
  CHECK_THAT(text, ContainsSubstring("4 GPUs against 1 (measured): 1.00 with 0 ms, 1.00 with 1 ms, 1.00 with 5 ms and "
                                     "1.00 with 10 ms delay. Does the speed-up change linearly in the delay? It does "
                                     "not change, the delay is hidden.\n"));
  // Amdahl's law is held against the longest delay.
  CHECK_THAT(text, ContainsSubstring("with a delay of 10 ms a step is 1.33 times on 2 GPUs"));
  CHECK_THAT(text, !ContainsSubstring("with a delay of 5 ms"));
}

TEST_CASE("HW1.5B: where a doubling of the batch stops paying", "[data_parallel]") {
  const Machine machine;
  for (const auto& [batch, one_ms, four_ms] : {std::tuple{32, 8.0, 4.0}, {64, 10.0, 4.0}, {256, 40.0, 12.0}}) {
    const std::string flags = "--strategy ddp --batch " + std::to_string(batch);
    machine.measure(flags + " --gpus 1", one_ms);
    machine.measure(flags + " --gpus 4", four_ms);
  }
  const std::string text = machine.answer("batch_size", R"("batch", "gpus", "step_time_ms", "speedup")",
                                          R"("strategy": "ddp")", R"({"batch": [32, 64, 256], "gpus": [1, 4]})");
  // 32 to 64: twice the samples in the same time. 64 to 256: 4 times the samples in 3 times the time.
  CHECK_THAT(text, ContainsSubstring("4 layers of 8192 on 4 GPUs (measured): batch 32 4.00 ms, 8,000 samples/s, batch "
                                     "64 4.00 ms, 16,000 samples/s (x 2.00) and batch 256 12.00 ms, 21,333 "
                                     "samples/s (x 1.33 with 4 times the batch). Larger batches stop paying where a "
                                     "doubling brings less than 1.50 times the samples/s: somewhere from 64 "
                                     "to 256, where 4 times the batch bring 1.33 times the samples/s; which doubling "
                                     "it is these rows do not say, because"));
  CHECK_THAT(text, ContainsSubstring("4 layers of 8192, 4 GPUs against 1 (measured): batch 32 2.00 times as fast "
                                     "(efficiency 50 %), batch 64 2.50 times as fast (efficiency 62 %) and batch "
                                     "256 3.33 times as fast (efficiency 83 %)."));
  CHECK_THAT(text, !ContainsSubstring("(predicted)"));
}

TEST_CASE("HW1.5B: a doubling that stops paying is named, and what was not measured is in a predicted series of all",
          "[data_parallel]") {
  const Machine machine;
  for (const auto& [batch, four_ms] : {std::pair{32, 4.0}, {64, 4.0}, {128, 6.0}})
    machine.measure("--strategy ddp --gpus 4 --batch " + std::to_string(batch), four_ms);
  const std::string text =
      machine.answer("batch_size", R"("batch")", R"("strategy": "ddp", "gpus": 4)", R"({"batch": [32, 64, 128, 256]})");
  CHECK_THAT(text, ContainsSubstring("batch 128 6.00 ms, 21,333 samples/s (x 1.33). Larger batches stop paying where a "
                                     "doubling brings less than 1.50 times the samples/s: from 64 to 128 (x 1.33), "
                                     "because the computation, which grows with the batch, is most of the step."));
  CHECK_THAT(text, ContainsSubstring("4 layers of 8192 on 4 GPUs (predicted): batch 32 14.00 ms, 2,286 samples/s, "
                                     "batch 64 14.00 ms, 4,571 samples/s (x 2.00), "));
  CHECK_THAT(text, ContainsSubstring("batch 256 14.00 ms, 18,286 samples/s (x 2.00). Larger batches stop paying where "
                                     "a doubling brings less than 1.50 times the samples/s: nowhere in these rows, "
                                     "because the time that does not depend on the batch"));
}

TEST_CASE("HW1.5B: more than 2 a doubling is noise of the host", "[data_parallel]") {
  const Machine machine;
  for (const auto& [batch, four_ms] : {std::pair{32, 1.3}, {64, 1.1}})
    machine.measure("--strategy ddp --gpus 4 --batch " + std::to_string(batch), four_ms);
  const ScenarioTable table =
      machine.table("batch_size", R"("batch")", R"("strategy": "ddp", "gpus": 4)", R"({"batch": [32, 64]})");
  CHECK_THAT(scenario_text(table, 100'000), !ContainsSubstring("noise"));
  CHECK_THAT(scenario_text(host_bound(table, {0, 1}), 100'000),
             ContainsSubstring("(x 2.36). Larger batches stop paying where a doubling brings less than 1.50 times the "
                               "samples/s: nowhere in these rows, because the step is as long as the host "
                               "takes to issue it, whatever the batch. More than 2 a doubling is noise of the host "
                               "that bounds these steps, nothing that a batch can bring."));
}

TEST_CASE("HW1.5C: one straggler costs everyone", "[data_parallel]") {
  const std::string text =
      Machine().answer("imbalance", R"("straggler", "step_time_ms", "idle")",
                       R"("strategy": "ddp", "gpus": 4, "batch": 64)", R"([{}, {"straggler": "0:20"}])");
  CHECK_THAT(squeezed(text), ContainsSubstring("\n2 0: 20 34.00\n"));
  CHECK_THAT(text, ContainsSubstring("rank 0 sleeps 20.00 ms, the step of everyone takes 34.00 ms instead of 14.00 ms "
                                     "(predicted): 20.00 ms more, 100 % of the sleep."));
  const ScenarioTable table = Machine().table(
      "imbalance", R"("straggler")", R"("strategy": "ddp", "gpus": 4, "batch": 64)", R"([{}, {"straggler": "0:20"}])");
  CHECK_THAT(scenario_text(host_bound(table, {0}), 100'000),
             ContainsSubstring("instead of 14.00 ms (predicted, host-bound): 20.00 ms more"));
  CHECK_THAT(text, ContainsSubstring("together the 4 GPUs lose 80.00 ms of GPU time a step, 4.0 times what one of them "
                                     "sleeps. Throughput falls to 41.2 %."));
}

TEST_CASE(
    "HW1.5: speed-ups are against the fewest GPUs whatever the order of the table, a sentence for each number of GPUs",
    "[data_parallel]") {
  const Machine machine;
  const std::string batches = machine.answer("batch_size", R"("gpus", "batch", "step_time_ms")", R"("strategy": "ddp")",
                                             R"({"gpus": [4, 1, 2], "batch": [128, 64]})");
  for (const std::string gpus : {"2", "4"}) {
    CHECK_THAT(batches, ContainsSubstring("\n4 layers of 8192, " + gpus + " GPUs against 1 (predicted): batch 64 "));
  }
  const std::string delays =
      machine.answer("artificial_delay", R"("gpus", "delay_ms", "step_time_ms")", R"("strategy": "ddp", "batch": 64)",
                     R"({"gpus": [4, 2, 1], "delay-ms": [0, 10]})");
  CHECK_THAT(delays, ContainsSubstring(" as fast as on 1 GPU (predicted against predicted); without it "));
  CHECK_THAT(delays, ContainsSubstring(" of the step on 1 GPU (predicted)"));
}

TEST_CASE("HW1.5B: strategies are series of their own", "[data_parallel]") {
  const std::string text = Machine().answer("batch_size", R"("strategy", "batch", "step_time_ms")", R"("gpus": 2)",
                                            R"({"strategy": ["ddp", "dp"], "batch": [64, 128]})");
  std::size_t sentences = 0;
  for (std::size_t at = text.find("Larger batches stop paying"); at != std::string::npos;
       at = text.find("Larger batches stop paying", at + 1))
    ++sentences;
  CHECK(sentences == 2);
  CHECK(text.find("where 1 times the batch") == std::string::npos);
}

TEST_CASE("HW1.5C: a straggler is held against the same run without it", "[data_parallel]") {
  const std::string text = Machine().answer("imbalance", R"("gpus", "straggler", "step_time_ms")", R"("batch": 64)",
                                            R"([{"strategy": ["ddp", "dp"], "gpus": [2, 4]}, )"
                                            R"({"strategy": ["ddp", "dp"], "gpus": [2, 4], "straggler": ["0:20"]}])");
  for (const std::string gpus : {"2", "4"})
    CHECK_THAT(text,
               ContainsSubstring("batch 64 on " + gpus + " GPUs: rank 0 sleeps 20.00 ms, the step of everyone takes "));
  CHECK_THAT(text, ContainsSubstring("The other GPUs wait in their first all-reduce, up to "));
  CHECK_THAT(text, ContainsSubstring("The other GPUs wait, up to "));
}

TEST_CASE("HW2.1: only autocast has casts that could be what makes a step longer", "[data_parallel]") {
  const Machine machine;
  machine.measure("--strategy ddp --gpus 2 --batch 64", 14);
  machine.measure("--strategy ddp --gpus 2 --batch 64 --dtype tf32", 15);
  const std::string text =
      machine.answer("amp_accumulation", R"("dtype", "step_time_ms")", R"("strategy": "ddp", "gpus": 2, "batch": 64)",
                     R"({"dtype": ["fp32", "tf32"]})");
  CHECK_THAT(text, ContainsSubstring("0.93 times as fast"));
  CHECK(text.find("cast") == std::string::npos);
}

TEST_CASE("HW2.1: effective batch, and loss curves without the skipped steps", "[data_parallel]") {
  const Machine machine;
  machine.measure("--strategy ddp --gpus 2 --batch 64", 10, {{"losses", {1.0, 0.5, 0.25}}});
  machine.measure("--strategy ddp --gpus 2 --batch 64 --accum 4", 30, {{"losses", {1.0, 0.5, 0.25}}});
  machine.measure("--strategy ddp --gpus 2 --batch 64 --dtype amp-fp16", 5,
                  {{"losses", {1.0, 1.0, 0.505, 0.25}}, {"skipped", {0}}, {"skipped_steps", 0}});
  const std::string text = machine.answer(
      "amp_accumulation",
      R"("dtype", "accum", "effective_batch", "step_time_ms", "first_loss", "last_loss", "skipped_steps")",
      R"("strategy": "ddp", "gpus": 2, "batch": 64)", R"([{"accum": [1, 4]}, {"dtype": "amp-fp16"}])");
  CHECK_THAT(text, ContainsSubstring("1 round of 64: 64 and 4 rounds of 64: 256."));
  CHECK_THAT(text, ContainsSubstring("That is as large as 256 different samples would be; here each round of a step "
                                     "has the same 64, so accumulation must follow the curve of one round."));
  CHECK_THAT(text,
             ContainsSubstring("fp32, 4 rounds: step by step at most 0.0 millionths from that curve, over 3 steps."));
  CHECK_THAT(text, ContainsSubstring("amp-fp16, 1 round: step by step at most 1.000 % from that curve, over 3 steps; 1 "
                                     "step skipped by GradScaler, left out."));
  CHECK_THAT(text,
             ContainsSubstring(
                 "Precision, amp-fp16, 1 round: 5.00 ms against 10.00 ms in fp32 (measured), 2.00 times as fast"));
  CHECK_THAT(text, ContainsSubstring("Stability, fp32, 1 round: no scaler that could skip steps; every loss is finite, "
                                     "pdl-run stops at one that is not (measured)."));
  CHECK_THAT(text, ContainsSubstring("Stability, amp-fp16, 1 round: 1 step of 4 skipped because gradients were not "
                                     "finite; every loss is finite, pdl-run stops at one that is not (measured)."));
}

TEST_CASE("HW2.1: why a step in lower precision is not shorter", "[data_parallel]") {
  const Machine machine;
  machine.measure("--strategy ddp --gpus 2 --batch 64", 10);
  machine.measure("--strategy ddp --gpus 2 --batch 64 --dtype amp-fp16", 12);
  ScenarioTable table = machine.table("amp_accumulation", R"("dtype")", R"("strategy": "ddp", "gpus": 2, "batch": 64)",
                                      R"({"dtype": ["fp32", "amp-fp16"]})");
  const auto with_bounds = [&](double fp32_ms, double amp_ms) {
    table.rows[0].predicted.result.bound_ms = fp32_ms;
    table.rows[1].predicted.result.bound_ms = amp_ms;
    return table;
  };
  const std::string compared = "Precision, amp-fp16, 1 round: 12.00 ms against 10.00 ms in fp32 (measured",
                    slower = "), 0.83 times as fast: ", times = compared + slower;
  CHECK_THAT(scenario_text(host_bound(with_bounds(6.3, 4.3), {1}), 100'000),
             ContainsSubstring(compared + ", host-bound" + slower +
                               "the GPUs' computation alone becomes shorter, 4.30 ms instead of 6.30 ms (predicted), "
                               "but the casts are more kernels to issue, and the GPUs wait for the "
                               "host that issues them"));
  CHECK_THAT(scenario_text(with_bounds(6.3, 4.3), 100'000),
             ContainsSubstring(
                 times +
                 "the GPUs' computation alone becomes shorter, 4.30 ms instead of 6.30 ms (predicted), but what is not "
                 "computation (exchange, optimizer with its unscaling, host) does not"));
  CHECK_THAT(scenario_text(with_bounds(4.3, 6.3), 100'000),
             ContainsSubstring(times + "the casts cost more than the products gain, the GPUs' computation alone takes "
                                       "6.30 ms instead of 4.30 ms (predicted)"));
}

TEST_CASE("HW2.1: why AMP needs more memory, in one unit", "[data_parallel]") {
  const Machine machine;
  ScenarioTable table = machine.table("amp_accumulation", R"("dtype")", R"("strategy": "ddp", "gpus": 2, "batch": 64)",
                                      R"({"dtype": ["fp32", "amp-fp16"]})");
  table.rows[0].predicted.result.peak_memory_bytes = {1000 << 20, 1000 << 20};
  table.rows[1].predicted.result.peak_memory_bytes = {1536 << 20, 1536 << 20};
  // 4 x (8192 x 8192 + 8192) parameters, 2 bytes each.
  CHECK_THAT(scenario_text(table, 100'000),
             ContainsSubstring("the fullest GPU holds 1.50 GiB instead of 0.98 GiB. Why more memory: autocast keeps a "
                               "copy of the weights in half precision, "
                               "2 bytes a parameter, 0.50 GiB in all"));
  table.rows[1].predicted.result.peak_memory_bytes = {900 << 20, 900 << 20};
  CHECK_THAT(scenario_text(table, 100'000),
             ContainsSubstring("the fullest GPU holds 900.00 MiB instead of 1000.00 MiB.\n"));
}

TEST_CASE("HW2.1: curves of a loss that stands still are compared, and nothing is concluded", "[data_parallel]") {
  const Machine machine;
  machine.measure("--strategy ddp --gpus 2 --batch 64", 10, {{"losses", {1.0, 0.9995, 0.9991}}});
  machine.measure("--strategy ddp --gpus 2 --batch 64 --accum 4", 30, {{"losses", {1.0, 0.9995, 0.99910005}}});
  const std::string text = machine.answer("amp_accumulation", R"("accum", "step_time_ms")",
                                          R"("strategy": "ddp", "gpus": 2, "batch": 64)", R"([{"accum": [1, 4]}])");
  CHECK_THAT(text,
             ContainsSubstring("fp32, 4 rounds: step by step at most 0.1 millionths from that curve, over 3 steps."));
  CHECK_THAT(text, ContainsSubstring("The loss itself moves by 0.090 % only: that the others train as well does not "
                                     "follow from curves that agree."));
}

TEST_CASE("HW2.2: what an exchange costs", "[data_parallel]") {
  // 4 rounds of 12 ms. With an exchange in each: 4 x 14; with one: 3 x 12 + 14.
  const std::string text =
      Machine().answer("three_codes", R"("accum", "no_sync", "step_time_ms", "throughput", "exposed_communication")",
                       R"("strategy": "ddp", "gpus": 2, "batch": 64)", R"([{}, {"accum": 4, "no-sync": [0, 1]}])");
  CHECK_THAT(text, ContainsSubstring("Synchronisation, fp32, 4 rounds: 56.00 ms with 4 exchanges a step, 50.00 ms with "
                                     "one (predicted): each of the others costs 2.00 ms, 10.7 % of "
                                     "the step in all."));
  const ScenarioTable table =
      Machine().table("three_codes", R"("accum")", R"("strategy": "ddp", "gpus": 2, "batch": 64)",
                      R"([{}, {"accum": 4, "no-sync": [0, 1]}])");
  CHECK_THAT(scenario_text(host_bound(table, {2}), 100'000),
             ContainsSubstring("50.00 ms with one (predicted, host-bound): "));
  CHECK_THAT(squeezed(text), ContainsSubstring("\n3 4 yes 50.00 5120 4.0\n"));  // 64 x 4 samples in 50 ms
}

TEST_CASE("HW2.3: memory is flat, time is not", "[data_parallel]") {
  const std::string text =
      Machine().answer("accumulation_sweep", R"("accum", "no_sync", "step_time_ms", "fullest_gpu_gib")",
                       R"("strategy": "ddp", "gpus": 2, "batch": 64)", R"({"no-sync": [0, 1], "accum": [4, 8]})");
  CHECK_THAT(text,
             ContainsSubstring(
                 "Time, fp32 (predicted): 4 rounds 56.00 ms and 8 rounds 112.00 ms: a further round takes 14.00 ms"));
  CHECK_THAT(text, ContainsSubstring("Time, fp32, no_sync (predicted): 4 rounds 50.00 ms and 8 rounds 98.00 ms: a "
                                     "further round takes 12.00 ms, and 2.00 ms of a step are there "
                                     "whatever the rounds."));
  CHECK_THAT(text, ContainsSubstring("a round that exchanges its gradients takes 14.00 ms, one under no_sync 12.00 ms: "
                                     "the exchange costs 2.00 ms a round, 14.3 % of it."));
  CHECK_THAT(text, ContainsSubstring("Memory, fp32, 4 to 8 rounds (predicted): "));
  CHECK(text.find("GiB to ") == std::string::npos);  // one amount of memory, not a range
}

TEST_CASE("HW2.3: a further round is the slope of all rows, and rows far from the line are named", "[data_parallel]") {
  const Machine machine;
  for (const auto& [rounds, time_ms] : {std::pair{2, 20.0}, {4, 46.0}, {6, 60.0}}) {
    machine.measure("--strategy ddp --gpus 2 --batch 64 --accum " + std::to_string(rounds), time_ms);
  }
  const std::string text = machine.answer("accumulation_sweep", R"("accum")",
                                          R"("strategy": "ddp", "gpus": 2, "batch": 64)", R"({"accum": [2, 4, 6]})");
  // Means 4 rounds, 42 ms; slope (2 x 22 + 2 x 18) / 8 = 10; 2 + 10 x: 22, 42, 62. Of 20: 10 % off.
  CHECK_THAT(text, ContainsSubstring("a further round takes 10.00 ms, and 2.00 ms of a step are there whatever the "
                                     "rounds (the line nearest to all of them; farthest from it are 2 rounds, by "
                                     "10.0 %)."));
}

TEST_CASE("Facts of a run that are of another kind are named", "[data_parallel]") {
  RunResult run = predict(spec(kTextbook + "--strategy ddp --gpus 2 --batch 64"), nullptr);
  run.measured = true;
  run.extra = {{"losses", "many"}};
  CHECK_THROWS_WITH(measured_facts(run), ContainsSubstring("extra.losses: found \"many\""));
  run.extra = {{"recording", {{"overhead_fraction", "much"}}}};
  CHECK_THROWS_WITH(measured_facts(run),
                    ContainsSubstring("extra.recording.overhead_fraction: found \"much\", expected a number"));
  run.extra = {{"recording", {{"overhead_fraction", -0.11}}}};
  CHECK(unusual_recording(run) == -0.11);
  run.extra = {{"recording", {{"overhead_fraction", 0.1}}}};
  CHECK_FALSE(unusual_recording(run));
  run.extra = nullptr;
  CHECK(measured_facts(run).losses.empty());
  CHECK_FALSE(unusual_recording(run));
}

TEST_CASE("A profile that lacks what a scenario needs is told from a broken file", "[data_parallel]") {
  const TemporaryFolder folder;
  save_profile(tiny_profile(), folder.write("tiny/profile.json", ""));
  const std::string path =
      folder.write("a.json", R"({"id": "x", "title": "t", "columns": ["gpus"], )"
                             R"("settings": {"strategy": "ddp", "gpus": 2, "dim": 64, "depth": 2, "batch": 64}})");
  CHECK_THROWS_AS(evaluate_scenario(load_scenario(path, scenario_names()), folder / "tiny/profile.json"), NotInProfile);
}

TEST_CASE("The scenarios of homeworks 1 and 2, and their runs in the matrices that are measured", "[data_parallel]") {
  std::vector<RunSpec> measured;
  for (const char* name : {"validation_data_parallel", "validation_two_gpus", "validation_course_two_gpus"}) {
    const Scenario matrix = load_scenario(std::string(PDL_SOURCE_DIR "/scenarios/") + name + ".json", scenario_names());
    measured.insert(measured.end(), matrix.configurations.begin(), matrix.configurations.end());
  }
  CHECK(measured.size() >= 200);
  // Rows on 4 GPUs that show where something begins, by prediction.
  const auto predicted_only = [](const RunSpec& spec) {
    const bool between = spec.batch == 512 || spec.batch == 1024,
               large_with_sleep = spec.batch == 2048 && spec.delay_ms > 0;
    return spec.gpus > 4 ||
           (spec.gpus == 4 && (between || large_with_sleep || (spec.delay_ms > 0 && spec.delay_ms != 10)));
  };
  for (const char* name : {"hw1_1_reproducible_benchmark", "hw1_2_strong_scaling", "hw1_3_communication_computation",
                           "hw1_4_dataparallel_ddp", "hw1_5a_artificial_delay", "hw1_5b_batch_size", "hw1_5c_imbalance",
                           "hw2_1_amp_accumulation", "hw2_2_three_codes", "hw2_3_accumulation_sweep"}) {
    INFO(name);
    const Scenario scenario =
        load_scenario(std::string(PDL_SOURCE_DIR "/scenarios/") + name + ".json", scenario_names());
    CHECK_FALSE(scenario.answer.empty());
    for (const RunSpec& spec : scenario.configurations) {
      INFO(run_name(spec));
      const bool is_measured =
          std::any_of(measured.begin(), measured.end(), [&](const RunSpec& other) { return same_run(spec, other); });
      CHECK((is_measured || predicted_only(spec)));
    }
  }
}
