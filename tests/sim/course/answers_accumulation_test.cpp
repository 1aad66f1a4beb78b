#include "tests/support/exercise_machine.hpp"

using namespace pdl;
using Catch::Matchers::EndsWith;

namespace {

constexpr std::int64_t kGib = 1LL << 30;
const std::string kDdp = "--strategy ddp --gpus 2 --batch 64 ";

}  // namespace

TEST_CASE("HW2.1: AMP is held against fp32 with as many accumulation steps, where the loss falls most",
          "[data_parallel]") {
  const ExerciseMachine machine;
  machine.measure(kDdp, 10, {{"losses", {1.0, 0.9995}}});
  machine.measure(kDdp + "--dtype amp-fp16", 9, {{"losses", {1.0, 0.9995}}, {"skipped", nlohmann::json::array()}});
  const std::string settings = R"("strategy": "ddp", "gpus": 2, "batch": 64)";
  CHECK_THAT(answer(machine.tables("amp_accumulation", settings, R"({"dtype": ["fp32", "amp-fp16"], "accum": [1, 4]})"),
                    "HW2.1 C"),
             ContainsSubstring("at learning rate 0.01, measured), differ with ACCUM_STEPS 1 at most 0.0 % of the fall "
                               "(0.000500) in all 2 steps, which says little, as the loss hardly moves at this rate."));
  const std::string fast = kDdp + "--learning-rate 100 ", amp = fast + "--dtype amp-fp16 ";
  machine.measure(fast, 10, {{"losses", {1.0, 0.8, 0.6, 0.7}}});
  machine.measure(amp, 9, {{"losses", {1.0, 0.7, 0.81, 0.6, 0.5}}, {"skipped", {1}}});  // step 1 was skipped
  machine.measure(fast + "--accum 4", 40, {{"losses", {1.0, 0.4, 0.3, 0.2}}});
  machine.measure(amp + "--accum 4", 36, {{"losses", {1.0, 0.4, 0.2, 0.2}}, {"skipped", nlohmann::json::array()}});
  const std::string vary = R"([{"dtype": ["fp32", "amp-fp16"]},
                               {"dtype": ["fp32", "amp-fp16"], "accum": [1, 4], "learning-rate": 100}])";
  const std::string text = answer(machine.tables("amp_accumulation", settings, vary), "HW2.1 C");
  CHECK_THAT(text, ContainsSubstring("at learning rate 100, measured), differ with ACCUM_STEPS 1 at most 2.5 % of the "
                                     "fall (0.400000) in the first 3 steps, in which both fall, and 50.0 % of the fall "
                                     "(0.400000) in all 4 steps; with ACCUM_STEPS 4 at most"));
  CHECK_THAT(text, ContainsSubstring("fp32 with 4 against fp32 with 1 differs by at most 100.0 % of the fall"));
  CHECK_THAT(
      answer(machine.tables("three_codes", settings, vary), "HW2.2 E"),
      EndsWith("at learning rate 100, measured): 1 step skipped by GradScaler, all losses finite, which start at "
               "1.00000 and are 0.20000 to 1.00000 in fp32, 0.20000 to 1.00000 in amp-fp16."));
}

TEST_CASE("HW2.2: codes 1, 2 and 3 by their names", "[data_parallel]") {
  const ExerciseMachine machine;
  machine.measure(kDdp, 10, {}, {}, {kGib, kGib});
  machine.measure(kDdp + "--dtype amp-fp16", 8, {{"skipped", nlohmann::json::array()}}, {}, {kGib, kGib});
  for (const int steps : {4, 8}) {
    const std::string flags = kDdp + "--no-sync 1 --accum " + std::to_string(steps);
    machine.measure(flags, 10 * steps, {}, {}, {2 * kGib, 2 * kGib});
    machine.measure(flags + " --dtype amp-fp16", 8 * steps, {{"skipped", {0, 1}}}, {}, {2 * kGib, 3 * kGib});
  }
  const Tables tables = machine.tables("three_codes", R"("strategy": "ddp", "gpus": 2, "batch": 64)",
                                       R"([{"dtype": ["fp32", "amp-fp16"]},
                                          {"dtype": ["fp32", "amp-fp16"], "accum": [4, 8], "no-sync": 1}])");
  CHECK(answer(tables, "HW2.2 E") ==
        "4 layers of 8192, batch 64 on 2 GPUs (measured): plain DDP 10.00 ms, peak memory 1.00 GiB; code 1 40.00 and "
        "80.00 ms with ACCUM_STEPS 4 and 8, peak memory 2.00 GiB; code 2 8.00 ms, peak memory 1.00 GiB, 0 steps "
        "skipped; code 3 32.00 and 64.00 ms with ACCUM_STEPS 4 and 8, peak memory 3.00 GiB, 4 steps skipped.");
}

TEST_CASE("HW2.3: what an accumulation step, its exchange and its precision cost", "[data_parallel]") {
  const ExerciseMachine machine;
  for (const int steps : {4, 8}) {
    const std::string flags = kDdp + "--accum " + std::to_string(steps);
    machine.measure(flags, 2 + 10 * steps, {}, {}, {kGib, kGib});
    machine.measure(flags + " --no-sync 1", 8 + 6 * steps, {}, {}, {kGib, kGib});
    machine.measure(flags + " --no-sync 1 --dtype amp-fp16", 8 + 4 * steps, {}, {}, {kGib / 2, kGib / 2});
  }
  const Tables tables = machine.tables("accumulation_sweep", R"("strategy": "ddp", "gpus": 2, "batch": 64)",
                                       R"([{"accum": [4, 8], "no-sync": [0, 1]},
                                           {"accum": [4, 8], "no-sync": 1, "dtype": "amp-fp16"}])");
  CHECK(answer(tables, "HW2.3 Q1") ==
        "4 layers of 8192, batch 64 on 2 GPUs (measured). Synchronisation: an accumulation step in fp32 takes 10.00 ms "
        "where gradients are exchanged in each, 6.00 ms under no_sync, so the exchange is 40.0 % of it. Precision, "
        "under no_sync: 4.00 ms in amp-fp16 instead of 6.00 ms in fp32, 1.50 times as fast.");
  CHECK_THAT(answer(tables, "HW2.3 Q2"), ContainsSubstring("in fp32 1.00 GiB with ACCUM_STEPS 4 to 8"));
  CHECK_THAT(answer(tables, "HW2.3 Q2"), ContainsSubstring("; in amp-fp16 512.00 MiB with ACCUM_STEPS 4 to 8, less"));
  CHECK_THAT(answer(tables, "HW2.3 Q3"), ContainsSubstring("256 with ACCUM_STEPS 4 and 512 with ACCUM_STEPS 8"));
}

TEST_CASE("HW2.3: each model has its own answer, times on no line a range, and rows their own label",
          "[data_parallel]") {
  const ExerciseMachine machine;
  for (const std::string batch : {"64", "128"}) {
    const std::string flags = "--strategy ddp --gpus 2 --batch " + batch + " ";
    machine.measure(flags, 10, {}, {}, {kGib, kGib});
    machine.measure(flags + "--accum 4 --no-sync 1", 22, {}, {}, {2 * kGib, 2 * kGib});
    machine.measure(flags + "--accum 8 --no-sync 1", batch == "64" ? 46 : 38, {}, {}, {2 * kGib, 2 * kGib});
    machine.measure(flags + "--accum 4", 40, {}, {}, {2 * kGib, 2 * kGib});
  }
  Tables tables = machine.tables("accumulation_sweep", R"("strategy": "ddp", "gpus": 2)",
                                 R"([{"batch": [64, 128]}, {"batch": [64, 128], "accum": [4, 8], "no-sync": 1},
                                     {"batch": [64, 128], "accum": 4}])");
  for (ScenarioRow& row : tables.front().rows) {
    if (row.spec.accum == 8) row.predicted.result.warnings.push_back(std::string(kHostBoundWarning) + ": drawn so");
  }
  const std::string time = answer(tables, "HW2.3 Q1");
  CHECK_THAT(time,
             ContainsSubstring("batch 64 on 2 GPUs (measured). Synchronisation: an accumulation step in fp32 takes "
                               "10.00 ms where gradients are exchanged in each, 5.14 ms (4.00 to 6.00) "
                               "(host-bound with ACCUM_STEPS 8) under no_sync"));
  CHECK_THAT(time, ContainsSubstring("batch 128 on 2 GPUs (measured). Synchronisation: an accumulation step in fp32 "
                                     "takes 10.00 ms where gradients are exchanged in each, 4.00 ms (host-bound"));
  const std::string memory = answer(tables, "HW2.3 Q2");
  CHECK_THAT(memory, ContainsSubstring("in fp32 1.00 GiB without accumulation, 2.00 GiB with ACCUM_STEPS 4 to 8."));
  CHECK_THAT(memory, ContainsSubstring("; against no accumulation a new gradient is beside the sum"));
}
