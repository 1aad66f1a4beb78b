#include "runtime/program/autograd_program.hpp"

#include <torch/autograd.h>
#include <torch/cuda.h>

#include <optional>
#include <string>
#include <utility>

#include "runtime/device/devices.hpp"
#include "runtime/model/autocast.hpp"
#include "runtime/model/autograd_model.hpp"
#include "runtime/model/grad_scaler.hpp"
#include "runtime/model/initial_values.hpp"
#include "runtime/program/recomputation_spans.hpp"
#include "runtime/trace/host_sleep.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "sim/io/error.hpp"

namespace pdl {
namespace {

/// One thing that the thread does.
struct Action {
  enum class Kind { sleep, forward, transfer, backward } kind = Kind::forward;
  int stage = 0;  // transfer: where the activation comes from; backward: the last stage
  int microbatch = 0;
  TaskId task = kNone;      // transfer: the send
  TaskId receiver = kNone;  // transfer
  std::int64_t sleep_ns = 0;
};

/// The tasks of one stage inside a micro-batch's call of backward().
struct BackwardTasks {
  TaskId backward = kNone;
  TaskId send = kNone;     // of the gradient, to the stage before
  TaskId receive = kNone;  // of the gradient, from the stage after
};

struct Script {
  std::vector<Action> actions;
  std::vector<std::vector<BackwardTasks>> backward;  // by micro-batch of all rounds, by stage
  std::vector<RecomputationSpans> recomputation;     // by micro-batch; of one stage, where its layers are run again
  std::vector<TaskId> optimizer;                     // by stage, after all other actions
};

/// Reads the order of a graph as a program of one thread.
class ScriptReader {
 public:
  explicit ScriptReader(const Plan& plan)
      : graph_(plan.graph), last_stage_(static_cast<int>(plan.stages.size()) - 1), runs_again_(plan.spec.recompute) {
    script_.recomputation.resize(plan.microbatch_rows.size());
    script_.backward.assign(plan.microbatch_rows.size(), std::vector<BackwardTasks>(plan.stages.size()));
    script_.optimizer.assign(plan.stages.size(), kNone);
    reached_.assign(plan.microbatch_rows.size(), 0);
  }

  Script read() && {
    while (next_ < graph_.tasks.size()) read_action();
    for (std::size_t m = 0; m < script_.backward.size(); ++m) {
      if (script_.backward[m][0].backward != kNone) continue;
      throw CannotRun("the one-thread program: micro-batch " + std::to_string(m) + " has no backward");
    }
    return std::move(script_);
  }

 private:
  void read_action() {
    const TaskId id = next_;
    const Task& task = graph_.tasks[id];
    require(!optimizes_ || task.kind == TaskKind::optimizer, "after an optimizer");
    switch (task.kind) {
      case TaskKind::sleep:
        script_.actions.push_back({Action::Kind::sleep, task.stage, 0, id, kNone, graph_.works[task.work].sleep_ns});
        ++next_;
        break;
      case TaskKind::forward:
        require(reached_[task.microbatch] == 2 * task.stage, "before its input has come");
        script_.actions.push_back({Action::Kind::forward, task.stage, task.microbatch, id, kNone});
        ++reached_[task.microbatch];
        ++next_;
        break;
      case TaskKind::send_forward:
        require(reached_[task.microbatch] == 2 * task.stage + 1, "before its forward");
        ++next_;
        script_.actions.push_back({Action::Kind::transfer, task.stage, task.microbatch, id,
                                   take(TaskKind::receive_forward, task.stage + 1, task.microbatch)});
        ++reached_[task.microbatch];
        break;
      case TaskKind::backward:
        require(task.stage == last_stage_, "before the backward of the stage after it");
        require(reached_[task.microbatch] == 2 * task.stage + 1, "before its forward");
        script_.actions.push_back({Action::Kind::backward, task.stage, task.microbatch, id, kNone});
        read_backward(task.microbatch);
        break;
      case TaskKind::optimizer:
        optimizes_ = true;
        script_.optimizer[static_cast<std::size_t>(task.stage)] = id;
        ++next_;
        break;
      default: require(false, "where autograd cannot run it: a backward is one call through all stages");
    }
  }

  /// Of the only stage.
  void read_recomputation(int microbatch) {
    script_.backward[microbatch][0].backward = next_;
    const auto is_part = [&](const Task& task) {
      return task.microbatch == microbatch && (task.kind == TaskKind::backward || task.kind == TaskKind::recompute);
    };
    for (; next_ < graph_.tasks.size() && is_part(graph_.tasks[next_]); ++next_)
      script_.recomputation[microbatch].add(graph_.tasks[next_].kind, next_);
  }

  void read_backward(int microbatch) {
    if (runs_again_) {
      require(last_stage_ == 0, "of several stages, where layers are run again");
      return read_recomputation(microbatch);
    }
    std::vector<BackwardTasks>& tasks = script_.backward[microbatch];
    for (int stage = last_stage_; stage >= 0; --stage) {
      tasks[stage].backward = take(TaskKind::backward, stage, microbatch);
      if (stage == 0) break;
      tasks[stage].send = take(TaskKind::send_backward, stage, microbatch);
      tasks[stage - 1].receive = take(TaskKind::receive_backward, stage - 1, microbatch);
    }
  }

  /// The next task must be this one.
  TaskId take(TaskKind kind, int stage, int microbatch) {
    const bool found = next_ < graph_.tasks.size() && graph_.tasks[next_].kind == kind &&
                       graph_.tasks[next_].stage == stage && graph_.tasks[next_].microbatch == microbatch;
    if (!found) {
      throw CannotRun("the one-thread program: found " + name(next_) + ", expected " +
                      task_name(kind, stage, microbatch, true) +
                      ": a transfer is one call, and so is a backward through all stages");
    }
    return next_++;
  }

  void require(bool holds, const std::string& otherwise) const {
    if (!holds) throw CannotRun("the one-thread program: found " + name(next_) + " " + otherwise);
  }

  std::string name(TaskId id) const {
    if (id >= graph_.tasks.size()) return "the end of the step";
    const Task& task = graph_.tasks[id];
    return task_name(task.kind, task.stage, task.microbatch, true);
  }

  const TaskGraph& graph_;
  int last_stage_;
  bool runs_again_;
  TaskId next_ = 0;
  bool optimizes_ = false;
  std::vector<int> reached_;  // by micro-batch: 2 x stage: its input is there; 2 x stage + 1: its output
  Script script_;
};

/// Where all "GPUs" are the CPU, `.to(device)` would move nothing.
struct HostCopy : torch::autograd::Function<HostCopy> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*,
                                               const torch::autograd::tensor_list& gradients) {
    return {gradients[0].clone()};
  }
};

class AutogradProgram : public StepProgram {
 public:
  AutogradProgram(const Plan& plan, const RuntimeOptions& options)
      : script_(ScriptReader(plan).read()), dtype_(plan.spec.dtype), batch_(plan.spec.batch), rounds_(plan.spec.accum) {
    set_up_libtorch(plan.spec.dtype, options.device);
    for (const Stage& stage : plan.stages) {
      const at::Device device = device_of(options, only_worker(stage));
      stages_.emplace_back(plan, static_cast<int>(stages_.size()), device, options);
    }
    const Model& model = plan.spec.model;
    // The same data in every round.
    const std::vector<std::int64_t> rows(plan.microbatch_rows.begin(),
                                         plan.microbatch_rows.begin() + microbatches_of_a_round(plan));
    inputs_ = make_input(model, batch_, stages_.front().device(), options.seed).split_with_sizes(rows);
    targets_ = make_target(model, batch_, stages_.back().device(), options.seed).split_with_sizes(rows);
    activations_.resize(plan.microbatch_rows.size());
    losses_.resize(plan.microbatch_rows.size());
    if (dtype_ == Dtype::amp_fp16) scaler_.emplace(plan.spec.loss_scale, stages_.back().device());
    synchronize();
  }

  void run_step(SpanRecorder* recorder) override {
    for (AutogradStage& stage : stages_) stage.zero_grad();
    for (const Action& action : script_.actions) {
      switch (action.kind) {
        case Action::Kind::sleep: sleep_host(action.sleep_ns, action.task, recorder); break;
        case Action::Kind::forward: forward(action, recorder); break;
        case Action::Kind::transfer: transfer(action, recorder); break;
        case Action::Kind::backward: backward(action, recorder); break;
      }
    }
    optimizer(recorder);
    synchronize();
  }

  double loss() override { return sum_of_losses(losses_); }

  bool skipped() const override { return skipped_; }

  std::optional<double> loss_scale() const override {
    return scaler_ ? std::optional(scaler_->current_scale()) : std::nullopt;
  }

  std::vector<torch::Tensor> parameters() override {
    std::vector<torch::Tensor> all;
    for (const AutogradStage& stage : stages_) {
      for (at::Tensor& copy : copies_on_host(stage.parameters())) all.push_back(std::move(copy));
    }
    return all;
  }

 private:
  void forward(const Action& action, SpanRecorder* recorder) {
    const int stage = action.stage, m = action.microbatch;
    const TaskId task = action.task;
    at::Tensor& x = activations_[m];
    if (stage == 0) x = inputs_[static_cast<std::size_t>(m) % inputs_.size()];
    if (recorder) {
      if (stage > 0) mark_start_of_gradient_transfer(x, stage, m, *recorder);
      recorder->begin(task);
    }
    {
      const Autocast autocast(dtype_, stages_[stage].device().type());
      x = stages_[stage].forward(std::move(x), script_.recomputation[m].watch(recorder));
    }
    if (recorder) {
      recorder->end(task);
      if (stage + 1 < static_cast<int>(stages_.size())) mark_end_of_gradient_transfer(x, stage, m, *recorder);
    }
  }

  void transfer(const Action& action, SpanRecorder* recorder) {
    at::Tensor& x = activations_[action.microbatch];
    const at::Device to = stages_[action.stage + 1].device();
    if (recorder) {
      recorder->begin(action.task);
      recorder->begin(action.receiver);
    }
    x = to.is_cpu() ? HostCopy::apply(x) : x.to(x.options().device(to));
    if (recorder) {
      recorder->end(action.task);
      recorder->end(action.receiver);
    }
  }

  void backward(const Action& action, SpanRecorder* recorder) {
    const int m = action.microbatch;
    RecomputationSpans& recomputation = script_.recomputation[m];
    if (recorder) recomputation.empty() ? recorder->begin(action.task) : recomputation.begin();
    at::Tensor loss;
    {
      const at::Tensor& target = targets_[static_cast<std::size_t>(m) % targets_.size()];
      const Autocast autocast(dtype_, target.device().type());
      loss = microbatch_loss(std::exchange(activations_[m], {}), target, batch_, rounds_);
    }
    (scaler_ ? scaler_->scale(loss) : loss).backward();
    if (recorder) recomputation.empty() ? recorder->end(script_.backward[m].front().backward) : recomputation.end();
    losses_[m] = loss.detach();
  }

  /// One optimizer of all stages: with a scaler, all gradients are looked at before any parameter is changed.
  void optimizer(SpanRecorder* recorder) {
    for (std::size_t s = 0; scaler_ && s < stages_.size(); ++s) {
      if (recorder) recorder->begin(script_.optimizer[s]);
      if (!stages_[s].parameters().empty()) scaler_->unscale(stages_[s].gradients());
    }
    skipped_ = scaler_ && scaler_->found_inf();
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (recorder && !scaler_) recorder->begin(script_.optimizer[s]);
      if (!skipped_) stages_[s].optimizer_step();
      if (scaler_ && s + 1 == stages_.size()) scaler_->update();  // on the GPU of the last stage
      if (recorder) recorder->end(script_.optimizer[s]);
    }
  }

  // In a recorded step the backward of a micro-batch is cut into its tasks by hooks on the tensors at the boundaries of
  // the stages. Autograd calls the hook of a tensor when its gradient is complete, just before it runs the backward of
  // what produced the tensor, on the thread that does so. By then all kernels of the stage above have been issued:
  // autograd runs what was created last first, and the accumulation of a parameter's gradient before anything else.

  /// `input` came by the transfer from stage - 1.
  void mark_start_of_gradient_transfer(const at::Tensor& input, int stage, int microbatch,
                                       SpanRecorder& recorder) const {
    const BackwardTasks& here = script_.backward[microbatch][stage];
    const BackwardTasks& before = script_.backward[microbatch][stage - 1];
    input.register_hook([&recorder, &here, &before](const at::TensorBase&) {
      recorder.end(here.backward);
      recorder.begin(here.send);
      recorder.begin(before.receive);
    });
  }

  /// `output` goes by the transfer to stage + 1.
  void mark_end_of_gradient_transfer(const at::Tensor& output, int stage, int microbatch,
                                     SpanRecorder& recorder) const {
    const BackwardTasks& here = script_.backward[microbatch][stage];
    const BackwardTasks& after = script_.backward[microbatch][stage + 1];
    output.register_hook([&recorder, &here, &after](const at::TensorBase&) {
      recorder.end(after.send);
      recorder.end(here.receive);
      recorder.begin(here.backward);
    });
  }

  void synchronize() const {
    for (const AutogradStage& stage : stages_) {
      if (stage.device().is_cuda()) torch::cuda::synchronize(stage.device().index());
    }
  }

  Script script_;
  Dtype dtype_;
  std::int64_t batch_, rounds_;
  std::vector<AutogradStage> stages_;
  std::optional<GradScaler> scaler_;  // amp-fp16
  bool skipped_ = false;
  std::vector<at::Tensor> inputs_, targets_;  // by micro-batch
  std::vector<at::Tensor> activations_;       // by micro-batch: what its last forward or transfer gave
  std::vector<at::Tensor> losses_;            // by micro-batch, of the last step
};

}  // namespace

void check_autograd_plan(const Plan& plan, const RuntimeOptions& options) {
  const RunSpec& spec = plan.spec;
  if (spec.synthetic) throw InputError("--tf", "synthetic costs", "none: a measured run takes the time it takes");
  if (plan.parallel.program != Program::one_thread) {
    throw InputError("--workers", to_string(spec.workers), "one for a program of one thread");
  }
  check_devices(spec, options);
  static_cast<void>(ScriptReader(plan).read());
}

std::unique_ptr<StepProgram> make_autograd_program(const Plan& plan, const RuntimeOptions& options) {
  check_autograd_plan(plan, options);
  return std::make_unique<AutogradProgram>(plan, options);
}

}  // namespace pdl
