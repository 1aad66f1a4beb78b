#include "runtime/model/checkpoint.hpp"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/model/autocast.hpp"

namespace pdl {
namespace {

/// Thrown through a forward that is run again when all that its backward reads is there.
struct ForwardIsRunFarEnough : std::exception {};

at::Tensor random_state(at::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(at::Device device, const at::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

/// Random numbers are those that were drawn from `state` on; afterwards as if none had been.
class SameRandomNumbers {
 public:
  SameRandomNumbers(at::Device device, const at::Tensor& state) : device_(device) {
    if (!state.defined()) return;
    before_ = random_state(device);
    set_random_state(device, state);
  }
  ~SameRandomNumbers() {
    if (before_.defined()) set_random_state(device_, before_);
  }
  SameRandomNumbers(const SameRandomNumbers&) = delete;
  SameRandomNumbers& operator=(const SameRandomNumbers&) = delete;

 private:
  at::Device device_;
  at::Tensor before_;
};

class Checkpoint;

/// Of this thread: whose tensors are saved now.
struct Saving {
  std::shared_ptr<Checkpoint> checkpoint;
  bool again = false;
};
thread_local Saving saving;

class SavingFor {
 public:
  explicit SavingFor(Saving now) : before_(std::exchange(saving, std::move(now))) {}
  ~SavingFor() { saving = std::move(before_); }
  SavingFor(const SavingFor&) = delete;
  SavingFor& operator=(const SavingFor&) = delete;

 private:
  Saving before_;
};

/// One forward of a layer, and the tensors that are made again for its backward.
class Checkpoint : public std::enable_shared_from_this<Checkpoint> {
 public:
  Checkpoint(std::function<at::Tensor(const at::Tensor&)> forward, const at::Tensor& input,
             const CheckpointOptions& options)
      : forward_(std::move(forward)),
        input_(input),
        options_(options),
        autocast_(Autocast::current(input.device().type())) {
    if (options.draws_random_numbers) random_state_ = random_state(input.device());
  }

  at::Tensor run() {
    const SavingFor first({shared_from_this(), false});
    return forward_(input_);
  }

  std::size_t add_tensor() {
    tensors_.emplace_back();
    wanted_.push_back(true);
    return tensors_.size() - 1;
  }

  /// Of the forward that is run again: those of the first one come in the same order.
  void make_tensor(const at::Tensor& tensor) {
    TORCH_CHECK(made_ < tensors_.size(), "layer ", options_.layer, " saves more tensors when it is run again");
    if (wanted_[made_]) tensors_[made_] = tensor.requires_grad() ? tensor.detach() : tensor;
    if (++made_ == tensors_.size()) throw ForwardIsRunFarEnough();
  }

  at::Tensor take_tensor(std::size_t number) {
    if (made_ == 0) run_again();
    TORCH_CHECK(tensors_[number].defined(), "a second backward through the checkpointed layer ", options_.layer);
    return std::exchange(tensors_[number], {});
  }

  void give_up(std::size_t number) {
    wanted_[number] = false;
    tensors_[number].reset();
  }

 private:
  void run_again() {
    if (options_.watcher) options_.watcher->recomputation_begins(options_.layer);
    {
      const SavingFor again({shared_from_this(), true});
      const at::AutoGradMode with_gradients(true);
      const Autocast autocast(autocast_, input_.device().type());
      const SameRandomNumbers numbers(input_.device(), random_state_);
      try {
        forward_(input_);
      } catch (const ForwardIsRunFarEnough&) {  // as it should be
      }
    }
    TORCH_CHECK(made_ == tensors_.size(), "layer ", options_.layer, " saves fewer tensors when it is run again");
    if (options_.watcher) options_.watcher->recomputation_ends(options_.layer);
  }

  std::function<at::Tensor(const at::Tensor&)> forward_;
  at::Tensor input_;
  CheckpointOptions options_;
  Dtype autocast_;
  at::Tensor random_state_;  // undefined: it draws none
  std::vector<at::Tensor> tensors_;
  std::vector<bool> wanted_;  // by tensor
  std::size_t made_ = 0;
};

/// What an operation has in place of a tensor that it saves.
class NumberOfTensor : public torch::autograd::SavedVariableHooks {
 public:
  explicit NumberOfTensor(Saving of) : of_(std::move(of)) {}
  ~NumberOfTensor() override {
    if (number_) of_.checkpoint->give_up(*number_);
  }

  void call_pack_hook(const at::Tensor& tensor) override {
    if (of_.again) return of_.checkpoint->make_tensor(tensor);
    number_ = of_.checkpoint->add_tensor();
  }

  at::Tensor call_unpack_hook() override {
    TORCH_CHECK(number_, "a forward that was run again has no backward of its own");
    return of_.checkpoint->take_tensor(*number_);
  }

 private:
  Saving of_;
  std::optional<std::size_t> number_;
};

/// LibTorch asks its engine for these hooks, as it asks Python's where there is one.
class CheckpointingEngine : public torch::autograd::Engine {
 public:
  ~CheckpointingEngine() override { stop(); }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (!saving.checkpoint) return nullptr;
    return std::make_unique<NumberOfTensor>(saving);
  }
};

torch::autograd::Engine& checkpointing_engine() {
  static CheckpointingEngine engine;
  return engine;
}

/// Before anything has asked for the engine, which then stays.
[[maybe_unused]] const bool is_engine = (torch::autograd::set_default_engine_stub(checkpointing_engine), true);

}  // namespace

at::Tensor checkpointed(std::function<at::Tensor(const at::Tensor&)> forward, const at::Tensor& input,
                        const CheckpointOptions& options) {
  if (options.watcher && input.requires_grad()) {
    input.register_hook(
        [watcher = options.watcher, layer = options.layer](const at::TensorBase&) { watcher->backward_ends(layer); });
  }
  return std::make_shared<Checkpoint>(std::move(forward), input, options)->run();
}

}  // namespace pdl
