// A model file: what is read, what is refused, and that its document says both.
#include "sim/model/model.hpp"

#include <sys/stat.h>

#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/spec/presets.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace pdl;

namespace {

/// What is wrong with a file of that text, without its path; "accepted" if nothing is.
std::string message(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.json", text);
  try {
    load_model(path);
  } catch (const InputError& error) {
    const std::string found = error.what();
    return found.starts_with(path) ? "m.json" + found.substr(path.size()) : found;
  }
  return "accepted";
}

std::string layers(const std::string& text) {
  return "{\"layers\": [" + text + "]}";
}

std::string document() {
  return read_text(PDL_SOURCE_DIR "/docs/formats-model.md");
}

}  // namespace

TEST_CASE("the model file of its document is read") {
  const std::string text = document();
  const std::size_t begin = text.find("```json\n") + 8;
  const TemporaryFolder folder;
  const std::string path = folder.write("three.json", text.substr(begin, text.find("```", begin) - begin));
  const Model model = load_model(path);
  REQUIRE(model.layers.size() == 3);
  CHECK(model.layers[0] == linear_relu(1024, 4096));
  CHECK(model.layers[2] == linear_relu(4096, 512));
  CHECK(parameters(model) == 1024 * 4096 + 4096 + 4096 * 4096 + 4096 + 4096 * 512 + 512);
  const RunSpec two = spec("--gpus 2 --model " + path);
  CHECK(two.depth == 3);
  CHECK(two.dim == 1024);
}

TEST_CASE("every fault of a model file is refused with its place, in the words of the document") {
  const std::string good = R"({"kind": "linear_relu", "in": 8, "out": 4096})";
  const std::string text = document();
  const auto check = [&](const std::string& file, const std::string& refusal, bool documented = true) {
    const std::string found = message(file);
    INFO(found << "\nexpected\n" << refusal);
    CHECK(found.starts_with(refusal));
    if (documented) CHECK_THAT(text, ContainsSubstring("`" + refusal));
  };
  check(layers(good), "accepted", false);
  check("{", "m.json: found a file that is not whole JSON (line ");
  check(layers(R"({"kind": "linear_relu", "in": 1e999, "out": 4})"),
        "m.json: found a file that is not whole JSON (line ");
  check(layers("{\"kind\": \"linear\xff\", \"in\": 1, \"out\": 4}"),
        "m.json: found a file that is not whole JSON (line ");
  check(std::string(200, '['), "m.json: found values nested deeper than 100 (line ");
  check(layers(R"({"kind": "linear_relu", "in": 8, "in": 9, "out": 4})"),
        "m.json: found the key \"in\" twice in one object (line ");
  check(layers(R"({"kind": "linear_relu", "in": 8, "out": 8, "bias": true})"),
        "m.json: layers[0]: found an unknown key \"bias\", ");
  check("{}", "m.json: found no key \"layers\", expected one");
  check("[]", "m.json: found a list of 0, expected an object", false);
  check("{\"layers\": 3}", "m.json: layers: found 3, expected a list", false);
  check(layers(""), "m.json: layers: found a list of 0, expected from 1 to 1000000 layers", false);
  check("{\"layers\": [3]}", "m.json: layers[0]: found 3, expected an object", false);
  check("{\"layers\": [], \"name\": 3}", "m.json: found an unknown key \"name\"", false);
  check(layers(R"({"kind": "linear_relu", "in": 8})"), "m.json: layers[0]: found no key \"out\", expected one");
  check(layers(R"({"kind": "conv2d", "in": 8, "out": 8})"),
        "m.json: layers[0].kind: found \"conv2d\", expected a kind of layer: linear_relu");
  check(layers(R"({"kind": "linear-relu", "in": 8, "out": 8})"),
        "m.json: layers[0].kind: found \"linear-relu\", expected \"linear_relu\" perhaps (known: linear_relu");
  check(layers(R"({"kind": 3, "in": 8, "out": 8})"), "m.json: layers[0].kind: found 3, expected text in quotes", false);
  check(layers(R"({"kind": "linear_relu", "in": 0, "out": 8})"),
        "m.json: layers[0].in: found 0, expected a whole number from 1 to 10000000");
  for (const char* width : {"-1", "1.5", "\"8\"", "null", "10000001", "4294967297", "9223372036854775808",
                            "18446744073709551616", "1e30"}) {
    check(layers(std::string(R"({"kind": "linear_relu", "in": )") + width + R"(, "out": 8})"),
          "m.json: layers[0].in: found ", false);
  }
  check(layers(good + R"(, {"kind": "linear_relu", "in": 512, "out": 8})"),
        "m.json: layers[1].in: found 512, expected 4096, the width that the layer before gives");
  const std::string embedding = R"({"kind": "embedding", "vocabulary": 40, "features": 16, "tokens": 4})",
                    wide = R"({"kind": "linear_relu", "in": 64, "out": 64})";
  const auto with_loss = [](const std::string& of, const std::string& loss) {
    return "{\"layers\": [" + of + "], \"loss\": " + loss + "}";
  };
  check(layers(embedding + ", " + wide), "accepted", false);
  check(with_loss(embedding + ", " + wide, "\"cross_entropy\""), "accepted", false);
  check(with_loss(wide, "\"mse\""), "accepted", false);
  check(with_loss(wide, "\"l1\""), "m.json: loss: found \"l1\", expected mse or cross_entropy");
  check(with_loss(embedding, "\"mse\""),
        "m.json: loss: found \"mse\", expected cross_entropy: the model takes tokens, and its targets are tokens");
  check(with_loss(wide, "\"cross_entropy\""),
        "m.json: loss: found \"cross_entropy\", expected mse: cross_entropy is of a model that takes tokens");
  check(layers(embedding + R"(, {"kind": "linear", "in": 64, "out": 9})"),
        "m.json: layers: found 9 numbers that come out of 4 tokens, expected as many logits for each token");
  check(
      layers(wide + ", " + embedding),
      "m.json: layers[1].kind: found \"embedding\", expected a layer that takes what the layer before gives: this one "
      "takes tokens");
  check(
      layers(embedding + R"(, {"kind": "gpt_head", "features": 16, "vocabulary": 50, "tokens": 4, "tied": 1})"),
      "m.json: layers: found a tied gpt_head 16 x 50 x 4 x 1 behind embedding 40 x 16 x 4, expected a first layer that "
      "embeds as many tokens in as many features, whose weight it has");
  check(layers(embedding + R"(, {"kind": "gpt_head", "features": 16, "vocabulary": 40, "tokens": 4, "tied": 1})"),
        "accepted", false);
  check(layers(R"({"kind": "linear", "in": 64, "out": 64}, {"kind": "llama_head", "features": 16, "vocabulary": 16,)"
               R"( "tokens": 4, "tied": 1}, {"kind": "linear", "in": 64, "out": 64})"),
        "m.json: layers: found a tied llama_head 16 x 16 x 4 x 1 that is not the last layer, expected one at the end");
  check(layers(R"({"kind": "linear", "in": 30, "out": 30}, {"kind": "gpt_block", "features": 10, "heads": 3,)"
               R"( "inner": 40, "tokens": 3})"),
        "m.json: layers[1]: found 3 heads for 10 features, expected a number of heads that divides the features");
  check(
      layers(R"({"kind": "gpt_embedding", "vocabulary": 9, "positions": 2, "features": 8, "tokens": 3})"),
      "m.json: layers[0]: found a sequence of 3 tokens with 2 positions, expected at most as many tokens as positions");
  check(layers(R"({"kind": "sum", "features": 8})"),
        "m.json: layers[0].kind: found \"sum\", expected a kind that stands alone: this one is inside of others only");
  check(layers(R"({"times": 0, "layers": []})"),
        "m.json: layers[0].times: found 0, expected a whole number from 1 to "
        "1000000");
  check(layers(R"({"times": 2})"), "m.json: layers[0]: found no key \"layers\", expected one");
  check(layers(R"({"times": 2, "layers": []})"),
        "m.json: layers[0].layers: found a list of 0, expected from 1 to 1000000 layers", false);
  check(layers(R"({"times": 2, "layers": [)" + wide + R"(], "kind": "linear"})"),
        "m.json: layers[0]: found an unknown key \"kind\", ", false);
  check(layers(R"({"times": 1001, "layers": [{"times": 1000, "layers": [)" + wide + "]}]}"),
        "m.json: layers[0].times: found 1001, expected from 1 to 1000000 layers");
  check(layers(R"({"times": 2, "layers": [)" + good + "]}"),
        "m.json: layers[0]: found 4096 numbers of a sample that come out of it, expected 8, as many as go into it: it "
        "stands behind itself");
  check(layers(R"({"times": 2, "layers": [)" + embedding + "]}"),
        "m.json: layers[0].times: found 2, expected 1: the first of these layers takes tokens");
  check(layers(R"({"times": 3000, "layers": [{"kind": "linear", "in": 10000000, "out": 10000000}]})"),
        "m.json: layers: found more than 2.5e17 parameters, expected a model of fewer", false);
  std::string large;
  for (int i = 0; i < 2501; ++i)
    large += std::string(i == 0 ? "" : ", ") + R"({"kind": "linear_relu", "in": 10000000, "out": 10000000})";
  check(layers(large), "m.json: layers: found more than 2.5e17 parameters, expected a model of fewer");
}

TEST_CASE("what is no file that can be read is refused as a model") {
  const TemporaryFolder folder;
  const auto refused = [](const std::string& path) {
    try {
      parse_run_spec(std::vector<SettingValue>{{"model", path, "--model"}});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const std::string names = ": found no such file, expected a model file, or the name of a model: mlp, gpt2, ";
  CHECK_THAT(refused(folder / "none.json"), StartsWith(folder / "none.json" + names));
  CHECK(refused(folder.path()) == folder.path() + ": found a folder, expected a JSON file");
  CHECK(refused(folder / "\xff.json") == "--model: found " + (folder / "\xff.json") +
                                             ", which is no UTF-8, expected a value in UTF-8: JSON is written in it");
  CHECK_THAT(refused("MLP"), StartsWith("MLP" + names) && EndsWith("(did you mean mlp?)"));
  CHECK_THAT(refused(std::string(5000, 'x')), ContainsSubstring(names));
}

TEST_CASE("a model whose activations have more bytes than can be counted is refused") {
  const TemporaryFolder folder;
  std::string wide;
  for (int i = 0; i < 500; ++i)
    wide += std::string(i == 0 ? "" : ", ") + R"({"kind": "linear_relu", "in": 10000000, "out": 10000000})";
  const std::string path = folder.write("wide.json", layers(wide));
  CHECK_THROWS_WITH(spec("--batch 1000000000 --model " + path),
                    ContainsSubstring("--batch: found ") && ContainsSubstring("bytes of activations in a step"));
  CHECK_THROWS_WITH(spec("--batch 1000000000 --depth 1000000 --dim 500000"), ContainsSubstring("--batch: found "));
}

TEST_CASE("a list of layers in a list stands there so many times, one behind the other") {
  const auto read = [](const std::string& text) {
    const nlohmann::json json = nlohmann::json::parse(text);
    return read_model_file(JsonPlace(json, "m.json"));
  };
  const Model model = read(R"({"layers": [{"kind": "linear", "in": 4, "out": 8},
    {"times": 2, "layers": [{"kind": "gelu", "features": 8},
                            {"times": 2, "layers": [{"kind": "linear", "in": 8, "out": 8}]}]},
    {"kind": "linear", "in": 8, "out": 3}]})");
  std::string drawn;
  for (const Layer& layer : model.layers) drawn += to_text(layer) + "; ";
  CHECK(drawn ==
        "linear 4 x 8; gelu 8; linear 8 x 8; linear 8 x 8; gelu 8; linear 8 x 8; linear 8 x 8; linear 8 x 3; ");
  CHECK(model.loss == Loss::mse);
  const Model tokens = read(R"({"layers": [{"kind": "embedding", "vocabulary": 9, "features": 8, "tokens": 2}]})");
  CHECK(tokens.loss == Loss::cross_entropy);
}

TEST_CASE("the document of model files names every kind of layer and every model that has a name") {
  const std::string text = document();
  for (const LayerKind* kind : layer_kinds()) {
    INFO(kind->name);
    CHECK_THAT(text, ContainsSubstring("| `" + std::string(kind->name) + "` | " + std::string(kind->summary) + " |"));
  }
  for (const Preset& preset : presets()) {
    INFO(preset.name);
    const TransformerSizes& sizes = preset.published;
    CHECK_THAT(text, ContainsSubstring("| `" + std::string(preset.name) + "` | " + std::to_string(sizes.layers) +
                                       " | " + std::to_string(sizes.hidden) + " | " + std::to_string(sizes.heads) +
                                       " | " + std::to_string(sizes.kv_heads) + " | " + std::to_string(sizes.inner) +
                                       " | " + std::to_string(sizes.vocabulary) + " | "));
  }
}
