#include "sim/course/pipeline_words.hpp"
#include "tests/support/exercise_machine.hpp"

using namespace pdl;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

// Two GPUs, forward 4 ms and backward 8 ms of a micro-batch on each, no transfers, one thread. Four micro-batches:
//
//   A   GPU 0  F0 .. .. .. B0 B0 F1 ...          each micro-batch 24 ms: 96 ms
//   B   GPU 0  F0 F1 F2 F3 .. .. B0 B0 ...       4 x 12 + 12 = 60 ms: idle 1/5, as (P - 1) / (M + P - 1)
//   C   GPU 0  F0 F1 .. .. .. B0 B0 F2 ...       84 ms: F2 waits until B0 is back
const std::string kOnTwo = R"("strategy": "pp", "workers": "one", "gpus": 2, "batch": 64)";
const std::string kPlace = "4 layers of 8192, batch 64 on 2 GPUs, predicted";

Tables options(const std::string& exercise, const std::string& schedules, const std::string& microbatches) {
  return ExerciseMachine().tables(
      exercise, kOnTwo, R"({"tcomm": [0], "schedule": )" + schedules + R"(, "microbatches": )" + microbatches + "}");
}
Tables all_options(const std::string& exercise) {
  return options(exercise, R"(["naive", "gpipe", "option-c"])", "[2, 4]");
}

}  // namespace

TEST_CASE("option A is no pipeline: one GPU at a time, and where the others are idle", "[pipeline]") {
  const Tables tables = options("option_a_naive", R"(["naive"])", "[2, 4]");
  CHECK(answer(tables, "P9.1 E") == "2 and 4 micro-batches: 48.00 and 96.00 ms (" + kPlace +
                                        "). Each GPU computes 50.0 % of the step (" + kPlace + ", 4 micro-batches).");
  CHECK(answer(tables, "P9.1 Q1") ==
        "No: at most 1 of 2 GPUs compute at once, 1.00 on average (" + kPlace +
            ", 4 micro-batches), since the order is F0 B0 F1 B1 F2 B2 ... and B0 ends on GPU 0, where F1 starts.");
  CHECK_THAT(
      answer(tables, "P9.1 Q2"),
      ContainsSubstring(
          "GPU 0 is idle 0.00 ms before its first task, 48.00 ms between its tasks and 0.00 ms after its last one; GPU "
          "1 is idle 4.00 ms before its first task, 36.00 ms between its tasks and 8.00 ms after its last one"));
}

TEST_CASE("GPipe's bubble is its closed form where nothing else costs time", "[pipeline]") {
  const Tables tables = all_options("option_b_gpipe");
  CHECK(answer(tables, "P9.2 Q3") ==
        "No, they shrink with more micro-batches: 33.3 % with M = 2 (closed form 33.3 %) and 20.0 % with M = 4 (closed "
        "form 20.0 %) (" +
            kPlace +
            "). The closed form is (P - 1) / (M + P - 1), the fill and the drain; the rest is the optimizer, transfers "
            "and unequal stages.");
  CHECK_THAT(answer(tables, "P9.2 Q2"), ContainsSubstring("GPU 0 waits 12.00 ms between its tasks, with Option A 48.00 "
                                                          "ms, and the step is 1.60 times as fast as Option A's"));
}

TEST_CASE("option C by one thread is slower than GPipe, and no backward runs beside a forward", "[pipeline]") {
  const Tables tables = all_options("option_c");
  CHECK(answer(tables, "HW4.4 Q1") ==
        "F0 F1 B0 F2 B1 F3 B2 B3, on every GPU (" + kPlace +
            ", 4 micro-batches); scenarios/python/p9_option_c.py prints the same with 4.");
  CHECK_THAT(answer(tables, "HW4.4 E"),
             StartsWith("1. forward of 0, 2. forward of 1, 3. backward of 0, 4. forward of 2"));
  CHECK_THAT(answer(tables, "HW4.4 Q2"), StartsWith("Never"));
  CHECK_THAT(answer(tables, "HW4.4 Q3"),
             ContainsSubstring("a step of Option C takes 1.40 times as long as GPipe's (84.00 ms against 60.00 ms; "));
  CHECK_THAT(
      answer(tables, "P9.3 Q1"),
      ContainsSubstring("B0 begins after 12.00 ms of 84.00 ms, in GPipe after all forwards, 20.00 ms of 60.00 ms"));
  CHECK_THAT(answer(tables, "P9.3 Q2"), ContainsSubstring("2 instead of 4 micro-batches"));
  CHECK_THAT(
      answer(tables, "P9.3 Q3"),
      StartsWith("A step of Option C takes 1.40 times as long as GPipe's and is 1.14 times as fast as Option A's"));
  CHECK_THAT(answer(tables, "HW4.3 Q1"),
             ContainsSubstring("whose step takes 1.14 times as long as Option C's: 96.00 ms "
                               "and 84.00 ms"));
  CHECK(answer(tables, "HW4.3 Q2") == answer(tables, "P9.5 Q2"));
  CHECK_THAT(answer(tables, "P9.3 E"), EndsWith("as the work is the same in another order."));
}

TEST_CASE("a backward beside a forward is found in 1F1B with a worker a GPU", "[pipeline]") {
  const Tables tables =
      ExerciseMachine().tables("pipeline_schedules", R"("strategy": "pp", "workers": "thread", "gpus": 2, "batch": 64)",
                               R"({"tcomm": [0], "schedule": ["gpipe", "1f1b"], "microbatches": [4]})");
  const auto& rows = tables.front().rows;
  CHECK_FALSE(first_overlap(rows[0].predicted));
  const auto overlap = first_overlap(rows[1].predicted);  // GPU 1: F0 4-8, B0 8-16, F1 16-20; GPU 0: F1 4-8, B0 16-24
  REQUIRE(overlap);
  CHECK(overlap->backward == "B0 on GPU 0");
  CHECK(overlap->forward == "F1 on GPU 1");
  CHECK(answer(tables, "HW4.1 Q1") == "The rows of this table do not say it.");
  CHECK_THAT(
      answer(tables, "HW4.1 Q2"),
      ContainsSubstring(
          "GPipe's is 20.0 % of the GPUs' time (idle 20.0 %, optimizer and loss 0.0 %, transfers "
          "0.0 %), where the closed form (P - 1) / (M + P - 1) is 20.0 %, and the rest is the optimizer, transfers "
          "and unequal stages; GPU 0 is idle 12.00 ms between its tasks and 0.00 ms after them"));
  CHECK_THAT(
      answer(tables, "HW4.1 Q3"),
      ContainsSubstring("at equal micro-batches that makes no difference here: with 4 micro-batches 1F1B takes 60.00 "
                        "ms and GPipe 60.00 ms, with bubbles of 20.0 % and 20.0 "
                        "%. The gain is memory: the GPUs keep at most 2 and 1 micro-batches instead of 4 and 4"));
}

TEST_CASE("more micro-batches: a counter-example and who benefits", "[pipeline]") {
  const Tables tables = all_options("options_by_microbatches");  // twice as many of equal length: all take longer
  CHECK(answer(tables, "P9.4 Q1")
            .starts_with("No: Option B (GPipe) takes 60.00 ms with 4 micro-batches and 36.00 ms with 2 "));
  CHECK_THAT(
      answer(tables, "P9.4 Q2"),
      StartsWith("None benefits: Option B (GPipe) with 4 micro-batches takes 1.67 times as long as with 2, Option A "
                 "(naive) with 4"));
}

TEST_CASE("what is compared is all measured or all predicted, and measured runs have losses", "[pipeline]") {
  const ExerciseMachine machine;
  const auto measure = [&](const std::string& schedule, double median_ms, double loss) {
    machine.measure("--strategy pp --workers one --gpus 2 --batch 64 --microbatches 4 --schedule " + schedule,
                    median_ms, {{"losses", {1.0, loss}}});
  };
  const auto tables = [&] {
    return machine.tables("option_c", kOnTwo, R"({"schedule": ["naive", "gpipe", "option-c"], "microbatches": [4]})");
  };
  const std::string kMeasured = "4 layers of 8192, batch 64 on 2 GPUs, measured, 4 micro-batches";
  measure("naive", 100, 0.5);
  measure("gpipe", 50, 0.5);
  CHECK_THAT(answer(tables(), "HW4.4 Q3"), ContainsSubstring("predicted"));
  measure("option-c", 80, 0.5);
  CHECK_THAT(answer(tables(), "HW4.4 Q3"),
             ContainsSubstring("1.60 times as long as GPipe's (80.00 ms against 50.00 ms; "));
  CHECK_THAT(answer(tables(), "HW4.4 Q3"), ContainsSubstring("measured"));
  // The median step is 80 ms, the one of the timeline another.
  CHECK_THAT(answer(tables(), "P9.3 Q1"),
             ContainsSubstring("B0 begins after 28.00 ms of the recorded step of 148.00 ms"));
  CHECK_THAT(answer(tables(), "P9.3 E"), EndsWith("The losses are equal in every step (" + kMeasured +
                                                  "): in the first step 1.0000000, in the last 0.5000000."));
  measure("option-c", 80, 0.6);
  CHECK_THAT(answer(tables(), "P9.3 E"), EndsWith("The losses differ by at most 20.000 % (" + kMeasured +
                                                  "): in the first step 1.0000000, in the last 0.5000000."));
}

TEST_CASE("steps that are equal are said to be, and why, not explained as different", "[pipeline]") {
  const ExerciseMachine machine;
  const auto measure = [&](const std::string& schedule, double median_ms) {
    machine.measure("--strategy pp --workers one --gpus 2 --batch 64 --microbatches 4 --schedule " + schedule,
                    median_ms);
  };
  const auto tables = [&](const std::string& exercise) {
    return machine.tables(exercise, kOnTwo, R"({"schedule": ["naive", "gpipe", "option-c"], "microbatches": [4]})");
  };
  measure("naive", 80.5);
  measure("gpipe", 80);
  measure("option-c", 79.5);
  CHECK_THAT(answer(tables("option_c"), "HW4.3 Q1"),
             ContainsSubstring("whose step takes as long as Option C's, no difference here: 80.50 ms and 79.50 ms"));
  CHECK_THAT(answer(host_bound(tables("option_c")), "HW4.3 Q1"),
             ContainsSubstring("Option C's, no difference here, where the steps are host-bound: 80.50 ms"));
  CHECK_THAT(answer(tables("option_c"), "HW4.4 Q3"), ContainsSubstring("takes as long as GPipe's, no difference here"));
  CHECK_THAT(answer(tables("option_b_gpipe"), "P9.2 Q2"),
             ContainsSubstring("It makes no difference here: GPU 0 waits"));
  CHECK_THAT(answer(host_bound(tables("option_b_gpipe")), "P9.2 Q3"),
             EndsWith("the rest is mostly that the GPUs wait for the host."));
  CHECK_THAT(answer(tables("option_c"), "P9.3 Q3"),
             StartsWith("A step of Option C takes as long as GPipe's and takes as long as Option A's, no difference "
                        "here: GPU 0 waits"));
  measure("option-c", 60);
  CHECK_THAT(answer(tables("option_c"), "HW4.4 Q3"),
             StartsWith("Here it is: a step of Option C is 1.33 times as fast"));
  CHECK_THAT(answer(tables("option_c"), "P9.3 Q3"), !ContainsSubstring("as F_i waits"));
}

TEST_CASE("who benefits from more micro-batches, alone or with others", "[pipeline]") {
  const ExerciseMachine machine;
  const auto measure = [&](const std::string& schedule, int microbatches, double median_ms) {
    machine.measure("--strategy pp --workers one --gpus 2 --batch 64 --schedule " + schedule + " --microbatches " +
                        std::to_string(microbatches),
                    median_ms);
  };
  const auto who = [&] {
    return answer(machine.tables("options_by_microbatches", kOnTwo,
                                 R"({"schedule": ["naive", "gpipe", "option-c"], "microbatches": [2, 4]})"),
                  "P9.4 Q2");
  };
  for (const char* schedule : {"naive", "gpipe", "option-c"}) measure(schedule, 2, 100);
  measure("naive", 4, 101);
  measure("gpipe", 4, 99);  // within 2 %
  measure("option-c", 4, 120);
  CHECK_THAT(who(), StartsWith("None benefits: Option B (GPipe)"));
  measure("gpipe", 4, 50);
  CHECK_THAT(who(), StartsWith("Option B (GPipe) benefits most: Option B (GPipe) with 4 micro-batches is 2.00 times"));
  measure("option-c", 4, 50.5);
  CHECK_THAT(who(), StartsWith("Option B (GPipe) and Option C benefit alike: "));
}

TEST_CASE("at a fixed batch GPipe's activations do not grow with the micro-batches", "[pipeline]") {
  // Two layers of 8192 on a GPU, batch 64 in fp32: 2 MiB an activation.
  const std::string text = answer(all_options("options_by_microbatches"), "P9 final Q2");
  CHECK_THAT(text, StartsWith("Memory: at a fixed batch each GPU keeps all of its activations, 6.00 MiB with 2 and 4 "
                              "micro-batches, where 1F1B keeps at most P of the M parts, 6.00 and 3.00 MiB; at a fixed "
                              "micro-batch size GPipe's grow with M"));
  CHECK_THAT(answer(all_options("options_by_microbatches"), "P9 final Q3"),
             ContainsSubstring("At a fixed batch neither needs more memory for them"));
}
