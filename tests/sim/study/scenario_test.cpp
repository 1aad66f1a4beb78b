#include "sim/study/scenario.hpp"

#include "sim/course/answers.hpp"
#include "sim/io/error.hpp"
#include "sim/predict/predict.hpp"
#include "sim/report/scenario_text.hpp"
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

std::vector<std::string> configurations(const std::string& keys) {
  const TemporaryFolder folder;
  std::vector<std::string> names;
  for (const RunSpec& spec : load_scenario(folder.write("a.json", scenario(keys)), scenario_names()).configurations)
    names.push_back(run_name(spec));
  return names;
}

/// Memory that depends on nothing but the GPU and their number: what is predicted for it is tested elsewhere.
std::vector<std::int64_t> some_memory(std::int64_t gpus, std::int64_t more) {
  std::vector<std::int64_t> bytes;
  for (std::int64_t g = 0; g < gpus; ++g) bytes.push_back((16LL << 30) / gpus + more - (g << 26));
  return bytes;
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
    run.peak_memory_bytes = some_memory(spec.gpus, 1 << 26);
    run.environment = {{"card", "Tiny GPU"}, {"count", 4}, {"date", "2026-01-03"}};
    write_run(run, folder / ("tiny/runs/" + run_name(spec) + ".json"));
  }
}

const char* kTiny = R"("settings": {"strategy": "mp", "dim": 64, "depth": 10, "batch": 256, "microbatches": 1})";

std::string golden_of(const TemporaryFolder& folder, const std::string& columns, const std::string& answer,
                      const std::string& keys, bool own_memory = false) {
  const std::string path = folder.write(
      answer + ".json", R"({"id": "x", "title": "A title", "source": "HW0", "question": "Why?", "columns": [)" +
                            columns + R"(], "answer": ")" + answer + "\", " + keys + "}");
  ScenarioTable table = evaluate_scenario(load_scenario(path, scenario_names()), folder / "tiny/profile.json");
  for (ScenarioRow& row : table.rows) {
    if (!own_memory) row.predicted.result.peak_memory_bytes = some_memory(row.spec.gpus, 0);
  }
  return scenario_text(table, 100);
}

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

TEST_CASE("predicted beside measured, and predicted only where nothing was measured") {
  const TemporaryFolder folder;
  write_machine(folder,
                {spec("--strategy mp --gpus 2 --dim 64 --depth 10 --batch 256 --microbatches 1"),
                 spec("--strategy mp --gpus 4 --dim 64 --depth 10 --batch 256 --microbatches 1")},
                1.01);
  check_golden("scenario_more_gpus.txt",
               golden_of(folder, R"("gpus", "layers", "step_time_ms", "speedup", "bubble", "busy", "idle",
                                    "peak_memory_gib")",
                         "more_gpus", std::string(kTiny) + R"(, "vary": {"gpus": [2, 4, 5]})"));
}

TEST_CASE("settings that every row has are said above the table, and in no column") {
  const TemporaryFolder folder;
  write_machine(folder, {}, 1);
  const std::string text = golden_of(folder, R"("strategy", "depth", "dim", "batch", "gpus", "step_time_ms")",
                                     "more_gpus", std::string(kTiny) + R"(, "vary": {"gpus": [2, 4]})");
  CHECK_THAT(text, ContainsSubstring("all rows: model mlp, depth 10, dim 64, batch 256, microbatches 1, strategy mp"));
  CHECK_THAT(text, ContainsSubstring(
                       "\nrow  GPUs       step\n                time\n           predicted\n                  ms\n"));
}

TEST_CASE("of one row the settings are columns too") {
  const TemporaryFolder folder;
  write_machine(folder, {}, 1);
  const std::string text =
      golden_of(folder, R"("dim", "gpus")", "current_behaviour", std::string(kTiny) + R"(, "vary": {"gpus": [2]})");
  CHECK_THAT(text, ContainsSubstring("\nrow  dim  GPUs\n"));
}

TEST_CASE("the head of a table that would be too wide has short words, and only then the legend has them") {
  const TemporaryFolder folder;
  write_machine(folder, {spec("--strategy mp --gpus 2 --dim 64 --depth 10 --batch 256 --microbatches 1")}, 1);
  const std::string rows = std::string(kTiny) + R"(, "vary": {"gpus": [2, 4]})";
  const std::string narrow = golden_of(folder, R"("gpus", "step_time_ms")", "more_gpus", rows);
  CHECK_THAT(narrow,
             ContainsSubstring("\n  error: (predicted - measured) / measured; -: not measured, or without meaning in "
                               "this row\n"));
  CHECK(narrow.find("pred.") == std::string::npos);
  const std::string wide =
      golden_of(folder, R"("gpus", "step_time_ms", "speedup", "efficiency", "throughput", "bubble", "idle_share",
                           "fullest_gpu_gib", "exposed_communication")",
                "more_gpus", rows);
  CHECK_THAT(wide, ContainsSubstring("; pred.: predicted; meas.: measured; -: not measured"));
}

TEST_CASE("every answer, from a tiny machine") {
  const TemporaryFolder folder;
  write_machine(folder, {}, 1);
  const std::string tiny = kTiny;
  std::string all;
  all += golden_of(folder, R"("gpus", "layers", "transfers_forward", "step_time_ms")", "current_behaviour",
                   tiny + R"(, "vary": {"gpus": [2]})");
  all += "\n" + golden_of(folder, R"("depth", "parameters", "step_time_ms")", "model_size",
                          tiny + R"(, "vary": {"gpus": 2, "depth": [6, 12, 24]})");
  all += "\n" + golden_of(folder, R"("gpus", "layers")", "all_gpus", tiny + R"(, "vary": {"gpus": [2, 3, 4]})");
  all += "\n" + golden_of(folder, R"("gpus", "transfers_forward", "transfer_bytes_forward", "transfers")",
                          "data_transfer", tiny + R"(, "vary": {"gpus": [2, 5]})");
  const std::string pp =
      R"("settings": {"strategy": "pp", "workers": "one", "gpus": 4, "depth": 8, "dim": 64, "batch": 256},
                            "vary": {"microbatches": [2, 4, 8], "schedule": )";
  all += "\n" + golden_of(folder, R"("microbatches", "step_time_ms", "ops")", "option_a_naive", pp + "\"naive\"}");
  all += "\n" + golden_of(folder, R"("microbatches", "step_time_ms", "bubble")", "option_b_gpipe", pp + "\"gpipe\"}");
  all += "\n" + golden_of(folder, R"("microbatches", "step_time_ms", "ops")", "option_c", pp + "\"option-c\"}");
  all += "\n" + golden_of(folder, R"("microbatches", "schedule", "step_time_ms", "bubble")", "options_by_microbatches",
                          pp + R"(["naive", "gpipe", "option-c"]})");
  all += "\n" + golden_of(folder, R"("microbatches", "schedule", "workers", "step_time_ms", "bubble", "fullest_gpu_gib",
                                     "live_activations")",
                          "pipeline_schedules",
                          R"("settings": {"gpus": 4, "depth": 8, "dim": 64, "batch": 256},
                             "vary": [{"schedule": ["gpipe", "1f1b"], "microbatches": [4, 8]},
                                      {"schedule": ["gpipe", "option-c"], "workers": "one", "microbatches": 8}])",
                          true);
  check_golden("scenario_answers.txt", all);
}

TEST_CASE("HW3.4: times less than 1 % apart are the same, and what is gained is memory in one unit") {
  const TemporaryFolder folder;
  write_machine(folder, {}, 1);
  const std::string path = folder.write(
      "a.json", R"({"id": "x", "title": "t", "question": "?", "columns": ["gpus"], "answer": "more_gpus", )" +
                    std::string(kTiny) + R"(, "vary": {"gpus": [2, 4]}})");
  ScenarioTable table = evaluate_scenario(load_scenario(path, scenario_names()), folder / "tiny/profile.json");
  const auto answer = [&](double two_ms, double four_ms) {
    table.rows[0].predicted.result.step_time.median_ms = two_ms;
    table.rows[1].predicted.result.step_time.median_ms = four_ms;
    table.rows[0].predicted.result.peak_memory_bytes = {1536 << 20, 1536 << 20};
    table.rows[1].predicted.result.peak_memory_bytes = {512 << 20, 512 << 20, 512 << 20, 512 << 20};
    return scenario_text(table, 100'000);
  };
  CHECK_THAT(answer(318.46, 317.77),
             ContainsSubstring("Is it faster on 4 GPUs than on 2? No, the same: 317.77 ms against 318.46 ms (both "
                               "predicted), less than 1 % apart. The GPUs take "
                               "turns, 0.99 at once on average. What is gained is memory: the fullest GPU holds 0.50 "
                               "GiB instead of 1.50 GiB."));
  CHECK_THAT(answer(100, 98),
             ContainsSubstring(
                 "than on 2? Yes: 98.00 ms against 100.00 ms (both predicted), 2.0 % less time. The fullest GPU"));
  CHECK_THAT(answer(100, 102),
             ContainsSubstring(
                 "than on 2? No: 102.00 ms against 100.00 ms (both predicted), 2.0 % more time. The fullest GPU"));
}

TEST_CASE("HW4: where no GPipe fits, whatever its workers, by memory of one kind") {
  const TemporaryFolder folder;
  const std::string settings = R"("settings": {"gpus": 4, "depth": 8, "dim": 64, "batch": 256, "microbatches": 8}, )";
  const std::string rows =
      R"("configurations": [{"schedule": "gpipe"}, {"schedule": "1f1b"}, {"schedule": "gpipe", "workers": "one"}]})";
  write_machine(folder, {}, 1);
  const std::string path = folder.write(
      "a.json", R"({"id": "x", "title": "t", "question": "?", "columns": ["gpus"], "answer": "pipeline_schedules", )" +
                    settings + rows);
  ScenarioTable table = evaluate_scenario(load_scenario(path, scenario_names()), folder / "tiny/profile.json");
  const auto answer = [&](std::int64_t gpipe, std::int64_t one_f_one_b, std::int64_t one_thread) {
    const std::int64_t mib[] = {gpipe, one_f_one_b, one_thread};
    for (std::size_t r = 0; r < 3; ++r)
      table.rows[r].predicted.result.peak_memory_bytes = std::vector<std::int64_t>(4, mib[r] << 20);
    return scenario_text(table, 100'000);
  };
  CHECK_THAT(answer(1000, 800, 900), ContainsSubstring("on GPUs with less than 900.00 MiB no GPipe of this table fits, "
                                                       "1F1B with 8 micro-batches does, in 800.00 MiB and "));
  CHECK_THAT(answer(1000, 800, 900), ContainsSubstring(" ms (all predicted)."));
  CHECK_THAT(answer(1000, 950, 900), !ContainsSubstring("It wins where memory decides"));
  // Amounts that are compared have one unit.
  CHECK_THAT(answer(1536, 1000, 1536),
             ContainsSubstring("the fullest GPU holds 0.98 GiB, with GPipe 1.50 GiB: 34.9 % less."));
  // What was measured beside it says nothing of the others' kind: all measured, or all predicted.
  for (ScenarioRow& row : table.rows) row.measured = row.predicted;
  for (std::size_t r = 0; r < 3; ++r)
    table.rows[r].measured->result.peak_memory_bytes = std::vector<std::int64_t>(4, (700 + 100 * ((r + 1) % 3)) << 20);
  CHECK_THAT(answer(1000, 950, 900), !ContainsSubstring("It wins where memory decides"));  // measured: 800, 900, 700
  table.rows[1].measured->result.peak_memory_bytes = std::vector<std::int64_t>(4, 600 << 20);
  CHECK_THAT(answer(1000, 950, 900), ContainsSubstring("on GPUs with less than 700.00 MiB no GPipe of this table fits, "
                                                       "1F1B with 8 micro-batches does, in 600.00 MiB and "));
}

TEST_CASE("GPUs that hold several stages: layers and moves are counted by GPU") {
  const TemporaryFolder folder;
  write_machine(folder, {}, 1);
  const std::string text =
      golden_of(folder, R"("layers", "transfers_forward", "live_activations")", "all_gpus",
                R"("settings": {"gpus": 2, "depth": 8, "dim": 64, "batch": 256, "microbatches": 4, "tf": 1, "tb": 2},
                   "vary": {"schedule": ["zb-v", "interleaved"]})");
  CHECK_THAT(text, ContainsSubstring("0-1, 6-7 | 2-3, 4-5"));  // v: the last stage is on GPU 0
  CHECK_THAT(text, ContainsSubstring("0-1, 4-5 | 2-3, 6-7"));
  CHECK_THAT(text, ContainsSubstring("8 layers on 2 GPUs: 4, 4."));
  CHECK_THAT(text, ContainsSubstring("NOT give the map of every row."));
}

TEST_CASE("a batch that does not divide: the slices that there are, not those asked for") {
  const TemporaryFolder folder;
  write_machine(folder, {}, 1);
  const std::string text =
      golden_of(folder, R"("microbatches", "bubble")", "option_b_gpipe",
                R"("settings": {"schedule": "gpipe", "workers": "one", "gpus": 4, "depth": 8, "dim": 64, "batch": 5},
         "vary": {"microbatches": [2, 4]})");
  CHECK_THAT(text, ContainsSubstring("3 micro-batches: bubble"));  // 2 2 1
  CHECK(text.find("4 micro-batches: bubble") == std::string::npos);
  CHECK_THAT(text, ContainsSubstring("with 3 the step takes"));
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
        "the measured runs are those of another host with the same cards (zz-b/runs_on_host_1), which has measured "
        "most rows, 4 of 5");
  CHECK_THAT(scenario_text(tables.front(), 1000), ContainsSubstring("measured on Other GPU, predicted from Tiny GPU"));
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

TEST_CASE("only pipelines have a schedule to show") {
  const TemporaryFolder folder;
  write_machine(folder, {}, 1);
  const std::string text = golden_of(folder, R"("schedule", "gpus")", "more_gpus",
                                     R"("settings": {"dim": 64, "depth": 10, "batch": 256}, )"
                                     R"("vary": [{"strategy": "mp", "gpus": 2}, {"schedule": "gpipe", "gpus": 4}])");
  CHECK_THAT(text, ContainsSubstring("\n  1  -            2\n  2  gpipe        4\n"));
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
