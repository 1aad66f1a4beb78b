#include "sim/study/scenario.hpp"

#include "sim/io/error.hpp"
#include "sim/predict/other_program.hpp"
#include "sim/predict/predict.hpp"
#include "sim/report/scenario_columns.hpp"
#include "sim/run/communication.hpp"
#include "sim/run/run_json.hpp"
#include "sim/run/run_name.hpp"
#include "sim/study/evaluate_scenario.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/data_folder.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

std::string message(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.json", text);
  try {
    load_scenario(path, scenario_names());
  } catch (const InputError& error) {
    const std::string found = error.what();
    return found.starts_with(path) ? "a.json" + found.substr(path.size()) : found;
  }
  return "accepted";
}

/// A scenario file around the text of some keys.
std::string scenario(const std::string& keys) {
  return R"({"id": "x", "title": "t", "columns": ["gpus"], )" + keys + "}";
}

std::vector<std::string> configurations(const std::string& keys, const std::vector<SettingValue>& given = {}) {
  const TemporaryFolder folder;
  std::vector<std::string> names;
  for (const RunSpec& spec :
       load_scenario(folder.write("a.json", scenario(keys)), scenario_names(), given).configurations)
    names.push_back(run_name(spec));
  return names;
}

/// A profile, a runs folder beside it with a measurement of each given spec, a factor slower than predicted.
void write_machine(const TemporaryFolder& folder, const std::vector<RunSpec>& specs, double factor) {
  const CostProfile profile = tiny_profile();
  folder.write("tiny/runs/nothing", "");
  save_profile(profile, folder / "tiny/profile.json");
  for (const RunSpec& spec : specs) {
    RunResult run = predict(spec, &profile);
    run.measured = true;
    run.step_time = {run.step_time.median_ms * factor, run.step_time.median_ms * factor * 0.999,
                     run.step_time.median_ms * factor * 1.002, 30};
    run.environment = {{"card", "Tiny GPU"}, {"count", 4}, {"date", "2026-01-03"}};
    write_run(run, folder / ("tiny/runs/" + run_name(spec) + ".json"));
  }
}

const char* kTiny = R"("settings": {"strategy": "mp", "dim": 64, "depth": 10, "batch": 256, "microbatches": 1})";

}  // namespace

TEST_CASE("combinations: the first word of the command line varies slowest") {
  CHECK(configurations(R"("settings": {"dim": 8, "schedule": "gpipe"}, "vary": {"gpus": [2, 3], "depth": [3, 4]})") ==
        std::vector<std::string>{"pp-gpipe_gpus2_mlp3x8_batch2048_mb8_fp32_sgd_copy_thread",
                                 "pp-gpipe_gpus3_mlp3x8_batch2048_mb8_fp32_sgd_copy_thread",
                                 "pp-gpipe_gpus2_mlp4x8_batch2048_mb8_fp32_sgd_copy_thread",
                                 "pp-gpipe_gpus3_mlp4x8_batch2048_mb8_fp32_sgd_copy_thread"});
}

TEST_CASE("own settings replace common ones, a list of varies, single configurations after them") {
  CHECK(configurations(R"("settings": {"dim": 8, "gpus": 2, "depth": 4},
                          "vary": [{"gpus": [1]}, {"dim": 16, "microbatches": [2, 4]}], )"
                       R"("configurations": [{"depth": 7}])") ==
        std::vector<std::string>{"single_gpus1_mlp4x8_batch2048_mb1_fp32_sgd_copy_thread",
                                 "pp-1f1b_gpus2_mlp4x16_batch2048_mb2_fp32_sgd_copy_thread",
                                 "pp-1f1b_gpus2_mlp4x16_batch2048_mb4_fp32_sgd_copy_thread",
                                 "pp-1f1b_gpus2_mlp7x8_batch2048_mb8_fp32_sgd_copy_thread"});
}

TEST_CASE("settings alone are one configuration") {
  CHECK(configurations(R"("settings": {"dim": 8})") ==
        std::vector<std::string>{"single_gpus1_mlp8x8_batch2048_mb1_fp32_sgd_copy_thread"});
}

TEST_CASE("what is wrong in a scenario is named with its place") {
  CHECK_THAT(message(R"({"id": "x"})"), ContainsSubstring("a.json: found no key \"title\""));
  CHECK_THAT(message(scenario(R"("setings": {})")),
             ContainsSubstring("a.json: found an unknown key \"setings\", expected \"settings\" perhaps"));
  CHECK_THAT(message(scenario(R"("settings": {"gups": 2})")),
             ContainsSubstring("a.json: settings: found an unknown key \"gups\", expected \"gpus\" perhaps"));
  CHECK(configurations(R"("settings": {"gpus": 2, "tf": [1, 2.5], "tb": 2})").size() == 1);
  CHECK(configurations(R"("settings": {"gpus": 2, "tb": 2}, "vary": {"tf": [[1, 2], 3, [4, 5]]})").size() == 3);
  CHECK_THAT(message(scenario(R"("settings": {"gpus": 3, "tf": [1, 2], "tb": 2})")),
             ContainsSubstring("a.json: settings.tf: found 2 times for 3 stages"));
  CHECK_THAT(message(scenario(R"("settings": {"gpus": 2, "tf": [1, "2"], "tb": 2})")),
             ContainsSubstring("a.json: settings.tf[1]: found \"2\", expected a number"));
  CHECK_THAT(message(scenario(R"("settings": {"gpus": 2, "tf": [], "tb": 2})")),
             ContainsSubstring("a.json: settings.tf: found a list of 0, expected at least one number"));
  CHECK_THAT(message(scenario(R"("settings": {"gpus": [2]})")),
             ContainsSubstring("a.json: settings.gpus: found a list of 1, expected text or a number"));
  CHECK_THAT(message(scenario(R"("settings": {"gpus": 0})")),
             ContainsSubstring("a.json: settings.gpus: found 0, expected a whole number"));
  CHECK_THAT(message(scenario(R"("settings": {"gpus": 2.5})")), ContainsSubstring("a.json: settings.gpus: found 2.5"));
  CHECK_THAT(message(scenario(R"("vary": {"gpus": [2, "x"]})")), ContainsSubstring("a.json: vary.gpus[1]: found x"));
  CHECK_THAT(message(scenario(R"("vary": [{"gpus": []}])")),
             ContainsSubstring("a.json: vary[0].gpus: found a list of 0, expected at least one value"));
  CHECK_THAT(message(scenario(R"("configurations": [{"gpus": 2}, {"gpus": -1}])")),
             ContainsSubstring("a.json: configurations[1].gpus: found -1"));
  CHECK_THAT(message(scenario(R"("configurations": [{"gpus": 2}, {"gpus": "2"}])")),
             ContainsSubstring("a.json: configurations[1].gpus: found a configuration given twice"));
  CHECK_THAT(message(scenario(R"("configurations": {"gpus": 2})")),
             ContainsSubstring("a.json: configurations: found an object, expected a list"));
  CHECK_THAT(message(scenario(R"("settings": {})")), ContainsSubstring("a.json: found no configuration"));
  CHECK_THAT(message(scenario(R"("settings": {"strategy": "mp", "schedule": "gpipe"})")),
             ContainsSubstring("a.json: settings.schedule: found gpipe with strategy mp"));
  CHECK_THAT(message(scenario(R"("settings": {"gpus": 2}, "answer": "more_gpu")")),
             ContainsSubstring("\"more_gpus\" perhaps"));
  CHECK_THAT(message(R"({"id": "x", "title": "t", "columns": ["step_time"], "settings": {"gpus": 2}})"),
             ContainsSubstring("a.json: columns[0]: found \"step_time\", expected \"step_time_ms\" perhaps"));
  CHECK_THAT(message(R"({"id": "x", "title": "t", "columns": ["gpus", "gpus"], "settings": {"gpus": 2}})"),
             ContainsSubstring("a.json: columns[1]: found \"gpus\", expected each column once"));
  CHECK_THAT(message(R"({"id": "x", "title": "t", "columns": [], "settings": {"gpus": 2}})"),
             ContainsSubstring("at least one column"));
  CHECK_THAT(message(R"({"id": 3, "title": "t", "columns": ["gpus"], "settings": {"gpus": 2}})"),
             ContainsSubstring("a.json: id: found 3, expected text in quotes"));
  CHECK_THAT(message("{\"id\": \"x\""), ContainsSubstring("not whole JSON"));
}

TEST_CASE("a user's setting is that of every row, and rows that become the same are one") {
  const std::string keys = R"("settings": {"batch": 64, "strategy": "ddp"},
                              "vary": [{"depth": 2, "dim": 8, "gpus": [1, 2]}, {"depth": 4, "dim": 16, "gpus": [1, 2]}],
                              "configurations": [{"depth": 4, "dim": 16, "gpus": 2, "seed": 1}])";
  CHECK(configurations(keys, {{"dim", "32", "--dim"}, {"depth", "3", "--depth"}, {"batch", "8", "--batch"}}) ==
        std::vector<std::string>{"ddp_gpus1_mlp3x32_batch8_mb1_fp32_sgd_nccl_process",
                                 "ddp_gpus2_mlp3x32_batch8_mb1_fp32_sgd_nccl_process",
                                 "ddp_gpus2_mlp3x32_batch8_mb1_fp32_sgd_nccl_process_seed1"});
  // One that the file does not name.
  CHECK(configurations(R"("settings": {"dim": 8, "depth": 2})", {{"optimizer", "adam", "--optimizer"}}) ==
        std::vector<std::string>{"single_gpus1_mlp2x8_batch2048_mb1_fp32_adam_copy_thread"});
}

TEST_CASE("a user's list is in place of the list that a scenario varies") {
  const std::string keys = R"("settings": {"batch": 64, "strategy": "ddp", "depth": 2, "dim": 8},
                              "vary": {"gpus": [1, 2, 4]})";
  CHECK(configurations(keys, {{"gpus", "1,3", "--gpus"}}) ==
        std::vector<std::string>{"ddp_gpus1_mlp2x8_batch64_mb1_fp32_sgd_nccl_process",
                                 "ddp_gpus3_mlp2x8_batch64_mb1_fp32_sgd_nccl_process"});
  CHECK_THROWS_WITH(configurations(keys, {{"gpus", "2", "--gpus"}}),
                    ContainsSubstring("--gpus: found 2, expected a list: x varies it (1,2,4)"));
  CHECK_THROWS_WITH(configurations(keys, {{"batch", "32,64", "--batch"}}),
                    ContainsSubstring("--batch: found 32,64, expected one value: x does not vary it"));
  CHECK_THROWS_WITH(configurations(keys, {{"gpus", "1,x", "--gpus"}}), ContainsSubstring("--gpus: found x"));
  // Times of stages are one value.
  CHECK(configurations(R"("settings": {"gpus": 2, "depth": 2, "dim": 8})", {{"tf", "1,2", "--tf"}, {"tb", "2", "--tb"}})
            .size() == 1);
}

TEST_CASE("the equivalent program in Python is the file of the same name, where there is one") {
  const TemporaryFolder folder;
  const std::string path = folder.write("mine.json", scenario(R"("settings": {"gpus": 1})"));
  CHECK(load_scenario(path, scenario_names()).python.empty());
  folder.write("python/mine.py", "");
  CHECK(load_scenario(path, scenario_names()).python == "scenarios/python/mine.py");
}

TEST_CASE("a file under the name of another run is not taken for it") {
  const TemporaryFolder folder;
  const RunSpec two = spec("--strategy mp --gpus 2 --dim 64 --depth 10 --batch 256 --microbatches 1");
  write_machine(folder, {two}, 1);
  std::filesystem::rename(folder / ("tiny/runs/" + run_name(two) + ".json"),
                          folder / "tiny/runs/mp_gpus3_mlp10x64_batch256_mb1_fp32_sgd_copy_one.json");
  const std::string path = folder.write("a.json", scenario(std::string(kTiny) + R"(, "vary": {"gpus": [3]})"));
  CHECK_THROWS_WITH(evaluate_scenario(load_scenario(path, scenario_names()), folder / "tiny/profile.json"),
                    ContainsSubstring("on 2 GPUs"));
}

TEST_CASE("the machine of a scenario: most measured rows, then the largest that has what the rows need") {
  const TemporaryFolder folder;
  const DataFolder data(folder.path());
  const auto add_machine = [&](const std::string& name, int count, bool with_loss) {
    CostProfile profile = tiny_profile();
    profile.name = name;
    profile.environment["count"] = count;
    if (!with_loss) std::erase_if(profile.curves, [](const auto& curve) { return curve.key.probe == Probe::loss; });
    folder.write(name + "/runs/nothing", "");
    save_profile(profile, folder / (name + "/profile.json"));
  };
  add_machine("zz-a", 999997, true);  // the first name is not the largest host
  add_machine("zz-b", 999998, true);
  add_machine("zz-c", 999999, false);
  const std::string text = scenario(std::string(kTiny) + R"(, "vary": {"gpus": [2, 4]})");
  const Scenario two = load_scenario(folder.write("a.json", text), scenario_names());
  const auto source = [](const ScenarioTable& table, std::size_t row) {
    return table.rows[row].predicted.result.environment["profile"];
  };

  const ScenarioTable predicted = evaluate_on_measured_machines(two).front();
  CHECK(predicted.profile_name == "zz-b");
  for (const std::size_t row : {0, 1}) {
    CHECK(source(predicted, row)["name"] == "zz-b");
    CHECK(source(predicted, row)["chosen_as"] ==
          "no machine in data/ has measured any row, and this is the largest that has what the rows need");
  }

  RunResult run = predicted.rows[0].predicted.result;
  run.measured = true;
  run.step_time = {7, 6.9, 7.1, 30};
  run.environment = {{"card", "Tiny GPU"}, {"count", 4}, {"date", "2026-01-03"}};
  write_run(run, folder / ("zz-a/runs/" + run_name(run.spec) + ".json"));
  const ScenarioTable measured = evaluate_on_measured_machines(two).front();
  CHECK(measured.profile_name == "zz-a");
  CHECK(measured.rows[0].measured.has_value());
  CHECK(!measured.rows[1].measured.has_value());
  CHECK(source(measured, 1)["chosen_as"] == "the machine in data/ that has measured most rows, 1 of 2");
  CHECK(!source(evaluate_scenario(two, "zz-a"), 0).contains("chosen_as"));
}

TEST_CASE("rows of several machines: a table each, the first with all rows, none with numbers of two") {
  const TemporaryFolder folder;
  const DataFolder data(folder.path());
  CostProfile profile = tiny_profile();
  for (const auto& [name, count] : {std::pair{"zz-a", 999999}, std::pair{"zz-b", 999998}}) {
    profile.name = name;
    profile.environment["count"] = count;
    folder.write(std::string(name) + "/runs/nothing", "");
    folder.write(std::string(name) + "/runs_on_host_1/nothing", "");
    save_profile(profile, folder / (std::string(name) + "/profile.json"));
  }
  const Scenario rows =
      load_scenario(folder.write("a.json", scenario(std::string(kTiny) + R"(, "vary": {"gpus": [1, 2, 3, 4, 5]})")),
                    scenario_names());
  const auto measure = [&](const std::string& where, const std::vector<std::int64_t>& gpus, double step_ms,
                           const char* card = "Tiny GPU") {
    for (const std::int64_t count : gpus) {
      RunResult run = predict(rows.configurations[static_cast<std::size_t>(count - 1)], &profile);
      run.measured = true;
      run.step_time = {step_ms, step_ms, step_ms, 30};
      run.environment = {{"card", card}, {"count", 4}, {"date", "2026-01-03"}};
      write_run(run, folder / (where + "/" + run_name(run.spec) + ".json"));
    }
  };
  const auto drawn = [](const std::vector<ScenarioTable>& tables) {
    std::vector<std::string> lines;
    for (const ScenarioTable& table : tables) {
      std::string line = table.profile_name + ":";
      for (const ScenarioRow& row : table.rows) {
        line += " " + std::to_string(row.spec.gpus) +
                (row.measured ? "=" + std::to_string(static_cast<int>(row.measured->result.step_time.median_ms)) : "");
      }
      lines.push_back(line);
    }
    return lines;
  };
  using Lines = std::vector<std::string>;

  measure("zz-b/runs", {1, 2}, 7);
  CHECK(drawn(evaluate_on_measured_machines(rows)) == Lines{"zz-b: 1=7 2=7 3 4 5"});
  measure("zz-a/runs", {4}, 8);  // one row more has nothing to be compared with
  CHECK(drawn(evaluate_on_measured_machines(rows)) == Lines{"zz-b: 1=7 2=7 3 4 5"});
  measure("zz-a/runs", {2, 3}, 8);
  CHECK(drawn(evaluate_on_measured_machines(rows)) ==
        Lines{"zz-a: 1 2=8 3=8 4=8 5"});  // of zz-b only row 1 would be new
  measure("zz-b/runs", {5}, 7);
  CHECK(drawn(evaluate_on_measured_machines(rows)) == Lines{"zz-a: 1 2=8 3=8 4=8 5", "zz-b: 1=7 2=7 5=7"});
  // Another host with the cards of zz-b has measured most.
  measure("zz-b/runs_on_host_1", {1, 2, 3, 4}, 9, "Other GPU");
  const std::vector<ScenarioTable> tables = evaluate_on_measured_machines(rows);
  CHECK(drawn(tables) == Lines{"zz-b: 1=9 2=9 3=9 4=9 5"});
  const RunResult& first = tables.front().rows.front().predicted.result;
  CHECK(first.environment["profile"]["chosen_as"] ==
        "the measured runs are those of another host with the same GPUs (zz-b/runs_on_host_1), which has measured "
        "most rows, 4 of 5");
  CHECK(first.warnings.back() == "measured on Other GPU, predicted from Tiny GPU");
}

TEST_CASE("every row of an exercise that two GPUs allow is in a matrix that is measured") {
  std::vector<RunSpec> measured;
  for (const std::string& path : scenario_files(PDL_SOURCE_DIR "/scenarios")) {
    const Scenario matrix = load_scenario(path, scenario_names());
    if (matrix.id.starts_with("validation"))
      measured.insert(measured.end(), matrix.configurations.begin(), matrix.configurations.end());
  }
  for (const std::string& path : scenario_files(PDL_SOURCE_DIR "/scenarios")) {
    for (const RunSpec& spec : load_scenario(path, scenario_names()).configurations) {
      if (spec.gpus > 2) continue;
      INFO(path << ": " << run_name(spec));
      CHECK(std::any_of(measured.begin(), measured.end(), [&](const RunSpec& other) { return same_run(spec, other); }));
    }
  }
}

TEST_CASE("the scenario files of the course load, each with its question and its answer") {
  int exercises = 0;
  for (const std::string& path : scenario_files(PDL_SOURCE_DIR "/scenarios")) {
    INFO(path);
    const Scenario scenario = load_scenario(path, scenario_names());
    CHECK(scenario.answer.empty() == scenario.question.empty());
    exercises += scenario.answer.empty() ? 0 : 1;
  }
  CHECK(exercises >= 10);
  CHECK(load_scenario(PDL_SOURCE_DIR "/scenarios/validation.json", scenario_names()).configurations.size() >= 36);
}

TEST_CASE("one transfer on 2 GPUs, four on 5, in a forward pass") {
  const CostProfile profile = tiny_profile();
  for (const auto& [gpus, count] : {std::pair{2, 1}, std::pair{5, 4}}) {
    const RunResult run =
        predict(spec("--strategy mp --dim 64 --depth 20 --batch 256 --microbatches 1 --gpus " + std::to_string(gpus)),
                &profile);
    CHECK(forward_transfers(run).count == count);
    CHECK(forward_transfers(run).bytes == count * 256 * 64 * 4);
  }
}

TEST_CASE("many configurations are read one by one, and more layers in all than memory has room for are refused") {
  std::string batches, depths;
  for (int i = 1; i <= 3000; ++i) batches += (i == 1 ? "" : ", ") + std::to_string(i);
  CHECK(configurations(R"("vary": {"gpus": [1], "depth": [1], "batch": [)" + batches + "]}").size() == 3000);
  for (int i = 0; i < 12; ++i) depths += (i == 0 ? "" : ", ") + std::to_string(1'000'000 - i);
  CHECK(message(scenario(R"("vary": {"dim": [1], "batch": [1], "gpus": [1], "depth": [)" + depths + "]}")) ==
        "a.json: found more than 10000000 layers in all configurations, expected fewer");
}

namespace {
const char* kPipeline = R"("settings": {"dim": 64, "depth": 10, "batch": 256, "microbatches": 4, "schedule": "gpipe"})";
}  // namespace

TEST_CASE("a scenario by a program: rows that it has not, or has already, are left out by their number") {
  const TemporaryFolder folder;
  const std::string keys = scenario(std::string(kPipeline) + R"(, "vary": [{"gpus": 2, "schedule": ["naive", "gpipe"]},
                                                                        {"gpus": 2, "transport": "nccl"}])");
  const Scenario all = load_scenario(folder.write("a.json", keys), scenario_names());
  const Scenario by_pytorch = of_program(all, ProgramOf::pytorch, "--program");
  REQUIRE(by_pytorch.configurations.size() == 1);
  CHECK(by_pytorch.configurations[0].program == ProgramOf::pytorch);
  CHECK(by_pytorch.configurations[0].workers == Workers::process);
  REQUIRE(by_pytorch.left_out.size() == 2);
  CHECK(by_pytorch.left_out[0].number == 1);
  CHECK_THAT(by_pytorch.left_out[0].reason,
             Catch::Matchers::StartsWith("found schedule naive with program pytorch, expected one of"));
  CHECK(by_pytorch.left_out[1].reason == "the same run as row 2");
  CHECK(of_program(all, ProgramOf::pdl, "--program").configurations == all.configurations);
  const std::string naive = scenario(std::string(kPipeline) + R"(, "vary": {"gpus": 2, "schedule": "naive"})");
  CHECK_THROWS_WITH(
      of_program(load_scenario(folder.write("b.json", naive), scenario_names()), ProgramOf::pytorch, "--program"),
      Catch::Matchers::StartsWith("--program: found pytorch for x, expected a scenario with a row of that program"));
}

TEST_CASE("a machine that PyTorch's runs were measured on has a table, after those that measured the rows") {
  const TemporaryFolder folder;
  const DataFolder data(folder.path());
  CostProfile profile = tiny_profile();
  for (const std::string name : {"zz-a", "zz-b"}) {
    profile.name = name;
    profile.environment["count"] = name == "zz-a" ? 999999 : 999998;
    folder.write(name + "/runs/nothing", "");
    folder.write(name + "/runs_pytorch/nothing", "");
    folder.write(name + "/runs_on_host_1_pytorch/nothing", "");
    save_profile(profile, folder / (name + "/profile.json"));
  }
  const Scenario rows = load_scenario(
      folder.write("a.json", scenario(std::string(kTiny) + R"(, "vary": {"gpus": [2, 4, 5]})")), scenario_names());
  const auto measure = [&](const std::string& where, RunSpec of_row, ProgramOf program) {
    RunResult run = predict(by_program(of_row, program), &profile);
    run.measured = true;
    run.step_time = {7, 7, 7, 30};
    run.environment = {{"card", "Tiny GPU"}, {"count", 4}, {"date", "2026-01-03"}};
    write_run(run, folder / (where + "/" + run_name(run.spec) + ".json"));
  };
  measure("zz-a/runs", rows.configurations[0], ProgramOf::pdl);
  for (const std::size_t row : {0, 1}) measure("zz-b/runs_pytorch", rows.configurations[row], ProgramOf::pytorch);
  const std::vector<ScenarioTable> tables = evaluate_on_measured_machines(rows);
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].profile_name == "zz-a");
  CHECK_FALSE(tables[0].other_program());
  CHECK(tables[1].profile_name == "zz-b");
  CHECK(tables[1].other_program() == ProgramOf::pytorch);
  REQUIRE(tables[1].rows.size() == 2);
  CHECK_FALSE(tables[1].rows[0].measured);
  CHECK(tables[1].rows[0].other->measured->result.step_time.median_ms == 7);
}
