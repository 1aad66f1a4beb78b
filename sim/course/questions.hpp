// Every question of the course's sheets, and one answer a question: a sentence or two with numbers of the exercise's
// rows, which are said to be measured or predicted.
//
//   answers_of("strong_scaling", tables)
//   -> {{"HW1.2 E", "Step time, speed-up ... on 1, 2 and 4 GPUs?", "8 layers of 8192, batch 64 (measured): ..."},
//       {"HW1.2 Q1", "Is the speed-up linear?", "No: ..."}, ...}
//
// E: an experiment, Q: a question, C: code to hand in. The wording is ours.
//
// Adding one: a function in the file of its homework (answers_*.cpp), a line in exercises.hpp and one in questions.cpp.
// What a function is given and what it may compare: sim/course/series.hpp.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/study/scenario_table.hpp"

namespace pdl {

/// The rows of an exercise: of each machine its own, the one that measured most of them first.
using Tables = std::vector<ScenarioTable>;

struct Question {
  const char* id;        // "HW1.2 Q1": unique
  const char* exercise;  // Scenario::answer of the scenario that has its rows
  const char* wording;
  /// Empty where the rows do not say it (settings of a user, who may have left out what it needs). Null: not yet
  /// answered.
  std::string (*answer)(const Tables&);
};

/// In the order of the sheets.
std::span<const Question> questions();

/// The exercises that have questions, in the order of the sheets, each once: what a scenario may name.
std::vector<std::string> exercises();

struct KeyedAnswer {
  std::string id, question, text;
};

/// Of an exercise's questions, in the order of the sheets. `tables`: one at least. Nothing for an empty name.
std::vector<KeyedAnswer> answers_of(const std::string& exercise, const Tables& tables);

}  // namespace pdl
