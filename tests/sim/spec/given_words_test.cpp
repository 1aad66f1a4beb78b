// Any of the words that shape a run may be given or absent, alone or beside any others: each such command line is
// either refused as a user's mistake or is a run whose layers add up, with a layer for every stage.
//
//   --pp 2 --schedule interleaved --depth 3        refused: 4 stages for 3 layers
//   --dp 2 --microbatches 3                        accepted
#include <random>

#include "sim/io/error.hpp"
#include "sim/spec/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace pdl;

namespace {

struct Word {
  std::string name;
  std::vector<std::string> values;
};

std::string text_of(const std::vector<SettingValue>& given) {
  std::string text;
  for (const SettingValue& setting : given) text += (text.empty() ? "" : " ") + setting.place + " " + setting.value;
  return text;
}

struct Outcome {
  bool accepted = false;
  std::string message;
};

/// Parses and plans. Anything but a refusal of the input is a failure of the test.
Outcome outcome_of(const std::vector<SettingValue>& given) {
  try {
    const RunSpec spec = parse_run_spec(given);
    if (spec.schedule == kAutoSchedule && !spec.schedule_file) return {true, ""};  // no plan before the search
    const Plan plan = make_plan(spec);
    std::int64_t next = 0;
    for (const Stage& stage : plan.stages) {
      if (stage.first_layer == 0) next = 0;  // the next replica
      if (stage.layer_count < 1 || stage.first_layer != next) FAIL_CHECK(text_of(given) << ": stages do not add up");
      next += stage.layer_count;
    }
    if (next != std::ssize(spec.model.layers)) FAIL_CHECK(text_of(given) << ": " << next << " layers on the stages");
    if (std::ssize(plan.stages) != stage_count(spec) * replica_count(spec))
      FAIL_CHECK(text_of(given) << ": " << plan.stages.size() << " stages");
    return {true, ""};
  } catch (const InputError& error) {
    return {false, error.what()};
  } catch (const std::exception& error) {
    FAIL_CHECK(text_of(given) << ": neither refused nor accepted: " << error.what());
    return {};
  }
}

bool is_about_layers(const std::string& message) {
  return message.find("expected at least one layer for every stage") != std::string::npos;
}

}  // namespace

TEST_CASE("too few layers for the stages: one message, however the stages are asked for") {
  const TemporaryFolder folder;
  const std::string model = folder.write("three.json", R"({"layers": [{"kind": "linear_relu", "in": 4, "out": 4},
    {"kind": "linear_relu", "in": 4, "out": 4}, {"kind": "linear_relu", "in": 4, "out": 4}]})");
  const std::string file = folder.write("four.csv", "0F0,0B0\n1F0,1B0\n2F0,2B0\n3F0,3B0\n");
  const auto check = [](const std::string& flags, const std::string& message) {
    INFO(flags);
    CHECK_THROWS_AS(spec(flags), InputError);
    CHECK_THROWS_WITH(spec(flags), message + ", expected at least one layer for every stage");
  };
  check("--gpus 9", "--gpus: found 9 stages for 8 layers");  // the default depth
  check("--pp 9", "--pp: found 9 stages for 8 layers");
  check("--pp 9 --dp 2", "--pp: found 9 stages for 8 layers");
  check("--gpus 18 --dp 2", "--gpus: found 9 stages for 8 layers");
  check("--gpus 18 --pp 9", "--pp: found 9 stages for 8 layers");
  check("--depth 1 --pp 2", "--pp: found 2 stages for 1 layer");
  check("--depth 1 --schedule zb-v", "--schedule: found 2 stages for 1 layer");  // two chunks by default
  check("--depth 1 --dp 2 --schedule interleaved", "--schedule: found 2 stages for 1 layer");
  check("--depth 3 --gpus 2 --schedule interleaved", "--gpus: found 4 stages for 3 layers");
  check("--depth 5 --gpus 2 --schedule interleaved --chunks 3", "--chunks: found 6 stages for 5 layers");
  check("--depth 3 --gpus 4 --strategy mp", "--gpus: found 4 stages for 3 layers");
  check("--depth 3 --gpus 4 --workers one", "--gpus: found 4 stages for 3 layers");
  check("--depth 3 --schedule auto --gpus 4", "--gpus: found 4 stages for 3 layers");
  check("--depth 3 --schedule " + file, "--schedule: found 4 stages for 3 layers");
  check("--depth 3 --dp 2 --schedule " + file, "--schedule: found 4 stages for 3 layers");
  check("--depth 3 --gpus 4 --tf 1 --tb 2", "--gpus: found 4 stages for 3 layers");
  check("--model " + model + " --gpus 4", "--gpus: found 4 stages for 3 layers");
  check("--model " + model + " --pp 4 --tf 1 --tb 2", "--pp: found 4 stages for 3 layers");
}

TEST_CASE("every set of words that shape a run, with small values, is refused or adds up") {
  const TemporaryFolder folder;
  const std::string file = folder.write("two.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  std::vector<Word> words = {
      {"gpus", {"1", "2", "3", "4", "6"}},
      {"pp", {"1", "2", "3", "9"}},
      {"dp", {"1", "2", "3"}},
      {"chunks", {"1", "2", "3"}},
      {"schedule", {kAutoSchedule, file}},
      {"depth", {"1", "2", "3", "4", "7", "12"}},
      {"microbatches", {"1", "2", "3", "4", "5"}},
      {"batch", {"1", "4", "12"}},
      {"accum", {"2"}},
      {"strategy", {"single", "mp", "pp", "dp", "ddp"}},
      {"workers", {"process", "thread", "one"}},
      {"transport", {"copy", "nccl", "gloo"}},
      {"dtype", {"tf32", "amp-fp16"}},
      {"recompute", {"1"}},
      {"overlap-steps", {"1"}},
      {"p2p", {"eager", "rendezvous"}},
      {"straggler", {"0:1", "1:1"}},
      {"hosts", {"2"}},
      {"no-sync", {"1"}},
      {"loss-scale", {"2"}},
      {"tf", {"1", "1,2"}},
      {"tb", {"2", "2/4"}},
      {"tw", {"1"}},
      {"tcomm", {"1"}},
      {"split", {"1,1", "2,1", "1/1/1", "4,3", kAutoSplit}},
      {"sequence", {"8"}},
  };
  for (const Schedule& schedule : schedules()) words[4].values.emplace_back(schedule.name);

  int accepted = 0, about_layers = 0;
  std::mt19937_64 random(12);
  const auto try_words = [&](std::uint64_t subset) {
    std::vector<SettingValue> given = {{"dim", "8", "--dim"}};
    for (std::size_t w = 0; w < words.size(); ++w) {
      if ((subset >> w & 1U) == 0) continue;
      given.push_back({words[w].name, words[w].values[random() % words[w].values.size()], "--" + words[w].name});
    }
    const Outcome outcome = outcome_of(given);
    accepted += outcome.accepted ? 1 : 0;
    about_layers += is_about_layers(outcome.message) ? 1 : 0;
    if (!outcome.accepted && outcome.message.find(": found ") == std::string::npos)
      FAIL_CHECK(text_of(given) << ": " << outcome.message);
  };
  // Every subset of the eight words that ask for stages and their number, then words of all kinds, mostly few of them.
  for (std::uint64_t subset = 0; subset < 256; ++subset) {
    for (int times = 0; times < 24; ++times) try_words(subset);
  }
  for (int times = 0; times < 20'000; ++times)
    try_words(random() & random() & ((std::uint64_t{1} << words.size()) - 1));
  CHECK(accepted > 2000);
  CHECK(about_layers > 500);
}

TEST_CASE("every set of words that shape a transformer, with small values, is refused or adds up") {
  const std::vector<Word> words = {
      {"layers", {"1", "2", "3", "4"}},
      {"hidden", {"16", "48", "50"}},
      {"heads", {"1", "2", "3"}},
      {"kv-heads", {"1", "2"}},
      {"inner", {"24"}},
      {"sequence", {"4", "2000"}},
      {"vocabulary", {"0", "40"}},
      {"dropout-percent", {"10"}},
      {"tied", {"0", "1"}},
      {"split", {"1,1", "2,1", "3,2", "1/1/2"}},
      {"gpus", {"2", "3", "4"}},
      {"dp", {"2"}},
      {"schedule", {"gpipe", "interleaved", "zb-v"}},
      {"strategy", {"mp", "ddp", "dp"}},
      {"program", {"pytorch"}},
      {"depth", {"3"}},
      {"batch", {"16"}},
  };
  int accepted = 0;
  std::mt19937_64 random(3);
  for (int times = 0; times < 6'000; ++times) {
    const char* const names[] = {"gpt2", "gpt", "llama", "llama2-70b"};
    const std::uint64_t subset = random() & random();
    std::vector<SettingValue> given = {{"model", names[random() % 4], "--model"}};
    for (std::size_t w = 0; w < words.size(); ++w) {
      if ((subset >> w & 1U) != 0)
        given.push_back({words[w].name, words[w].values[random() % words[w].values.size()], "--" + words[w].name});
    }
    const Outcome outcome = outcome_of(given);
    accepted += outcome.accepted ? 1 : 0;
    if (!outcome.accepted && outcome.message.find(": found ") == std::string::npos)
      FAIL_CHECK(text_of(given) << ": " << outcome.message);
  }
  CHECK(accepted > 200);
}
