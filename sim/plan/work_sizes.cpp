#include "sim/plan/work_sizes.hpp"

#include <algorithm>

namespace pdl {

WorkSizes::WorkSizes(const Plan& plan)
    : plan_(plan), number_bytes_(activation_number_bytes(plan.spec.model, plan.spec.dtype)) {}

void WorkSizes::set(std::int32_t stage, std::int32_t microbatch, Work& work) const {
  const Model& model = plan_.spec.model;
  const auto stage_at = [&](std::int32_t index) -> const Stage& {
    return plan_.stages[static_cast<std::size_t>(index)];
  };
  if (is_compute(work.kind) || is_pipeline_transfer(work.kind))
    work.rows = plan_.microbatch_rows[static_cast<std::size_t>(microbatch)];
  if (is_pipeline_transfer(work.kind)) {
    const auto layer = static_cast<std::size_t>(stage_at(std::max(stage, other_stage(work.kind, stage))).first_layer);
    work.bytes = work.rows * input_numbers(model.layers[layer]) * number_bytes_[layer];
  } else if (work.kind == TaskKind::all_reduce) {
    const Stage& of = stage_at(stage);
    work.bytes = parameters(model, of.first_layer, of.layer_count) * kBytesPerNumber;
  }
}

}  // namespace pdl
