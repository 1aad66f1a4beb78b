#include "sim/spec/stage_layers.hpp"

#include <numeric>

#include "sim/io/error.hpp"
#include "sim/spec/split.hpp"

namespace pdl {
namespace {

/// A split has at most as many stages as a run may have, whose layers are below a million each: no overflow.
std::int64_t sum_of(const std::vector<std::int64_t>& layers) {
  return std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
}

std::string counted(std::int64_t number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

}  // namespace

std::optional<SplitRefusal> split_refusal(const Split& split, const Model& model, std::int64_t stages) {
  if (split.layers.empty()) return std::nullopt;
  const auto numbers = static_cast<std::int64_t>(split.layers.size());
  if (numbers != stages)
    return SplitRefusal{to_string(split) + ", which is " + counted(numbers, "number"),
                        counted(stages, "number") + ", one for each stage"};
  const std::int64_t sum = sum_of(split.layers), all = std::ssize(model.layers);
  const auto blocks = blocks_of(model);
  if (sum == all || (blocks && sum == blocks->count)) return std::nullopt;
  return SplitRefusal{to_string(split) + ", which adds up to " + std::to_string(sum),
                      (blocks ? std::to_string(blocks->count) + ", the number of blocks, or " : "") +
                          std::to_string(all) + ", the number of " + (blocks ? "all " : "") + "layers"};
}

std::vector<std::int64_t> stage_layers(const RunSpec& spec, std::int64_t stages) {
  const std::int64_t all = std::ssize(spec.model.layers);
  if (spec.split.layers.empty()) {
    if (spec.split.is_auto)
      throw InputError("--split", "auto, which is found by pdl-sim", "the layers of each stage: what pdl-sim says");
    return spread(all, stages);
  }
  if (const auto refusal = split_refusal(spec.split, spec.model, stages))
    throw InputError("--split", refusal->found, refusal->expected);
  std::vector<std::int64_t> layers = spec.split.layers;
  if (sum_of(layers) == all) return layers;
  const BlockRange blocks = *blocks_of(spec.model);
  layers.front() += blocks.first;
  layers.back() += all - blocks.first - blocks.count;
  return layers;
}

}  // namespace pdl
