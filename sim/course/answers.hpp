// Answers to the questions of the scenarios: sentences whose numbers are computed from the table.
//
//   answer_sentences(table)
//   -> {"Is it faster on 5 GPUs than on 2? No: 325.91 ms against 325.10 ms (both predicted), 0.2 % more time.", ...}
//
// Rows that were measured are answered for by themselves, as measured; then, where others were not, those as predicted,
// with the measured ones that they are to be compared with. So a row that was not measured changes nothing that is said
// of those that were, and no sentence compares a measurement with a prediction.
//
// Adding one: sim/course/exercises.hpp.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace pdl {

struct ScenarioTable;

/// Which rows the sentences of an answer compare with each other. `nothing`: each row is spoken of by itself, or what
/// is said follows from the plans and not from times.
enum class Compares { rows_of_a_model, all_rows, nothing };

struct Answer {
  std::string name;
  /// The rows of the table are all measured, or none of them is; with Compares::nothing the table is as it is. A
  /// sentence that ends in ':' heads those that follow.
  std::vector<std::string> (*sentences)(const ScenarioTable&);
  Compares compares = Compares::rows_of_a_model;
};

std::span<const Answer> answers();

/// nullptr if there is none of that name.
const Answer* find_answer(const std::string& name);

/// The answer of the table's scenario; nothing if it asks no question.
std::vector<std::string> answer_sentences(const ScenarioTable& table);

}  // namespace pdl
