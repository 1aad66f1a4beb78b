#include "runtime/program/dp_program.hpp"

#include <c10/core/DeviceGuard.h>
#include <torch/autograd.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/cuda.h>

#include <chrono>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/comm/replica_copies.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/executor/worker_threads.hpp"
#include "runtime/model/autocast.hpp"
#include "runtime/model/autograd_model.hpp"
#include "runtime/model/grad_scaler.hpp"
#include "runtime/model/initial_values.hpp"
#include "runtime/model/layer_modules.hpp"
#include "runtime/program/dp_tasks.hpp"
#include "runtime/trace/host_sleep.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "sim/io/error.hpp"

namespace pdl {
namespace {

using torch::autograd::variable_list;

/// The recorder of a step, or of none: then nothing is done.
struct Spans {
  SpanRecorder* recorder = nullptr;

  void begin(TaskId task) const {
    if (recorder && task != kNone) recorder->begin(task);
  }
  void end(TaskId task) const {
    if (recorder && task != kNone) recorder->end(task);
  }
  void begin(const TaskIds& tasks) const {
    for (const TaskId task : tasks) begin(task);
  }
  void end(const TaskIds& tasks) const {
    for (const TaskId task : tasks) end(task);
  }
};

/// What the backward of a micro-batch needs to know, after the forward that made it has returned.
struct Replicas {
  std::vector<at::Device> devices;  // those with samples
  std::vector<std::int64_t> rows;   // of each, in the micro-batch that is under way
  std::vector<TensorIndices> parameter_chunks, gradient_chunks;
  Spans spans;
};

/// By micro-batch of a round, by replica with samples.
std::vector<std::vector<std::int64_t>> make_rows(const Plan& plan, std::size_t replicas) {
  std::vector<std::vector<std::int64_t>> rows(static_cast<std::size_t>(microbatches_of_a_round(plan)));
  for (std::size_t m = 0; m < rows.size(); ++m) {
    for (std::size_t r = 0; r < replicas; ++r) {
      rows[m].push_back(rows_of(plan, static_cast<std::int32_t>(r), static_cast<std::int32_t>(m)));
    }
  }
  return rows;
}

/// Gives every replica the gradient of its output. torch/nn/parallel/_functions.py, Gather.
struct GatherBackward : torch::autograd::Node {
  GatherBackward(const Replicas& all, const DpMicrobatchTasks& of_microbatch) : replicas(all), tasks(of_microbatch) {}

  variable_list apply(variable_list&& gradients) override {
    variable_list slices;
    std::int64_t first = 0;
    for (std::size_t g = 0; g < replicas.devices.size(); ++g) {
      const at::Tensor slice = gradients[0].narrow(0, first, replicas.rows[g]);
      first += replicas.rows[g];
      replicas.spans.begin(tasks.scatter_gradient[g]);
      slices.push_back(g == 0 ? slice : copy_to(slice, replicas.devices[g]));
      replicas.spans.end(tasks.scatter_gradient[g]);
    }
    return slices;
  }

  const Replicas& replicas;
  const DpMicrobatchTasks& tasks;
};

/// Adds up the replicas' gradients, which come replica after replica. torch/nn/parallel/_functions.py,
/// ReduceAddCoalesced.
struct BroadcastBackward : torch::autograd::Node {
  BroadcastBackward(const Replicas& all, const DpMicrobatchTasks& of_microbatch)
      : replicas(all), tasks(of_microbatch) {}

  variable_list apply(variable_list&& gradients) override {
    replicas.spans.end(tasks.backward);
    const std::size_t parameters = gradients.size() / replicas.devices.size();
    variable_list sums(parameters);
    for (std::size_t c = 0; c < replicas.gradient_chunks.size(); ++c) {
      const TensorIndices& chunk = replicas.gradient_chunks[c];
      std::vector<std::vector<at::Tensor>> of_devices(replicas.devices.size());
      for (std::size_t g = 0; g < of_devices.size(); ++g) {
        for (const std::size_t p : chunk) of_devices[g].push_back(gradients[g * parameters + p]);
      }
      replicas.spans.begin(tasks.reduce[c]);
      std::vector<at::Tensor> reduced = reduce_chunk(of_devices);
      replicas.spans.end(tasks.reduce[c]);
      for (std::size_t i = 0; i < chunk.size(); ++i) sums[chunk[i]] = std::move(reduced[i]);
    }
    replicas.spans.begin(tasks.sum);
    return sums;
  }

  const Replicas& replicas;
  const DpMicrobatchTasks& tasks;
};

template <typename Backward>
std::shared_ptr<Backward> make_node(const Replicas& replicas, const DpMicrobatchTasks& tasks,
                                    const variable_list& inputs) {
  std::shared_ptr<Backward> node(new Backward(replicas, tasks), torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  return node;
}

Replicas make_replicas(const Plan& plan, const RuntimeOptions& options) {
  Replicas replicas;
  for (std::size_t g = 0; g < plan.replica_rows.size() && plan.replica_rows[g] > 0; ++g) {
    replicas.devices.push_back(device_of(options, static_cast<int>(g)));
  }
  for (const GradientBucket& chunk : plan.parameter_chunks) replicas.parameter_chunks.push_back(chunk.tensors);
  for (const GradientBucket& chunk : plan.gradient_chunks) replicas.gradient_chunks.push_back(chunk.tensors);
  return replicas;
}

class DataParallelProgram : public StepProgram {
 public:
  DataParallelProgram(const Plan& plan, const RuntimeOptions& options)
      : spec_(plan.spec),
        tasks_(read_dp_tasks(plan)),
        replicas_(make_replicas(plan, options)),
        rows_(make_rows(plan, replicas_.devices.size())),
        threads_(static_cast<int>(replicas_.devices.size())) {
    set_up_libtorch(spec_.dtype, options.device);
    const at::Device first = replicas_.devices.front();
    model_.emplace(plan, 0, first, options);
    if (spec_.dtype == Dtype::amp_fp16) scaler_.emplace(spec_.loss_scale, first);
    std::vector<std::int64_t> of_all;
    for (const std::vector<std::int64_t>& rows : rows_)
      of_all.push_back(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}));
    inputs_ = make_input(spec_.model, spec_.batch, first, options.seed).split_with_sizes(of_all);
    targets_ = make_target(spec_.model, spec_.batch, first, options.seed).split_with_sizes(of_all);
    losses_.resize(tasks_.microbatches.size());
    synchronize();
  }

  void run_step(SpanRecorder* recorder) override {
    begin_ns_ = steady_now_ns();
    replicas_.spans.recorder = recorder;
    model_->zero_grad();
    for (std::size_t m = 0; m < tasks_.microbatches.size(); ++m) run_microbatch(m);
    optimizer();
    synchronize();
  }

  double loss() override { return sum_of_losses(losses_); }

  bool skipped() const override { return skipped_; }

  std::optional<double> loss_scale() const override {
    return scaler_ ? std::optional(scaler_->current_scale()) : std::nullopt;
  }

  std::vector<torch::Tensor> parameters() override { return copies_on_host(model_->parameters()); }

 private:
  bool alone() const { return replicas_.devices.size() == 1; }

  void run_microbatch(std::size_t m) {
    const DpMicrobatchTasks& tasks = tasks_.microbatches[m];
    const Spans& spans = replicas_.spans;
    const at::Tensor& target = targets_[m % rows_.size()];
    replicas_.rows = rows_[m % rows_.size()];
    at::Tensor loss;
    {
      const Autocast autocast(spec_.dtype, target.device().type());
      output_ = alone() ? forward_alone(m) : forward(m);
      spans.begin(tasks.loss);
      loss = microbatch_loss(output_, target, spec_.batch, spec_.accum);
    }
    if (tasks.delay != kNone) {
      spans.end(tasks.loss);
      sleep_host(tasks.delay_ns, tasks.delay, spans.recorder);
    }
    if (spans.recorder) mark_end_of_loss(tasks);
    (scaler_ ? scaler_->scale(loss) : loss).backward();
    if (alone()) {
      spans.end(tasks.backward);
      spans.begin(tasks.sum);
    }
    spans.end(tasks.sum);
    losses_[m] = loss.detach();
  }

  /// Autograd calls the hook when the gradient of the output is complete, on the thread that goes on from there.
  void mark_end_of_loss(const DpMicrobatchTasks& tasks) {
    output_.register_hook([this, &tasks](const at::TensorBase&) {
      if (tasks.delay == kNone) replicas_.spans.end(tasks.loss);
      if (alone()) replicas_.spans.begin(tasks.backward[0]);
    });
  }

  at::Tensor forward_alone(std::size_t m) {
    const DpMicrobatchTasks& tasks = tasks_.microbatches[m];
    sleep_if_straggler(0, m);
    replicas_.spans.begin(tasks.forward[0]);
    at::Tensor output = model_->forward(inputs_[m % rows_.size()]);
    replicas_.spans.end(tasks.forward[0]);
    return output;
  }

  at::Tensor forward(std::size_t m) {
    const DpMicrobatchTasks& tasks = tasks_.microbatches[m];
    std::vector<at::Tensor> slices = scatter(inputs_[m % rows_.size()], tasks);
    const std::vector<std::vector<at::Tensor>> parameters = replicate(tasks);
    std::vector<at::Tensor> outputs(replicas_.devices.size());
    threads_.run([&](int index) {
      const auto g = static_cast<std::size_t>(index);
      sleep_if_straggler(index, m);
      const c10::DeviceGuard guard(replicas_.devices[g]);
      const Autocast autocast(spec_.dtype, replicas_.devices[g].type());
      replicas_.spans.begin(tasks.forward[g]);
      outputs[g] = forward_layers(spec_.model.layers, std::move(slices[g]), parameters[g]);
      replicas_.spans.end(tasks.forward[g]);
    });
    if (replicas_.spans.recorder) mark_begin_of_backward(outputs, tasks);
    return gather(outputs, tasks);
  }

  std::vector<at::Tensor> scatter(const at::Tensor& input, const DpMicrobatchTasks& tasks) const {
    std::vector<at::Tensor> slices;
    std::int64_t first = 0;
    for (std::size_t g = 0; g < replicas_.devices.size(); ++g) {
      const at::Tensor slice = input.narrow(0, first, replicas_.rows[g]);
      first += replicas_.rows[g];
      replicas_.spans.begin(tasks.scatter[g]);
      slices.push_back(g == 0 ? slice : copy_to(slice, replicas_.devices[g]));
      replicas_.spans.end(tasks.scatter[g]);
    }
    return slices;
  }

  /// The parameters of every layer, by replica. The first one's are the model's own memory.
  std::vector<std::vector<at::Tensor>> replicate(const DpMicrobatchTasks& tasks) const {
    const std::vector<at::Tensor> parameters = model_->parameters();
    std::vector<std::vector<at::Tensor>> copies(replicas_.devices.size(), std::vector<at::Tensor>(parameters.size()));
    for (std::size_t c = 0; c < replicas_.parameter_chunks.size(); ++c) {
      const TensorIndices& indices = replicas_.parameter_chunks[c];
      std::vector<at::Tensor> chunk;
      for (const std::size_t p : indices) chunk.push_back(parameters[p]);
      replicas_.spans.begin(tasks.broadcast[c]);
      std::vector<std::vector<at::Tensor>> of_devices = broadcast_chunk(chunk, replicas_.devices);
      replicas_.spans.end(tasks.broadcast[c]);
      for (std::size_t g = 0; g < copies.size(); ++g) {
        for (std::size_t i = 0; i < chunk.size(); ++i) copies[g][indices[i]] = std::move(of_devices[g][i]);
      }
    }
    const auto node = make_node<BroadcastBackward>(replicas_, tasks, parameters);
    for (const std::vector<at::Tensor>& of_device : copies) torch::autograd::set_history(of_device, node);
    return copies;
  }

  at::Tensor gather(const std::vector<at::Tensor>& outputs, const DpMicrobatchTasks& tasks) const {
    const auto node = make_node<GatherBackward>(replicas_, tasks, outputs);
    at::Tensor whole;
    {
      const at::NoGradGuard no_grad;
      whole = gather_rows(
          outputs, replicas_.devices.front(), [&](std::size_t g) { replicas_.spans.begin(tasks.gather[g]); },
          [&](std::size_t g) { replicas_.spans.end(tasks.gather[g]); });
    }
    torch::autograd::set_history(whole, node);
    return whole;
  }

  void mark_begin_of_backward(const std::vector<at::Tensor>& outputs, const DpMicrobatchTasks& tasks) const {
    for (std::size_t g = 0; g < outputs.size(); ++g) {
      outputs[g].register_hook(
          [this, task = tasks.backward[g]](const at::TensorBase&) { replicas_.spans.begin(task); });
    }
  }

  void sleep_if_straggler(int gpu, std::size_t microbatch) const {
    if (microbatch > 0 || gpu != tasks_.straggling_gpu) return;
    const std::int64_t end_ns = begin_ns_ + tasks_.straggler_ns;
    std::this_thread::sleep_for(std::chrono::nanoseconds(end_ns - steady_now_ns()));
    if (replicas_.spans.recorder) replicas_.spans.recorder->record_host(tasks_.straggler, begin_ns_, steady_now_ns());
  }

  void optimizer() {
    replicas_.spans.begin(tasks_.optimizer);
    if (scaler_) scaler_->unscale(model_->gradients());
    skipped_ = scaler_ && scaler_->found_inf();
    if (!skipped_) model_->optimizer_step();
    if (scaler_) scaler_->update();
    replicas_.spans.end(tasks_.optimizer);
  }

  void synchronize() const {
    for (const at::Device& device : replicas_.devices) {
      if (device.is_cuda()) torch::cuda::synchronize(device.index());
    }
  }

  RunSpec spec_;
  DpStepTasks tasks_;
  Replicas replicas_;
  std::vector<std::vector<std::int64_t>> rows_;  // by micro-batch of a round, by replica
  WorkerThreads threads_;
  std::optional<AutogradStage> model_;
  std::optional<GradScaler> scaler_;
  std::vector<at::Tensor> inputs_, targets_;  // by micro-batch of a round
  at::Tensor output_;
  std::vector<at::Tensor> losses_;  // by micro-batch, of the last step
  std::int64_t begin_ns_ = 0;       // of this step
  bool skipped_ = false;
};

}  // namespace

void check_dp_plan(const Plan& plan, const RuntimeOptions& options) {
  const RunSpec& spec = plan.spec;
  if (spec.synthetic) throw InputError("--tf", "synthetic costs", "none: a measured run takes the time it takes");
  if (plan.parallel.program != Program::data_parallel)
    throw InputError("--strategy", to_string(spec.strategy), "dp for DataParallel");
  check_devices(spec, options);
}

std::unique_ptr<StepProgram> make_dp_program(const Plan& plan, const RuntimeOptions& options) {
  check_dp_plan(plan, options);
  return std::make_unique<DataParallelProgram>(plan, options);
}

}  // namespace pdl
