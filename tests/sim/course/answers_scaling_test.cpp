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
             ContainsSubstring("in none of these rows (4 layers of 8192 on 2 GPUs, predicted). Exposed communication "
                               "takes 14.3 % of the step with 32, 14.3 % of the step with 64 and 14.3 % of the step "
                               "with 128 samples a GPU."));
}

TEST_CASE("HW1.4: serialized phases of GPU 0 under DataParallel, utilisation beside compute", "[data_parallel]") {
  const Tables tables =
      ExerciseMachine().tables("dataparallel_ddp", R"("gpus": 2, "batch": 64)", R"({"strategy": ["ddp", "dp"]})");
  // dp: broadcast 8, forward 4, backward 8, reduce 8
  CHECK(answer(tables, "HW1.4 Q1") ==
        "In 16.00 ms of a step of 28.00 ms, 57.1 %, GPU 0 works in serialized phases in which no GPU computes: "
        "broadcast of the parameters 8.00 ms and reduce of the gradients 8.00 ms (4 layers of 8192, batch 64 on 2 "
        "GPUs, predicted).");
  CHECK_THAT(answer(tables, "HW1.4 E"), ContainsSubstring("DataParallel 28.00 ms, utilisation as nvidia-smi shows it "
                                                          "100, 100 % (computing 43, 43 %)"));
  CHECK_THAT(answer(tables, "HW1.4 E"),
             ContainsSubstring("DDP 14.00 ms, utilisation as nvidia-smi shows it 100, 100 % (computing 86, 86 %)"));
  CHECK_THAT(answer(tables, "HW1.4 Q2"),
             ContainsSubstring("2.00 ms of communication are exposed, at most, instead of 16.00 ms"));
  CHECK_THAT(answer(tables, "HW1.4 Q3"), ContainsSubstring("100.0 % more time than DDP"));
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
             ContainsSubstring("4 layers of 8192, batch 64 on 4 GPUs (measured, 3 delays): step time = 5.00 ms + 1.00 "
                               "x delay, off by at most 0.00 ms. The speed-up is 2.00 with 0 ms, 1.33 with 10 ms and "
                               "1.20 with 20 ms."));
  // s = 1/2: 1 / (1/2 + 1/8)
  CHECK_THAT(answer(tables, "HW1.5A Q3"),
             ContainsSubstring("the sleep adds 10.00 ms to the 20.00 ms on 1 GPU, s = 50 %; the law allows 1.60 on 4 "
                               "GPUs, it is 1.33"));
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

TEST_CASE("HW1.5B: where a doubling of the batch brings little", "[data_parallel]") {
  const ExerciseMachine machine;
  for (const auto& [batch, one_ms, four_ms] : {std::tuple{32, 8.0, 4.0}, {64, 10.0, 4.0}, {256, 40.0, 12.0}}) {
    const std::string flags = "--strategy ddp --batch " + std::to_string(batch);
    machine.measure(flags + " --gpus 1", one_ms);
    machine.measure(flags + " --gpus 4", four_ms);
  }
  const Tables tables =
      machine.tables("batch_size", R"("strategy": "ddp")", R"({"batch": [32, 64, 256], "gpus": [1, 4]})");
  CHECK(answer(tables, "HW1.5B E") ==
        "4 layers of 8192 on 4 GPUs, measured: 4.00 ms with 32, 4.00 ms with 64 and 12.00 ms with 256.");
  CHECK_THAT(answer(tables, "HW1.5B Q1"),
             ContainsSubstring("Yes: the speed-up over 1 GPU goes from 2.00 with batch 32 to 3.33 with batch 256 "
                               "(efficiency 50 % to 83 %"));
  // 4 times the batch in 3 times the time: 4 / 3 in two doublings
  CHECK_THAT(answer(tables, "HW1.5B Q2"),
             ContainsSubstring("from batch 64 to 256, 1.15 times the throughput for each doubling (4 layers of 8192 on "
                               "4 GPUs, measured)."));
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
        "It grows on every GPU, not on the one that sleeps alone: by 21.00 ms, 105 % of the sleep (4 layers of 8192, "
        "batch 64 on 4 GPUs, measured).");
  CHECK_THAT(answer(tables, "HW1.5C Q2"),
             ContainsSubstring("one sleep of 20.00 ms costs 84.00 ms of GPU time in a step, 4.2 times as much"));
}
