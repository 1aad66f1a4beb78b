// A layer answers for itself: what its kind is called in files, which parameters it has, how many numbers go into it
// and come out of it, what each of its operations computes and moves, and what has to be kept for its backward.
//
//   Layer l = linear_relu(4096, 1024);
//   parameters(l)                        // 4096 * 1024 + 1024
//   output_numbers(l)                    // 1024, a row
//   flops(l, {LayerOperation::forward, 64})
//
// Nobody else multiplies widths. A kind is a row of a table (sim/model/layer_kinds.cpp) and a file of its own under
// sim/model/layers/; the runtime has one factory by kind (runtime/model/layer_modules.hpp). A row is a sample: of a
// transformer a sequence of tokens, so that a block of it takes tokens x features numbers a row. A kind that is made of
// others, such as a block, says which (sim/model/inner_layers.hpp); these are what is priced and probed.
//
// Units: counts of numbers, bytes, FLOPs. Not here: times (cost), what is allocated when (memory), the loss. No kind
// communicates inside a layer yet; one that does would say so here.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/model/dtype.hpp"

namespace pdl {

struct LayerKind;
class JsonPlace;

inline constexpr std::size_t kMostLayerSizes = 6;

/// A layer of a model: its kind and the sizes that this kind has, in the order of LayerKind::sizes.
struct Layer {
  const LayerKind* kind = nullptr;  // a row of layer_kinds(); null only where there is no layer
  std::array<std::int64_t, kMostLayerSizes> sizes{};

  bool operator==(const Layer&) const = default;
  /// By name of the kind, then by sizes.
  std::strong_ordering operator<=>(const Layer& other) const;
};

/// A tensor of parameters, as the model registers it.
struct ParameterTensor {
  std::string_view name;
  std::vector<std::int64_t> shape;
  /// Autograd keeps it (under autocast its copy) only where the layer gives a gradient to its input.
  bool read_by_input_gradient = false;

  std::int64_t numbers() const;
};

enum class LayerOperation : std::uint8_t { forward, backward, backward_input, backward_weight };

/// One operation of a layer on so many rows.
struct LayerWork {
  LayerOperation operation = LayerOperation::forward;
  std::int64_t rows = 0;
  Dtype dtype = Dtype::fp32;
  bool input_gradient = true;  // backward, backward_input: false where nothing before the layer is trained
};

struct TensorSize {
  std::int64_t numbers = 0;
  std::int64_t number_bytes = kBytesPerNumber;
  std::int64_t bytes() const { return numbers * number_bytes; }
  bool operator==(const TensorSize&) const = default;
};

/// Where autograd runs a layer.
struct AutogradCase {
  std::int64_t rows = 0;
  Dtype dtype = Dtype::fp32;
  std::int64_t input_number_bytes = kBytesPerNumber;  // of the activation that comes: 2 where it is half
  bool input_gradient = true;
};

/// What LibTorch's modules and autograd allocate for a layer, in the order in which they do, and keep for its backward.
///
///   forward    take kept, kept_parameters, cached, temporary and the result; temporary goes when there is the result,
///              cached with autocast's cache, at the end of the forward
///   backward   take `between` (then what came and the result, if kept, go), the gradient of the input, gradients of
///              the parameters, the sum over rows for a moment; then what was kept goes
struct AutogradTensors {
  std::int64_t result_number_bytes = kBytesPerNumber;
  bool keeps_input = false;                              // the tensor that came, as it came
  bool keeps_result = false;                             // until the layer's own backward
  std::vector<TensorSize> kept;                          // made for the backward: the input in another type, statistics
  std::vector<TensorSize> kept_parameters;               // copies of parameters in half precision
  std::vector<TensorSize> cached;                        // such copies that the backward does not read
  std::vector<TensorSize> temporary;                     // of the forward
  std::int64_t gradient_number_bytes = kBytesPerNumber;  // of the gradients that the backward makes, before any cast
  std::int64_t between_numbers = 0;            // of a gradient between two steps of the backward; 0: there is one step
  std::vector<TensorSize> backward_temporary;  // of the backward's kernels on a GPU, beside what they make
  std::int64_t summed_columns = 0;             // of a gradient that is summed over its rows; 0: none is
};

/// Where a stage without autograd runs a layer. The types are autocast's, as AutogradTensors has them.
struct PipelineCase {
  std::int64_t rows = 0;
  Dtype dtype = Dtype::fp32;
  std::int64_t input_number_bytes = kBytesPerNumber;  // of the activation that comes: 2 where it is half
};

/// What a stage without autograd needs beside a buffer for each result and each gradient, which is in the type of the
/// result (runtime/model/pipeline_stage.hpp).
struct PipelineTensors {
  std::vector<TensorSize> kept;  // for the backward, with the result: statistics, inner results, casts under autocast
  /// Of inner results, until those of the parameters have been made: for each slot and layer where backwards are split,
  /// else once a stage, for the layer that is under way.
  std::vector<TensorSize> gradients;
  std::int64_t ones_of_a_row = 1;  // rows inside for a row of the layer, which a bias's gradient sums: tokens
  std::vector<TensorSize> temporary_forward, temporary_backward;  // while an operation runs
};

/// How times of shapes that were not measured follow from those that were (sim/cost/layer_time.hpp).
///   matrix_product   in rows and in sqrt(input x output); tensor cores have data types of their own
///   row_wise         in the numbers of the result, rows x width; TF32 is no other type
///   attention        in FLOPs, by tokens, head size and how many heads of how many rows there are
///   composed         not at all: its inner layers are priced
enum class LayerScaling : std::uint8_t { matrix_product, row_wise, attention, composed };

/// A size of a kind, as a file has it.
struct LayerSize {
  std::string_view name;
  std::string_view meaning;
  std::int64_t least = 1;
  std::int64_t largest = 10'000'000;
  std::optional<std::int64_t> usual = std::nullopt;  // where the file does not have it; none: it must
};

/// What is inside a layer that is made of others. Inputs are results of those before it, by their place.
struct InnerLayer {
  static constexpr int kInput = -1;  // what goes into the whole
  static constexpr int kNone = -2;

  Layer layer;
  int from = kInput;
  int and_from = kNone;        // the second input of a sum, of a product
  std::int64_t rows = 1;       // for each row of the whole: a token is a row of a linear
  std::string_view part = {};  // of a block: "attention", "mlp"
  bool tied = false;           // its parameters are another layer's
};

/// One row of the table. Functions take a layer of this kind.
struct LayerKind {
  std::string_view name;     // in files: "linear_relu"
  std::string_view summary;  // in a line
  std::span<const LayerSize> sizes;
  LayerScaling scaling = LayerScaling::matrix_product;
  bool has_relu = false;  // behind its product: half of what it gives is 0, and of its gradient
  bool has_bias = false;
  /// The kind that is this one with an activation behind it: where this one was not measured, it is that one without
  /// the kernels of the activation (sim/cost/without_activation.hpp). Null: there is none.
  const LayerKind* with_activation = nullptr;
  std::int64_t modules = 1;   // of torch.nn, or functions, that a script has for it; 0: what autograd or autocast do
  bool takes_tokens = false;  // whole numbers of 8 bytes: it can only be the first layer of a model
  bool mixes_types = false;   // row-wise, under autocast: from one type to another, whatever comes
  bool stands_alone = true;   // false: inside of other layers only; it has two inputs, or is no module
  /// Made of these, in the order of the forward; the last one's result is the whole's. Null: it is priced by itself.
  std::vector<InnerLayer> (*inner)(const Layer&) = nullptr;
  Layer (*of_width)(std::int64_t width) = nullptr;  // an example; null: all sizes are the width
  /// Why the sizes do not go together, in words of an error: what was found, what is expected. Null: they always do.
  std::optional<std::pair<std::string, std::string>> (*refusal)(const Layer&) = nullptr;
  std::int64_t (*input_numbers)(const Layer&) = nullptr;   // of a row
  std::int64_t (*output_numbers)(const Layer&) = nullptr;  // of a row
  std::vector<ParameterTensor> (*parameter_tensors)(const Layer&) = nullptr;
  double (*flops)(const Layer&, const LayerWork&) = nullptr;
  double (*bytes)(const Layer&, const LayerWork&) = nullptr;
  AutogradTensors (*autograd)(const Layer&, const AutogradCase&) = nullptr;
  PipelineTensors (*pipeline)(const Layer&, const PipelineCase&) = nullptr;  // null: nothing beside the buffers
};

/// Of model files.
std::span<const LayerKind* const> layer_kinds();
/// Of what is inside of layers only: LayerKind::stands_alone is false.
std::span<const LayerKind* const> inner_kinds();

/// Of both. nullptr if there is none of that name.
const LayerKind* find_layer_kind(std::string_view name);

/// y = relu(x W^T + b): the layer of `mlp`.
Layer linear_relu(std::int64_t in, std::int64_t out);

/// y = x W^T + b.
Layer linear(std::int64_t in, std::int64_t out);

/// y = x W^T.
Layer linear_no_bias(std::int64_t in, std::int64_t out);

/// A layer of the kind, all of whose sizes are `width`, or its example: what is probed.
Layer layer_of_width(const LayerKind& kind, std::int64_t width);

/// Tensors of parameters in the order of registration; none for a kind that has no parameters.
std::vector<ParameterTensor> parameter_tensors(const Layer& layer);
std::int64_t parameters(const Layer& layer);
bool has_parameters(const Layer& layer);
/// Of the parameters only those in matrices, which move as many bytes as activations do.
std::int64_t matrix_parameters(const Layer& layer);

std::int64_t input_numbers(const Layer& layer);
std::int64_t output_numbers(const Layer& layer);

/// Multiplications and additions, each counted: 2 * rows * in * out for a product.
double flops(const Layer& layer, const LayerWork& work);

/// The least that must be read and written: parameters (or their gradients) and activations, each once.
double bytes(const Layer& layer, const LayerWork& work);

AutogradTensors autograd_tensors(const Layer& layer, const AutogradCase& at);
PipelineTensors pipeline_tensors(const Layer& layer, const PipelineCase& at);
/// Bytes of a number of what the layer gives.
std::int64_t result_number_bytes(const Layer& layer, Dtype dtype, std::int64_t input_number_bytes);
/// Bytes of the layer's parameters in half precision, each a tensor: what products multiply under autocast.
std::vector<TensorSize> half_parameters(const Layer& layer, Dtype dtype);

/// "linear_relu 4096 x 1024": for people, and for comparing models.
std::string to_text(const Layer& layer);

/// {"kind": "linear_relu", "in": 4096, "out": 1024}, as model files have it; with all sizes.
nlohmann::ordered_json to_json(const Layer& layer);

/// Throws InputError naming the place: an unknown or missing key, an unknown kind (with the nearest known one) or one
/// that does not stand alone, a size that is no whole number in range (mostly 1 to 10,000,000), sizes that do not go
/// together.
Layer read_layer(const JsonPlace& place);

/// The sizes alone, from an object with other keys too. `largest`: of all of them, where less than their own. Throws
/// InputError as read_layer.
Layer read_layer_sizes(const LayerKind& kind, const JsonPlace& object, std::int64_t largest);

/// The kind of that name, of both tables. Throws InputError with the nearest known one.
const LayerKind& read_layer_kind(const JsonPlace& name);

}  // namespace pdl
