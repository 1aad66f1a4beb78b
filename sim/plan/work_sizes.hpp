// What batch and width decide of the work of a pipeline: its rows and its bytes. Steps that differ in nothing else have
// the same tasks (sim/plan/plan_maker.hpp).
//
//   const WorkSizes sizes(plan);
//   sizes.set(/*stage=*/1, /*microbatch=*/0, work);     // rows 256, bytes of a message 256 x 8192 x 4
//
// Units: bytes. Not here: works of the other programs.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/plan.hpp"

namespace pdl {

class WorkSizes {
 public:
  /// Of a plan with stages and rows, which must outlive this.
  explicit WorkSizes(const Plan& plan);

  /// Of the work of a stage's task, whose kind is set. What moves between two stages is the input of the higher one, or
  /// its gradient; all-reduced are the gradients of the stage.
  void set(std::int32_t stage, std::int32_t microbatch, Work& work) const;

 private:
  const Plan& plan_;
  std::vector<std::int64_t> number_bytes_;  // of what goes between two layers
};

}  // namespace pdl
