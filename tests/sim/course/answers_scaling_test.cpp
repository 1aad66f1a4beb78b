// Homework 1: the answers, from tables whose numbers are known: textbook costs, and measured runs written by hand.
#include "tests/support/exercise_machine.hpp"

using namespace pdl;

namespace {

const std::string kDdp = "--strategy ddp --batch 64 --gpus ";

Tables strong_scaling(const ExerciseMachine& machine) {
  return machine.tables("strong_scaling", R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2, 4]})");
}

}  // namespace

TEST_CASE("HW1.1: every step, the first against the median, one seed twice and another", "[data_parallel]") {
  const ExerciseMachine machine;
  const auto steps = [](double loss) {
    return std::vector<MeasuredStep>{{210, loss, true},
                                     {12, 0.9 * loss, true},
                                     {10, 0.8 * loss, false},
                                     {10.5, 0.7 * loss, false},
                                     {11.5, 0.6 * loss, false}};
  };
  machine.measure(kDdp + "2", 10.5, {}, steps(0.5));
  machine.measure(kDdp + "2 --repeat 2", 10.6, {}, steps(0.5));
  machine.measure(kDdp + "2 --seed 1", 10.7, {}, steps(0.6));
  const Tables tables = machine.tables("reproducible_benchmark", R"("strategy": "ddp", "batch": 64, "gpus": 2)",
                                       R"([{"seed": 0}, {"repeat": 2}, {"seed": 1}])");
  CHECK(answer(tables, "HW1.1 E") ==
        "4 layers of 8192, batch 64 on 2 GPUs, measured, the 3 steps after 2 warm-up steps, in ms: 10.00, 10.50, "
        "11.50; median 10.50.");
  // 210 / 10.5; (210 + 12 + 10 + 10.5 + 11.5) / 5
  CHECK_THAT(answer(tables, "HW1.1 Q1"),
             ContainsSubstring("The first step took 210.00 ms, 20 times as long as the median of 10.50 ms"));
  CHECK_THAT(answer(tables, "HW1.1 Q1"), ContainsSubstring("A mean that kept the warm-up would be 50.80 ms."));
  CHECK_THAT(answer(tables, "HW1.1 Q2"),
             ContainsSubstring("twice with seed 0, the losses of all 5 steps, warm-up and recorded ones included, are "
                               "equal to the last digit, and a step takes 10.50 ms "
                               "and 10.60 ms; with seed 1 the first loss is 0.600000 instead of 0.500000 (10.70 ms), "
                               "measured"));
}

TEST_CASE("HW1.1: nothing measured says so", "[data_parallel]") {
  const Tables tables =
      ExerciseMachine().tables("reproducible_benchmark", R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2]})");
  CHECK_THAT(answer(tables, "HW1.1 E"), ContainsSubstring("None of these rows was measured"));
  CHECK_THAT(answer(tables, "HW1.1 Q2"), ContainsSubstring("no 2 measured runs"));
}

TEST_CASE("HW1.2: speed-up and efficiency of one kind of numbers", "[data_parallel]") {
  const ExerciseMachine machine;
  machine.measure(kDdp + "1", 8);
  machine.measure(kDdp + "2", 5);
  machine.measure(kDdp + "4", 4);
  const Tables tables = strong_scaling(machine);
  CHECK(answer(tables, "HW1.2 E") ==
        "4 layers of 8192, batch 64 (measured): 8.00 ms on 1 GPU, 5.00 ms on 2 GPUs (speed-up 1.60, efficiency 80 %) "
        "and 4.00 ms on 4 GPUs (speed-up 2.00, efficiency 50 %).");
  CHECK(answer(tables, "HW1.2 Q1") == "No: on 4 GPUs it is 2.00 (4 layers of 8192, measured) instead of 4.");
  CHECK(answer(tables, "HW1.2 Q2") == "Most from 2 to 4 GPUs, to 50 % (4 layers of 8192, measured).");
  // All gradients: 4 x (8192^2 + 8192) x 4 bytes.
  CHECK_THAT(answer(tables, "HW1.2 Q3"),
             ContainsSubstring("each GPU computes 16 samples instead of 64, but exchanges all 1.07 GB of gradients"));
  CHECK_THAT(answer(host_bound(tables), "HW1.2 Q3"),
             ContainsSubstring("on 4 GPUs the step of 4.00 ms is the time in which the host issues its kernels"));
  CHECK_THAT(answer(host_bound(tables), "HW1.2 Q3"), !ContainsSubstring("more than on 1 GPU"));
}

TEST_CASE("HW1.2: what more GPUs add to a host-bound step is named", "[data_parallel]") {
  const ExerciseMachine machine;
  machine.measure(kDdp + "1", 8);
  machine.measure(kDdp + "2", 8.5);
  CHECK_THAT(answer(host_bound(strong_scaling(machine)), "HW1.2 Q3"),
             ContainsSubstring("it is 0.50 ms more than on 1 GPU, because each host also issues the all-reduces from "
                               "hooks of the backward and each GPU spends 8.00 ms in them, waits for the slowest host "
                               "included (means over the GPUs in a recorded step)"));
}

TEST_CASE("HW1.2: nearly linear, and more GPUs that make a step longer", "[data_parallel]") {
  const ExerciseMachine linear, slower;
  linear.measure(kDdp + "1", 8);
  linear.measure(kDdp + "2", 4.1);
  slower.measure(kDdp + "1", 8);
  slower.measure(kDdp + "2", 10);
  CHECK(answer(strong_scaling(linear), "HW1.2 Q1") ==
        "Nearly: on 2 GPUs it is 1.95 (4 layers of 8192, measured) instead of 2.");
  CHECK(answer(strong_scaling(slower), "HW1.2 Q1") ==
        "No: on 2 GPUs it is 0.80 (4 layers of 8192, measured) instead of 2. Below 1 more GPUs make the step longer.");
}

TEST_CASE("HW1.3: where the exchange takes longer than the backward", "[data_parallel]") {
  const Tables tables = ExerciseMachine().tables("communication_computation", R"("strategy": "ddp", "gpus": 2)",
                                                 R"({"batch": [64, 128, 256]})");
  // Synthetic costs: exchange 8 ms, backward 8 ms, a step of 14 ms of which 2 are exposed, whatever the batch.
  CHECK_THAT(answer(tables, "HW1.3 Q3"),
             ContainsSubstring("Less than 5 % of the step is exposed communication not even with 128 samples a GPU (4 "
                               "layers of 8192 on 2 GPUs, predicted: 14.3 % with 32, 14.3 % with 64 and 14.3 % with "
                               "128)."));
}

TEST_CASE("HW1.3: two neighbours bracket where communication is hidden, for each number of GPUs", "[data_parallel]") {
  const ExerciseMachine machine;
  for (const char* flags : {"2 --batch 64", "2 --batch 256", "4 --batch 64", "4 --batch 256"})
    machine.measure(std::string("--strategy ddp --gpus ") + flags, 14);
  Tables tables = machine.tables("communication_computation", R"("strategy": "ddp")",
                                 R"({"gpus": [2, 4], "batch": [64, 128, 256]})");
  for (ScenarioRow& row : tables.front().rows) {
    if (!row.measured || row.spec.batch < 256) continue;
    for (GpuMetrics& gpu : row.measured->metrics.gpus) gpu.comm_ns = 0;
  }
  // Batch 128 was not measured: another machine fills it in for 2 GPUs, still exposed.
  ScenarioTable further = tables.front();
  std::erase_if(further.rows, [](const ScenarioRow& row) { return row.spec.gpus != 2 || row.spec.batch != 128; });
  further.rows.front().measured = further.rows.front().predicted;
  further.of_further_machine = true;
  further.profile_name = "other";
  tables.front().profile_name = "own";
  tables.push_back(further);
  CHECK_THAT(answer(tables, "HW1.3 Q3"),
             ContainsSubstring("from between 64 and 128 samples a GPU on (4 layers of 8192 on 2 GPUs, measured on own "
                               "and other: 14.3 % with 32, 14.3 % with 64 and 0.0 % with 128); from between 16 and 64 "
                               "samples a GPU on (4 layers of 8192 on 4 GPUs, measured: 14.3 % with 16 and 0.0 % with "
                               "64)."));
}

TEST_CASE("HW1.4: serialized phases of GPU 0 under DataParallel, utilisation beside compute", "[data_parallel]") {
  const Tables tables =
      ExerciseMachine().tables("dataparallel_ddp", R"("gpus": 2, "batch": 64)", R"({"strategy": ["ddp", "dp"]})");
  // dp: broadcast 8, forward 4, backward 8, reduce 8
  CHECK(
      answer(tables, "HW1.4 Q1") ==
      "In 16.00 ms of a step of 28.00 ms, 57.1 %, GPU 0 works in serialized phases in which no forward or backward "
      "runs: broadcast of the parameters 8.00 ms and reduce of the gradients 8.00 ms (4 layers of 8192, batch 64 on 2 "
      "GPUs, predicted).");
  CHECK_THAT(answer(tables, "HW1.4 E"), ContainsSubstring("DataParallel 28.00 ms, utilisation as nvidia-smi shows it "
                                                          "100, 100 % (computing 43, 43 %)"));
  CHECK_THAT(answer(tables, "HW1.4 E"),
             ContainsSubstring("DDP 14.00 ms, utilisation as nvidia-smi shows it 100, 100 % (computing 86, 86 %)"));
  CHECK_THAT(answer(tables, "HW1.4 Q2"),
             ContainsSubstring("On GPU 0 2.00 ms of a step are exposed communication, with DataParallel 16.00 ms; a "
                               "step takes 14.00 ms instead of 28.00 ms"));
  CHECK_THAT(answer(tables, "HW1.4 Q3"),
             ContainsSubstring("where computation is most of the step: it takes 2.00 times as long as with DDP"));
  CHECK_THAT(answer(tables, "HW1.4 E"), !ContainsSubstring("upper limit"));
  CHECK_THAT(answer(host_bound(tables), "HW1.4 E"),
             ContainsSubstring("Of host-bound rows utilisation is an upper limit"));
}

TEST_CASE("HW1.4: a DataParallel that is as fast as DDP or faster is said so", "[data_parallel]") {
  const auto measured = [](double ddp_ms, double dp_ms) {
    const ExerciseMachine machine;
    machine.measure(kDdp + "2", ddp_ms);
    machine.measure("--strategy dp --batch 64 --gpus 2", dp_ms);
    return machine.tables("dataparallel_ddp", R"("gpus": 2, "batch": 64)", R"({"strategy": ["ddp", "dp"]})");
  };
  const Tables alike = measured(10, 10.1), reversed = measured(10, 8);
  CHECK_THAT(answer(alike, "HW1.4 Q2"),
             ContainsSubstring("in the step that makes no difference here, 10.00 ms and 10.10 ms ("));
  CHECK_THAT(answer(alike, "HW1.4 Q3"),
             ContainsSubstring("In these rows: a step takes as long as (within 2 %) with DDP"));
  CHECK_THAT(answer(reversed, "HW1.4 Q2"),
             ContainsSubstring("yet DDP's step is the longer one here, 10.00 ms instead of 8.00 ms ("));
  CHECK_THAT(answer(host_bound(reversed), "HW1.4 Q2"), ContainsSubstring("8.00 ms: the steps are host-bound"));
  CHECK_THAT(answer(reversed, "HW1.4 Q3"), ContainsSubstring("In these rows: a step takes 0.80 times as long as with"));
  // Shares are those of the recorded step, times are medians.
  CHECK_THAT(answer(reversed, "HW1.4 Q1"), ContainsSubstring("of a recorded step of 28.00 ms"));
}

TEST_CASE("HW1.5A: a line over the delays, Amdahl's law", "[data_parallel]") {
  const ExerciseMachine machine;
  for (const int delay : {0, 10, 20}) {
    const std::string flags = delay ? " --delay-ms " + std::to_string(delay) : "";
    machine.measure(kDdp + "1" + flags, 10 + delay);
    machine.measure(kDdp + "4" + flags, 5 + delay);
  }
  const Tables tables = machine.tables("artificial_delay", R"("strategy": "ddp", "batch": 64)",
                                       R"({"gpus": [1, 4], "delay-ms": [0, 10, 20]})");
  CHECK(answer(tables, "HW1.5A E") ==
        "4 layers of 8192, batch 64 (measured), on 1 and 4 GPUs: 10.00 and 5.00 ms without a delay, 20.00 and 15.00 "
        "ms with 10 ms.");
  CHECK(answer(tables, "HW1.5A Q1") ==
        "It goes towards 1, from above or from below, because all GPUs wait equally long: from 2.00 to 1.33 on 4 GPUs "
        "(4 layers of 8192, batch 64, measured).");
  CHECK_THAT(answer(tables, "HW1.5A Q2"),
             ContainsSubstring("4 layers of 8192, batch 64 on 4 GPUs (measured, 3 delays): from a delay of 10 ms on, "
                               "step time = 5.00 ms + 1.00 x delay; speed-up over 1 GPU 2.00 with 0 ms, 1.33 with 10 "
                               "ms and 1.20 with 20 ms."));
  // s = 1/2: 1 / (1/2 + 1/8)
  CHECK_THAT(answer(tables, "HW1.5A Q3"),
             ContainsSubstring("the sleep is 10.00 ms of the 20.00 ms on 1 GPU, s = 50 %; the law allows 1.60 on 4 "
                               "GPUs, it is 1.33"));
}

TEST_CASE("HW1.5A: a delay that the forward hides costs no speed-up and is no part of the line", "[data_parallel]") {
  const ExerciseMachine machine;
  // Hidden up to 10 ms: then 5 ms of each sleep are.
  for (const auto& [delay, more] : {std::pair{0, 0.0}, {10, 0.0}, {20, 15.0}, {30, 25.0}, {40, 35.0}}) {
    const std::string flags = delay ? " --delay-ms " + std::to_string(delay) : "";
    machine.measure(kDdp + "1" + flags, 10 + more);
    machine.measure(kDdp + "4" + flags, 5 + more);
  }
  const Tables tables = machine.tables("artificial_delay", R"("strategy": "ddp", "batch": 64)",
                                       R"({"gpus": [1, 4], "delay-ms": [0, 10, 20, 30, 40]})");
  CHECK(answer(tables, "HW1.5A Q1") ==
        "It stays 2.00 on 4 GPUs (4 layers of 8192, batch 64, measured), where the forward of the GPUs hides the "
        "sleep.");
  CHECK_THAT(answer(tables, "HW1.5A Q2"),
             ContainsSubstring("from a delay of 20 ms on, step time = 0.00 ms + 1.00 x delay, off by at most 0.00 ms; "
                               "speed-up over 1 GPU 2.00 with 0 ms, 2.00 with 10 ms, 1.25 with 20 ms"));
}

TEST_CASE("HW1.5A: a speed-up below 1 has nothing to lose", "[data_parallel]") {
  const ExerciseMachine machine;
  for (const auto& [flags, ms] :
       {std::pair{"1", 10.0}, {"4", 20.0}, {"1 --delay-ms 10", 20.0}, {"4 --delay-ms 10", 30.0}})
    machine.measure(kDdp + flags, ms);
  const Tables tables = machine.tables("artificial_delay", R"("strategy": "ddp", "batch": 64)",
                                       R"({"gpus": [1, 4], "delay-ms": [0, 10]})");
  CHECK_THAT(answer(tables, "HW1.5A Q1"), ContainsSubstring("from 0.50 to 0.67 on 4 GPUs"));
  CHECK_THAT(answer(tables, "HW1.5A Q1"), ContainsSubstring("below 1 there is none to lose"));
}

namespace {

/// Batches 32, 64 and 256, the last in `one_ms` on 1 GPU and `four_ms` on 4.
Tables batch_sizes(double last_one_ms, double last_four_ms) {
  const ExerciseMachine machine;
  for (const auto& [batch, one_ms, four_ms] :
       {std::tuple{32, 8.0, 4.0}, {64, 10.0, 4.0}, {256, last_one_ms, last_four_ms}}) {
    const std::string flags = "--strategy ddp --batch " + std::to_string(batch);
    machine.measure(flags + " --gpus 1", one_ms);
    machine.measure(flags + " --gpus 4", four_ms);
  }
  return machine.tables("batch_size", R"("strategy": "ddp")", R"({"batch": [32, 64, 256], "gpus": [1, 4]})");
}

}  // namespace

TEST_CASE("HW1.5B: where a doubling of the batch adds little to the speed-up", "[data_parallel]") {
  const Tables tables = batch_sizes(40, 12);
  CHECK(answer(tables, "HW1.5B E") ==
        "4 layers of 8192 on 4 GPUs, measured: 4.00 ms with 32, 4.00 ms with 64 and 12.00 ms with 256.");
  CHECK_THAT(answer(tables, "HW1.5B Q1"),
             ContainsSubstring("Yes: the speed-up over 1 GPU goes from 2.00 with batch 32 to 3.33 with batch 256 "
                               "(efficiency 50 % to 83 %"));
  // From 2.50 to 3.33: 1.15 for each doubling. From 2.50 to 2.60: 1.02.
  CHECK(answer(tables, "HW1.5B Q2") ==
        "Where a doubling of the batch adds less than 5 % to the speed-up over 1 GPU: not up to batch 256, with "
        "speed-ups (efficiencies) of 2.00 (50 %) with 32, 2.50 (62 %) with 64 and 3.33 (83 %) with 256 (4 layers of "
        "8192 on 4 GPUs, measured).");
  CHECK_THAT(answer(batch_sizes(26, 10), "HW1.5B Q2"), ContainsSubstring("1 GPU: from batch 64 on, with speed-ups"));
}

TEST_CASE("HW1.5B: host-bound steps have no trend", "[data_parallel]") {
  const Tables tables = host_bound(batch_sizes(40, 12));
  for (const char* question : {"HW1.5B Q1", "HW1.5B Q2"})
    CHECK(answer(tables, question) ==
          "That cannot be seen here. With 4 layers of 8192 the speed-up over 1 GPU is 2.00 to 3.33, no trend: the "
          "steps are host-bound, whatever the batch (on 4 GPUs, measured).");
}

TEST_CASE("HW1.5C: one straggler costs everyone its sleep", "[data_parallel]") {
  const ExerciseMachine machine;
  machine.measure(kDdp + "4", 10);
  machine.measure(kDdp + "4 --straggler 0:20", 31);
  const Tables tables = machine.tables("imbalance", R"("strategy": "ddp", "batch": 64, "gpus": 4)",
                                       R"([{"delay-ms": 0}, {"straggler": "0:20"}])");
  CHECK(answer(tables, "HW1.5C E") ==
        "4 layers of 8192, batch 64 on 4 GPUs, measured: 31.00 ms a step instead of 10.00 ms.");
  CHECK(answer(tables, "HW1.5C Q1") ==
        "It grows on every GPU, not only on the one that sleeps: by 21.00 ms, 105 % of the sleep (4 layers of 8192, "
        "batch 64 on 4 GPUs, measured).");
  CHECK_THAT(answer(tables, "HW1.5C Q2"),
             ContainsSubstring("one sleep of 20.00 ms costs 4 x 21.00 ms of GPU time in a step, 4.2 times as much"));
  // A bucket of 2 ms, and 20 ms until rank 0 is there.
  CHECK_THAT(answer(tables, "HW1.5C Q2"),
             ContainsSubstring("in their first all-reduce, which takes up to 22.00 ms instead of 2.00 ms (in a "
                               "recorded step)"));
}
