// A layer of a pipeline that is made of others: theirs, one after another, over inner buffers. Which tensors those are
// says inner_pipeline_tensors (sim/model/inner_layers.cpp).
//
//   forward                  each inner layer writes its result; of the last one that is the whole's
//   begin_backward           from the last to the first: the gradient of every inner result, which stays
//   input_gradient           what those give that take what goes into the whole
//   weight_gradient          of all inner layers that have parameters, at whatever later time
//
// A result that several take has the sum of their gradients. The first one is written to its tensor, or, where it is
// that of a sum, which is passed on as it is, only remembered; the next one is added. Under autocast a sum in fp32
// passes on to what came in half precision: that is a cast.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <utility>

#include "runtime/model/layer_module.hpp"
#include "sim/model/inner_layers.hpp"

namespace pdl {
namespace {

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

struct Part {
  InnerLayer inner;
  std::unique_ptr<PipelineLayer> layer;
  bool trained = false;
  std::size_t result = kNowhere;  // among the kept tensors; nowhere: the whole's, or a view
  std::size_t kept = 0;           // its own: the first of them, and how many
  std::size_t kept_count = 0;
  std::size_t gradient = kNowhere;  // of its result, among the inner gradients; nowhere: passed on by `taker`
  std::size_t taker = kNowhere;     // nowhere, too: the whole's
  bool passes = false;              // the gradient of its result is that of what goes in
};

/// A gradient that is the sum of several.
class GradientSum {
 public:
  /// `sum`: where it goes. Defined.
  explicit GradientSum(at::Tensor sum) : sum_(std::move(sum)) {}

  void pass(const at::Tensor& gradient) {
    if (written_) {
      sum_.add_(gradient.view_as(sum_));
    } else if (passed_.defined()) {
      at::add_out(sum_, passed_.view_as(sum_), gradient.view_as(sum_));
      written_ = true;
    } else {
      passed_ = gradient;
    }
  }

  /// Where one that is computed is to be written, by add() then added.
  at::Tensor target() const { return written_ ? at::empty_like(sum_) : sum_; }
  void add(const at::Tensor& gradient) {
    if (written_) sum_.add_(gradient.view_as(sum_));
    if (!written_ && passed_.defined()) sum_.add_(passed_.view_as(sum_));
    written_ = true;
  }

  /// None comes any more.
  void end() {
    if (!written_ && passed_.defined()) sum_.copy_(passed_.view_as(sum_));
  }

 private:
  at::Tensor sum_, passed_;
  bool written_ = false;
};

class ComposedLayer : public PipelineLayer {
 public:
  explicit ComposedLayer(const PipelineLayerParts& parts) {
    const std::vector<InnerLayer> inner = inner_layers(parts.layer);
    const std::vector<std::int64_t> number_bytes = inner_number_bytes(inner, parts.dtype, parts.input_number_bytes);
    std::size_t next_parameter = 0;
    for (std::size_t i = 0; i < inner.size(); ++i) {
      const std::int64_t input_number_bytes = number_bytes[place_of(inner[i].from)];
      add_part(parts, inner[i], i, input_number_bytes, next_parameter);
      const PipelineCase one_row{1, parts.dtype, input_number_bytes};
      parts_.back().kept_count = pipeline_tensors(inner[i].layer, one_row).kept.size();
    }
    place_tensors(inner, gradient_is_passed(inner, number_bytes));
  }

  void parameters_changed() override {
    for (const Part& part : parts_) part.layer->parameters_changed();
  }

  void forward(const LayerForward& at) override {
    const Tensors kept = at.kept;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const InnerLayer& inner = parts_[i].inner;
      const std::int64_t rows = at.input.size(0) * inner.rows;
      at::Tensor result = value(static_cast<int>(i), at.input, at.result, kept, rows);
      const at::Tensor input = value(inner.from, at.input, at.result, kept, rows);
      parts_[i].layer->forward(
          {input, result, own_kept(kept, i), at.draw, value(inner.and_from, at.input, at.result, kept, rows)});
    }
  }

  void begin_backward(const LayerBackward& at) override {
    std::vector<GradientSum> sums = inner_sums(at);
    for (std::size_t i = parts_.size(); i-- > 0;) {
      if (parts_[i].gradient != kNowhere) sums[i].end();  // those that take its result have given all
      run(at, i, [&](const LayerBackward& own) { parts_[i].layer->begin_backward(own); });
      give_gradients(at, i, [&](int from) { return from >= 0 ? sum_of(sums, from) : nullptr; });
    }
  }

  void input_gradient(const LayerBackward& at, at::Tensor& gradient) override {
    GradientSum sum(gradient);
    for (std::size_t i = parts_.size(); i-- > 0;)
      give_gradients(at, i, [&](int from) { return from == InnerLayer::kInput ? &sum : nullptr; });
    sum.end();
  }

  void weight_gradient(const LayerBackward& at, bool accumulate) override {
    for (std::size_t i = parts_.size(); i-- > 0;) {
      if (!parts_[i].trained) continue;
      run(at, i, [&](const LayerBackward& own) { parts_[i].layer->weight_gradient(own, accumulate); });
    }
  }

  void tune(const LayerForward& forward, const LayerBackward& backward, at::Tensor& gradient,
            bool accumulates) override {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const InnerLayer& inner = parts_[i].inner;
      if (inner.layer.kind->scaling != LayerScaling::matrix_product) continue;
      const std::int64_t rows = forward.input.size(0) * inner.rows;
      at::Tensor result = value(static_cast<int>(i), forward.input, forward.result, forward.kept, rows);
      const at::Tensor input = value(inner.from, forward.input, forward.result, forward.kept, rows);
      const bool gives = inner.from >= 0 || gradient.defined();
      at::Tensor of_input = gives ? at::empty_like(input) : at::Tensor();
      run(backward, i, [&](const LayerBackward& own) {
        parts_[i].layer->tune({input, result, own_kept(forward.kept, i), 0, own.other}, own, of_input, accumulates);
      });
    }
  }

 private:
  void add_part(const PipelineLayerParts& whole, const InnerLayer& inner, std::size_t place,
                std::int64_t input_number_bytes, std::size_t& next_parameter) {
    PipelineLayerParts own{
        inner.layer,          inner_index(whole.index, place), whole.seed, whole.device, {}, {}, whole.products,
        whole.weight_products};
    own.embedding_is_tied = whole.embedding_is_tied;
    own.dtype = whole.dtype;
    own.input_number_bytes = input_number_bytes;
    if (inner.tied) {
      TORCH_CHECK(whole.tied_weight.defined(), "a tied head without the embedding's weight on its stage");
      own.parameters = {whole.tied_weight};
      own.gradients = {whole.tied_gradient};
    } else {
      for (std::size_t left = parameter_tensors(inner.layer).size(); left > 0; --left, ++next_parameter) {
        own.parameters.push_back(whole.parameters[next_parameter]);
        own.gradients.push_back(whole.gradients[next_parameter]);
      }
    }
    Part part{inner, make_pipeline_layer(own)};
    part.trained = !own.parameters.empty();
    parts_.push_back(std::move(part));
  }

  /// As inner_pipeline_tensors has them.
  void place_tensors(const std::vector<InnerLayer>& inner, const std::vector<bool>& passed) {
    std::size_t next_kept = 0, next_gradient = 0;
    for (std::size_t i = 0; i < inner.size(); ++i) {
      Part& part = parts_[i];
      if (i + 1 < inner.size() && !gives_view(inner[i].layer)) part.result = next_kept++;
      part.kept = next_kept;
      next_kept += part.kept_count;
      if (!passed[i]) part.gradient = next_gradient++;
      for (const int from : {inner[i].from, inner[i].and_from}) {
        if (from < 0 || !passed[static_cast<std::size_t>(from)]) continue;
        parts_[static_cast<std::size_t>(from)].taker = i;
      }
      part.passes = passes_gradient(inner[i].layer);
    }
  }

  Tensors own_kept(Tensors kept, std::size_t part) const {
    return kept.subspan(parts_[part].kept, parts_[part].kept_count);
  }

  /// What stands there, as so many rows; undefined where nothing does.
  at::Tensor value(int place, const at::Tensor& input, const at::Tensor& result, Tensors kept,
                   std::int64_t rows) const {
    if (place == InnerLayer::kNone) return {};
    if (place == InnerLayer::kInput) return input.view({rows, -1});
    const auto p = static_cast<std::size_t>(place);
    if (parts_[p].result != kNowhere) return kept[parts_[p].result].view({rows, -1});
    if (p + 1 == parts_.size()) return result.view({rows, -1});
    return value(parts_[p].inner.from, input, result, kept, rows);
  }

  /// Of the result of a part.
  const at::Tensor& gradient_of(const LayerBackward& at, std::size_t part) const {
    if (parts_[part].gradient != kNowhere) return at.inner_gradients[parts_[part].gradient];
    return parts_[part].taker == kNowhere ? at.gradient : gradient_of(at, parts_[part].taker);
  }

  template <typename Body>
  void run(const LayerBackward& at, std::size_t part, const Body& body) const {
    const InnerLayer& inner = parts_[part].inner;
    const std::int64_t rows = at.input.size(0) * inner.rows;
    const at::Tensor input = value(inner.from, at.input, at.result, at.kept, rows);
    const at::Tensor result = value(static_cast<int>(part), at.input, at.result, at.kept, rows);
    at::Tensor gradient = gradient_of(at, part).view({rows, -1});
    const at::Tensor transposed = gradient.t();
    const at::Tensor ones = at.ones.narrow(0, 0, rows);
    body(LayerBackward{input,
                       result,
                       own_kept(at.kept, part),
                       gradient,
                       transposed,
                       ones,
                       1,
                       {},
                       value(inner.and_from, at.input, at.result, at.kept, rows)});
  }

  /// One for each inner result; those that are passed on have none.
  std::vector<GradientSum> inner_sums(const LayerBackward& at) const {
    std::vector<GradientSum> sums;
    for (const Part& part : parts_)
      sums.emplace_back(part.gradient == kNowhere ? at::Tensor() : at.inner_gradients[part.gradient]);
    return sums;
  }

  GradientSum* sum_of(std::vector<GradientSum>& sums, int place) const {
    const auto p = static_cast<std::size_t>(place);
    return parts_[p].gradient == kNowhere ? nullptr : &sums[p];
  }

  /// What a part gives to those of its inputs that want it. `wants`: from a place to its sum, or null.
  template <typename Wants>
  void give_gradients(const LayerBackward& at, std::size_t part, const Wants& wants) const {
    const InnerLayer& inner = parts_[part].inner;
    GradientSum* const first = wants(inner.from);
    GradientSum* const second = inner.and_from == InnerLayer::kNone ? nullptr : wants(inner.and_from);
    if (!first && !second) return;
    if (parts_[part].passes) {
      for (GradientSum* const sum : {first, second})
        if (sum) sum->pass(gradient_of(at, part));
      return;
    }
    TORCH_CHECK(first, "a second input alone that wants a gradient: ", to_text(inner.layer));
    run(at, part, [&](const LayerBackward& own) {
      at::Tensor to = first->target().view_as(own.input);
      if (!second) {
        parts_[part].layer->input_gradient(own, to);
      } else {
        at::Tensor to_other = second->target().view_as(own.other);
        parts_[part].layer->input_gradients(own, to, to_other);
        second->add(to_other);
      }
      first->add(to);
    });
  }

  std::vector<Part> parts_;
};

}  // namespace

std::unique_ptr<PipelineLayer> make_composed_layer(const PipelineLayerParts& parts) {
  return std::make_unique<ComposedLayer>(parts);
}

}  // namespace pdl
