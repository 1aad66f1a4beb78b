// The backward of a layer that is made of others (a block of a transformer, its embedding, its head), as LibTorch's
// autograd runs it: inner layer by inner layer, from the last one to the first.
//
//   gradient of a result -> gradients of inputs and parameters, what the backward takes for a moment
//                        -> what was kept goes, and the gradient of the result
//                        -> casts to fp32 of the input's gradient, then of the parameters'
//
//   a sum       passes its gradient on: both inputs have one tensor; one that is half gets a cast of its own
//   two takers  their gradients are added, in the memory of the first one, unless that is a view: a third tensor then
//
// Sources: PyTorch 2.11, torch/csrc/autograd/engine.cpp (validate_outputs casts), input_buffer.cpp (accumulate,
// can_accumulate_inplace: the only reference to a tensor and to its storage, which a view shares with what it is of).
//
// Units: bytes. Internal to sim/memory.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/memory/autograd_replay.hpp"
#include "sim/model/inner_layers.hpp"

namespace pdl {

class ComposedBackward {
 public:
  /// Of layer `index` of the model. All of it must outlive this.
  ComposedBackward(const Replay& replay, const Work& work, const Stage& stage, std::int64_t index, Level level);

  /// `arrived`: the gradient of the result; 0: it stays. Gives that of the input, which is there; 0: there is none.
  std::int64_t run(std::int64_t arrived);

 private:
  /// What goes into the whole, or an inner result.
  struct Value {
    std::int64_t numbers = 0;
    std::int64_t number_bytes = kBytesPerNumber;
    int kept_until = InnerLayer::kNone;  // the inner layer whose backward is the last one to read it; none: not kept
    int gradient = kNoGradient;          // its place among gradients_
  };
  struct Gradient {
    std::int64_t bytes = 0;
    std::int64_t number_bytes = kBytesPerNumber;
    bool is_view = false;
    int holders = 0;
  };
  static constexpr int kNoGradient = -1;

  Value& value(int place) { return values_[static_cast<std::size_t>(place + 1)]; }
  void find_values();
  void inner_backward(int inner);
  /// The gradient of an inner layer's input, as the backward makes it, or the one that it passes on. Gives its place.
  int make_gradient(int inner, int from);
  /// To the value that it is the gradient of, in that one's type.
  void hand_over(int from, int gradient);
  int take_gradient(std::int64_t numbers, std::int64_t number_bytes, bool is_view);
  void give_gradient(int gradient);
  void give_what_was_kept(int inner);
  void parameter_gradients(int inner);

  const Replay& replay_;
  const Work& work_;
  const Stage& stage_;
  std::int64_t index_;
  Level level_;
  std::vector<InnerLayer> inner_;
  std::vector<AutogradTensors> tensors_;  // of each of these
  std::vector<Value> values_;             // in the order of the forward, what goes in first
  std::vector<Gradient> gradients_;
};

}  // namespace pdl
