#include "runtime/program/ddp_program.hpp"

#include <torch/autograd.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/cuda.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "runtime/comm/error_message.hpp"
#include "runtime/comm/peer_lost.hpp"
#include "runtime/comm/process_group.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/model/autocast.hpp"
#include "runtime/model/autograd_model.hpp"
#include "runtime/model/grad_scaler.hpp"
#include "runtime/model/initial_values.hpp"
#include "runtime/program/ddp_recording.hpp"
#include "runtime/program/recomputation_spans.hpp"
#include "runtime/program/reducer.hpp"
#include "runtime/trace/host_sleep.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "sim/io/error.hpp"

#if PDL_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace pdl {
namespace {

/// One thing that the thread does.
struct Action {
  enum class Kind { sleep, forward, backward, optimizer } kind = Kind::sleep;
  int microbatch = 0;  // of all rounds
  TaskId task = kNone;
  std::int64_t sleep_ns = 0;
};

std::string name_of(const Action& action) {
  const std::string microbatch = " of micro-batch " + std::to_string(action.microbatch);
  switch (action.kind) {
    case Action::Kind::sleep: return "a sleep";
    case Action::Kind::forward: return "the forward" + microbatch;
    case Action::Kind::backward: return "the backward" + microbatch + ", with the exchange of gradients";
    case Action::Kind::optimizer: return "the optimizer";
  }
  return "";
}

struct Script {
  std::vector<Action> actions;
  std::vector<ExchangeTasks> exchanges;           // by micro-batch of all rounds
  std::vector<RecomputationSpans> recomputation;  // the same; where layers are run again they have the backward's parts
};

/// Reads the tasks of one worker in their order.
Script read_script(const Plan& plan, int worker) {
  const std::size_t buckets = plan.buckets.size();
  const std::vector<TaskId> none(buckets, kNone);
  const bool runs_again = plan.spec.recompute;
  Script script;
  script.recomputation.resize(plan.microbatch_rows.size());
  script.exchanges.assign(plan.microbatch_rows.size(), {none, none, none, none});
  for (TaskId t = 0; t < plan.graph.tasks.size(); ++t) {
    const Task& task = plan.graph.tasks[t];
    if (task.worker != worker) continue;
    const int microbatch = std::max(task.microbatch, 0);
    ExchangeTasks& tasks = script.exchanges.at(static_cast<std::size_t>(microbatch));
    switch (task.kind) {
      case TaskKind::sleep:
        script.actions.push_back({Action::Kind::sleep, microbatch, t, plan.graph.works[task.work].sleep_ns});
        break;
      case TaskKind::forward: script.actions.push_back({Action::Kind::forward, microbatch, t}); break;
      case TaskKind::backward:
        if (script.actions.back().kind != Action::Kind::backward) {
          script.actions.push_back({Action::Kind::backward, microbatch, t});
        }
        if (!runs_again) tasks.backward.at(task.part) = t;
        [[fallthrough]];
      case TaskKind::recompute:
        if (runs_again) script.recomputation.at(static_cast<std::size_t>(microbatch)).add(task.kind, t);
        break;
      case TaskKind::bucket_copy_in: tasks.copy_in.at(task.part) = t; break;
      case TaskKind::all_reduce: tasks.all_reduce.at(task.part) = t; break;
      case TaskKind::bucket_copy_out: tasks.copy_out.at(task.part) = t; break;
      case TaskKind::optimizer: script.actions.push_back({Action::Kind::optimizer, microbatch, t}); break;
      default: throw CannotRun("the DDP program: found " + task_name(task.kind, task.stage, task.microbatch, true));
    }
  }
  return script;
}

std::vector<std::vector<std::size_t>> indices_of(const std::vector<GradientBucket>& buckets) {
  std::vector<std::vector<std::size_t>> indices;
  for (const GradientBucket& bucket : buckets) indices.push_back(bucket.tensors);
  return indices;
}

std::vector<std::size_t> sizes_of(const std::vector<GradientBucket>& buckets) {
  std::vector<std::size_t> sizes;
  for (const GradientBucket& bucket : buckets) sizes.push_back(bucket.tensors.size());
  return sizes;
}

class DdpProgram : public StepProgram {
 public:
  DdpProgram(const Plan& plan, const RuntimeOptions& options, const c10::intrusive_ptr<c10d::Store>& store,
             bool one_host, AllReduceWatcher* watcher)
      : spec_(plan.spec),
        rank_(options.rank),
        device_(device_of(options, rank_)),
        buckets_(indices_of(plan.buckets)),
        script_(read_script(plan, rank_)),
        recording_(device_, sizes_of(plan.buckets)) {
    set_up_libtorch(spec_.dtype, options.device);
#if PDL_CUDA
    if (device_.is_cuda()) c10::cuda::set_device(device_.index());
#endif
    take_slice(plan, options.seed);
    stage_.emplace(plan, rank_, device_, options);
    if (spec_.dtype == Dtype::amp_fp16) scaler_.emplace(spec_.loss_scale, device_);
    watch_gradients();
    try {
      std::vector<AllReduceWatcher*> watchers{&recording_};
      if (watcher) watchers.push_back(watcher);
      group_ = make_process_group({store, rank_, static_cast<int>(spec_.gpus), device_, one_host}, watchers);
    } catch (const std::exception& error) {
      lose(error);
    }
    const std::vector<at::Tensor> parameters = stage_->parameters();
    check_buckets(parameters);
    reducer_ =
        make_reducer(parameters, {buckets_, spec_.bucket_bytes, spec_.first_bucket_bytes, spec_.bucket_views}, group_);
    losses_.resize(plan.microbatch_rows.size());
    synchronize();
  }

  ~DdpProgram() override {
    const Waiting waiting("worker " + std::to_string(rank_) + ": leaves the other replicas");
    try {
      reducer_.reset();
      if (group_ && !lost_) leave(*group_, device_.type());
    } catch (...) {
      // The run is over and its results have been handed out; there is nobody to tell.
    }
  }

  void run_step(SpanRecorder* recorder) override {
    try {
      stage_->zero_grad();
      for (const Action& action : script_.actions) {
        at_.store(&action, std::memory_order_relaxed);
        execute(action, recorder);
      }
      at_.store(nullptr, std::memory_order_relaxed);
      synchronize();
    } catch (const std::exception& error) {
      lose(error);
    }
  }

  std::string where() const override {
    const std::string worker = "worker " + std::to_string(rank_);
    const Action* at = at_.load(std::memory_order_relaxed);
    if (!at) return worker + " has issued all and waits for its device and the other replicas";
    return worker + " is at " + name_of(*at);
  }

  double loss() override { return sum_of_losses(losses_) / static_cast<double>(spec_.gpus); }

  bool skipped() const override { return skipped_; }

  std::optional<double> loss_scale() const override {
    return scaler_ ? std::optional(scaler_->current_scale()) : std::nullopt;
  }

  std::vector<torch::Tensor> parameters() override { return copies_on_host(stage_->parameters()); }

 private:
  /// The samples of this replica; the memory of the others' is given back.
  void take_slice(const Plan& plan, std::uint64_t seed) {
    std::int64_t first = 0;
    for (int r = 0; r < rank_; ++r) first += plan.replica_rows[static_cast<std::size_t>(r)];
    const std::int64_t rows = plan.replica_rows[static_cast<std::size_t>(rank_)];
    std::vector<std::int64_t> cuts;
    for (std::int32_t m = 0; m < microbatches_of_a_round(plan); ++m) cuts.push_back(rows_of(plan, rank_, m));
    const auto slice = [&](const at::Tensor& batch) {
      return batch.narrow(0, first, rows).clone().split_with_sizes(cuts);
    };
    inputs_ = slice(make_input(spec_.model, spec_.batch, device_, seed));
    targets_ = slice(make_target(spec_.model, spec_.batch, device_, seed));
  }

  /// Behind the accumulation of the gradient that fills a bucket, before the Reducer looks at it: hooks are called in
  /// the order in which they were added.
  void watch_gradients() {
    const std::vector<at::Tensor> parameters = stage_->parameters();
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameters[buckets_[b].back()]));
      accumulators_.back()->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [this, b](const torch::autograd::variable_list& outputs, const torch::autograd::variable_list&) {
            if (under_way_) under_way_->bucket_filled();
            recording_.bucket_filled(b);
            return outputs;
          }));
    }
  }

  void execute(const Action& action, SpanRecorder* recorder) {
    switch (action.kind) {
      case Action::Kind::sleep: return sleep_host(action.sleep_ns, action.task, recorder);
      case Action::Kind::forward: return forward(action, recorder);
      case Action::Kind::backward: return backward(action, recorder);
      case Action::Kind::optimizer: return optimizer(action, recorder);
    }
  }

  bool exchanges(int microbatch) const {
    return script_.exchanges[static_cast<std::size_t>(microbatch)].copy_in.front() != kNone;
  }

  /// The same data in every round.
  std::size_t data_of(int microbatch) const { return static_cast<std::size_t>(microbatch) % inputs_.size(); }

  RecomputationSpans& recomputation_of(const Action& action) {
    return script_.recomputation[static_cast<std::size_t>(action.microbatch)];
  }

  void forward(const Action& action, SpanRecorder* recorder) {
    if (exchanges(action.microbatch)) reducer_->prepare_for_forward();
    if (recorder) recorder->begin(action.task);
    {
      const Autocast autocast(spec_.dtype, device_.type());
      output_ = stage_->forward(inputs_[data_of(action.microbatch)], recomputation_of(action).watch(recorder));
    }
    if (recorder) recorder->end(action.task);
    if (exchanges(action.microbatch)) reducer_->prepare_for_backward({});
  }

  /// The plan's buckets are those that the Reducer would make after the first step, from the order in which gradients
  /// come. So they are given to it at once, and it need not make them anew: meanwhile the old ones would be there too.
  void check_buckets(const std::vector<at::Tensor>& parameters) const {
    const std::vector<at::Tensor> in_order_of_gradients(parameters.rbegin(), parameters.rend());
    std::vector<std::int64_t> indices;
    for (std::int64_t i = std::ssize(parameters); i-- > 0;) indices.push_back(i);
    const auto limits = std::vector<std::size_t>{static_cast<std::size_t>(spec_.first_bucket_bytes),
                                                 static_cast<std::size_t>(spec_.bucket_bytes)};
    const auto made = std::get<0>(c10d::compute_bucket_assignment_by_size(in_order_of_gradients, limits, {}, indices));
    TORCH_CHECK(made == buckets_, "the Reducer would make other buckets than the plan");
  }

  void backward(const Action& action, SpanRecorder* recorder) {
    const bool cut = exchanges(action.microbatch);
    const ExchangeTasks& tasks = script_.exchanges[static_cast<std::size_t>(action.microbatch)];
    RecomputationSpans& recomputation = recomputation_of(action);
    const bool runs_again = !recomputation.empty();
    if (recorder && cut) recording_.begin(tasks, *recorder);
    if (recorder && runs_again) recomputation.begin();
    if (recorder && !cut && !runs_again) recorder->begin(action.task);
    under_way_ = recorder && cut && runs_again ? &recomputation : nullptr;
    at::Tensor loss;
    {
      const Autocast autocast(spec_.dtype, device_.type());
      // Gradients are averaged over the replicas: a slice of an equal share of the batch weighs 1.
      const double weight =
          static_cast<double>(output_.size(0) * spec_.gpus) / static_cast<double>(spec_.batch * spec_.accum);
      loss = weighted_loss(std::exchange(output_, {}), targets_[data_of(action.microbatch)], weight);
    }
    (scaler_ ? scaler_->scale(loss) : loss).backward();
    if (recorder && cut) recording_.end();  // the last part has ended where the last bucket was full
    if (recorder && !cut) runs_again ? recomputation.end() : recorder->end(action.task);
    losses_[static_cast<std::size_t>(action.microbatch)] = loss.detach();
  }

  void optimizer(const Action& action, SpanRecorder* recorder) {
    if (recorder) recorder->begin(action.task);
    if (scaler_) scaler_->unscale(stage_->gradients());
    skipped_ = scaler_ && scaler_->found_inf();
    if (!skipped_) stage_->optimizer_step();
    if (scaler_) scaler_->update();
    if (recorder) recorder->end(action.task);
  }

  void synchronize() const {
    if (device_.is_cuda()) torch::cuda::synchronize(device_.index());
  }

  /// In a handler: what was thrown, or what it is the consequence of.
  [[noreturn]] void lose(const std::exception& error) {
    if (!is_loss_of_peer(error)) throw;
    lost_ = true;
    throw PeerLost("worker " + std::to_string(rank_) + " lost the others: " + message_of(error));
  }

  RunSpec spec_;
  int rank_;
  at::Device device_;
  std::vector<std::vector<std::size_t>> buckets_;
  Script script_;
  DdpRecording recording_;
  std::optional<AutogradStage> stage_;
  std::optional<GradScaler> scaler_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;  // those with a hook of ours
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::shared_ptr<c10d::Reducer> reducer_;
  std::vector<at::Tensor> inputs_, targets_;  // by micro-batch of a round
  at::Tensor output_;
  std::vector<at::Tensor> losses_;           // by micro-batch of all rounds, of the last step
  RecomputationSpans* under_way_ = nullptr;  // of the backward, where it is recorded and cut at buckets
  std::atomic<const Action*> at_{nullptr};   // for where()
  bool skipped_ = false;
  bool lost_ = false;
};

}  // namespace

void check_ddp_plan(const Plan& plan, const RuntimeOptions& options) {
  const RunSpec& spec = plan.spec;
  if (spec.synthetic) throw InputError("--tf", "synthetic costs", "none: a measured run takes the time it takes");
  if (plan.parallel.program != Program::ddp)
    throw InputError("--strategy", to_string(spec.strategy), "ddp for a DDP program");
  check_devices(spec, options);
  const bool cuda = options.device == DeviceKind::cuda;
  if (spec.transport == (cuda ? Transport::nccl : Transport::gloo)) return;
  throw InputError("--transport", to_string(spec.transport) + (cuda ? " on GPUs" : " on CPU") + " with strategy ddp",
                   cuda ? "nccl" : "gloo");
}

std::unique_ptr<StepProgram> make_ddp_program(const Plan& plan, const RuntimeOptions& options,
                                              const c10::intrusive_ptr<c10d::Store>& store, bool one_host,
                                              AllReduceWatcher* watcher) {
  check_ddp_plan(plan, options);
  return std::make_unique<DdpProgram>(plan, options, store, one_host, watcher);
}

}  // namespace pdl
