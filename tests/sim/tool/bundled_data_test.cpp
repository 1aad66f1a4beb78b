// The profiles, runs and scenarios of the repository: what the README shows holds.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "sim/report/scenario_columns.hpp"
#include "sim/study/scenario.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process.hpp"

using namespace pdl;

namespace {

/// Of the runs in a folder of data/.
nlohmann::json validation_of(const std::string& runs, const TemporaryFolder& folder) {
  const Process run = run_program("pdl-sim", "validate '" PDL_SOURCE_DIR "/data/" + runs + "'/*.json --json -", folder);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  return nlohmann::json::parse(run.out);
}

std::vector<Scenario> bundled_scenarios() {
  std::vector<Scenario> scenarios;
  for (const std::string& path : scenario_files(PDL_SOURCE_DIR "/scenarios"))
    scenarios.push_back(load_scenario(path, scenario_names()));
  return scenarios;
}

/// Without spaces and line breaks: a title is found wherever it is broken.
std::string without_spaces(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c); });
  return text;
}

}  // namespace

TEST_CASE("error of the predictions over the measured runs of the repository") {
  const TemporaryFolder folder;
  const nlohmann::json pipelines = validation_of("h100x4/runs", folder);
  CHECK(pipelines["runs"].size() >= 118);
  CHECK(pipelines["gpu_bound_step_time_error"]["mean_percent"] <= 2);
  CHECK(pipelines["gpu_bound_step_time_error"]["max_percent"] <= 6);
  const nlohmann::json data_parallel = validation_of("h200x4/runs", folder);
  CHECK(data_parallel["runs"].size() >= 80);
  CHECK(data_parallel["gpu_bound_step_time_error"]["values"] >= 60);
  CHECK(data_parallel["gpu_bound_step_time_error"]["mean_percent"] <= 3);
  for (const nlohmann::json& run : data_parallel["runs"]) {
    INFO(run);
    // Small models, which docs/accuracy.md explains; one of them is not above the rule's 10 %.
    const bool known = run["run"] == "ddp_gpus4_mlp6x4096_batch64_mb1_fp32_sgd_nccl_process";
    if (!run["host_bound"] && !known) CHECK(std::abs(run["error_percent"].get<double>()) <= 8);
  }
}

TEST_CASE("runs of other hosts with the same cards: the profile of one serves all where GPUs bound the step") {
  const TemporaryFolder folder;
  for (const char* host : {"h200x4/runs_on_host_1", "h200x4/runs_on_host_2", "h200x4/runs_on_host_3"}) {
    INFO(host);
    const nlohmann::json validation = validation_of(host, folder);
    CHECK(validation["gpu_bound_step_time_error"]["values"] >= 20);
    CHECK(validation["gpu_bound_step_time_error"]["mean_percent"] <= 2);
    CHECK(validation["gpu_bound_step_time_error"]["median_percent"] <= 1.5);
  }
}

TEST_CASE("a step that the host bounds is said to be, of a single prediction too") {
  const TemporaryFolder folder;
  const std::string flags = "--strategy ddp --gpus 4 --no-gantt --profile h200x4 ";
  const Process small = run_program("pdl-sim", flags + "--depth 2 --dim 1024 --batch 64", folder);
  CHECK(small.exit_code == 0);
  CHECK_THAT(small.out, ContainsSubstring("bound by the host"));
  CHECK_THAT(run_program("pdl-sim", flags + "--depth 8 --dim 8192 --batch 2048", folder).out,
             !ContainsSubstring("bound by the host"));
}

TEST_CASE("a sweep predicts all rows that a bundled profile can predict together, and compares like with like") {
  const TemporaryFolder folder;
  const auto sweep = [&](const std::string& flags) {
    const Process run = run_program("pdl-sim", "sweep " + flags + " --json -", folder);
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    return nlohmann::json::parse(run.out);
  };
  for (const char* flags :
       {"--gpus 4 --pp 1,2,4 --schedule 1f1b,zb-h1 --microbatches 4,8 --depth 16 --dim 4096 --batch 4096",
        "--gpus 4 --dp 1,2,4 --depth 16", "--gpus 2,4 --strategy mp,pp,ddp --dtype fp32,tf32"}) {
    INFO(flags);
    for (const nlohmann::json& row : sweep(flags)["rows"]) {
      INFO(row);
      CHECK_FALSE(row.contains("refused"));
    }
  }
  // One GPU computes its batch whole: in micro-batches it is slower, and four GPUs would look faster than they are.
  const nlohmann::json gpus = sweep("--gpus 1,2,4");
  CHECK(gpus["rows"][0]["config"]["microbatches"] == 1);
  CHECK(gpus["rows"][2]["config"]["microbatches"] == 8);
  CHECK(gpus["rows"][0]["speedup"] == 1);
  const nlohmann::json whole = sweep("--gpus 1 --microbatches 1,8");
  CHECK(gpus["rows"][0]["step_time_ms"] == whole["rows"][0]["step_time_ms"]);
  CHECK(whole["rows"][0]["step_time_ms"]["median"] < whole["rows"][1]["step_time_ms"]["median"]);
}

TEST_CASE("the book of all exercises: each has its heading, answers and table, in lines that fit a terminal of 80") {
  const TemporaryFolder folder;
  const Process all = run_program("pdl-sim", "scenario --all --json book.json", folder, "COLUMNS=80");
  INFO(all.err);
  REQUIRE(all.exit_code == 0);
  std::size_t exercises = 0;
  for (const Scenario& scenario : bundled_scenarios()) {
    const bool is_exercise = !scenario.answer.empty();
    const std::string title = without_spaces((is_exercise ? scenario.source + ": " : "") + scenario.title);
    INFO(title);
    CHECK((without_spaces(all.out).find(title) != std::string::npos) == is_exercise);
    exercises += is_exercise ? 1 : 0;
  }
  CHECK(exercises == 20);
  std::istringstream lines(all.out);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    // Columns, not bytes: UTF-8's continuation bytes take none.
    CHECK(std::count_if(line.begin(), line.end(), [](unsigned char c) { return (c & 0xC0) != 0x80; }) <= 80);
  }
  const nlohmann::json book = nlohmann::json::parse(std::ifstream(folder / "book.json"));
  CHECK(book["tables"].size() >= exercises);
  CHECK(book["answers"].size() >= exercises);
}

TEST_CASE("an exercise takes settings: a small model on the command line, and what is wrong with them by name") {
  const TemporaryFolder folder;
  const std::string exercise = "scenario hw1_2_strong_scaling --depth 2 --dim 1024 --batch 32 ";
  const Process small = run_program("pdl-sim", exercise + "--gpus 1,2", folder, "COLUMNS=200");
  INFO(small.err);
  CHECK(small.exit_code == 0);
  CHECK_THAT(small.out, ContainsSubstring("all rows: depth 2, dim 1024, batch 32, strategy ddp"));
  const Process refused = run_program("pdl-sim", exercise + "--gpus 2", folder);
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, ContainsSubstring("--gpus: found 2, expected a list: hw1_2 varies it (1,2,4,8)"));
  CHECK(run_program("pdl-sim", "scenario --all --dim 64", folder).exit_code == 2);
}

TEST_CASE("the main job: a table and a chart") {
  const TemporaryFolder folder;
  const std::string arguments = "--gpus 5 --depth 20 --schedule gpipe";
  const Process run = run_program("pdl-sim", arguments, folder);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out, ContainsSubstring("costs: profile "));
  CHECK_THAT(run.out, ContainsSubstring("GPU 4 |"));
  const nlohmann::json json = nlohmann::json::parse(run_program("pdl-sim", arguments + " --json -", folder).out);
  CHECK(json["gpus"].size() == 5);
  CHECK(json["model"]["parameters"] == 20LL * (8192 * 8192 + 8192));
}
