// The layers of one pipeline stage on one device, without autograd: forward, backward and optimizer of a stack of
// layers as a short list of kernels into buffers that exist before the first step.
//
//   PipelineStage stage(plan, 1, device, options);
//   stage.forward(0);                    // reads input(0), which a transfer filled
//   stage.backward(0, false);            // reads output_gradient(0); leaves input_gradient(0)
//   stage.optimizer_step();
//
// What a layer does is its kind's (runtime/model/layer_modules.hpp): a forward, the part of a backward that both
// gradients need, the gradient of the input (not for the first layer of the model), gradients of the parameters.
//
//   loss       dY = (Y - T) * 2 / (batch * rounds * width), the mean squared error over the whole batch, so that
//              micro-batches of all accumulation rounds add up to nn.MSELoss of the batch; of cross-entropy dY =
//              (softmax(Y) - 1 where the target is) / (batch * rounds * tokens), in the gradient's buffer alone. The
//              factor is the alpha of the last layer's products, where it has any: no pass of its own. Of several
//              replicas each has its own samples as its batch: the average of their gradients is the gradient of the
//              whole batch.
//
// The weight gradient of a layer is needed by nobody before the optimizer: it may run on a second stream beside the
// input gradients of the layers before it, where its thread blocks fill the multiprocessors that those leave idle in
// their last wave. Whether that is faster is timed once a process and kind of stage; a backward ends when both have.
//
// Buffers: one a slot for what must outlive a task; Plan::slots says which micro-batch uses which slot.
//
//   a slot holds   input, input gradient     where another worker sends the one and gets the other
//                  results of the layers     with recomputation only the last one, which is sent; what layers keep
//                                            (PipelineTensors): statistics of rows, results inside of a block
//                  gradients of the results  if backwards are split: I leaves them to W, with those inside of a
//                                            block; else only the one that arrives
//   of a stage     what lives within one task: the other gradients, of what is inside of blocks those of one; with
//                  recomputation the results that are made again
//
// Where the stage before is on the same worker nothing is moved: this stage reads the output of that one in place and
// writes its input gradient where that one expects the gradient of its output. That one's backward may change it there:
// by then this one's input gradient is complete.
//
// Nothing is allocated in a step by this code but what a kind says (PipelineTensors, sim/model/layer.hpp), and in half
// precision the loss's one or two tensors in fp32; cuBLAS takes its workspace in the first one. Everything is launched
// on the current stream of the current device; the caller orders the streams. All tensors are those of
// c10::InferenceMode: who writes to one from outside does so in that mode. Whether products of fp32 use TF32 is
// LibTorch's setting.
//
// amp-bf16: every layer computes and leaves its result in the type that autocast would (sim/model/layer.hpp), and so do
// its gradients; parameters, their gradients and the optimizer's state are fp32, the loss is computed in fp32. Products
// read copies of the parameters in half precision, cast once a step, where PyTorch casts in every autocast context.
// Not here: the scaling of losses, and so amp-fp16.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/device/runtime_options.hpp"
#include "runtime/device/side_stream.hpp"
#include "runtime/model/layer_modules.hpp"
#include "runtime/model/matrix_products.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {

class PipelineStage {
 public:
  /// Allocates everything, draws the parameters, and the data where the stage holds the first or the last layer.
  /// `device` is the current device; the current stream is the one that the stage will run on.
  /// `before`: the stage that was created before this one on the same worker, or null. Stages of a worker are created
  /// in ascending order and run on one stream, so they share workspaces and the second stream; they may be destroyed in
  /// any order. If plan.stages[stage - 1] is on the same worker, `before` must be that one.
  PipelineStage(const Plan& plan, int stage, at::Device device, const RuntimeOptions& options,
                const PipelineStage* before = nullptr);

  void forward(int microbatch);

  /// The forward again, for the backward that comes next on this stage. Only in a plan with recomputation.
  void recompute(int microbatch);

  /// Input and weight gradient. `accumulate`: adds to the gradients of the micro-batches before.
  void backward(int microbatch, bool accumulate);

  /// The same in two parts, for schedules that move the weight gradient to a later time. The plan must have tasks of
  /// these kinds: only then are the gradients kept from one to the other.
  void backward_input(int microbatch);
  void backward_weight(int microbatch, bool accumulate);

  /// The loss of the micro-batch and its gradient, which the backward of the last stage starts with. No effect
  /// elsewhere.
  void loss_gradient(int microbatch);

  void optimizer_step();

  /// rows x width of micro-batch m, contiguous. Undefined where there is none: the input of the first stage is data,
  /// the output gradient of the last stage comes from the loss, the first stage has no input gradient.
  const at::Tensor& input(int microbatch) const { return views_[microbatch].activations.front(); }
  const at::Tensor& output(int microbatch) const { return views_[microbatch].activations.back(); }
  const at::Tensor& output_gradient(int microbatch) const { return views_[microbatch].gradients.back(); }
  const at::Tensor& input_gradient(int microbatch) const { return views_[microbatch].input_gradient; }

  bool has_loss() const { return last_; }
  /// The loss over the whole batch of the last step; of several replicas the part of this one: they add up.
  /// Waits for the device. Last stage only.
  double loss() const;

  /// Of every layer, in order.
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  const std::vector<at::Tensor>& gradients() const { return gradients_; }

 private:
  /// What one micro-batch reads and writes: views of the buffers of its slot.
  struct MicrobatchViews {
    std::vector<at::Tensor> activations;              // input, then the output of every layer: what forward() writes
    std::vector<at::Tensor> kept;                     // what the backward reads: the same, or what recompute() writes
    std::vector<at::Tensor> gradients;                // of every layer's output; the layer may change it in place
    std::vector<at::Tensor> gradients_transposed;     // views
    std::vector<std::vector<at::Tensor>> layer_kept;  // by layer, flat: PipelineTensors::kept
    std::vector<std::vector<at::Tensor>> inner_gradients;  // by layer, flat
    std::vector<at::Tensor> ones;                          // by layer
    at::Tensor input_gradient;
    at::Tensor target;  // last stage
    at::Tensor error;   // last stage: one number, the root of the sum of squared errors, or the sum of cross-entropies
  };

  /// Buffers of the largest micro-batch, flat.
  struct Slot {
    at::Tensor input, input_gradient;            // undefined where nothing arrives from another worker
    std::vector<at::Tensor> outputs, gradients;  // by layer
    std::vector<std::vector<at::Tensor>> layer_kept;
    std::vector<at::Tensor> inner_gradients;  // by layer, all of them one after another, bytes; undefined: none
    at::Tensor recomputed_output;             // of the last layer; undefined without recomputation
  };

  /// What the stages of a worker share.
  struct Kernels {
    MatrixProducts products;
    MatrixProducts weight_products;  // with a workspace of their own: they may run beside the others
    SideStream side;
    Kernels(at::Device device, Dtype dtype) : products(device, dtype), weight_products(device, dtype), side(device) {}
  };

  /// `tied`: the head takes the weight of the embedding.
  void create_parameters(const RuntimeOptions& options, bool tied);
  std::vector<Slot> create_slots(const Plan& plan) const;
  /// Undefined of 0 bytes.
  at::Tensor pool_of(std::int64_t bytes) const;
  void share_inner_gradients(std::vector<at::Tensor>& by_layer, std::int64_t most_rows) const;
  void create_views(const Plan& plan, const RuntimeOptions& options, const PipelineStage* lower);
  void add_layer(MicrobatchViews& views, std::size_t layer, const Slot& slot, const at::Tensor& all_ones,
                 std::int64_t rows) const;
  void tune_products(const Plan& plan);
  void tune_backward(const Plan& plan);
  /// `activations`: those of a forward, or of a recomputation.
  LayerForward forward_of(int microbatch, std::vector<at::Tensor>& activations, std::size_t layer);
  LayerBackward backward_of(MicrobatchViews& views, std::size_t layer) const;
  /// Where the gradient of the layer's input goes; undefined where there is none.
  at::Tensor& input_gradient_of(MicrobatchViews& views, std::size_t layer);
  void mse_gradient(MicrobatchViews& views);
  void cross_entropy_gradient(MicrobatchViews& views);
  /// The same in fp32 tensors that are there for a moment, and with the factor of the loss.
  void mse_gradient_of_half(MicrobatchViews& views) const;
  void cross_entropy_gradient_of_half(MicrobatchViews& views) const;
  void layer_input_gradient(MicrobatchViews& views, std::size_t layer);
  void layer_weight_gradient(MicrobatchViews& views, std::size_t layer, bool accumulate);
  bool is_loss_layer(std::size_t layer) const { return last_ && layer + 1 == layers_.size(); }
  bool is_half() const { return is_amp(dtype_); }
  void cast_parameters();
  void update_parameters();
  at::Tensor empty(std::int64_t numbers, std::int64_t number_bytes = kBytesPerNumber) const;
  PipelineCase case_of(std::size_t layer, std::int64_t rows) const { return {rows, dtype_, number_bytes_[layer]}; }
  /// Bytes in the pool of `inner_gradients`.
  std::int64_t inner_gradient_bytes(std::size_t layer, std::int64_t rows) const;
  /// Flat, one after another in the pool.
  std::vector<at::Tensor> inner_gradients_of(const at::Tensor& pool, std::size_t layer, std::int64_t rows) const;

  at::Device device_;
  Dtype dtype_;
  std::shared_ptr<Kernels> kernels_;
  bool weights_on_side_ = false;
  int stage_;
  bool first_;
  bool last_;
  bool arrives_;  // the input comes from another worker
  std::int64_t first_layer_;
  std::vector<Layer> shapes_;
  std::vector<std::int64_t> number_bytes_;  // of the activation that each layer takes; one more at the end
  std::vector<std::unique_ptr<PipelineLayer>> layers_;
  std::vector<bool> trained_;  // by layer: it has parameters
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> gradients_;
  std::vector<MicrobatchViews> views_;
  at::Tensor errors_;  // last stage: one number a micro-batch
  Loss loss_;
  double loss_scale_ = 1;  // 2 / (batch * rounds * width), or 1 / (batch * rounds * tokens)
  std::int64_t replicas_;
  std::int64_t steps_ = 0;  // that have ended: dropout draws anew in each

  Optimizer optimizer_;
  double learning_rate_;
  std::vector<at::Tensor> first_moments_, second_moments_, step_counts_;  // Adam, AdamW
};

}  // namespace pdl
