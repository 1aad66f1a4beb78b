// The kinds of spans as the JSON of a run has them.
//
//   kSpanKinds[static_cast<std::size_t>(TaskKind::backward_input)]      "backward_input"
#pragma once

#include <array>

#include "sim/run/run_result.hpp"

namespace pdl {

/// In the order of TaskKind.
inline constexpr std::array<const char*, kTaskKinds> kSpanKinds = {
    "forward",        "backward",        "backward_input", "backward_weight", "recompute",
    "optimizer",      "send_forward",    "send_backward",  "receive_forward", "receive_backward",
    "all_reduce",     "broadcast",       "reduce",         "scatter",         "gather",
    "bucket_copy_in", "bucket_copy_out", "loss",           "scale_gradients", "sleep"};
static_assert(kSpanKinds.back() != nullptr, "every kind of task has a word");

}  // namespace pdl
