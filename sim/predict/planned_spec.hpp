// How every prediction begins and ends: on which device and hosts, in which order; and whether the memory is there.
//
//   const Plan plan = make_plan(planned_spec(asked, &families, limit));
//   ...
//   check_memory(result, families.profile(), limit);                      // throws OutOfMemory
//
// For predict() and for searches that need only a part of it (step_alone.hpp). Units: bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/cost/layer_families.hpp"
#include "sim/io/error.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

/// A GPU needs more than it may.
struct OutOfMemory : CannotRun {
  OutOfMemory(const std::string& message, std::int64_t needed) : CannotRun(message), needed_bytes(needed) {}
  std::int64_t needed_bytes;  // of the GPU that needs most
};

/// On the device and the hosts of the profile, with layers for each stage and an order. `families`: nullptr where costs
/// are synthetic. Throws as with_found_split(), with_found_order() and on_hosts_of_profile().
RunSpec planned_spec(const RunSpec& asked, LayerFamilies* families, std::optional<std::int64_t> memory_limit_bytes);

/// Throws OutOfMemory where a GPU needs more than `limit_bytes`; without a limit, more than the GPU of the profile has,
/// where that is known and costs are not synthetic.
void check_memory(const RunResult& result, const CostProfile* profile, std::optional<std::int64_t> limit_bytes);

/// The profile, as RunResult::environment has it.
nlohmann::json environment_of(const CostProfile& profile);

}  // namespace pdl
