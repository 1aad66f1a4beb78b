// `--split auto`: which layers each stage has. From the even split and from that whose longest stage takes as little as
// can be, layers are moved from stage to stage as long as the step gets shorter, compared by steps where nothing runs
// beside anything. What both lead to and the even split are predicted, and the fastest is taken.
//
//   smallest_largest_stage({2, 2, 2, 9}, 2)     3,1: stages of 6 and 9
//   if (needs_split(spec)) spec = with_found_split(spec, &families);
//
// The cost of a layer is the device time of its forward and its backward of one micro-batch, as the profile prices them
// on one GPU; with synthetic costs, which are those of a stage, layers cost all the same. Never slower than the even
// split; that there is no faster one is not said: 6 to 60 are tried. Memory is not looked at. Found before the order of
// `--schedule auto`, which then keeps as many stages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cost/layer_families.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

/// True for split "auto" without its numbers.
bool needs_split(const RunSpec& spec);

/// With the numbers of all layers. `families`: nullptr where costs are synthetic. Throws as make_plan and
/// price_by_profile.
RunSpec with_found_split(const RunSpec& spec, LayerFamilies* families);

/// For what only needs a plan of that kind, not this very one: `auto` is as even as can be.
RunSpec evenly_split(RunSpec spec);

/// Nanoseconds of a micro-batch, by layer of the model, none below 0.
std::vector<std::int64_t> layer_costs_ns(const RunSpec& spec, LayerFamilies& families);

/// How many of the costs each part has, one behind the other, at least one each; the largest sum of a part is the least
/// that there is. Of several such, each part in turn reaches the mean of what is left, as far as the others allow.
/// 1 <= parts <= costs; their sum fits 64 bits.
std::vector<std::int64_t> smallest_largest_stage(std::span<const std::int64_t> costs, std::int64_t parts);

}  // namespace pdl
