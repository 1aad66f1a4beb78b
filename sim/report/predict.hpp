// The whole prediction: plan -> price -> run -> timeline -> memory.
//
//   const CostProfile profile = load_profile("h100x4");
//   RunResult predicted = predict(spec, &profile);       // or predict(spec, nullptr) for a spec with synthetic costs
//
// Step time: the last end of a task, and the overhead of a step as a whole that the profile has.
#pragma once

#include "sim/cost/cost_profile.hpp"
#include "sim/report/run_result.hpp"

namespace pdl {

/// `profile` is not used (and may be nullptr) if the spec has synthetic costs. Throws InputError as make_plan and
/// price; CannotRun for a deadlock, and if a GPU would need more memory than the profile's cards have.
RunResult predict(const RunSpec& spec, const CostProfile* profile);

}  // namespace pdl
