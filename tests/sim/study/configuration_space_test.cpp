#include "sim/study/configuration_space.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "sim/io/error.hpp"
#include "sim/run/run_name.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/setting_pairs.hpp"

using namespace pdl;

namespace {

std::vector<std::string> configurations(const std::string& text) {
  std::vector<std::string> all;
  for (const Configuration& configuration : configuration_space(words(text)).configurations) {
    std::string line;
    for (const SettingValue& word : configuration.words)
      line += (line.empty() ? "" : " ") + word.name + " " + word.value;
    all.push_back(line + (configuration.refusal.empty() ? "" : ": refused"));
  }
  return all;
}

/// Values of a word, "-" where it is left out.
std::string values(const std::string& text, const std::string& name) {
  std::set<std::string> found;
  for (const Configuration& configuration : configuration_space(words(text)).configurations) {
    const SettingValue* word = find_setting(configuration.words, name);
    found.insert(word ? word->value : "-");
  }
  std::string all;
  for (const std::string& value : found) all += (all.empty() ? "" : " ") + value;
  return all;
}

}  // namespace

TEST_CASE("what is given is fixed, what is not is searched") {
  CHECK(configurations("gpus 2 depth 2 batch 4 schedule gpipe,1f1b microbatches 2 recompute 0 transport copy pp 2") ==
        std::vector<std::string>{
            "depth 2 batch 4 microbatches 2 gpus 2 pp 2 strategy pp schedule gpipe recompute 0 transport copy",
            "depth 2 batch 4 microbatches 2 gpus 2 pp 2 strategy pp schedule gpipe recompute 0 transport copy workers "
            "one",
            "depth 2 batch 4 microbatches 2 gpus 2 pp 2 strategy pp schedule 1f1b recompute 0 transport copy"});
}

TEST_CASE("a number of GPUs decides which strategies there are, a word of pipelines that it is one") {
  CHECK(values("gpus 4 depth 8", "strategy") == "ddp dp mp pp");
  CHECK(values("gpus 1 depth 8", "strategy") == "single");
  CHECK(values("gpus 4 depth 8 schedule 1f1b", "strategy") == "pp");
  CHECK(values("gpus 4 depth 8 dp 2", "strategy") == "pp");
  CHECK(values("gpus 4 depth 8 strategy ddp,pp schedule 1f1b", "strategy") == "ddp pp");
  CHECK(values("gpus 4 depth 8", "pp") == "- 1 2");
  CHECK(values("gpus 6 depth 8", "pp") == "- 1 2 3");
  CHECK(values("gpus 6 depth 8 dp 2", "pp") == "-");  // 3 follow
}

TEST_CASE("no two configurations are the same run, by either program") {
  for (const std::string program : {"pdl", "pytorch"}) {
    for (const std::string gpus : {"1", "2"}) {
      std::set<std::string> found;
      const auto space = configuration_space(words("program " + program + " gpus " + gpus + " depth 8 batch 16"));
      CHECK(space.configurations.size() > (gpus == "1" ? 3 : 40));
      for (const Configuration& configuration : space.configurations) {
        if (!configuration.refusal.empty()) continue;
        const std::string name = run_name(parse_run_spec(configuration.words));
        CAPTURE(name);
        CHECK(found.insert(name).second);
      }
    }
  }
}

TEST_CASE("replicas of one GPU exchange gradients stage by stage: schedules of several stages are tried", "[plan]") {
  CHECK(values("gpus 4 depth 8 strategy pp pp 1", "schedule") ==
        "1f1b dualpipe-v interleaved interleaved-zb looped-bfs zb-v");
  CHECK(values("gpus 1 depth 8 strategy pp pp 1", "schedule") == "1f1b");
}

TEST_CASE("micro-batches that torch.chunk makes, and the schedule takes") {
  // 7 samples: slices of 7, 4 + 3, 2 + 2 + 2 + 1; no 8, and 5 would be cut into 4.
  CHECK(values("gpus 2 pp 2 depth 2 batch 7 schedule gpipe", "microbatches") == "1 2 4");
  CHECK(values("gpus 2 pp 2 depth 4 batch 64 schedule dualpipe-v", "microbatches") == "16 4 8");
  CHECK(values("gpus 3 pp 3 depth 3 batch 96 schedule 1f1b", "microbatches") == "1 12 16 2 24 3 4 6 8");
}

TEST_CASE("what is trained is never chosen") {
  for (const char* name : {"batch", "accum", "optimizer", "dtype"}) CHECK(values("gpus 2 depth 4", name) == "-");
  CHECK(values("gpus 2 depth 4 dtype any", "dtype") == "amp-bf16 amp-fp16 fp32 tf32");
  // GradScaler is for programs of autograd: a pipeline with one thread for all GPUs.
  CHECK(values("gpus 2 depth 4 dtype amp-fp16 strategy pp", "workers") == "one");
  CHECK(values("gpus 2 depth 4 dtype amp-fp16 strategy pp", "schedule") == "gpipe naive option-c");
  CHECK(values("gpus 2 depth 4 dtype amp-bf16 strategy pp", "workers") ==
        values("gpus 2 depth 4 strategy pp", "workers"));
  CHECK(values("gpus 2 depth 4 dtype amp-bf16 strategy pp", "schedule") ==
        values("gpus 2 depth 4 strategy pp", "schedule"));
  CHECK(values("gpus 2 depth 4 strategy ddp accum 4", "no-sync") == "- 1");
  CHECK(values("gpus 2 depth 4 strategy ddp", "no-sync") == "-");
}

TEST_CASE("whose program runs it is chosen where it is asked for") {
  CHECK(values("gpus 2 depth 4", "program") == "-");
  CHECK(values("gpus 2 depth 4 program any", "program") == "pdl pytorch");
  CHECK(values("gpus 2 depth 4 program pytorch,pdl", "program") == "pdl pytorch");
  // Each program has its own words beside it: PyTorch's pipelines send messages, and have no thread for all GPUs.
  CHECK(configurations("gpus 2 depth 4 program any").size() ==
        configurations("gpus 2 depth 4").size() + configurations("gpus 2 depth 4 program pytorch").size());
}

TEST_CASE("a mesh with more GPUs in a row than layers is one refusal, not one for each schedule") {
  const std::vector<std::string> all = configurations("gpus 8 depth 4");
  const auto refused =
      std::count_if(all.begin(), all.end(), [](const auto& line) { return line.ends_with(": refused"); });
  CHECK(refused == 2);  // pp 8, mp
  CHECK(values("gpus 8 depth 4", "pp") == "- 1 2 4");
}

TEST_CASE("textbook costs: what leaves the number of stages and micro-batches as it is") {
  CHECK(values("gpus 4 tf 1 tb 2", "schedule") == "1f1b gpipe naive option-c zb-h1 zb-h2");
  CHECK(values("gpus 4 tf 1 tb 2 chunks 2", "schedule") == "dualpipe-v interleaved interleaved-zb looped-bfs zb-v");
  CHECK(values("gpus 4 tf 1 tb 2", "microbatches") == "-");
  CHECK(values("gpus 4 tf 1 tb 2", "recompute") == "- 1");
  CHECK_THROWS_WITH(configuration_space(words("gpus 4 tf 1 tb 2 microbatches 4,8")),
                    ContainsSubstring("--microbatches: found 4,8, expected one value beside synthetic costs"));
}

TEST_CASE("words that cannot be planned with") {
  const auto refused = [](const std::string& text, const std::string& message) {
    CHECK_THROWS_WITH(configuration_space(words(text)), ContainsSubstring(message));
  };
  refused("gpus 4 batch 4,8", "--batch: found 4,8, expected one value: a plan compares ways to do the same work");
  refused("gpus 0", "--gpus: found 0");
  refused("gpus 4 schedule gpipe,1f1", "--schedule: found 1f1");
  refused("gpus 4 microbatches 4,4", "--microbatches: found 4 twice");
  refused("gups 4", "an unknown setting gups");
  refused("gpus 4 strategy pp bucket-mb 4", "--bucket-mb");
  refused("gpus 4 model nowhere.json", "nowhere.json");
}
