#include "sim/model/checkpointed_layers.hpp"

#include <algorithm>

#include "sim/model/inner_layers.hpp"

namespace pdl {

std::vector<bool> checkpointed_layers(const Model& model) {
  const bool of_blocks = has_blocks(model);
  std::vector<bool> checkpointed;
  for (const Layer& layer : model.layers)
    checkpointed.push_back(of_blocks ? is_block(layer) : !layer.kind->takes_tokens);
  return checkpointed;
}

std::int64_t kept_by_checkpoints(const Model& model, std::int64_t first, std::int64_t count, std::int64_t rows,
                                 Dtype dtype, const std::vector<std::int64_t>& number_bytes) {
  const std::vector<bool> checkpointed = checkpointed_layers(model);
  std::int64_t bytes = 0;
  const auto is_checkpointed = [&](std::int64_t l) { return checkpointed[static_cast<std::size_t>(l)]; };
  for (std::int64_t begin = first, end = first; begin < first + count; begin = end) {
    while (end < first + count && is_checkpointed(end) == is_checkpointed(begin)) ++end;
    if (!is_checkpointed(begin)) bytes += kept_by_autograd(model, begin, end - begin, rows, dtype, number_bytes);
    for (std::int64_t l = begin; is_checkpointed(begin) && l < end; ++l) {
      const auto index = static_cast<std::size_t>(l);
      const bool kept_before =
          l > first && l == begin &&
          autograd_tensors(model.layers[index - 1], {rows, dtype, number_bytes[index - 1], l > 1}).keeps_result;
      if (!kept_before) bytes += rows * input_numbers(model.layers[index]) * number_bytes[index];
    }
  }
  return bytes;
}

std::size_t inner_layers_run_again(const Layer& layer) {
  const std::vector<InnerLayer> inner = inner_layers(layer);
  for (std::size_t i = inner.size(); i-- > 0;) {
    const AutogradTensors tensors = autograd_tensors(inner[i].layer, {});
    const bool is_product = inner[i].layer.kind->scaling == LayerScaling::matrix_product;
    if (tensors.keeps_result || (!is_product && !tensors.kept.empty())) return i + 1;  // what it makes itself
    if (tensors.keeps_input) return i;
  }
  return 0;
}

bool runs_again_to_its_end(const Layer& layer) {
  return inner_layers_run_again(layer) == inner_layers(layer).size();
}

std::int64_t most_bytes_of_unkept_forward(const Layer& layer, const AutogradCase& at, bool with_casts) {
  const std::vector<InnerLayer> inner = inner_layers(layer);
  const std::vector<std::int64_t> number_bytes = inner_number_bytes(inner, at.dtype, at.input_number_bytes);
  const std::vector<std::size_t> last_taker = last_takers(inner);
  const auto result_bytes = [&](std::size_t result) {
    return at.rows * inner[result].rows * output_numbers(inner[result].layer) * number_bytes[result + 1];
  };
  std::int64_t there = 0, most = 0;
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const InnerLayer& one = inner[i];
    const AutogradTensors tensors =
        autograd_tensors(one.layer, {at.rows * one.rows, at.dtype, number_bytes[place_of(one.from)],
                                     at.input_gradient || one.from != InnerLayer::kInput});
    const std::int64_t casts = with_casts ? bytes_of(tensors.kept_parameters) : 0;
    const std::int64_t own = bytes_of(tensors.kept) + bytes_of(tensors.temporary) + casts;  // while it runs
    const bool is_result = i + 1 == inner.size();
    if (!is_result && !gives_view(one.layer)) there += result_bytes(i);
    most = std::max(most, there + own);
    for (std::size_t before = 0; before < i; ++before)
      if (last_taker[before + 1] == i && !gives_view(inner[before].layer)) there -= result_bytes(before);
  }
  return most;
}

}  // namespace pdl
