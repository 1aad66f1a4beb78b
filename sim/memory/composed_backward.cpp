#include "sim/memory/composed_backward.hpp"

#include <algorithm>

namespace pdl {
namespace {

using enum MemoryCategory;

}  // namespace

ComposedBackward::ComposedBackward(const Replay& replay, const Work& work, const Stage& stage, std::int64_t index,
                                   Level level)
    : replay_(replay),
      work_(work),
      stage_(stage),
      index_(index),
      level_(level),
      inner_(inner_layers(layer_of(replay.plan, index))) {
  find_values();
}

void ComposedBackward::find_values() {
  const Layer& whole = layer_of(replay_.plan, index_);
  const Dtype dtype = replay_.plan.spec.dtype;
  const std::vector<std::int64_t> number_bytes =
      inner_number_bytes(inner_, dtype, replay_.number_bytes[static_cast<std::size_t>(index_)]);
  values_.push_back({work_.rows * input_numbers(whole), number_bytes.front()});
  for (int i = 0; i < std::ssize(inner_); ++i) {
    const InnerLayer& one = inner_[static_cast<std::size_t>(i)];
    const std::int64_t rows = work_.rows * one.rows;
    const bool gives = index_ > 0 || one.from != InnerLayer::kInput;
    tensors_.push_back(autograd_tensors(one.layer, {rows, dtype, value(one.from).number_bytes, gives}));
    values_.push_back({rows * output_numbers(one.layer), number_bytes[static_cast<std::size_t>(i) + 1]});
    if (tensors_.back().keeps_result) value(i).kept_until = i;
    if (!tensors_.back().keeps_input) continue;
    for (const int from : {one.from, one.and_from}) {
      if (from != InnerLayer::kNone && value(from).kept_until == InnerLayer::kNone) value(from).kept_until = i;
    }
  }
}

std::int64_t ComposedBackward::run(std::int64_t arrived) {
  const int last = static_cast<int>(std::ssize(inner_)) - 1;
  // It is there. One that is not given back, such as a buffer, has another holder.
  const std::int64_t own = replay_.activation_bytes(work_.rows, index_ + 1);
  value(last).gradient = 0;
  gradients_.push_back({arrived > 0 ? arrived : own, value(last).number_bytes, false, arrived > 0 ? 1 : 2});
  for (int i = last; i >= 0; --i) inner_backward(i);
  return index_ > 0 ? replay_.activation_bytes(work_.rows, index_) : 0;
}

void ComposedBackward::inner_backward(int inner) {
  const auto i = static_cast<std::size_t>(inner);
  const InnerLayer& one = inner_[i];
  const AutogradTensors& tensors = tensors_[i];
  const int arrived = value(inner).gradient;
  std::vector<std::pair<int, int>> made;  // of which value, which gradient
  for (const int from : {one.from, one.and_from}) {
    if (from == InnerLayer::kNone || (from == InnerLayer::kInput && index_ == 0)) continue;
    made.emplace_back(from, make_gradient(inner, from));
  }
  for (const ParameterTensor& tensor : parameter_tensors(one.layer))
    level_.take(gradients, allocated_bytes(tensor.numbers() * tensors.gradient_number_bytes));
  const std::int64_t for_a_moment = backward_temporary_bytes(replay_, work_.rows * one.rows, tensors);
  level_.take(other, for_a_moment);
  level_.give(other, for_a_moment);
  give_what_was_kept(inner);
  give_gradient(arrived);
  for (const auto& [from, gradient] : made) hand_over(from, gradient);
  parameter_gradients(inner);
}

int ComposedBackward::make_gradient(int inner, int from) {
  const auto i = static_cast<std::size_t>(inner);
  if (passes_gradient(inner_[i].layer) && !gives_view(inner_[i].layer)) {
    const int passed = value(inner).gradient;
    ++gradients_[static_cast<std::size_t>(passed)].holders;
    return passed;
  }
  // A product in a script is of rows x tokens x features, its kernel's of rows and features: the result is a view.
  const bool is_view =
      replay_.plan.spec.program == ProgramOf::pytorch && inner_[i].layer.kind->scaling == LayerScaling::matrix_product;
  return take_gradient(value(from).numbers, tensors_[i].gradient_number_bytes, is_view);
}

void ComposedBackward::hand_over(int from, int gradient) {
  Value& to = value(from);
  if (gradients_[static_cast<std::size_t>(gradient)].number_bytes != to.number_bytes) {
    const int cast = take_gradient(to.numbers, to.number_bytes, /*is_view=*/false);
    give_gradient(gradient);
    gradient = cast;
  }
  if (to.gradient == kNoGradient) {
    to.gradient = gradient;
    return;
  }
  const Gradient& first = gradients_[static_cast<std::size_t>(to.gradient)];
  if (first.is_view || first.holders > 1) {
    const int sum = take_gradient(to.numbers, to.number_bytes, /*is_view=*/false);
    give_gradient(to.gradient);
    to.gradient = sum;
  }
  give_gradient(gradient);
}

int ComposedBackward::take_gradient(std::int64_t numbers, std::int64_t number_bytes, bool is_view) {
  const std::int64_t bytes = allocated_bytes(numbers * number_bytes);
  level_.take(activations, bytes);
  gradients_.push_back({bytes, number_bytes, is_view, 1});
  return static_cast<int>(std::ssize(gradients_)) - 1;
}

void ComposedBackward::give_gradient(int gradient) {
  Gradient& of = gradients_[static_cast<std::size_t>(gradient)];
  if (--of.holders == 0) level_.give(activations, of.bytes);
}

void ComposedBackward::give_what_was_kept(int inner) {
  const AutogradTensors& tensors = tensors_[static_cast<std::size_t>(inner)];
  level_.give(activations, tensor_bytes(tensors.kept));
  if (!replay_.keeps_casts()) level_.give(other, tensor_bytes(tensors.kept_parameters));
  const int last = static_cast<int>(std::ssize(inner_)) - 1;
  for (int place = InnerLayer::kInput; place <= last; ++place) {
    const Value& kept = value(place);
    if (kept.kept_until != inner) continue;
    if (place == InnerLayer::kInput) {
      if (index_ > stage_.first_layer && !replay_.keeps_result(index_ - 1))
        level_.give(activations, replay_.activation_bytes(work_.rows, index_));
    } else if (place < last) {
      level_.give(activations, allocated_bytes(kept.numbers * kept.number_bytes));
    } else if (!replay_.result_stays(index_, stage_)) {
      level_.give(activations, replay_.activation_bytes(work_.rows, index_ + 1));
    }
  }
}

void ComposedBackward::parameter_gradients(int inner) {
  const InnerLayer& one = inner_[static_cast<std::size_t>(inner)];
  replay_parameter_gradients(replay_, work_, one.layer, tensors_[static_cast<std::size_t>(inner)].gradient_number_bytes,
                             one.tied, level_);
}

}  // namespace pdl
