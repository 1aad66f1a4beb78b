#include "calibrate/probe/transformer_shapes.hpp"

#include <algorithm>

namespace pdl {
namespace {

/// GPT-2's smallest, a power of two, Llama's smallest.
struct Widths {
  std::int64_t features = 0, inner = 0, fused = 0;  // fused: queries, keys and values in one product; 0: three of them
};

struct Grid {
  std::vector<Widths> widths;
  std::vector<std::int64_t> tokens;                               // rows of products
  std::vector<std::pair<std::int64_t, std::int64_t>> vocabulary;  // features, tokens that there are
  std::vector<std::int64_t> head_sizes, sequences;
  std::vector<std::int64_t> heads;         // of all sequences at once, over 12
  std::vector<std::int64_t> rows_of_1024;  // of row-wise kinds
  std::vector<std::int64_t> norm_widths, norm_rows;
  std::vector<std::int64_t> embedded;  // tokens
  std::vector<std::int64_t> loss_tokens;
  std::int64_t loss_vocabulary = 0;
};

Grid of_gpu(Dtype dtype) {
  return {.widths = {{768, 3072, 2304}, {2048, 8192, 6144}, {4096, 11008, 0}},
          .tokens = is_amp(dtype) ? std::vector<std::int64_t>{4096, 16384} : std::vector<std::int64_t>{8192},
          .vocabulary = {{768, 50257}, {1600, 50257}, {2048, 50304}, {4096, 32000}},
          .head_sizes = {64, 128},
          .sequences = {512, 1024, 2048},
          .heads = {1, 8, 64},
          .rows_of_1024 = {512, 4096, 32768, 262144},
          .norm_widths = {768, 2048, 4096},
          .norm_rows = {1024, 8192, 65536},
          .embedded = {512, 4096, 32768},
          .loss_tokens = {128, 1024, 8192, 32768},
          .loss_vocabulary = 50304};
}

Grid of_cpu() {
  return {.widths = {{32, 64, 96}},
          .tokens = {32, 64},
          .vocabulary = {{32, 64}},
          .head_sizes = {16},
          .sequences = {16, 32},
          .heads = {1, 2},
          .rows_of_1024 = {4, 16},
          .norm_widths = {32, 64},
          .norm_rows = {32, 128},
          .embedded = {32, 64},
          .loss_tokens = {16, 64},
          .loss_vocabulary = 64};
}

const LayerKind& kind_of(const char* name) {
  return *find_layer_kind(name);
}

class Shapes {
 public:
  Shapes(Dtype dtype, bool cuda, std::int64_t memory_bytes)
      : dtype_(dtype),
        cuda_(cuda),
        most_numbers_(memory_bytes / 16 / kBytesPerNumber),
        grid_(cuda ? of_gpu(dtype) : of_cpu()) {}

  TransformerShapes take() {
    add_products();
    add_attention();
    if (dtype_ != Dtype::tf32) add_row_wise();
    for (const std::int64_t tokens : grid_.loss_tokens) {
      if (tokens * grid_.loss_vocabulary <= most_numbers_)
        shapes_.losses.push_back({"autograd", dtype_, tokens, grid_.loss_vocabulary, Loss::cross_entropy});
    }
    return std::move(shapes_);
  }

 private:
  void add(std::vector<LayerShape>& to, const Layer& layer, std::int64_t rows) const {
    const std::int64_t numbers = rows * std::max(input_numbers(layer), output_numbers(layer));
    const double flops_of_forward = flops(layer, {LayerOperation::forward, rows, dtype_});
    // A forward and a backward, each in several layers, repeated: about a second.
    const double most_flops = dtype_ == Dtype::fp32 ? 4e11 : 2e12;
    if (numbers <= most_numbers_ && flops_of_forward <= most_flops) to.push_back({layer, rows, dtype_, false, true});
  }

  void add_products() {
    for (const std::int64_t tokens : grid_.tokens) {
      for (const auto& [features, inner, fused] : grid_.widths) {
        if (fused > 0) {
          for (const Layer& layer :
               {linear(features, fused), linear(features, features), linear(features, inner), linear(inner, features)})
            add(shapes_.products, layer, tokens);
        } else {
          for (const Layer& layer :
               {linear_no_bias(features, features), linear_no_bias(features, inner), linear_no_bias(inner, features)})
            add(shapes_.products, layer, tokens);
        }
      }
      for (const auto& [features, vocabulary] : grid_.vocabulary)
        add(shapes_.products, linear_no_bias(features, vocabulary), tokens);
    }
  }

  void add_attention() {
    const LayerKind& kind = kind_of("scaled_dot_product");
    constexpr std::int64_t kHeads = 12, kOfLlama = 32, kGroups = 8;
    for (const std::int64_t head_size : grid_.head_sizes) {
      for (const std::int64_t tokens : grid_.sequences) {
        for (const std::int64_t rows : grid_.heads)
          add(shapes_.attention, {&kind, {kHeads, kHeads, head_size, tokens}}, rows);
      }
    }
    if (!cuda_) return;
    for (const std::int64_t tokens : {512, 2048}) {
      for (const std::int64_t rows : {2, 8}) add(shapes_.attention, {&kind, {kOfLlama, kGroups, 128, tokens}}, rows);
    }
  }

  void add_row_wise() {
    std::vector<LayerShape>& to = shapes_.row_wise;
    constexpr std::int64_t kWidth = 1024, kThirds = 768;
    for (const std::int64_t rows : grid_.rows_of_1024) {
      for (const char* name : {"sum", "product", "gradient_sum", "cast", "gelu", "gelu_tanh", "silu", "softmax"}) {
        if (name == std::string("cast") && !is_amp(dtype_)) continue;
        add(to, {&kind_of(name), {kWidth}}, rows);
      }
      add(to, {&kind_of("split"), {kThirds}}, rows);
      add(to, {&kind_of("dropout"), {kWidth, 10}}, rows);
      add(to, {&kind_of("rotary"), {8, 8, 64, 256}}, std::max<std::int64_t>(1, rows / 256));
    }
    if (is_amp(dtype_)) return;  // in fp32 whatever comes
    for (const std::int64_t width : grid_.norm_widths) {
      for (const std::int64_t rows : grid_.norm_rows) {
        add(to, {&kind_of("layer_norm"), {width}}, rows);
        add(to, {&kind_of("rms_norm"), {width}}, rows);
      }
    }
    for (const auto& [features, vocabulary] : grid_.vocabulary) {
      constexpr std::int64_t kTokens = 1024;
      if (features != grid_.vocabulary.front().first && features != grid_.vocabulary.back().first) continue;
      for (const std::int64_t tokens : grid_.embedded) {
        add(to, {&kind_of("embedding"), {vocabulary, features, std::min(kTokens, tokens)}},
            std::max<std::int64_t>(1, tokens / kTokens));
        add(to, {&kind_of("position_embedding"), {kTokens, features, std::min(kTokens, tokens)}},
            std::max<std::int64_t>(1, tokens / kTokens));
      }
    }
  }

  Dtype dtype_;
  bool cuda_;
  std::int64_t most_numbers_;
  Grid grid_;
  TransformerShapes shapes_;
};

Layer block_of(std::int64_t features) {
  constexpr std::int64_t kTokens = 8;  // whatever number: nothing is computed
  return {&kind_of("gpt_block"), {features, 2, 4 * features, kTokens, 0, 0}};
}

}  // namespace

std::vector<OptimizerShape> block_optimizers(const std::string& optimizer, bool cuda) {
  using Blocks = std::pair<std::int64_t, std::size_t>;  // features, how many
  const std::vector<Blocks> of_gpu = {{256, 2}, {768, 1}, {768, 4}, {768, 12}, {1280, 12}, {2048, 12}, {2048, 24}};
  const std::vector<Blocks> of_cpu = {{32, 1}, {32, 4}, {64, 4}};
  std::vector<OptimizerShape> shapes;
  for (const auto& [features, count] : cuda ? of_gpu : of_cpu) {
    for (const char* implementation : {"pipeline", "autograd"})
      shapes.push_back({implementation, optimizer, std::vector<Layer>(count, block_of(features))});
  }
  return shapes;
}

TransformerShapes transformer_shapes(Dtype dtype, bool cuda, std::int64_t memory_bytes) {
  return dtype == Dtype::amp_fp16 ? TransformerShapes() : Shapes(dtype, cuda, memory_bytes).take();
}

}  // namespace pdl
