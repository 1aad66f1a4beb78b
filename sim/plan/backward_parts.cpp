#include "sim/plan/backward_parts.hpp"

#include <cstddef>

#include "sim/plan/plan.hpp"

namespace pdl {

std::vector<bool> layers_run_again(const Plan& plan) {
  const Program program = plan.parallel.program;
  const bool of_layers = plan.spec.recompute && (program == Program::one_thread || program == Program::ddp);
  return of_layers ? checkpointed_layers(plan.spec.model) : std::vector<bool>(plan.spec.model.layers.size(), false);
}

std::vector<BackwardPart> backward_parts(const std::vector<bool>& run_again, std::int32_t first, std::int32_t count,
                                         bool loss) {
  std::vector<BackwardPart> parts;
  for (std::int32_t layer = first + count; layer-- > first;) {
    const bool again = run_again[static_cast<std::size_t>(layer)];
    const bool with_loss = loss && parts.empty();
    if (with_loss && again) parts.push_back({layer + 1, 0, false, true});
    if (!again && !parts.empty() && !parts.back().runs_again && parts.back().layer_count > 0) {
      --parts.back().first_layer;
      ++parts.back().layer_count;
      continue;
    }
    parts.push_back({layer, 1, again, with_loss && !again});
  }
  return parts;
}

}  // namespace pdl
