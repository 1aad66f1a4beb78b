// Answers to the questions of the scenarios: sentences whose numbers are computed from the table. Measured numbers
// where everything that a sentence compares was measured, predicted ones elsewhere; which of the two is said.
//
//   find_answer("more_gpus")->sentences(table)
//   -> {"Is it faster on 5 GPUs than on 2? No: 325.91 ms against 325.10 ms (both predicted), 0.2 % more time.", ...}
//
// Adding one: sim/report/exercises.hpp.
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
