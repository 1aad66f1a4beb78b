// Traces of torch.profiler by the built program: import-trace --explain, compare with a prediction, what is refused.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/drawn_trace.hpp"
#include "tests/support/process.hpp"

using namespace pdl;

namespace {

const char* const kPacked = "/tests/golden/torch_profiler_ddp_4096x6_b256_4gpus_rank0.json.gz";
const char* const kSettings = "--gpus 4 --strategy ddp --dim 4096 --batch 256 --program pytorch --profile h200x4 ";

/// The real trace, of two steps of DDP on 4 x H200, as trace.json.
std::string unpacked(const TemporaryFolder& folder) {
  const std::string path = folder / "trace.json";
  REQUIRE(std::system(("gunzip -c '" + (PDL_SOURCE_DIR + std::string(kPacked)) + "' > '" + path + "'").c_str()) == 0);
  return path;
}

std::string predicted(const TemporaryFolder& folder, const std::string& depth) {
  const std::string path = folder / ("predicted" + depth + ".json");
  const Process run = run_program("pdl-sim", kSettings + ("--depth " + depth) + " --json '" + path + "'", folder, "");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  return path;
}

nlohmann::json json_of(const std::string& arguments, const TemporaryFolder& folder) {
  const Process run = run_program("pdl-sim", arguments + " --json -", folder, "");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  return nlohmann::json::parse(run.out);
}

void check_refused(const std::string& arguments, const std::string& message, const TemporaryFolder& folder) {
  const Process run = run_program("pdl-sim", arguments, folder, "");
  INFO("pdl-sim " << arguments << "\n" << run.err);
  CHECK(run.exit_code == 2);
  CHECK(run.out.empty());
  CHECK_THAT(run.err, ContainsSubstring(message));
}

}  // namespace

TEST_CASE("import-trace --explain of a step of DDP on 4 x H200 adds up, and a prediction stands beside it") {
  const TemporaryFolder folder;
  const std::string trace = "'" + unpacked(folder) + "'";
  const nlohmann::json explained = json_of("import-trace --explain " + trace, folder)["explain"];
  double sum_ms = 0;
  for (const auto& [key, value] : explained["ranks"][0].items()) {
    if (key.ends_with("_ms") && key != "step_ms") sum_ms += value.get<double>();
  }
  CHECK(std::abs(sum_ms - explained["step_ms"].get<double>()) < 1e-9);
  CHECK(explained["step_ms"] == 6.07128);
  CHECK(explained["critical_path"]["segments"].back()["part"] == "optimizer");
  const std::string run = "'" + predicted(folder, "6") + "'";
  for (const std::string& files : {run + " " + trace, trace + " " + run}) {
    const nlohmann::json compared = json_of("compare " + files, folder);
    CHECK(compared["step_ms"]["traced"] == explained["step_ms"]);
    CHECK(compared["tasks"].size() == 26);
    CHECK(compared["traces"][0]["other_activities"] == 0);
    std::int64_t all_reduces = 0;
    for (const nlohmann::json& task : compared["tasks"])
      all_reduces += task["task"].get<std::string>().starts_with("all-reduce") && !task["traced_ms"].is_null();
    CHECK(all_reduces == 6);
  }
  CHECK(json_of("compare --step 1 " + run + " " + trace, folder)["traces"][0]["step"] == "step 1");
  check_refused("compare " + run + " " + trace + " --step 3", "--step: found 3 of", folder);
  check_refused("compare " + run + " " + trace + " --trace all.json", "--trace: found traces of 1 of 4 ranks", folder);
  check_refused("compare " + run + " " + run + " --step 1", "--step: found two runs", folder);
  check_refused("compare " + trace + " " + trace, "compare: found 0 runs and 2 traces", folder);
  check_refused("compare " + run + " " + trace + " " + trace, "rank 0 again", folder);
  check_refused("compare '" + predicted(folder, "5") + "' " + trace,
                "found 6 collectives of NCCL in step 2, expected 5", folder);
}

TEST_CASE("traces of both ranks have the charts and the trace of two runs") {
  const TemporaryFolder folder;
  const std::string rank0 = folder.write("rank0.json", ddp_step(0, 41).text());
  const std::string rank1 = folder.write("rank1.json", ddp_step(1, 50).text());
  const std::string run = folder / "run.json", both = folder / "both.json";
  REQUIRE(
      run_program(
          "pdl-sim",
          "--gpus 2 --strategy ddp --depth 1 --dim 4 --batch 4 --program pytorch --profile h200x2 --json '" + run + "'",
          folder, "")
          .exit_code == 0);
  const Process compared = run_program(
      "pdl-sim", "compare '" + run + "' '" + rank0 + "' '" + rank1 + "' --explain --trace '" + both + "'", folder, "");
  INFO(compared.err);
  CHECK(compared.exit_code == 0);
  CHECK_THAT(compared.out, ContainsSubstring("imbalance") && ContainsSubstring("GPU 1 |"));
  CHECK(nlohmann::json::parse(std::ifstream(both)).contains("traceEvents"));
}

TEST_CASE("files that are no whole trace are refused by compare and import-trace") {
  const TemporaryFolder folder;
  const std::string text = ddp_step(0, 41).text();
  const std::string cut = folder.write("cut.json", text.substr(0, text.size() / 2));
  const std::string run = predicted(folder, "6");
  for (const std::string& command : {"import-trace --explain '" + cut + "'", "compare '" + run + "' '" + cut + "'"})
    check_refused(command, "cut.json: found a file that is not whole JSON", folder);
  const std::string packed = PDL_SOURCE_DIR + std::string(kPacked);
  for (const std::string& command : {"import-trace '" + packed + "'", "compare '" + run + "' '" + packed + "'"})
    check_refused(command, "rank0.json.gz: found a compressed file, expected JSON: gunzip it first", folder);
}
