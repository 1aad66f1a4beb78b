// A scenario: one exercise or one set of runs, as a JSON file: which configurations to run, which table to print,
// which question to answer.
//
//   {"id": "hw3_4", "title": "More GPUs", "source": "HW3.4", "question": "Are all GPUs busy? Is 5 faster than 2?",
//    "settings": {"strategy": "mp", "depth": 20, "dim": 8192, "batch": 2048, "microbatches": 1},
//    "vary": {"gpus": [2, 4, 5]},                      every combination
//    "configurations": [{"gpus": 8, "depth": 24}],     and/or these, one by one, after those of `vary`
//    "columns": ["gpus", "layers", "step_time_ms", "speedup", "peak_memory_gib"],
//    "answer": "more_gpus"}
//
// Words and values are those of the command line; the times of stages may be a list of numbers ("tf": [1, 1, 2, 1]; in
// `vary`, where a list is one of values: [[1, 1, 2, 1], [2, 2, 1, 1]]). Words of `vary` and `configurations` replace
// those of `settings`. The combinations are in the order of all_settings(): its first word varies slowest. `vary` may
// also be a list of such objects, each with its own combinations. A scenario holds no times: tables and answers are
// computed.
#pragma once

#include <string>
#include <vector>

#include "sim/spec/run_spec.hpp"

namespace pdl {

/// A row that the program asked for cannot run.
struct LeftOutRow {
  std::size_t number;  // from 1, where it would stand
  RunSpec spec;        // as it was asked for
  RunSpec other;       // as the scenario has it: by the other program
  std::string reason;  // "found schedule zb-h1 with program pytorch, expected ..."
};

struct Scenario {
  std::string path;
  std::string id;
  std::string title;
  std::string source;  // where the exercise is from: "HW3.4"
  std::string question;
  std::string python;  // the equivalent PyTorch program, beside the file: "scenarios/python/hw2_1.py"; empty: none
  std::vector<RunSpec> configurations;  // in the order of the table; no two are the same run
  std::vector<LeftOutRow> left_out;     // by of_program(); the numbers of the others go on behind them
  std::vector<std::string> named;       // settings that the file or the user names, in the order of all_settings()
  std::vector<std::string> columns;     // of ScenarioNames::columns
  std::string answer;                   // of ScenarioNames::answers; empty: no question is asked
};

/// The columns that tables have and the questions that have answers: scenario_names()
/// (sim/report/scenario_columns.hpp).
struct ScenarioNames {
  std::vector<std::string> columns;
  std::vector<std::string> answers;
};

/// `given`: settings of a user, in place of the file's. One that the scenario varies ("gpus": [1, 2, 4]) takes a list
/// ("1,2"); any other a single value, which all rows then have: rows that become the same run are one. Throws
/// InputError naming the file and the place in the JSON: unknown keys, settings, columns, answers (each with the
/// nearest known word), wrong types, no configuration, the same configuration twice, settings that contradict; naming
/// the place of a given setting: one value for what is varied, a list for what is not.
Scenario load_scenario(const std::string& path, const ScenarioNames& known,
                       const std::vector<SettingValue>& given = {});

/// Its rows by one program. Those that the program cannot run, or that become the same run as one before them, are left
/// out. Throws InputError, at `place`, if no row is left.
Scenario of_program(Scenario scenario, ProgramOf program, const std::string& place);

/// A refusal from "found" on: what is wrong, without the place of a word.
std::string without_place(const std::string& refusal);

/// The scenario files *.json of a folder, sorted by name. Throws InputError if there is none.
std::vector<std::string> scenario_files(const std::string& folder);

}  // namespace pdl
