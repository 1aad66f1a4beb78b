// Predictions of transformers by the bundled profiles: every program and schedule has a price for all that they are
// made of.
#include "sim/predict/predict.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/data_folder.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/tiny_transformer.hpp"

using namespace pdl;

TEST_CASE("transformers have a price in every program, schedule and data type", "[predict][transformers]") {
  const CostProfile profile = load_profile("h200x2");
  for (const std::string model :
       {"--model gpt --layers 4", "--model llama --layers 4 --hidden 1024 --heads 8 --kv-heads 2"}) {
    for (const std::string words :
         {"--gpus 1", "--gpus 1 --dtype tf32", "--gpus 1 --dtype amp-fp16",
          "--gpus 1 --program pytorch --dtype amp-bf16", "--gpus 2 --schedule gpipe", "--gpus 2 --schedule zb-h1",
          "--gpus 2 --schedule zb-v --dtype tf32", "--gpus 2 --schedule zb-v --dtype amp-bf16",
          "--gpus 2 --schedule 1f1b --recompute 1 --dtype amp-bf16",
          "--gpus 2 --schedule 1f1b --program pytorch --dtype amp-bf16", "--gpus 2 --schedule zb-v --program pytorch",
          "--gpus 2 --strategy ddp --dtype amp-bf16 --optimizer adamw", "--gpus 2 --strategy mp",
          "--gpus 2 --strategy dp --dtype amp-bf16", "--gpus 2 --schedule gpipe --split auto"}) {
      INFO(model << " " << words);
      const RunResult result = predict(spec(model + " --batch 8 " + words), &profile, {});
      CHECK(result.step_time.median_ms > 1);
      CHECK(result.error_bar);
      for (const std::string& warning : result.warnings) CHECK(warning.find("taken as no time") == std::string::npos);
    }
  }
}

TEST_CASE("what is said of the loss rests on as much as the loss takes", "[predict][transformers]") {
  const CostProfile profile = load_profile("h200x2");
  const RunResult run = predict(spec("--model gpt2 --vocabulary 1000"), &profile, {});
  double loss_ms = 0;
  for (const auto& kind : run.layer_kinds) loss_ms += kind.name == "loss" ? kind.ms : 0;
  double said = 0;
  for (const auto& [text, share] : run.warning_shares) said += text.find("loss cross_entropy") < text.npos ? share : 0;
  REQUIRE(said > 0);
  CHECK(said == Approx(loss_ms / run.step_time.median_ms).epsilon(0.1));
}

TEST_CASE("blocks that are run again cost their forward but for its last product", "[predict][transformers]") {
  const int blocks = 3;
  const std::string one = "--strategy single --workers one --gpus 1 --batch 2 ";
  const RunSpec kept = tiny_transformer(one, blocks), again = tiny_transformer(one + "--recompute 1", blocks);
  const CostProfile profile = profile_of(kept, 2);
  const RunResult without = predict(kept, &profile, {}), with = predict(again, &profile, {});
  // Of a block each of its parts takes 10 us, but for the split, which is a view: all but the last linear and the last
  // sum are run again.
  const auto parts = static_cast<double>(inner_layers(kept.model.layers[1]).size());
  CHECK(with.step_time.median_ms - without.step_time.median_ms == Approx(blocks * (parts - 1 - 2) * 10e-3));
}

TEST_CASE("an automatic split is never slower than the even one", "[predict][transformers]") {
  const CostProfile profile = load_profile("h200x2");
  for (const std::string words : {"--model gpt2 --gpus 2 --program pytorch --dtype amp-bf16",
                                  "--model gpt --gpus 2 --program pytorch --dtype amp-bf16",
                                  "--model gpt --gpus 2 --batch 32 --microbatches 2 --schedule interleaved"}) {
    const double even = predict(spec(words), &profile, {}).step_time.median_ms;
    const double found = predict(spec(words + " --split auto"), &profile, {}).step_time.median_ms;
    INFO(words);
    CHECK(found <= even);
  }
}
