// A model file: what is read, what is refused, and that its document says both.
#include "sim/model/model.hpp"

#include <sys/stat.h>

#include "sim/io/error.hpp"
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
  CHECK(refused(folder / "none.json") ==
        folder / "none.json" + ": found no such file, expected a model file, or the word mlp");
  CHECK(refused(folder.path()) == folder.path() + ": found a folder, expected a JSON file");
  CHECK(refused(folder / "\xff.json") == "--model: found " + (folder / "\xff.json") +
                                             ", which is no UTF-8, expected a value in UTF-8: JSON is written in it");
  CHECK(refused("MLP") == "MLP: found no such file, expected a model file, or the word mlp");
  CHECK(refused(std::string(5000, 'x')).find("expected a model file, or the word mlp") != std::string::npos);
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
