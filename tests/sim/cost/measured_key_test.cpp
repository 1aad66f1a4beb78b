#include "sim/cost/measured_key.hpp"

#include <set>

#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/spec/run_spec.hpp"
#include "tests/support/catch.hpp"

namespace pdl {
namespace {

MeasuredKey read(const char* text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  const JsonPlace place(json, "s");
  return read_key(read_probe(place.at("probe")), place, true);
}

TEST_CASE("keys of every probe survive a file", "[measured_key]") {
  for (const char* text :
       {R"({"probe":"layer","implementation":"autograd","operation":"backward","accumulate":true,)"
        R"("input_gradient":false,"dtype":"tf32","in":64,"out":128,"rows":7})",
        R"({"probe":"loss","implementation":"pipeline","dtype":"fp32","elements":4096})",
        R"({"probe":"optimizer","implementation":"pipeline","optimizer":"adam","parameters":100})",
        R"({"probe":"zero_grad","implementation":"pipeline","parameters":100})",
        R"({"probe":"transfer","transport":"nccl","from":3,"to":0,"bidirectional":true,"bytes":1024})",
        R"({"probe":"collective","operation":"reduce_scatter","transport":"nccl","ranks":8,"bytes":1099511627776})",
        R"({"probe":"host","name":"step_overhead","implementation":"pipeline","workers":4})",
        R"({"probe":"host","name":"wait_issue"})", R"({"probe":"memory","name":"workspace","dtype":"fp32"})"}) {
    const MeasuredKey key = read(text);
    nlohmann::ordered_json written = {{"probe", to_string(key.probe)}};
    write_key(key, true, written);
    CHECK(written.dump() == text);
    CHECK_NOTHROW(check_key(key, "k"));
  }
}

TEST_CASE("keys for people", "[measured_key]") {
  CHECK(describe(read(R"({"probe":"layer","implementation":"pipeline","operation":"forward",)"
                      R"("dtype":"fp32","in":64,"out":128,"rows":7})")) ==
        "layer pipeline forward fp32 64x128, rows 7");
  CHECK(
      describe(read(R"({"probe":"transfer","transport":"nccl","from":3,"to":0,"bidirectional":true,"bytes":1024})")) ==
      "transfer nccl 3 -> 0 both ways, bytes 1024");
  CHECK(describe(read(R"({"probe":"collective","operation":"all_reduce","transport":"nccl","ranks":8,"bytes":8})")) ==
        "collective all_reduce nccl of 8, bytes 8");
  CHECK(describe(read(R"({"probe":"host","name":"step_overhead","workers":4})")) == "host step_overhead 4 workers");
}

TEST_CASE("what is not a key is refused", "[measured_key]") {
  const auto refused = [](const char* text) {
    try {
      read(text);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  CHECK_THAT(refused(R"({"probe":"transfr"})"), ContainsSubstring("\"transfer\" perhaps"));
  CHECK_THAT(refused(R"({"probe":"loss","implementation":"pipeline","elements":1})"),
             ContainsSubstring("no key \"dtype\""));
  CHECK_THAT(refused(R"({"probe":"loss","implementation":"jax","dtype":"fp32","elements":1})"),
             ContainsSubstring("pipeline or autograd"));
  CHECK_THAT(refused(R"({"probe":"loss","implementation":"pipeline","dtype":"fp32","elements":0})"),
             ContainsSubstring("s: elements"));
  CHECK_THAT(refused(R"({"probe":"loss","implementation":"pipeline","dtype":"fp32","elements":18446744073709551615})"),
             ContainsSubstring("s: elements"));
  CHECK_THAT(refused(R"({"probe":"host","name":"a b"})"), ContainsSubstring("s: name"));
  CHECK_THAT(refused(R"({"probe":"transfer","transport":"copy","from":-1,"to":0,"bytes":1})"),
             ContainsSubstring("s: from"));
}

TEST_CASE("keys that differ in their data type are in the order of its words, none first", "[measured_key]") {
  std::set<MeasuredKey> keys;
  for (const std::string word : {"", "tf32", "fp32", "amp-bf16", "amp-fp16"}) {
    MeasuredKey key;
    key.probe = Probe::memory;
    key.dtype = find_dtype(word);
    CHECK(dtype_word(key) == word);
    keys.insert(key);
  }
  std::vector<std::string> words;
  for (const MeasuredKey& key : keys) words.push_back(dtype_word(key));
  CHECK(words == std::vector<std::string>{"", "amp-bf16", "amp-fp16", "fp32", "tf32"});
  CHECK_FALSE(find_dtype("fp8"));
}

}  // namespace
}  // namespace pdl
