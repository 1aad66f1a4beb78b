// Answers to the questions of the scenarios: sentences whose numbers are computed from the table, measured ones where
// there are measurements, predicted ones elsewhere. Which of the two a number is, is said.
//
//   find_answer("more_gpus")->sentences(table)
//   -> {"Step time: 325.10 ms on 2 GPUs (measured), 325.91 ms on 5 GPUs (predicted): 0.2 % slower on 5.", ...}
//
// Adding one: a function and a line in the table of answers.cpp.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace pdl {

struct ScenarioTable;

struct Answer {
  std::string name;
  std::vector<std::string> (*sentences)(const ScenarioTable&);
};

std::span<const Answer> answers();

/// nullptr if there is none of that name.
const Answer* find_answer(const std::string& name);

}  // namespace pdl
