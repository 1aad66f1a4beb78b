#include "tests/support/exercise_machine.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kGib = 1LL << 30;
const std::string kDdp = "--strategy ddp --gpus 2 --batch 64 ";

}  // namespace

TEST_CASE("HW2.1: losses are held against the run whose loss falls most", "[data_parallel]") {
  const ExerciseMachine machine;
  machine.measure(kDdp, 10, {{"losses", {1.0, 0.9995}}});
  machine.measure(kDdp + "--dtype amp-fp16", 9, {{"losses", {1.0, 0.9995}}, {"skipped", nlohmann::json::array()}});
  const std::string settings = R"("strategy": "ddp", "gpus": 2, "batch": 64)";
  CHECK_THAT(answer(machine.tables("amp_accumulation", settings, R"({"dtype": ["fp32", "amp-fp16"], "accum": [1, 4]})"),
                    "HW2.1 C"),
             ContainsSubstring("in fp32 the loss falls by 0.050 %, and with AMP, accumulation or both it stays within "
                               "0.0 millionths of that curve, which says little, as the loss hardly moves at this "
                               "rate; 0 steps skipped"));
  machine.measure(kDdp + "--learning-rate 100", 10, {{"losses", {1.0, 0.5}}});
  machine.measure(kDdp + "--learning-rate 100 --dtype amp-fp16", 9, {{"losses", {1.0, 0.7, 0.51}}, {"skipped", {1}}});
  const std::string text = answer(
      machine.tables("amp_accumulation", settings,
                     R"([{"dtype": ["fp32", "amp-fp16"]}, {"dtype": ["fp32", "amp-fp16"], "learning-rate": 100}])"),
      "HW2.1 C");
  // The skipped step is left out: 0.51 against 0.5.
  CHECK_THAT(text,
             ContainsSubstring("at learning rate 100 (measured): in fp32 the loss falls by 50.000 %, and with "
                               "AMP, accumulation or both it stays within 2.000 % of that curve; 1 step skipped"));
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
        "Synchronisation: an accumulation step takes 10.00 ms where gradients are exchanged in each, 6.00 ms under "
        "no_sync, so the exchange is 40.0 % of it (fp32, measured). Precision: 4.00 ms in amp-fp16 instead of 6.00 ms "
        "in fp32, 1.50 times as fast (measured).");
  CHECK_THAT(answer(tables, "HW2.3 Q2"), ContainsSubstring("Accumulation: 1.00 GiB with ACCUM_STEPS 4 to 8"));
  CHECK_THAT(answer(tables, "HW2.3 Q2"), ContainsSubstring("Precision: 512.00 MiB in amp-fp16, less"));
  CHECK_THAT(answer(tables, "HW2.3 Q3"), ContainsSubstring("256 with ACCUM_STEPS 4 and 512 with ACCUM_STEPS 8"));
}
