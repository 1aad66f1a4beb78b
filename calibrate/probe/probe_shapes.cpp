#include "calibrate/probe/probe_shapes.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "sim/cost/measured_key.hpp"
#include "sim/io/error.hpp"
#include "sim/model/inner_layers.hpp"
#include "sim/model/model.hpp"

namespace pdl {
namespace {

std::string name_of(Implementation implementation) {
  return implementation == Implementation::pipeline ? "pipeline" : "autograd";
}

std::string name_of(Loss loss) {
  return loss == Loss::mse ? "" : kCrossEntropy;
}

template <class Shape>
void add_once(std::vector<Shape>& shapes, const Shape& shape) {
  if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
}

/// Collects them task by task; works of equal tasks are there once.
class Collector {
 public:
  explicit Collector(const Plan& plan)
      : plan_(plan),
        leaves_(leaves_of(plan.spec.model.layers, plan.spec.dtype,
                          activation_number_bytes(plan.spec.model, plan.spec.dtype))) {}

  PlanShapes collect() {
    for (const Work& work : plan_.graph.works) {
      if (is_compute(work.kind)) add_layers(work);
      if (is_compute(work.kind) && work.loss) add_loss(work.implementation, work.rows);
      if (work.kind == TaskKind::loss)
        add_loss(work.implementation, work.bytes / kBytesPerNumber / output_numbers(plan_.spec.model));
      if (work.kind == TaskKind::optimizer) add_optimizer(work);
    }
    return std::move(shapes_);
  }

 private:
  const std::vector<Layer>& layers() const { return plan_.spec.model.layers; }

  void add_layers(const Work& work) {
    const LayerShape* before = nullptr;  // equal layers stand one after another
    LayerShape shape;
    const std::int32_t first = leaves_.first[static_cast<std::size_t>(work.first_layer)];
    const std::int32_t end = leaves_.first[static_cast<std::size_t>(work.first_layer + work.layer_count)];
    for (std::int32_t i = first; i < end; ++i) {
      const Leaf& leaf = leaves_.all[static_cast<std::size_t>(i)];
      const LayerShape next{leaf.layer, work.rows * leaf.rows, dtype_of(leaf, plan_.spec.dtype), false, false};
      if (before && next == shape) continue;
      shape = next;
      before = &shape;
      add_layer(shape, work.implementation);
    }
  }

  /// A layer has one entry, whichever programs have it.
  void add_layer(const LayerShape& shape, Implementation implementation) {
    const auto same = [&](LayerShape known) {
      known.pipeline = known.autograd = false;
      return known == shape;
    };
    auto known = std::find_if(shapes_.layers.begin(), shapes_.layers.end(), same);
    if (known == shapes_.layers.end()) known = shapes_.layers.insert(known, shape);
    (implementation == Implementation::pipeline ? known->pipeline : known->autograd) = true;
  }

  void add_loss(Implementation implementation, std::int64_t samples) {
    const Model& model = plan_.spec.model;
    const LossRows of = loss_rows(model);
    add_once(shapes_.losses, {name_of(implementation), plan_.spec.dtype, samples * of.rows, of.width, model.loss});
  }

  /// The layer, or, where one inside it has the weight of another layer, those inside that have their own.
  static void add_updated(const Layer& layer, std::vector<Layer>& updated) {
    const std::vector<InnerLayer> inner = inner_layers(layer);
    if (std::none_of(inner.begin(), inner.end(), [](const InnerLayer& each) { return each.tied; }))
      return updated.push_back(layer);
    for (const InnerLayer& each : inner) {
      if (!each.tied && has_parameters(each.layer)) updated.push_back(each.layer);
    }
  }

  void add_optimizer(const Work& work) {
    if (parameters(plan_.spec.model, work.first_layer, work.layer_count) == 0) return;
    OptimizerShape shape{name_of(work.implementation), to_string(plan_.spec.optimizer), {}};
    for (std::int32_t l = work.first_layer; l < work.first_layer + work.layer_count; ++l)
      add_updated(layers()[static_cast<std::size_t>(l)], shape.layers);
    add_once(shapes_.optimizers, shape);
    if (plan_.spec.dtype != Dtype::amp_fp16) return;
    shape.optimizer = "unscale";
    add_once(shapes_.optimizers, shape);
  }

  const Plan& plan_;
  ModelLeaves leaves_;
  PlanShapes shapes_;
};

/// From 0 to 1, the same on every machine: what the standard library's distributions are not.
double draw(std::mt19937_64& generator) {
  return static_cast<double>(generator() >> 11) * 0x1p-53;
}

double draw_log(std::mt19937_64& generator, double least, double largest) {
  return least * std::pow(largest / least, draw(generator));
}

}  // namespace

PlanShapes shapes_of_plan(const Plan& plan) {
  return Collector(plan).collect();
}

void check_same_clock(const PlanShapes& shapes, const std::vector<Sample>& samples, const std::string& place) {
  const auto has = [&](Probe probe, Dtype dtype) {
    return std::any_of(samples.begin(), samples.end(), [&](const Sample& sample) {
      return sample.key.probe == probe && sample.key.dtype == dtype &&
             sample.key.layer.kind->scaling == LayerScaling::matrix_product;
    });
  };
  for (const LayerShape& shape : shapes.layers) {
    if (shape.dtype == Dtype::fp32 || shape.layer.kind->scaling != LayerScaling::matrix_product) continue;
    if (!has(Probe::layer, shape.dtype) || has(Probe::sustained, shape.dtype)) continue;
    throw InputError(place,
                     "layers in " + to_string(shape.dtype) +
                         " at whatever clock the power limit left them, as older calibrations measured them",
                     "samples with the probe \"sustained\": pdl-calibrate without --from measures all anew");
  }
}

std::int64_t parameters(const OptimizerShape& shape) {
  std::int64_t count = 0;
  for (const Layer& layer : shape.layers) count += parameters(layer);
  return count;
}

void remove_measured(PlanShapes& shapes, const std::vector<Sample>& samples) {
  const auto measured = [&](const auto& is_it) {
    return std::any_of(samples.begin(), samples.end(), [&](const Sample& sample) { return is_it(sample.key); });
  };
  for (LayerShape& shape : shapes.layers) {
    const auto has_forward = [&](const char* implementation) {
      return measured([&](const MeasuredKey& key) {
        return key.probe == Probe::layer && key.implementation == implementation && key.operation == "forward" &&
               key.dtype == shape.dtype && key.layer == shape.layer && key.size == shape.rows;
      });
    };
    shape.pipeline = shape.pipeline && !has_forward("pipeline");
    shape.autograd = shape.autograd && !has_forward("autograd");
  }
  std::erase_if(shapes.layers, [](const LayerShape& shape) { return !shape.pipeline && !shape.autograd; });
  std::erase_if(shapes.losses, [&](const LossShape& shape) {
    return measured([&](const MeasuredKey& key) {
      return key.probe == Probe::loss && key.implementation == shape.implementation && key.dtype == shape.dtype &&
             key.name == name_of(shape.loss) && key.size == shape.rows * shape.width;
    });
  });
  std::erase_if(shapes.optimizers, [&](const OptimizerShape& shape) {
    return measured([&](const MeasuredKey& key) {
      return key.probe == Probe::optimizer && key.implementation == shape.implementation &&
             key.optimizer == shape.optimizer && key.size == parameters(shape);
    });
  });
}

std::vector<LayerShape> random_layer_shapes(std::int64_t count, const ShapeBounds& bounds, Dtype dtype,
                                            std::uint64_t stream) {
  constexpr std::uint64_t kSeed = 20261129;
  std::mt19937_64 generator(kSeed + stream);
  const double least = static_cast<double>(bounds.least_width) / 2;
  const double largest = static_cast<double>(bounds.largest_width) * 1.5;
  const double step = least >= 512 ? 64 : 8;
  const auto draw_width = [&] {
    return static_cast<std::int64_t>(step * std::max(1.0, std::round(draw_log(generator, least, largest) / step)));
  };
  std::vector<LayerShape> shapes;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t in = draw_width();
    const std::int64_t out = i % 3 == 2 ? draw_width() : in;
    const double rows = std::round(
        draw_log(generator, static_cast<double>(bounds.least_rows), static_cast<double>(bounds.largest_rows)));
    const double most_rows = std::floor(bounds.most_flops / (2 * static_cast<double>(in) * static_cast<double>(out)));
    shapes.push_back({linear_relu(in, out), static_cast<std::int64_t>(std::max(1.0, std::min(rows, most_rows))), dtype,
                      false, false});
  }
  return shapes;
}

}  // namespace pdl
