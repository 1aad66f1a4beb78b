// Transformers by name: their published parameter counts, what settings change of them, what is refused.
#include "sim/spec/presets.hpp"

#include "sim/io/error.hpp"
#include "sim/run/run_json.hpp"
#include "sim/run/run_name.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

std::string refusal(const std::string& flags) {
  try {
    spec(flags);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

/// The part of a run's name that is about the model.
std::string model_in_name(const std::string& flags) {
  const std::string name = run_name(spec(flags));
  const std::size_t begin = name.find("_gpus1") + 6;
  return name.substr(begin, name.find("_batch") - begin);
}

}  // namespace

TEST_CASE("the published numbers of parameters come out exactly", "[presets]") {
  const std::pair<const char*, std::int64_t> published[] = {
      {"gpt2", 124'439'808},          {"gpt2-medium", 354'823'168}, {"gpt2-large", 774'030'080},
      {"gpt2-xl", 1'557'611'200},     {"llama-7b", 6'738'415'616},  {"llama-13b", 13'015'864'320},
      {"llama-65b", 65'285'660'672},  {"llama2-7b", 6'738'415'616}, {"llama2-13b", 13'015'864'320},
      {"llama2-70b", 68'976'648'192}, {"llama3-8b", 8'030'261'248}, {"llama3-70b", 70'553'706'496},
  };
  for (const auto& [name, count] : published) {
    INFO(name);
    const RunSpec run = spec("--model " + std::string(name));
    CHECK(parameters(run.model) == count);
    CHECK(run.model.loss == Loss::cross_entropy);
    CHECK(run.batch == 8);
  }
}

TEST_CASE("every preset is a model, and its layers say what it is", "[presets]") {
  for (const Preset& preset : presets()) {
    INFO(preset.name);
    CHECK(find_preset(preset.name) == &preset);
    CHECK(preset.is_family == preset.source.empty());
    const TransformerSizes sizes = sizes_of(preset, {});
    CHECK_FALSE(refusal_of(sizes));
    CHECK(sizes == preset.published);
    CHECK(transformer_sizes(transformer(sizes)) == sizes);
  }
  CHECK(find_preset("gpt-2") == nullptr);
}

TEST_CASE("settings override a name, and what follows from them follows", "[presets]") {
  const auto sizes = [](const std::string& flags) { return *transformer_sizes(spec("--model " + flags).model); };
  CHECK(sizes("gpt").inner == 3072);
  CHECK(sizes("gpt --hidden 512 --heads 8").inner == 2048);
  CHECK(sizes("gpt --hidden 512 --heads 8 --inner 1000").inner == 1000);
  CHECK(sizes("gpt --sequence 4096").positions == 4096);
  CHECK(sizes("gpt --sequence 256").positions == 1024);
  CHECK(sizes("gpt2 --sequence 256").positions == 1024);
  CHECK(sizes("gpt2 --dropout-percent 10").dropout_percent == 10);
  CHECK(sizes("gpt2 --tied 0").tied == false);
  CHECK(sizes("llama --hidden 512 --heads 8").inner == 1536);  // 1365.3, up to a multiple of 256
  CHECK(sizes("llama --heads 64").kv_heads == 64);
  CHECK(sizes("llama2-70b --heads 32").kv_heads == 8);
  CHECK(sizes("llama2-70b --hidden 4096").inner == 11008);
  CHECK(sizes("llama2-70b").inner == 28672);
  CHECK(sizes("llama-7b").sequence == 2048);
}

TEST_CASE("a run of a transformer describes itself, and its settings are the same run", "[presets]") {
  CHECK(describe(spec("--model gpt2")) ==
        "gpt2 (12 blocks, hidden 768, 12 heads, sequence 1024), batch 8 in 1 micro-batch, fp32, sgd; single on 1 GPU");
  CHECK_THAT(describe(spec("--model llama2-70b --layers 4 --gpus 2 --split 2,2")),
             StartsWith("llama2-70b (4 blocks, hidden 8192, 64 heads, sequence 2048), batch 8 in 8 micro-batches") &&
                 ContainsSubstring("pp 1f1b, split 2,2, on 2 GPUs"));
  for (const char* flags : {"--model gpt2", "--model gpt2 --gpus 4 --batch 16", "--model gpt2 --tied 0 --layers 3",
                            "--model llama --kv-heads 8 --sequence 64", "--model gpt2 --gpus 2 --split auto"}) {
    INFO(flags);
    const RunSpec once = spec(flags), again = parse_run_spec(to_settings(once));
    CHECK(again.model == once.model);
    CHECK(again.transformer == once.transformer);
    CHECK(again.head_untied == once.head_untied);
    CHECK(again.split == once.split);
    CHECK(describe(again) == describe(once));
    CHECK(run_name(again) == run_name(once));
    CHECK(same_run(again, once));
  }
}

TEST_CASE("the name of a run says what is not as the model's name says", "[presets]") {
  CHECK(model_in_name("--model gpt2") == "_gpt2");
  CHECK(model_in_name("--model gpt2 --sequence 1024 --layers 12") == "_gpt2");
  CHECK(model_in_name("--model gpt2 --sequence 512") == "_gpt2_seq512");
  CHECK(model_in_name("--model gpt --hidden 512 --heads 8") == "_gpt_hidden512_heads8");
  CHECK(model_in_name("--model llama2-70b --layers 2 --kv-heads 4") == "_llama2-70b_layers2_kv4");
  CHECK(model_in_name("--model gpt2 --tied 0 --dropout-percent 10") == "_gpt2_dropout10_untied");
  CHECK(model_in_name("--depth 3 --dim 64") == "_mlp3x64");
}

TEST_CASE("a tied head on a stage of its own has a weight of its own, and the plan says so", "[presets]") {
  const std::string flags = "--model gpt2 --layers 4 --sequence 8 --gpus 2";
  const RunSpec two = spec(flags);
  CHECK(two.head_untied);
  CHECK_FALSE(is_tied(two.model));
  const std::int64_t more = 768 * 50257;
  CHECK(parameters(two.model) == parameters(spec("--model gpt2 --layers 4").model) + more);
  CHECK(make_plan(two).warnings ==
        std::vector<std::string>{"the head has a weight of its own, 38597376 parameters that a model on one stage "
                                 "shares with the embedding: torch.distributed.pipelining shares none between stages"});
  CHECK(make_plan(spec(flags + " --tied 0")).warnings.empty());
  CHECK(make_plan(spec("--model gpt2 --layers 2 --sequence 8 --gpus 2 --strategy ddp")).spec.head_untied == false);
  CHECK(refusal(flags + " --tied 1") ==
        "--tied: found 1 with 2 stages, expected 0: stages share no parameters, so that the head has a weight of its "
        "own");
}

TEST_CASE("what is wrong with a transformer is refused by name", "[presets]") {
  CHECK(refusal("--model gpt2 --heads 10") ==
        "--heads: found 10 heads for 768 features, expected a number of heads that divides the features");
  CHECK(refusal("--model gpt2 --heads 1") ==
        "--heads: found a head size of 768, expected 8 to 256: no attention kernel takes another");
  CHECK(refusal("--model llama --kv-heads 5") ==
        "--kv-heads: found 32 heads with 5 heads of keys and values, expected a number of heads that those divide");
  CHECK(refusal("--model gpt2 --sequence 2048") ==
        "--sequence: found a sequence of 2048 tokens with 1024 positions, expected at most as many tokens as "
        "positions (--model gpt --layers 12 --hidden 768 --heads 12 --vocabulary 50257 --sequence 2048 has as many "
        "positions)");
  CHECK_THAT(refusal("--model gpt2-xl --sequence 2048 --layers 2 --inner 6000 --dropout-percent 10 --tied 0"),
             EndsWith("(--model gpt --layers 2 --hidden 1600 --heads 25 --inner 6000 --vocabulary 50257 "
                      "--dropout-percent 10 --tied 0 --sequence 2048 has as many positions)"));
  CHECK(refusal("--model gpt --layers 2 --hidden 1600 --heads 25 --inner 6000 --vocabulary 50257 --dropout-percent 10 "
                "--tied 0 --sequence 2048") == "accepted");
  CHECK(refusal("--model gpt --vocabulary 0") == "--vocabulary: found 0, expected a whole number from 1 to 10000000");
  CHECK(refusal("--model gpt2 --layers 1000000 --hidden 10000000 --heads 62500") ==
        "--heads: found 1000000 blocks of 1200000130000000 parameters, expected a model of fewer than 2.5e17 "
        "parameters");
  CHECK(refusal("--model gpt2 --depth 3") ==
        "--depth: found 3, expected no depth: the model comes from gpt2 (did you mean --layers?)");
  CHECK(refusal("--model llama --dim 3") ==
        "--dim: found 3, expected no dim: the model comes from llama (did you mean --hidden?)");
  CHECK(refusal("--layers 3") ==
        "--layers: found 3, expected no layers: the model comes from mlp (did you mean --depth?)");
  CHECK(refusal("--sequence 3") == "--sequence: found 3, expected no sequence: the model comes from mlp");
  CHECK(refusal("--model gpt2 --kv-heads 4") ==
        "--kv-heads: found kv-heads 4 with model gpt2, expected no kv-heads: it has no meaning there");
  CHECK(refusal("--model llama --dropout-percent 4") ==
        "--dropout-percent: found dropout-percent 4 with model llama, expected no dropout-percent: it has no meaning "
        "there");
  CHECK(refusal("--model gpt2 --gpus 13") ==
        "--gpus: found 13 stages for 12 blocks, expected at least one block for every stage");
  CHECK_THAT(refusal("--model gpt-2"), StartsWith("gpt-2: found no such file, expected a model file, or the name of a "
                                                  "model: mlp, gpt2, gpt2-medium") &&
                                           EndsWith("(did you mean gpt2?)"));
}
