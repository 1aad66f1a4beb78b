// Which rows an answer compares: a series, whose rows differ in the settings that the question is about, all of them
// measured or all predicted.
//
//   for (const Series& series : series_over(tables, {"gpus"}))      // a model and a batch, on 1, 2, 4 GPUs
//     ... step_ms(series, *series.rows.front()) ... source_of(series) ...     "measured", "predicted, host-bound"
//
// Rule: if two rows or more of a series were measured on one machine, it is these rows, as measured; what was not
// measured is then only in the table. Else it is all rows of the first machine, as predicted. So no sentence has a
// measured number beside a predicted one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/course/answer_words.hpp"
#include "sim/course/questions.hpp"

namespace pdl {

struct Series {
  const ScenarioTable* table;  // whose rows they are
  Rows rows;                   // one at least, in the order of the table
  Side side;
};

/// A series for each set of rows that have the same settings but the named ones; in the order of the first table, then
/// those that only further tables have. Of a series that several machines have, the machine that measured most of it.
std::vector<Series> series_over(const Tables& tables, const std::vector<std::string>& varied);

/// All rows of the tables as one series: those of the machine that measured most, or all of the first as predicted.
Series series_of_all(const Tables& tables);

/// Rows of a series that `keep` keeps; the same side.
template <typename Keep>
Series only(Series series, Keep keep) {
  std::erase_if(series.rows, [&](const ScenarioRow* row) { return !keep(*row); });
  return series;
}

/// The row with so many GPUs, micro-batches, ...: the first that `is` accepts; nullptr if there is none.
template <typename Is>
const ScenarioRow* find_row_of(const Series& series, Is is) {
  for (const ScenarioRow* row : series.rows) {
    if (is(*row)) return row;
  }
  return nullptr;
}

double step_ms(const Series& series, const ScenarioRow& row);
const EvaluatedRun& run_of(const Series& series, const ScenarioRow& row);

/// "measured", "predicted"; "measured on h200x2" of a further machine; ", host-bound" where one of the rows is.
std::string source_of(const Series& series);

}  // namespace pdl
