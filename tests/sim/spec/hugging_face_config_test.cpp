// A config.json: GPT-2's and Llama's are the presets; other architectures, and what the layers here have not, are not.
#include "sim/spec/hugging_face_config.hpp"

#include "sim/io/error.hpp"
#include "sim/plan/plan.hpp"
#include "sim/run/run_json.hpp"
#include "sim/run/run_name.hpp"
#include "sim/spec/presets.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace pdl;

namespace {

/// As published, cut down to a third of its keys.
constexpr const char* kGpt2 = R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
  "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1, "initializer_range": 0.02, "model_type": "gpt2",
  "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_inner": null, "n_layer": 12, "n_positions": 1024,
  "resid_pdrop": 0.1, "task_specific_params": {"text-generation": {"do_sample": true}}, "vocab_size": 50257})";
constexpr const char* kLlama3 = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
  "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 8192,
  "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_scaling": null, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "vocab_size": 128256})";

nlohmann::json changed(const char* config, const std::string& key, const nlohmann::json& value) {
  nlohmann::json json = nlohmann::json::parse(config);
  if (value.is_discarded()) {
    json.erase(key);
  } else {
    json[key] = value;
  }
  return json;
}

Model read(const nlohmann::json& json, const TransformerSettings& said = {}) {
  return read_hugging_face_config(JsonPlace(json, "config.json"), said);
}

TransformerSizes sizes(const nlohmann::json& json, const TransformerSettings& said = {}) {
  return *transformer_sizes(read(json, said));
}

std::string refusal(const nlohmann::json& json) {
  try {
    read(json);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

const nlohmann::json kMissing = nlohmann::json(nlohmann::json::value_t::discarded);

}  // namespace

TEST_CASE("the config.json of a preset is that preset, but for its dropout", "[config]") {
  TransformerSettings no_dropout;
  no_dropout.dropout_percent = 0;
  CHECK(read(nlohmann::json::parse(kGpt2), no_dropout) == spec("--model gpt2").model);
  CHECK(read(nlohmann::json::parse(kGpt2)) == spec("--model gpt2 --dropout-percent 10").model);
  CHECK(read(nlohmann::json::parse(kLlama3)) == spec("--model llama3-8b").model);
}

TEST_CASE("what a config.json does not say is as its class has it", "[config]") {
  CHECK(sizes(changed(kGpt2, "resid_pdrop", kMissing)).dropout_percent == 10);
  CHECK(sizes(changed(kGpt2, "activation_function", kMissing)).gelu_by_tanh);
  CHECK_FALSE(sizes(changed(kGpt2, "activation_function", "gelu")).gelu_by_tanh);
  CHECK(sizes(changed(kGpt2, "n_inner", 100)).inner == 100);
  CHECK(sizes(changed(kGpt2, "n_positions", 512)).sequence == 512);
  CHECK_FALSE(sizes(changed(kGpt2, "tie_word_embeddings", false)).tied);
  CHECK(sizes(changed(kGpt2, "model_type", kMissing)).layers == 12);  // by its architectures
  CHECK(sizes(changed(kLlama3, "num_key_value_heads", kMissing)).kv_heads == 32);
  CHECK(sizes(changed(kLlama3, "tie_word_embeddings", true)).tied);
  CHECK(sizes(changed(kLlama3, "max_position_embeddings", 256)).sequence == 256);
  TransformerSettings said;
  said.sequence = 4096;
  CHECK(sizes(nlohmann::json::parse(kLlama3), said).sequence == 4096);
}

TEST_CASE("what the layers here have not is refused by name", "[config]") {
  CHECK(refusal(changed(kGpt2, "model_type", "bert")) ==
        "config.json: model_type: found \"bert\", expected gpt2 or llama");
  CHECK(refusal({{"architectures", {"BertModel"}}}) ==
        "config.json: architectures[0]: found \"BertModel\", expected GPT2LMHeadModel or LlamaForCausalLM");
  CHECK(refusal(changed(kGpt2, "activation_function", "relu")) ==
        "config.json: activation_function: found \"relu\", expected gelu_new, gelu_pytorch_tanh or gelu");
  CHECK(refusal(changed(kGpt2, "n_head", 10)) ==
        "config.json: n_head: found 10 heads for 768 features, expected a number of heads that divides the features");
  CHECK(refusal(changed(kLlama3, "num_key_value_heads", 5)) ==
        "config.json: num_attention_heads: found 32 heads with 5 heads of keys and values, expected a number of heads "
        "that those divide");
  nlohmann::json large = nlohmann::json::parse(kLlama3);
  large.update({{"hidden_size", 8'000'000}, {"num_attention_heads", 40'000}, {"num_hidden_layers", 1'000'000}});
  CHECK_THAT(refusal(large), StartsWith("config.json: num_hidden_layers: found 1000000 blocks of "));
  CHECK(refusal(changed(kGpt2, "vocab_size", 0)) ==
        "config.json: vocab_size: found 0, expected a whole number from 1 to 10000000");
  CHECK(refusal(changed(kGpt2, "n_embd", kMissing)) == "config.json: found no key \"n_embd\", expected one");
  CHECK(refusal(changed(kGpt2, "embd_pdrop", 0.2)) ==
        "config.json: embd_pdrop: found 0.2 beside resid_pdrop 0.1, expected one dropout, or --dropout-percent");
  CHECK(refusal(changed(kGpt2, "resid_pdrop", 0.125)) ==
        "config.json: resid_pdrop: found 0.125, expected a share of whole hundredths below 1, such as 0.1");
  CHECK(refusal(changed(kLlama3, "hidden_act", "gelu")) == "config.json: hidden_act: found \"gelu\", expected silu");
  CHECK(refusal(changed(kLlama3, "attention_bias", true)) ==
        "config.json: attention_bias: found true, expected false: a llama_block has no biases");
  CHECK(refusal(changed(kLlama3, "mlp_bias", true)) ==
        "config.json: mlp_bias: found true, expected false: a llama_block has no biases");
  CHECK(refusal(changed(kLlama3, "head_dim", 64)) ==
        "config.json: head_dim: found 64, expected hidden_size / num_attention_heads, 4096 / 32");
  CHECK(refusal(changed(kLlama3, "head_dim", 128)) == "accepted");
}

TEST_CASE("architectures are classes of the model_type", "[config]") {
  CHECK(
      refusal(changed(kGpt2, "architectures", {"LlamaForCausalLM"})) ==
      "config.json: architectures[0]: found \"LlamaForCausalLM\", expected a class of \"gpt2\", which model_type says, "
      "such as GPT2LMHeadModel");
  CHECK(
      refusal(changed(kLlama3, "architectures", {"LlamaModel", "BertModel"})) ==
      "config.json: architectures[1]: found \"BertModel\", expected a class of \"llama\", which model_type says, such "
      "as LlamaForCausalLM");
  CHECK(refusal(changed(kLlama3, "architectures", {"LLaMAForCausalLM"})) == "accepted");
  CHECK(refusal(changed(kGpt2, "architectures", nullptr)) == "accepted");
}

TEST_CASE("dropout of the attention's softmax, which is not modelled, is warned of", "[config]") {
  const TemporaryFolder folder;
  const auto warnings = [&](const nlohmann::json& json, const std::string& flags = "") {
    return make_plan(spec("--model " + folder.write("config.json", json.dump()) + " --sequence 8" + flags)).warnings;
  };
  const std::string path = folder.path() + "/config.json";
  const std::vector<std::string> of_gpt2 = {
      path +
      ": attn_pdrop 0.1, the dropout of the attention's softmax, is not modelled: its time and memory are left "
      "out (--dropout-percent 0: a model without any)"};
  CHECK(warnings(nlohmann::json::parse(kGpt2)) == of_gpt2);
  CHECK(warnings(changed(kGpt2, "attn_pdrop", kMissing)) == of_gpt2);  // of the class
  CHECK(warnings(nlohmann::json::parse(kGpt2), " --dropout-percent 10") == of_gpt2);
  CHECK(warnings(nlohmann::json::parse(kGpt2), " --dropout-percent 0").empty());
  CHECK(warnings(changed(kGpt2, "attn_pdrop", 0)).empty());
  CHECK(warnings(nlohmann::json::parse(kLlama3)).empty());
  CHECK(warnings(changed(kLlama3, "attention_dropout", 0.05)) ==
        std::vector<std::string>{path + ": attention_dropout 0.05, the dropout of the attention's softmax, is not "
                                        "modelled: its time and memory are left out"});
}

TEST_CASE("the folder of a config.json is told of it", "[config]") {
  const TemporaryFolder folder;
  const std::string path = folder.write("config.json", kGpt2);
  CHECK_THROWS_WITH(spec("--model " + folder.path()),
                    folder.path() + ": found a folder, expected a JSON file, such as its " + path);
}

TEST_CASE("a config.json is a model file, beside which the sequence may be said, and its run is read without it",
          "[config]") {
  const TemporaryFolder folder;
  const std::string path = folder.write("config.json", kGpt2);
  const RunSpec run = spec("--model " + path + " --sequence 512 --gpus 2 --split 6,6");
  CHECK(run.head_untied);
  CHECK(run.batch == 8);
  CHECK_THAT(describe(run), StartsWith(path + " (12 blocks, hidden 768, 12 heads, sequence 512), batch 8"));
  CHECK_THAT(run_name(run), ContainsSubstring("_seq512") && ContainsSubstring("_split6-6"));
  CHECK_THROWS_WITH(spec("--model " + path + " --layers 3"),
                    "--layers: found 3, expected no layers: the model comes from " + path +
                        ", beside which --sequence and --dropout-percent may be said");
  const std::string llama = folder.write("llama.json", kLlama3);
  CHECK_THROWS_WITH(
      spec("--model " + llama + " --depth 3"),
      "--depth: found 3, expected no depth: the model comes from " + llama + ", beside which --sequence may be said");
  CHECK_THROWS_WITH(spec("--model " + path + " --sequence 2000"),
                    path +
                        ": n_positions: found a sequence of 2000 tokens with 1024 positions, expected at most as many "
                        "tokens as positions (--model gpt --layers 12 --hidden 768 --heads 12 --vocabulary 50257 "
                        "--dropout-percent 10 --sequence 2000 has as many positions)");
  RunResult result = drawn_run(1, {{0, "aA"}});
  result.spec = spec("--model " + path + " --sequence 512");
  result.stages[0].layer_count = 14;
  result.microbatch_rows = {8};
  nlohmann::json json = to_json(result);
  CHECK(json["model"]["loss"] == "cross_entropy");
  const RunSpec again = run_from_json(json, "a.json").spec;
  CHECK(again.model == result.spec.model);
  CHECK(again.dim == 768);
  CHECK(again.transformer.sequence == 512);
  CHECK(describe(again) == describe(result.spec));
}
