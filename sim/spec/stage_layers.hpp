// How many layers each stage of a replica has.
//
//   12 blocks between an embedding and a head, 4 stages
//     (nothing said)     4,4,3,3      all layers, as even as can be, the first stages with more
//     --split 3,3,3,3    4,3,3,4      numbers of blocks: the embedding joins the first stage, the head the last
//     --split 4,4,3,3    4,4,3,3      numbers of all layers
//
// Not here: `--split auto` (sim/predict/auto_split.hpp), which GPU has which stage (sim/plan/stages.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/spec/run_spec.hpp"

namespace pdl {

/// Of all layers, for so many stages; they add up to them. Throws InputError for `auto` before its numbers were found,
/// and as split_refusal().
std::vector<std::int64_t> stage_layers(const RunSpec& spec, std::int64_t stages);

/// Found and expected, as an error has them: another number of stages, numbers that do not add up. Nothing where no
/// split was said, or it fits.
struct SplitRefusal {
  std::string found, expected;
};
std::optional<SplitRefusal> split_refusal(const Split& split, const Model& model, std::int64_t stages);

}  // namespace pdl
