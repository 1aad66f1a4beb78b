// A machine in a folder, for tests of exercises: a tiny profile, and measured runs written by hand beside it.
//
//   const ExerciseMachine machine;                                 // 4 layers: forward 4 ms, backward 8 ms, exchange 8
//                                                                  ms
//   machine.measure("--strategy ddp --gpus 2 --batch 64", 10.0);
//   const Tables tables = machine.tables("strong_scaling", R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2]})");
//   answer(tables, "HW1.2 Q1")
#pragma once

#include <string>
#include <vector>

#include "sim/course/questions.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/predict.hpp"
#include "sim/report/scenario_columns.hpp"
#include "sim/run/run_json.hpp"
#include "sim/run/run_name.hpp"
#include "sim/study/evaluate_scenario.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_profile.hpp"

namespace pdl {

class ExerciseMachine {
 public:
  ExerciseMachine() {
    folder_.write("tiny/runs/nothing", "");
    folder_.write("tiny/runs_pytorch/nothing", "");
    save_profile(tiny_profile(), folder_ / "tiny/profile.json");
  }

  /// A measured run whose steps took `median_ms`. `extra`: losses, warm-up, ... as pdl-run writes them.
  void measure(const std::string& flags, double median_ms, const nlohmann::json& extra = {},
               const std::vector<MeasuredStep>& steps = {}, const std::vector<std::int64_t>& memory = {}) const {
    RunResult run = predict(spec("--depth 4 --dim 8192 --tf 4 --tb 8 --tcomm 8 " + flags), nullptr);
    run.measured = true;
    run.step_time = {median_ms, median_ms * 0.99, median_ms * 1.02, 30};
    run.environment = {{"card", "Tiny GPU"}};
    run.extra = extra;
    run.steps = steps;
    if (!memory.empty()) run.peak_memory_bytes = memory;
    const std::string runs = run.spec.program == ProgramOf::pytorch ? "tiny/runs_pytorch/" : "tiny/runs/";
    write_run(run, folder_ / (runs + run_name(run.spec) + ".json"));
  }

  /// The table of a scenario with the given settings and what varies.
  Tables tables(const std::string& exercise, const std::string& settings, const std::string& vary,
                const std::string& columns = R"("gpus")") const {
    const Scenario scenario = this->scenario(exercise, settings, vary, columns);
    return {evaluate_scenario(scenario, folder_ / "tiny/profile.json")};
  }

  /// The same by PyTorch's program.
  Tables tables_by_pytorch(const std::string& exercise, const std::string& settings, const std::string& vary,
                           const std::string& columns) const {
    const Scenario scenario = this->scenario(exercise, settings, vary, columns);
    return {evaluate_scenario(of_program(scenario, ProgramOf::pytorch, "--program"), folder_ / "tiny/profile.json")};
  }

 private:
  Scenario scenario(const std::string& exercise, const std::string& settings, const std::string& vary,
                    const std::string& columns) const {
    const std::string path = folder_.write(
        "scenario.json", R"({"id": "x", "title": "t", "columns": [)" + columns + R"(], "answer": ")" + exercise +
                             R"(", "settings": {"depth": 4, "dim": 8192, "tf": 4, "tb": 8, "tcomm": 8, )" + settings +
                             R"(}, "vary": )" + vary + "}");
    return load_scenario(path, scenario_names());
  }

  TemporaryFolder folder_;
};

/// The answer to one question of the tables' exercise.
inline std::string answer(const Tables& tables, const std::string& id) {
  for (const KeyedAnswer& found : answers_of(tables.front().scenario.answer, tables)) {
    if (found.id == id) return found.text;
  }
  return "no answer to " + id;
}

/// The tables as they would be if the predictions of all rows said that the host bounds them.
inline Tables host_bound(Tables tables) {
  for (ScenarioRow& row : tables.front().rows)
    row.predicted.result.warnings.push_back(std::string(kHostBoundWarning) + ": drawn so");
  return tables;
}

}  // namespace pdl
