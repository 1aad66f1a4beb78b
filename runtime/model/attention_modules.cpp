#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <torch/types.h>

#include <array>
#include <map>
#include <mutex>
#include <tuple>

#include "runtime/model/autocast.hpp"
#include "runtime/model/layer_module.hpp"

namespace pdl {
namespace {

/// Sizes of both kinds.
struct AttentionSizes {
  std::int64_t heads, kv_heads, head_size, tokens;
  explicit AttentionSizes(const Layer& layer)
      : heads(layer.sizes[0]), kv_heads(layer.sizes[1]), head_size(layer.sizes[2]), tokens(layer.sizes[3]) {}

  /// A view of so many heads of each token: rows x tokens x heads x head_size.
  at::Tensor by_head(const at::Tensor& tensor, std::int64_t of_heads) const {
    return tensor.view({-1, tokens, of_heads, head_size});
  }
};

/// Rows x heads x tokens x head_size, views of rows x tokens x heads x head_size.
struct Heads {
  at::Tensor queries, keys, values;
};

// ---- rotary

constexpr double kRotaryBase = 10000;

/// The halves of a head against each other, as Llama's code of Hugging Face has it: (a, b) to (-b, a).
at::Tensor rotated_half(const at::Tensor& x) {
  const std::int64_t half = x.size(-1) / 2;
  return at::cat({-x.narrow(-1, half, half), x.narrow(-1, 0, half)}, -1);
}

at::Tensor rotated(const at::Tensor& heads, const RotaryTables& tables) {
  return heads * tables.cosines + rotated_half(heads) * tables.sines;
}

/// Of queries and keys, which come as products give them; they go on by head, before the tokens.
LayerValue forward_rotary(const ModuleForward& at) {
  const AttentionSizes sizes(at.layer);
  const RotaryTables& tables = rotary_tables(sizes.tokens, sizes.head_size, at.x().device(), at.x().scalar_type());
  return {rotated(sizes.by_head(at.x(), sizes.heads).transpose(1, 2), tables),
          rotated(sizes.by_head(at.other, sizes.kv_heads).transpose(1, 2), tables)};
}

/// Queries and keys of a token stand one after another in the result: by halves, a cos - b sin and b cos + a sin. The
/// gradient is the rotation back.
class RotaryLayer : public PipelineLayer {
 public:
  explicit RotaryLayer(const PipelineLayerParts& parts)
      : sizes_(parts.layer),
        tables_(rotary_tables(sizes_.tokens, sizes_.head_size, parts.device,
                              number_type(parts.dtype, parts.input_number_bytes))) {}

  void forward(const LayerForward& at) override {
    const at::Tensor result = sizes_.by_head(at.result, sizes_.heads + sizes_.kv_heads);
    rotate(sizes_.by_head(at.input, sizes_.heads), result.narrow(2, 0, sizes_.heads), 1);
    rotate(sizes_.by_head(at.other, sizes_.kv_heads), result.narrow(2, sizes_.heads, sizes_.kv_heads), 1);
  }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override {
    rotate(gradient_of(at).narrow(2, 0, sizes_.heads), sizes_.by_head(gradient, sizes_.heads), -1);
  }

  void input_gradients(const LayerBackward& at, at::Tensor& gradient, at::Tensor& other_gradient) override {
    input_gradient(at, gradient);
    rotate(gradient_of(at).narrow(2, sizes_.heads, sizes_.kv_heads), sizes_.by_head(other_gradient, sizes_.kv_heads),
           -1);
  }

 private:
  at::Tensor gradient_of(const LayerBackward& at) const {
    return sizes_.by_head(at.gradient, sizes_.heads + sizes_.kv_heads);
  }

  /// direction: 1, or -1 for back.
  void rotate(const at::Tensor& from, const at::Tensor& to, int direction) const {
    const std::int64_t half = sizes_.head_size / 2;
    const at::Tensor cosines = tables_.cosines.narrow(-1, 0, half).unsqueeze(1);
    const at::Tensor sines = tables_.sines.narrow(-1, 0, half).unsqueeze(1);
    const at::Tensor a = from.narrow(-1, 0, half), b = from.narrow(-1, half, half);
    at::Tensor to_a = to.narrow(-1, 0, half), to_b = to.narrow(-1, half, half);
    at::mul_out(to_a, a, cosines).addcmul_(b, sines, -direction);
    at::mul_out(to_b, b, cosines).addcmul_(a, sines, direction);
  }

  AttentionSizes sizes_;
  const RotaryTables& tables_;
};

// ---- scaled_dot_product

/// Of one product with queries, keys and values one after another; or of rotated queries and keys, and values.
Heads heads_of(const ModuleForward& at, const AttentionSizes& sizes) {
  if (at.other.defined()) return {at.x(), at.input.second, sizes.by_head(at.other, sizes.kv_heads).transpose(1, 2)};
  const std::vector<at::Tensor> parts = sizes.by_head(at.x(), sizes.heads + 2 * sizes.kv_heads)
                                            .split_with_sizes({sizes.heads, sizes.kv_heads, sizes.kv_heads}, 2);
  return {parts[0].transpose(1, 2), parts[1].transpose(1, 2), parts[2].transpose(1, 2)};
}

LayerValue forward_attention(const ModuleForward& at) {
  const AttentionSizes sizes(at.layer);
  const auto [queries, keys, values] = heads_of(at, sizes);
  const at::Tensor result =
      torch::scaled_dot_product_attention(queries, keys, values, /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                          /*is_causal=*/true, /*scale=*/std::nullopt,
                                          /*enable_gqa=*/sizes.kv_heads < sizes.heads);
  return {result.transpose(1, 2).reshape({result.size(0), -1})};
}

/// LibTorch's kernels, which make new tensors: on CUDA the memory-efficient one, which serves fp32; on the CPU its
/// flash attention. Neither takes fewer heads of keys than of queries: those are repeated, and their gradients added.
/// Under autocast on CUDA the flash kernel, which takes them; an input that comes in fp32 is cast and kept.
class AttentionLayer : public PipelineLayer {
 public:
  explicit AttentionLayer(const PipelineLayerParts& parts)
      : sizes_(parts.layer),
        in_half_(is_amp(parts.dtype)),
        casts_input_(in_half_ && parts.input_number_bytes == kBytesPerNumber) {}

  void forward(const LayerForward& at) override {
    const at::Tensor input = own_input(at.input, at.other, at.kept);
    if (casts_input_) input.copy_(at.input);
    const auto [queries, keys, values] = repeated(heads_of(input, at.other));
    at::Tensor result, sums;
    if (takes_groups(queries)) {
      std::tie(result, sums, std::ignore, std::ignore, std::ignore, std::ignore, philox_seed_, philox_offset_,
               std::ignore) = at::_scaled_dot_product_flash_attention(queries, keys, values, 0.0, kCausal);
    } else if (queries.is_cuda()) {
      std::tie(result, sums, philox_seed_, philox_offset_) = at::_scaled_dot_product_efficient_attention(
          queries, keys, values, {}, /*compute_log_sumexp=*/true, 0, kCausal);
    } else {
      std::tie(result, sums) = at::_scaled_dot_product_flash_attention_for_cpu(queries, keys, values, 0, kCausal);
    }
    sizes_.by_head(at.result, sizes_.heads).copy_(result.transpose(1, 2));
    // The CUDA kernel's rows are of a multiple of 32 tokens.
    at.kept[0].narrow(0, 0, sums.numel()).view(sums.sizes()).copy_(sums);
  }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override { gradients(at, gradient, {}); }

  void input_gradients(const LayerBackward& at, at::Tensor& gradient, at::Tensor& other_gradient) override {
    gradients(at, gradient, other_gradient);
  }

 private:
  static constexpr bool kCausal = true;

  /// Of what comes, or of its gradient; `other`: the values, where they come apart.
  Heads heads_of(const at::Tensor& input, const at::Tensor& other) const {
    const std::int64_t heads = sizes_.heads, kv_heads = sizes_.kv_heads;
    const at::Tensor all = sizes_.by_head(input, heads + (other.defined() ? 1 : 2) * kv_heads);
    const at::Tensor values =
        other.defined() ? sizes_.by_head(other, kv_heads) : all.narrow(2, heads + kv_heads, kv_heads);
    return {all.narrow(2, 0, heads).transpose(1, 2), all.narrow(2, heads, kv_heads).transpose(1, 2),
            values.transpose(1, 2)};
  }

  /// In half precision where autocast has it so.
  at::Tensor own_input(const at::Tensor& input, const at::Tensor& other, Tensors kept) const {
    if (!casts_input_) return input;
    TORCH_CHECK(!other.defined(), "values that come apart from queries and keys in fp32 under autocast");
    return kept[1].view_as(input);
  }

  /// The flash kernel of CUDA.
  bool takes_groups(const at::Tensor& queries) const { return in_half_ && queries.is_cuda(); }

  Heads repeated(const Heads& heads) const {
    const std::int64_t times = sizes_.heads / sizes_.kv_heads;
    if (times == 1 || takes_groups(heads.queries)) return heads;
    return {heads.queries, heads.keys.repeat_interleave(times, 1), heads.values.repeat_interleave(times, 1)};
  }

  /// `to`: rows x kv_heads x tokens x head_size.
  void add_repeated(at::Tensor to, const at::Tensor& gradient) const {
    const std::int64_t times = gradient.size(1) / sizes_.kv_heads;
    times == 1 ? to.copy_(gradient) : to.copy_(gradient.unflatten(1, {sizes_.kv_heads, times}).sum(2));
  }

  void gradients(const LayerBackward& at, const at::Tensor& gradient, const at::Tensor& other_gradient) const {
    const auto [queries, keys, values] = repeated(heads_of(own_input(at.input, at.other, at.kept), at.other));
    const at::Tensor result = sizes_.by_head(at.result, sizes_.heads).transpose(1, 2);
    const at::Tensor of_result = sizes_.by_head(at.gradient, sizes_.heads).transpose(1, 2);
    at::Tensor of_queries, of_keys, of_values, of_mask;
    if (takes_groups(queries)) {
      std::tie(of_queries, of_keys, of_values) = at::_scaled_dot_product_flash_attention_backward(
          of_result, queries, keys, values, result, sums(at, 1), /*cum_seq_q=*/{}, /*cum_seq_k=*/{}, sizes_.tokens,
          sizes_.tokens, 0.0, kCausal, philox_seed_, philox_offset_);
    } else if (queries.is_cuda()) {
      std::tie(of_queries, of_keys, of_values, of_mask) = at::_scaled_dot_product_efficient_attention_backward(
          of_result, queries, keys, values, /*attn_bias=*/{}, result, sums(at, 32), philox_seed_, philox_offset_, 0,
          {true, true, true, false}, kCausal);
    } else {
      std::tie(of_queries, of_keys, of_values) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          of_result, queries, keys, values, result, sums(at, 1), 0, kCausal);
    }
    Heads to = heads_of(gradient, other_gradient);
    to.queries.copy_(of_queries);
    add_repeated(to.keys, of_keys);
    add_repeated(to.values, of_values);
  }

  /// As the forward kept them: rows x heads x tokens, up to the next multiple.
  at::Tensor sums(const LayerBackward& at, std::int64_t multiple) const {
    const std::int64_t rows = at.result.numel() / (sizes_.tokens * sizes_.heads * sizes_.head_size);
    const std::int64_t tokens = (sizes_.tokens + multiple - 1) / multiple * multiple;
    return at.kept[0].narrow(0, 0, rows * sizes_.heads * tokens).view({rows, sizes_.heads, tokens});
  }

  AttentionSizes sizes_;
  bool in_half_, casts_input_;
  at::Tensor philox_seed_, philox_offset_;  // of the last forward: without dropout nothing is drawn
};

}  // namespace

const RotaryTables& rotary_tables(std::int64_t tokens, std::int64_t head_size, at::Device device, at::ScalarType type) {
  using Key = std::tuple<std::int64_t, std::int64_t, std::string, at::ScalarType>;
  static std::mutex mutex;
  static auto* const made = new std::map<Key, RotaryTables>;  // stays: CUDA ends before static objects do
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = made->try_emplace({tokens, head_size, device.str(), type});
  if (!is_new) return place->second;
  const c10::InferenceMode as_autograd_takes_it(false);
  const at::NoGradGuard no_grad;
  const at::Tensor powers = at::arange(0, head_size, 2, at::kFloat) / static_cast<double>(head_size);
  const at::Tensor frequencies = at::pow(kRotaryBase, -powers);
  const at::Tensor half = at::outer(at::arange(tokens, at::kFloat), frequencies);
  const at::Tensor angles = at::cat({half, half}, -1);
  // From the host: a copy of this kind has ended when it returns, whichever stream reads the tables.
  place->second = {angles.cos().to(type).to(device), angles.sin().to(type).to(device)};
  return place->second;
}

std::span<const LayerModule> attention_modules() {
  static constexpr std::array kModules = {
      LayerModule{"rotary", nullptr, forward_rotary, make_layer<RotaryLayer>},
      LayerModule{"scaled_dot_product", nullptr, forward_attention, make_layer<AttentionLayer>},
  };
  return kModules;
}

}  // namespace pdl
