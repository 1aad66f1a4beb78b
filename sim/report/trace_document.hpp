// What a trace of torch.profiler says of a step, for people: where it goes on each GPU, which kernels take its time,
// and where the GPU waited for its host.
//
//   trace_document({traced_step(read_kineto_trace("rank0.json"), std::nullopt)})       the last step that it has
//
// Several files are ranks of one training. Not here: predictions (compare_document.hpp).
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "sim/report/document.hpp"
#include "sim/run/kineto_trace.hpp"
#include "sim/run/trace_step.hpp"

namespace pdl {

Document trace_document(const std::vector<TracedStep>& steps);

/// The same as data: every part, count and sum, units in the keys.
nlohmann::ordered_json trace_json(const std::vector<TracedStep>& steps);

}  // namespace pdl
