// predict() is what the command line prints: the same bytes of JSON for the same words.
#include "sim/predict/predict.hpp"

#include "sim/run/run_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// A profile of CPUs with Gloo: that of GPUs with other words in it.
std::string write_cpu_profile(const TemporaryFolder& folder) {
  std::string text = read_text(PDL_SOURCE_DIR "/data/h200x4/profile.json");
  const auto replace_all = [&](const std::string& from, const std::string& to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  replace_all("\"nccl\"", "\"gloo\"");
  replace_all("\"device\":\"cuda\"", "\"device\":\"cpu\"");
  return folder.write("cpus.json", text);
}

std::string predicted_json(const std::string& flags, const std::optional<std::string>& profile,
                           const PredictOptions& options, const TemporaryFolder& folder) {
  const RunSpec asked = spec(flags);
  const auto costs = choose_costs(asked.synthetic.has_value(), profile, [&] { return std::vector{asked}; });
  write_run(predict(asked, costs ? &*costs : nullptr, options), folder / "predicted.json");
  return read_text(folder / "predicted.json");
}

}  // namespace

TEST_CASE("predict() is the answer of the command line, to the byte") {
  const TemporaryFolder folder;
  const std::string cpus = write_cpu_profile(folder);
  struct Row {
    std::string flags;
    std::optional<std::string> profile;
    std::string memory;  // of --memory
    PredictOptions options;
    std::string has;  // a part of the answer that tells that the row is what it is for
  };
  const std::string small = "--strategy ddp --gpus 2 --dim 1024 --depth 2 --batch 64";
  const std::vector<Row> rows = {
      {"--gpus 5 --depth 20 --schedule gpipe", {}, "", {}, "chosen_as"},
      {small, "h200x4", "", {}, "bound by the host"},
      {small, cpus, "", {}, "\"transport\":\"gloo\""},
      {"--gpus 4 --schedule 1f1b --depth 8 --dim 4096", "h100x4", "40GiB", {40LL << 30}, "\"schedule\":\"1f1b\""},
      {"--gpus 3 --schedule auto --depth 6 --dim 2048 --microbatches 4", {}, "8GiB", {8LL << 30}, "auto: "},
      {"--gpus 4 --schedule auto --tf 1 --tb 1 --tw 1 --microbatches 4", {}, "", {}, "auto: "},
  };
  for (const Row& row : rows) {
    INFO(row.flags);
    const Process run = run_program("pdl-sim",
                                    row.flags + (row.profile ? " --profile '" + *row.profile + "'" : "") +
                                        (row.memory.empty() ? "" : " --memory " + row.memory) + " --json -",
                                    folder);
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    CHECK_THAT(run.out, ContainsSubstring(row.has));
    CHECK(predicted_json(row.flags, row.profile, row.options, folder) == run.out);
  }
}

TEST_CASE("costs are the user's, a profile's that was named, or those of the largest that can predict all specs") {
  const std::vector<RunSpec> specs = {spec("--gpus 2 --strategy ddp --depth 4")};
  bool asked = false;
  const auto asks = [&] {
    asked = true;
    return specs;
  };
  CHECK_FALSE(choose_costs(true, std::nullopt, asks));
  CHECK(choose_costs(false, "h200x2", asks)->name == "h200x2");
  CHECK_FALSE(asked);
  CHECK(choose_costs(false, std::nullopt, asks)->name == "h200x4");  // h100x4, the larger name, has no collectives
  CHECK(asked);
  CHECK_THROWS_WITH(choose_costs(true, "h200x2", asks), ContainsSubstring("--profile: found h200x2 beside synthetic"));
}
