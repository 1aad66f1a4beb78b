#include "calibrate/probe/layer_passes.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "calibrate/probe/transformer_shapes.hpp"

namespace pdl {
namespace {

constexpr int kLaunchesALayerAmp = 14;
constexpr double kSustainedSeconds = 0.15;  // an H200 finds its clock within 0.1 s, and keeps it until 0.7 s

/// Repetitions of what is long: in fp32, where a card is not at its power limit, 3 agree to 0.1 %.
constexpr int kLeastRepetitionsFp32 = 3;

/// Numbers of layers that an optimizer updates at once: of each width, and of the largest width, as far as there is
/// memory. Adam of LibTorch's modules holds parameters, gradients, two moments, and for a while as much again and more.
constexpr std::int64_t kOptimizerLayers[] = {1, 4};
constexpr std::int64_t kOptimizerLayersOfLargest[] = {8, 20};
constexpr std::int64_t kOptimizerBytesAParameter = 40;

std::vector<std::int64_t> bucket_sizes(bool cuda) {
  std::vector<std::int64_t> sizes;
  const std::int64_t largest = std::int64_t{cuda ? 128 : 4} << 20;
  for (std::int64_t size = 4096; size <= largest; size *= cuda ? 4 : 2) sizes.push_back(size);
  if (sizes.back() != largest) sizes.push_back(largest);
  return sizes;
}

/// Autocast is not in a pipeline's stages.
bool has_pipeline(Dtype dtype) {
  return !is_amp(dtype);
}

/// All but what is probed.
LayerPass pass_of(const ProbeOptions& options, Dtype dtype, const std::string& name) {
  LayerPass pass;
  pass.name = name;
  pass.dtype = dtype;
  if (is_amp(dtype)) pass.launches_a_layer = kLaunchesALayerAmp;
  if (options.device != "cuda") return pass;
  if (dtype == Dtype::fp32) {
    pass.seconds = 0.02;
    pass.least_repetitions = kLeastRepetitionsFp32;
  } else {
    pass.seconds = 0.03;
    pass.rested = true;
  }
  return pass;
}

/// Memory is not held back by the power limit.
LayerPass row_wise_pass_of(const ProbeOptions& options, Dtype dtype, const std::string& name) {
  LayerPass pass = pass_of(options, dtype, name);
  pass.rested = false;
  pass.seconds = 0.012;
  return pass;
}

/// As the programs of a data type have them: of a pipeline where its rows are not too few.
LayerShape in_all_programs(const ProbeOptions& options, LayerShape shape) {
  shape.pipeline = has_pipeline(shape.dtype) && (is_row_wise(shape.layer) || shape.rows >= options.least_pipeline_rows);
  shape.autograd = true;
  return shape;
}

void add_losses(LayerPass& pass, const LayerShape& shape) {
  const std::int64_t width = output_numbers(shape.layer);
  if (shape.pipeline) pass.losses.push_back({"pipeline", shape.dtype, shape.rows, width});
  if (shape.autograd) pass.losses.push_back({"autograd", shape.dtype, shape.rows, width});
}

const std::vector<std::int64_t>& widths_of(const ProbeOptions& options, Dtype dtype) {
  return dtype == Dtype::fp32 ? options.dims : options.tensor_core_dims;
}

/// Square layers of a width and all rows, each with its loss; with the largest width also the loss of as many rows.
std::vector<LayerPass> grid_passes(const ProbeOptions& options, Dtype dtype) {
  std::vector<LayerPass> passes;
  for (const std::int64_t width : widths_of(options, dtype)) {
    LayerPass pass = pass_of(options, dtype, "compute " + to_string(dtype) + " " + std::to_string(width));
    for (const std::int64_t rows : options.rows) {
      pass.layers.push_back(in_all_programs(options, {linear_relu(width, width), rows, dtype}));
      add_losses(pass, pass.layers.back());
    }
    if (width == widths_of(options, dtype).back() && width > options.rows.back())
      add_losses(pass, in_all_programs(options, {linear_relu(width, width), width, dtype}));
    passes.push_back(std::move(pass));
  }
  return passes;
}

/// What the power limit slows, by how many FLOP/s it has: the two largest widths of the grid, with the most rows and a
/// quarter of them, which are also measured at full clock.
LayerPass sustained_pass(const ProbeOptions& options, Dtype dtype) {
  LayerPass pass = pass_of(options, dtype, "sustained " + to_string(dtype));
  pass.rested = false;
  pass.sustained_seconds = kSustainedSeconds;
  pass.seconds = 0.08;
  const std::vector<std::int64_t>& widths = widths_of(options, dtype);
  for (std::size_t w = widths.size() < 2 ? 0 : widths.size() - 2; w < widths.size(); ++w) {
    const std::int64_t width = widths[w];
    for (const std::int64_t rows : options.rows) {
      if (rows != options.rows.back() && rows != options.rows.back() / 4) continue;
      pass.layers.push_back({linear_relu(width, width), rows, dtype, /*pipeline=*/false, /*autograd=*/true});
    }
  }
  return pass;
}

/// Layers between the widths of the grid, and layers that are not square.
LayerPass random_pass(const ProbeOptions& options, Dtype dtype) {
  LayerPass pass = pass_of(options, dtype, "compute " + to_string(dtype) + " between widths");
  const std::int64_t count = dtype == Dtype::fp32 ? options.random_shapes : options.random_shapes * 2 / 3;
  const std::int64_t least_rows = std::clamp(options.least_pipeline_rows, options.rows.front(), options.rows.back());
  const ShapeBounds bounds{widths_of(options, dtype).front(), widths_of(options, dtype).back(), least_rows,
                           options.rows.back()};
  for (const LayerShape& shape : random_layer_shapes(count, bounds, dtype, static_cast<std::uint64_t>(dtype)))
    pass.layers.push_back(in_all_programs(options, shape));
  return pass;
}

/// The first, every third and the last one: times of row-wise kinds follow the numbers of their results.
std::vector<std::int64_t> some_of(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> some;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i % 3 == 0 || i + 1 == sizes.size()) some.push_back(sizes[i]);
  }
  return some;
}

/// Layers of row-wise kinds. TF32 is no other type for them.
LayerPass row_wise_grid_pass(const ProbeOptions& options, Dtype dtype) {
  LayerPass pass = row_wise_pass_of(options, dtype, "compute " + to_string(dtype) + " row-wise");
  for (const LayerKind* kind : layer_kinds()) {
    const bool of_tokens = kind->takes_tokens || kind->sizes.size() > 2;  // transformer_passes() have them
    if (kind->scaling != LayerScaling::row_wise || dtype == Dtype::tf32 || of_tokens) continue;
    for (const std::int64_t width : some_of(options.dims)) {
      for (const std::int64_t rows : some_of(options.rows))
        pass.layers.push_back(in_all_programs(options, {layer_of_width(*kind, width), rows, dtype}));
    }
  }
  return pass;
}

/// What transformers are made of, by LibTorch's modules.
std::vector<LayerPass> transformer_passes(const ProbeOptions& options, Dtype dtype, std::int64_t memory_bytes) {
  TransformerShapes shapes = transformer_shapes(dtype, options.device == "cuda", memory_bytes);
  LayerPass products = pass_of(options, dtype, "transformers " + to_string(dtype));
  products.seconds /= 2;  // kernels are long there
  products.layers = std::move(shapes.products);
  products.layers.insert(products.layers.end(), shapes.attention.begin(), shapes.attention.end());
  LayerPass row_wise = row_wise_pass_of(options, dtype, "transformers " + to_string(dtype) + " row-wise");
  row_wise.layers = std::move(shapes.row_wise);
  row_wise.losses = std::move(shapes.losses);
  return {products, row_wise};
}

/// AdamW is what those are trained with.
bool is_of_transformers(const std::string& optimizer) {
  return optimizer.starts_with("adamw");
}

void add_optimizers(LayerPass& pass, const ProbeOptions& options, std::int64_t width, std::int64_t layers) {
  const std::vector<Layer> all(static_cast<std::size_t>(layers), linear_relu(width, width));
  for (const std::string& optimizer : options.optimizers) {
    if (is_of_transformers(optimizer)) continue;
    for (const char* implementation : {"pipeline", "autograd"})
      pass.optimizers.push_back({implementation, optimizer, all});
  }
  pass.optimizers.push_back({"autograd", "unscale", all});
}

bool fits(const OptimizerShape& shape, std::int64_t memory_bytes) {
  return parameters(shape) <= memory_bytes / kOptimizerBytesAParameter;
}

/// They do not depend on the data type. Of the many layers as many as there is memory for.
LayerPass optimizer_pass(const ProbeOptions& options, std::int64_t memory_bytes) {
  LayerPass pass = pass_of(options, options.dtypes.front(), "compute optimizers");
  pass.rested = false;
  for (const std::int64_t width : options.dims) {
    for (const std::int64_t layers : kOptimizerLayers) add_optimizers(pass, options, width, layers);
  }
  const std::int64_t largest = options.dims.back();
  const std::int64_t most = memory_bytes / kOptimizerBytesAParameter / parameters(linear_relu(largest, largest));
  std::int64_t before = 0;
  for (const std::int64_t wanted : kOptimizerLayersOfLargest) {
    const std::int64_t layers = std::min(wanted, most);
    if (layers > std::max(before, *std::rbegin(kOptimizerLayers))) add_optimizers(pass, options, largest, layers);
    before = layers;
  }
  for (const std::string& optimizer : options.optimizers) {
    if (!is_of_transformers(optimizer)) continue;
    for (OptimizerShape& shape : block_optimizers(optimizer, options.device == "cuda"))
      pass.optimizers.push_back(std::move(shape));
  }
  std::erase_if(pass.optimizers, [&](const OptimizerShape& shape) { return !fits(shape, memory_bytes); });
  if (most < *std::rbegin(kOptimizerLayersOfLargest) && options.note) {
    options.note("memory for an optimizer of " + std::to_string(most) + " layers of width " + std::to_string(largest) +
                 ", not of " + std::to_string(*std::rbegin(kOptimizerLayersOfLargest)) + ": its curve ends there");
  }
  return pass;
}

/// What a plan needs: products and row-wise kinds of each data type, then the optimizers.
std::vector<LayerPass> plan_passes(const ProbeOptions& options, const PlanShapes& plan, Dtype dtype,
                                   std::int64_t memory_bytes) {
  LayerPass optimizers = pass_of(options, Dtype::fp32, "plan: optimizers");
  for (const OptimizerShape& shape : plan.optimizers) {
    if (fits(shape, memory_bytes)) {
      optimizers.optimizers.push_back(shape);
    } else if (options.note) {
      options.note("no memory to measure " + shape.optimizer + " of " + std::to_string(parameters(shape)) +
                   " parameters beside what it needs in training; taken from the curve");
    }
  }
  std::vector<LayerPass> passes;
  for (const Dtype of_layers : dtype == Dtype::fp32 ? std::vector{dtype} : std::vector{Dtype::fp32, dtype}) {
    LayerPass products = pass_of(options, of_layers, "plan: " + to_string(of_layers));
    LayerPass row_wise = row_wise_pass_of(options, of_layers, products.name + " row-wise");
    for (const LayerShape& shape : plan.layers) {
      if (shape.dtype == of_layers) (is_row_wise(shape.layer) ? row_wise : products).layers.push_back(shape);
    }
    if (of_layers == dtype) products.losses = plan.losses;
    passes.push_back(std::move(products));
    passes.push_back(std::move(row_wise));
  }
  passes.push_back(std::move(optimizers));
  return passes;
}

/// Seconds, about: of all layers, losses, optimizers and buckets.
double share_of(const LayerPass& pass) {
  double seconds = 0.005 * static_cast<double>(pass.losses.size() + pass.buckets.size());
  for (const LayerShape& shape : pass.layers) seconds += seconds_of(pass, shape);
  for (const OptimizerShape& shape : pass.optimizers) seconds += 0.02 + 1e-10 * static_cast<double>(parameters(shape));
  return seconds;
}

bool is_empty(const LayerPass& pass) {
  return pass.layers.empty() && pass.losses.empty() && pass.optimizers.empty() && pass.buckets.empty();
}

std::vector<LayerPass> all_passes(const ProbeOptions& options, std::int64_t memory_bytes) {
  std::vector<LayerPass> passes;
  const auto add = [&](LayerPass pass) { passes.push_back(std::move(pass)); };
  for (const Dtype dtype : options.dtypes) {
    for (LayerPass& pass : grid_passes(options, dtype)) add(std::move(pass));
    add(random_pass(options, dtype));
    if (options.device == "cuda") add(sustained_pass(options, dtype));
  }
  for (const Dtype dtype : options.dtypes) add(row_wise_grid_pass(options, dtype));
  add(optimizer_pass(options, memory_bytes));
  LayerPass buckets = pass_of(options, options.dtypes.front(), "compute buckets");
  buckets.rested = false;
  buckets.buckets = bucket_sizes(options.device == "cuda");
  add(std::move(buckets));
  return passes;
}

/// Removes what these passes measure.
void remove_probed(PlanShapes& plan, const std::vector<LayerPass>& passes) {
  for (const LayerPass& pass : passes) {
    if (pass.sustained_seconds > 0) continue;
    for (LayerShape& shape : plan.layers) {
      for (const LayerShape& probed : pass.layers) {
        if (probed.layer != shape.layer || probed.rows != shape.rows || probed.dtype != shape.dtype) continue;
        shape.pipeline = shape.pipeline && !probed.pipeline;
        shape.autograd = shape.autograd && !probed.autograd;
      }
    }
    std::erase_if(plan.losses, [&](const LossShape& shape) {
      return std::any_of(pass.losses.begin(), pass.losses.end(), [&](const LossShape& probed) {
        return probed.implementation == shape.implementation && probed.dtype == shape.dtype &&
               probed.loss == shape.loss && probed.rows * probed.width == shape.rows * shape.width;
      });
    });
    std::erase_if(plan.optimizers, [&](const OptimizerShape& shape) {
      return std::find(pass.optimizers.begin(), pass.optimizers.end(), shape) != pass.optimizers.end();
    });
  }
  std::erase_if(plan.layers, [](const LayerShape& shape) { return !shape.pipeline && !shape.autograd; });
}

}  // namespace

bool is_row_wise(const Layer& layer) {
  return layer.kind->scaling == LayerScaling::row_wise;
}

double seconds_of(const LayerPass& pass, const LayerShape& shape) {
  if (pass.sustained_seconds > 0) return 2 * (pass.sustained_seconds + 0.1);  // forward and backward
  if (is_row_wise(shape.layer)) return 0.05;
  const double products =
      static_cast<double>(input_numbers(shape.layer)) * static_cast<double>(output_numbers(shape.layer));
  if (shape.layer.kind->scaling == LayerScaling::attention) return 0.1;
  const double fp32 = 0.3 + products * static_cast<double>(shape.rows) * 5e-11;
  return fp32 * (shape.dtype == Dtype::fp32 ? 1 : has_pipeline(shape.dtype) ? 0.6 : 0.2);
}

std::vector<LayerPass> layer_passes(const ProbeOptions& options, const PlanOfProbe* plan, std::int64_t memory_bytes) {
  std::vector<LayerPass> passes;
  if (!options.beside) passes = all_passes(options, memory_bytes);
  if (options.transformers) {
    for (const Dtype dtype : options.dtypes) {
      for (LayerPass& pass : transformer_passes(options, dtype, memory_bytes)) passes.push_back(std::move(pass));
    }
    if (options.beside) {  // whose samples have the others
      passes.push_back(optimizer_pass(options, memory_bytes));
      std::erase_if(passes.back().optimizers,
                    [](const OptimizerShape& shape) { return !is_of_transformers(shape.optimizer); });
    }
  }
  if (plan) {
    PlanShapes shapes = plan->shapes;
    remove_probed(shapes, passes);
    for (LayerPass& pass : plan_passes(options, shapes, plan->dtype, memory_bytes)) passes.push_back(std::move(pass));
  }
  std::erase_if(passes, is_empty);
  for (LayerPass& pass : passes) pass.share = share_of(pass);
  return passes;
}

}  // namespace pdl
