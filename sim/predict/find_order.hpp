// `--schedule auto`: the order with the least predicted step time for a spec.
//
//   if (needs_search(spec)) spec = with_found_order(spec, &families, 40LL << 30);
//   spec.schedule_file->order       // and spec.schedule_file->warnings says what it was found from
//
// Searched: one chunk a GPU, and two down and up again (with --chunks only those with so many). Costs are those of the
// profile, layer by layer; what an order needs in memory is that of sim/memory/memory.hpp.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/cost/layer_families.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

/// True for schedule "auto" without an order.
bool needs_search(const RunSpec& spec);

/// Of replicas and of rounds: the order of one, without overlapping steps unless they are asked for.
/// Throws CannotRun if every order that was tried needs more than the limit.
RunSpec with_found_order(const RunSpec& spec, LayerFamilies* families, std::optional<std::int64_t> memory_limit_bytes);

}  // namespace pdl
