// Two runs side by side: usually the prediction and the measurement of one configuration.
//
//   quantity   unit  A, predicted  B, measured  A - B (% of B)
//   ----------------------------------------------------------
//   step time  ms          52.110       52.034            +0.1
//
// Runs of different configurations may be compared too; the settings that differ are listed first.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "sim/report/run_document.hpp"

namespace pdl {

struct ComparedRun {
  std::string name;  // what it is called, the path of its file
  std::shared_ptr<const RunResult> run;
  std::optional<Explanation> explanation = std::nullopt;
};

/// Explanations are shown where both runs have one.
Document compare_document(const ComparedRun& a, const ComparedRun& b, const RunStyle& style);

}  // namespace pdl
