// An exercise as a document: title, the questions of the sheet with their answers, then the table, a row a
// configuration, predicted beside measured, and charts.
//
//   HW1.2: Strong scaling: a global batch of 64 on more and more GPUs (DDP)
//   HW1.2 Q1: Is the speed-up linear? No: ...
//
//   row  GPUs  predicted step  measured step  error  speed-up
//                   time (ms)      time (ms)    (%)
//   ---------------------------------------------------------
//     1     1           10.17          10.28   -1.1      1.00
//
// A column of GPUs makes a row a GPU of it. A number that is not the step time has one column: of the measured run
// where the row has one, else of the prediction. Further machines have a table each, of the rows that they measured.
//
// Columns: scenario_columns.hpp. Charts: scenario_figures.hpp. Answers: sim/course/questions.hpp.
#pragma once

#include <vector>

#include "sim/course/questions.hpp"
#include "sim/report/document.hpp"

namespace pdl {

/// A book, with a heading each, of several exercises. `exercises`: the tables of each, one at least.
Document scenario_document(const std::vector<Tables>& exercises);

}  // namespace pdl
