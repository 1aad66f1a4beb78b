#include "sim/cost/price.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "sim/cost/communication_price.hpp"
#include "sim/cost/host_calls.hpp"
#include "sim/cost/hosts_of_profile.hpp"
#include "sim/cost/kernel_list.hpp"
#include "sim/cost/kernel_name.hpp"
#include "sim/cost/kernel_tiles.hpp"
#include "sim/cost/layer_time.hpp"
#include "sim/cost/memory_contention.hpp"
#include "sim/cost/notice_shares.hpp"
#include "sim/cost/notices.hpp"
#include "sim/cost/operation_at_size.hpp"
#include "sim/cost/python_host.hpp"
#include "sim/io/error.hpp"
#include "sim/io/words.hpp"
#include "sim/model/checkpointed_layers.hpp"
#include "sim/model/inner_layers.hpp"

namespace pdl {
namespace {

constexpr std::size_t kFitWarningsShown = 5;

/// Of what is a curve over one size (loss, optimizer, copies, transfers, collectives): how far the fit lies from single
/// measurements, and these from another hour's.
constexpr double kCurveHalfWidth = 0.03;

/// Collectives that run beside compute: by how much copies and kernels slow them is uncertain by a half of itself
/// (sim/cost/memory_contention.hpp). It was written after the 50 such steps of data/h200x2/runs (2026-11-29), of which
/// 39 are within their bars with it.
constexpr double kBesideCompute = 0.1;

/// Tensor cores are held back by the power limit, and cards of one kind differ in the power that a clock takes. Where
/// layers were measured at whatever clock they had alone, steps were 4.7 % shorter on average than predicted.
constexpr double kTensorCoresAtAnyClock = 0.05;

/// The same where the profile says how the clock follows the power. Written after 70 steps at probed sizes on two other
/// H200, of which 90 % were within 4 % (data/h200x2/runs_on_host_3 and _4, 2026-11-29).
constexpr double kClockAtPowerLimit = 0.035;

/// In bf16, whose steps are 2.2 % shorter than predicted on average, for no reason that is known: of the 141 GPU-bound
/// ones of all hosts 79 % were within their bars with what the others have (2026-12-01). Those runs judge it no more.
constexpr double kClockInBf16 = 0.05;

/// Products on tensor cores beside all-reduces take 10 to 25 % longer, of which the model has about half: why is not
/// known, as no probe has them in TF32. Written after the 30 such steps of data/h200x2/runs (2026-11-30), of which 70 %
/// were within their bars without it.
constexpr double kTensorCoresBesideCollectives = 0.06;

/// What a FLOP of tensor cores draws of a product of normal numbers, over one of numbers half of which are 0. At the
/// power limit 2048 x 8192 x 8192 in TF32 takes .764 ms of the former and .734 of the latter (H200, 2026-11-27): 1.041
/// times as long, with time as power to the .26 (sim/cost/power_limit.hpp).
constexpr double kPowerOfFullNumbers = 1.17;

/// What Python may take to issue work in place of C++: pipelines of layers of width 1024, whose steps are all host,
/// took 1.35 to 3.5 times as long as by LibTorch's times (data/h200x2/pytorch_pipelining.json, 2026-11-30). Where a
/// profile has no host times of Python, its slow host is so much slower, so that what may be host-bound is said to be.
constexpr double kPythonBesideCpp = 3.5;

/// The same of host times of Python that were measured on another machine. Seven hosts with two H200 each gave 34 to
/// 65 us for a layer's forward (2026-11-30), the profile of data/h200x2 has 41.
constexpr double kPythonOfAnotherHost = 1.5;

std::string name_of(Implementation implementation) {
  return implementation == Implementation::pipeline ? "pipeline" : "autograd";
}

const char* layer_operation(TaskKind kind) {
  switch (kind) {
    case TaskKind::forward:
    case TaskKind::recompute: return "forward";
    case TaskKind::backward: return "backward";
    case TaskKind::backward_input: return "backward_input";
    case TaskKind::backward_weight: return "backward_weight";
    default: throw std::logic_error("no operation of layers");
  }
}

/// Collectives beside computation, or messages by kernels of NCCL.
bool has_kernels_beside_compute(const Plan& plan) {
  return has_work(plan, TaskKind::all_reduce) ||
         (plan.parallel.program == Program::pytorch_pipeline && has_work(plan, is_pipeline_transfer));
}

class Pricer {
 public:
  Pricer(const Plan& plan, LayerFamilies& families, HostSpeed speed, double host_quantile)
      : plan_(plan),
        profile_(families.profile()),
        dtype_(plan.spec.dtype),
        power_limit_(families.power_limit(plan.spec.dtype)),
        judges_(speed == HostSpeed::usual),
        host_quantile_(host_quantile),
        leaves_(leaves_of(plan.spec.model.layers, plan.spec.dtype,
                          activation_number_bytes(plan.spec.model, plan.spec.dtype))),
        layers_(families, dtype_, of_layer_, host_quantile),
        host_(profile_, name_of(implementation_of(plan.parallel.program)), host_quantile, notices_),
        python_(issues_from_python() ? python_of_host(speed) : PythonHost()),
        slower_in_python_(issues_from_python() && speed == HostSpeed::slow ? kPythonBesideCpp : 1),
        calls_(calls_of_program()),
        communication_(plan, profile_, calls_, host_quantile, notices_),
        shares_(profile_.host_description.device == "cuda" && has_kernels_beside_compute(plan) &&
                profile_.host_description.multiprocessors > 0),
        slows_all_reduces_(shares_ && has_work(plan, TaskKind::all_reduce)),
        on_host_(profile_.host_description.device == "cpu"),
        has_blocks_(has_blocks(plan.spec.model)) {
    if (slows_all_reduces_) contention_ = MemoryContention(profile_);
    if (plan.spec.program == ProgramOf::pytorch && profile_.host_description.device == "cuda" && !python_.known) {
      notices_.say(
          "profile " + profile_.name +
          " has no host times of Python: those of LibTorch called from C++ are taken, so a step that is bound by its "
          "launches takes longer in PyTorch than is said here");
    }
    if (python_.known) say_whose_python();
    if (casts_once_a_step() && !on_host_) {
      notices_.say(
          "pdl-run's own pipelines under autocast were never measured: their layers are priced as autograd computes "
          "them, without copies that pipelines make and with another kernel of attention");
    }
    if (python_.known && has_work(plan, TaskKind::recompute)) {
      notices_.say(
          "what torch.utils.checkpoint itself takes of Python's time was not measured: a step that is bound by its "
          "launches takes longer than is said here");
    }
  }

  PricedWork price() {
    PricedWork priced;
    for (const Work& work : plan_.graph.works) {
      notices_.begin_work(priced.costs.size());
      work_ = priced.costs.size();
      limited_ = {};
      priced.costs.push_back(cost(work));
      if (power_limit_.flops_per_s()) priced.limited.push_back(limited_);
      rest_of_work(work, priced.costs.back());
      if (judges_) name_rest_of_work(work, priced.costs.back());
      if (shares_) priced.shared.kernels.push_back(std::move(kernels_));
    }
    notices_.end_works();
    if (shares_) {
      priced.shared.count = profile_.host_description.multiprocessors;
      priced.shared.launch_latency_ns = std::llround(calls_.launch_latency_ns);
    }
    if (hosts_are_alone()) {
      priced.pauses = HostPauses(profile_, dtype_, notices_);
      if (plan_.parallel.program == Program::ddp) {
        priced.pauses.prepares_exchange(host_.of("reducer_prepare", {}, !priced.pauses.empty()));
      }
    }
    check_total(priced.costs);
    if (judges_) {
      if (const std::string notice = hosts_notice(plan_, profile_); !notice.empty()) notices_.say(notice);
      say_missing_and_fit_warnings();
      give_warnings(priced);
    }
    for (auto& [key, error] : errors_) priced.errors.push_back(std::move(error));
    priced.step_overhead_ns = std::llround(calls_.step_overhead_ns);
    priced.power_limit = power_limit_;
    priced.kinds_ns = std::move(kinds_ns_);
    return priced;
  }

 private:
  /// PyTorch on GPUs: Python's thread launches what they run.
  bool issues_from_python() const {
    return plan_.spec.program == ProgramOf::pytorch && profile_.host_description.device == "cuda";
  }

  PythonHost python_of_host(HostSpeed speed) {
    const PythonHost python = python_host(plan_, host_);
    const bool may_be_slower = speed == HostSpeed::slow && !profile_.host_description.other_machine_of_python.empty();
    return may_be_slower ? slower(python, kPythonOfAnotherHost) : python;
  }

  void say_whose_python() {
    const std::string& machine = profile_.host_description.other_machine_of_python;
    if (machine.empty()) return;
    notices_.say("the host times of Python in profile " + profile_.name + " are those of another machine, " + machine +
                 ": a step that is bound by its launches may take half as long again, or a third less");
  }

  bool is_pipeline_of_pytorch() const { return plan_.parallel.program == Program::pytorch_pipeline; }
  bool casts_once_a_step() const { return is_amp(dtype_) && plan_.parallel.program == Program::pipeline; }

  HostCalls calls_of_program() {
    HostCalls calls = host_calls(plan_, profile_, host_, notices_);
    calls.step_overhead_ns += python_.zero_grad_ns + python_.step_ns;
    if (python_.hook_ns > 0) {
      calls.reducer_hook_ns = python_.hook_ns;
      calls.collective_issue_ns = python_.all_reduce_ns;
    }
    if (!is_pipeline_of_pytorch()) return calls;
    if (python_.known) {
      calls.transfer_issue_ns = python_.message_ns;
      calls.batches_messages = true;
      calls.wait_issue_ns = 0;
    } else {
      calls.transfer_issue_ns *= slower_in_python_;
    }
    return calls;
  }

  /// DDP's processes, and one thread that runs everything: their hosts wait for GPUs only.
  bool hosts_are_alone() const {
    return plan_.parallel.program == Program::ddp || plan_.parallel.program == Program::one_thread;
  }

  TaskCost cost(const Work& work) {
    kernels_.clear();
    if (is_compute(work.kind)) return compute(work);
    if (is_communication(work.kind)) return moving(work);
    switch (work.kind) {
      case TaskKind::sleep: {
        const std::int64_t ns = work.sleep_ns + std::llround(calls_.sleep_overrun_ns);
        return {0, ns, 0, ns};
      }
      case TaskKind::bucket_copy_in:
      case TaskKind::bucket_copy_out: return moving(work);
      case TaskKind::loss: {
        KernelList kernels;
        kernels.add(loss(name_of(work.implementation), work.bytes / kBytesPerNumber, notices_));
        return of_kernels(kernels);
      }
      case TaskKind::optimizer: return optimizer(work);
      case TaskKind::scale_gradients: {
        WorkPrice price = communication_.scaled_gradients(work, slower_in_python_);
        kernels_ = std::move(price.kernels);
        return price.cost;
      }
      default: throw std::logic_error("a kind of task that has no price");
    }
  }

  TaskCost moving(const Work& work) {
    WorkPrice price = communication_.of(work, contention_.of_copies());
    kernels_ = std::move(price.kernels);
    if (work.kind == TaskKind::broadcast && python_.known) {  // replicate() issues all of them
      const auto calls =
          static_cast<double>(plan_.parameter_chunks.size()) * static_cast<double>(plan_.parallel.mesh.dp);
      price.cost.issue_ns += std::llround(python_.replicate_ns / calls);
    }
    return price.cost;
  }

  // Layers are counted by leaves from here on.

  const Leaf& leaf(std::int32_t index) const { return leaves_.all[static_cast<std::size_t>(index)]; }
  std::int32_t first_leaf(const Work& work) const { return leaves_.first[static_cast<std::size_t>(work.first_layer)]; }
  std::int32_t end_leaf(const Work& work) const {
    return leaves_.first[static_cast<std::size_t>(work.first_layer + work.layer_count)];
  }
  /// Where single layers are run again, their forward stops early. The cast of the weight of the product that it stops
  /// at is left out.
  std::int32_t end_of_forward(const Work& work) const {
    if (work.kind != TaskKind::recompute || plan_.parallel.program == Program::pipeline) return end_leaf(work);
    const Layer& layer = plan_.spec.model.layers[static_cast<std::size_t>(work.first_layer)];
    std::size_t left = inner_layers_run_again(layer);
    std::int32_t end = first_leaf(work);
    for (; end < end_leaf(work); ++end) {
      const bool is_module = !is_between_modules(leaf(end).layer);
      if (is_module && left == 0) break;
      if (is_module) --left;
    }
    return end;
  }
  bool begins_work(const Work& work, std::int32_t index) const {
    return leaf(index).index == work.first_layer && leaf(index).begins_layer;
  }

  MeasuredKey layer_key(const Work& work, std::int32_t index) const {
    const Leaf& of = leaf(index);
    const Layer& layer = of.layer;
    MeasuredKey key;
    key.probe = Probe::layer;
    key.implementation = name_of(work.implementation);
    key.operation = layer_operation(work.kind);
    key.accumulate = work.accumulate && (work.kind == TaskKind::backward || work.kind == TaskKind::backward_weight);
    const bool gives_input = work.kind == TaskKind::backward || work.kind == TaskKind::backward_input;
    key.input_gradient = !gives_input || work.input_gradient || !begins_work(work, index);
    key.dtype = dtype_of(of, dtype_);
    key.layer = layer;
    // A pipeline of pdl-run repeats keys and values of grouped queries: its kernel of fp32 takes no groups.
    if (layer.kind->scaling == LayerScaling::attention && work.implementation == Implementation::pipeline)
      key.layer.sizes[1] = layer.sizes[0];
    key.size = work.rows * of.rows;
    return key;
  }

  std::vector<OperationTime> layer_times(const Work& work, std::int32_t index) {
    if (work.kind == TaskKind::backward) {
      if (const auto time = time_by_length(work, index)) return {*time};
    }
    const bool split = work.kind == TaskKind::backward_input || work.kind == TaskKind::backward_weight;
    if (split && work.implementation == Implementation::autograd) return half_of_backward(work, index);
    return layers_.at(layer_key(work, index));
  }

  /// Autograd's backward of a layer in two halves, which were not measured: what a backward without an input gradient
  /// has less than a whole one is the input's, and the rest the weight's. The activation's backward, which is in both,
  /// is the input's. Kernels that are in both come first in both. Without parameters all of it is the input's. A
  /// pipeline of pdl-run leaves out the gradient of what goes into the model.
  std::vector<OperationTime> half_of_backward(const Work& work, std::int32_t index) {
    MeasuredKey whole_key = layer_key(work, index);
    whole_key.operation = "backward";
    whole_key.input_gradient = true;
    whole_key.accumulate = work.accumulate;
    if (!has_parameters(whole_key.layer)) {
      if (work.kind == TaskKind::backward_weight) return {};
      return layers_.at(whole_key);  // nothing of a sum in fp32, whose gradient is that of both
    }
    MeasuredKey weight_key = whole_key;
    weight_key.input_gradient = passes_gradient(whole_key.layer);  // which takes nothing: all of it is the weight's
    const OperationTime whole = layers_.at(whole_key).front();
    OperationTime half = layers_.at(weight_key).front();
    half.device_ns = std::max(0.0, half.device_ns - activation_backward_ns(work, index));
    if (work.kind == TaskKind::backward_weight) return {half};
    half.kernels = whole.kernels;
    half.device_ns = std::max(0.0, whole.device_ns - half.device_ns);
    if (!is_pipeline_of_pytorch() && !layer_key(work, index).input_gradient)
      half.device_ns = std::min(half.device_ns, activation_backward_ns(work, index));
    half.issue_ns = std::max(0.0, whole.issue_ns - half.issue_ns);
    return {half};
  }

  /// Of a layer's result, or of its gradient, which is as large. Nothing: copies were not measured.
  std::optional<OperationTime> copy_of_result(const Work& work, std::int32_t index) {
    if (!communication_.knows_copies()) return std::nullopt;
    const Leaf& of = leaf(index);
    return communication_.copy(work.rows * of.rows * output_numbers(of.layer) * of.result_number_bytes);
  }

  /// It reads a gradient and a result and writes a gradient, where a copy reads one and writes one; 0 where a layer has
  /// none, or copies were not measured.
  double activation_backward_ns(const Work& work, std::int32_t index) {
    if (!leaf(index).layer.kind->has_relu) return 0;
    const std::optional<OperationTime> copy = copy_of_result(work, index);
    return copy ? 1.5 * copy->device_ns : 0;
  }

  /// The weight's half begins with a copy of the gradient of the layer's product: stage_backward_weight gives it to
  /// Python's sum(), which adds it to 0 (torch/distributed/pipelining/_backward.py, PyTorch 2.11).
  void copy_gradient(const Work& work, std::int32_t index, KernelList& kernels) {
    const bool copies = work.kind == TaskKind::backward_weight && is_pipeline_of_pytorch();
    if (!copies || !has_parameters(leaf(index).layer)) return;
    if (const auto copy = copy_of_result(work, index))
      kernels.add(in_python(*copy, 0));  // its host time is the layer's
  }

  const PythonCall& python_call(TaskKind kind) const {
    switch (kind) {
      case TaskKind::backward: return python_.backward;
      case TaskKind::backward_input: return python_.backward_input;
      case TaskKind::backward_weight: return python_.backward_weight;
      default: return python_.forward;
    }
  }

  /// Blocks were measured as they are, all of their modules together; of other layers linear_relu, of two modules.
  double python_of_layer_ns(const Work& work, std::int32_t index) const {
    constexpr double kModulesOfProbe = 2;
    const PythonCall& call = python_call(work.kind);
    const auto l = static_cast<std::size_t>(leaf(index).index);
    const auto block = call.of_blocks_ns.find(plan_.spec.model.layers[l].kind);
    if (block != call.of_blocks_ns.end()) return block->second / (leaves_.first[l + 1] - leaves_.first[l]);
    return call.layer_ns * static_cast<double>(leaf(index).layer.kind->modules) / kModulesOfProbe;
  }

  TaskCost compute(const Work& work) {
    static const std::vector<Kernel> kNone;
    KernelList& kernels = of_layers_;
    kernels.clear();
    const bool forward = work.kind == TaskKind::forward || work.kind == TaskKind::recompute;
    // model(x), whatever GPUs its layers are on
    const bool begins_model = work.kind == TaskKind::forward && work.first_layer == 0;
    const bool is_call = is_pipeline_of_pytorch() ? !work.same_call : begins_model || work.loss;
    if (python_.known && is_call) kernels.add({.issue_ns = python_call(work.kind).call_ns, .kernels = &kNone});
    if (work.loss) {
      const Layer& last = plan_.spec.model.layers[static_cast<std::size_t>(work.first_layer + work.layer_count - 1)];
      Notices said;
      OperationTime time = loss(name_of(work.implementation), work.rows * output_numbers(last), said);
      if (!said.empty()) notices_.say_again(said, time.device_ns);
      kernels.add(in_python(time, python_.loss_ns));
      if (judges_) add_kind(nullptr, kind_names::kLoss, kind_names::kLoss, time.device_ns);
    }
    const std::int32_t first = first_leaf(work), end = end_of_forward(work);
    for (std::int32_t i = first; i < end; ++i) {
      const std::int32_t index = forward ? i : first + end - 1 - i;
      const PricedLayer& priced = priced_layer(work, index);
      copy_gradient(work, index, kernels);
      double python_ns = python_of_layer_ns(work, index);  // for its first operation
      double device_ns = 0;
      for (const PricedOperation& operation : priced.operations) {
        if (shares_ && work.kind == TaskKind::backward) kernels.slows_collectives(operation.slows_collectives);
        OperationTime time = operation.time;
        time.issue_ns = python_.known ? std::exchange(python_ns, 0) : time.issue_ns * slower_in_python_;
        kernels.add(time);
        count_error(operation);
        device_ns += operation.time.device_ns;
      }
      if (!priced.said.empty()) notices_.say_again(priced.said, device_ns);
      if (judges_) add_kind(leaf(index).layer.kind, leaf(index).layer.kind->name, part_of(leaf(index)), device_ns);
      limited_.flops += priced.limited.flops;
      limited_.device_ns += priced.limited.device_ns;
    }
    return of_kernels(kernels);
  }

  struct PricedOperation {
    OperationTime time;
    /// Its kernels, where they are not those of the profile: multiprocessors are shared, or some are left out.
    std::shared_ptr<const std::vector<Kernel>> own_kernels;
    double slows_collectives = 0;
    PriceError* error = nullptr;   // of its size; where errors are asked for
    PriceError* clocks = nullptr;  // of tensor cores, where it runs on them
  };

  /// A layer in a work. Equal layers stand one after another, and stages are often alike.
  struct LayerInWork {
    bool first = false;  // of its kind in the work
    bool first_of_work = false;
    Work work;                               // without its place: which layers, which stage
    Leaf leaf;                               // without its place
    const LayerKind* begins_with = nullptr;  // the work
    const LayerKind* before = nullptr;       // the kind of the layer before it in the model
    bool operator==(const LayerInWork&) const = default;
  };

  struct PricedLayer {
    LayerInWork of;
    std::vector<PricedOperation> operations;
    LimitedLayers limited;  // of it; nothing of row-wise layers, which wait for the memory, whose clock stays
    Notices said;
  };

  /// Valid until the next one is asked for.
  const PricedLayer& priced_layer(const Work& work, std::int32_t index) {
    constexpr std::size_t kMostKept = 64;  // so that looking through them takes no longer than pricing
    LayerInWork wanted;
    wanted.work = work;
    wanted.work.first_layer = wanted.work.layer_count = 0;
    wanted.work.loss = false;
    wanted.leaf = leaf(index);
    wanted.leaf.index = 0;
    wanted.first = is_first_of_kind(work, index);
    wanted.first_of_work = begins_work(work, index);
    wanted.begins_with = leaf(first_leaf(work)).layer.kind;
    if (index > 0) wanted.before = leaf(index - 1).layer.kind;
    const auto known = std::find_if(priced_layers_.rbegin(), priced_layers_.rend(),
                                    [&](const PricedLayer& priced) { return priced.of == wanted; });
    if (known != priced_layers_.rend()) return *known;
    PricedLayer priced{wanted, {}, {}, {}};
    price_operations(work, index, priced);
    if (priced_layers_.size() == kMostKept) priced_layers_.clear();
    return priced_layers_.emplace_back(std::move(priced));
  }

  void price_operations(const Work& work, std::int32_t index, PricedLayer& priced) {
    for (const OperationTime& time : layer_times(work, index)) {
      PricedOperation& operation = priced.operations.emplace_back();
      operation.time = time;
      if (shares_ && time.kernels) {
        operation.own_kernels = std::make_shared<const std::vector<Kernel>>(kernels_by_tiles(*time.kernels, *time.of));
        operation.time.kernels = operation.own_kernels.get();
      }
      if (work.casts_are_there) leave_out_casts(work, index, operation);
      if (judges_) operation.error = &error_of_size(time);
      if (judges_ && time.of->dtype != Dtype::fp32 && !on_host_) operation.clocks = &error_of_clocks();
      if (slows_all_reduces_ && work.kind == TaskKind::backward) {
        operation.slows_collectives =
            contention_.of_layer(layer_key(work, index), time.device_ns, plan_.parallel.mesh.dp);
      }
    }
    if (power_limit_.flops_per_s() && priced.of.leaf.layer.kind->scaling != LayerScaling::row_wise) {
      priced.limited.flops = layer_flops(layer_key(work, index)) * power_of_numbers(work, index);
      for (const PricedOperation& operation : priced.operations) priced.limited.device_ns += operation.time.device_ns;
    }
    priced.said = std::exchange(of_layer_, Notices());
  }

  /// By how much more power a FLOP of this layer draws than in the probes, whose activations and gradients have a ReLU
  /// behind them: half of them are 0. A product takes its share from each of what it multiplies, but for the weights.
  double power_of_numbers(const Work& work, std::int32_t index) const {
    const auto half_are_zero = [&](std::int32_t of) { return of >= 0 && leaf(of).layer.kind->has_relu; };
    const double input = half_are_zero(index - 1) ? 1 : kPowerOfFullNumbers;
    const double gradient = half_are_zero(index) ? 1 : kPowerOfFullNumbers;
    const double of_weight = (gradient + input) / 2;
    switch (work.kind) {
      case TaskKind::forward:
      case TaskKind::recompute: return input;
      case TaskKind::backward_input: return gradient;
      case TaskKind::backward_weight: return of_weight;
      default: return work.input_gradient || !begins_work(work, index) ? (gradient + of_weight) / 2 : of_weight;
    }
  }

  /// What a forward takes where autocast has cast the parameters already. The casts are its first kernels, as probes
  /// measure it: each forward in a context of its own.
  void leave_out_casts(const Work& work, std::int32_t index, PricedOperation& operation) {
    const Leaf& of = leaf(index);
    const AutogradTensors tensors =
        autograd_tensors(of.layer, {work.rows * of.rows, dtype_, of.number_bytes, /*input_gradient=*/true});
    auto casts = static_cast<std::int64_t>(tensors.kept_parameters.size() + tensors.cached.size());
    if (casts == 0) return;
    std::vector<Kernel> kernels = *operation.time.kernels;
    double all_ns = 0, cast_ns = 0, launches = 0;
    for (const Kernel& kernel : kernels) {
      all_ns += kernel.time_ns * static_cast<double>(kernel.count);
      launches += static_cast<double>(kernel.count);
    }
    const auto all_casts = static_cast<double>(casts);
    for (Kernel& kernel : kernels) {
      if (is_product_kernel(kernel.name)) break;
      const std::int64_t left_out = std::min(casts, kernel.count);
      cast_ns += kernel.time_ns * static_cast<double>(left_out);
      kernel.count -= left_out;
      casts -= left_out;
    }
    if (casts > 0 || launches == 0) {
      return of_layer_.say(
          "profile " + profile_.name +
          " does not say what autocast's casts of parameters take: they are counted in every "
          "micro-batch, though " +
          (casts_once_a_step() ? "pdl-run makes them once a step" : "PyTorch makes them in the first one"));
    }
    std::erase_if(kernels, [](const Kernel& kernel) { return kernel.count == 0; });
    operation.time.device_ns *= 1 - cast_ns / all_ns;
    operation.time.issue_ns *= 1 - all_casts / launches;
    operation.own_kernels = std::make_shared<const std::vector<Kernel>>(std::move(kernels));
    operation.time.kernels = operation.own_kernels.get();
  }

  bool is_first_of_kind(const Work& work, std::int32_t index) const {
    const auto begin = leaves_.all.begin();
    return std::none_of(begin + first_leaf(work), begin + index,
                        [&](const Leaf& before) { return before.layer.kind == leaf(index).layer.kind; });
  }

  /// Whatever the gradients of a layer are added to, its times would be wrong together.
  PriceError& error_of_size(const OperationTime& time) {
    MeasuredKey key = *time.of;
    key.accumulate = false;
    key.input_gradient = true;
    key.layers = 0;
    PriceError& error = errors_[key];
    if (error.what.empty()) {
      error.what = to_text(key.layer) + ", " + std::to_string(key.size) + " rows, " + key.operation + " " +
                   dtype_word(key) + " (" + key.implementation + ")";
    }
    error.half_width = std::max(error.half_width, time.half_width);
    error.probed = error.probed && time.probed;
    return error;
  }

  PriceError& error_of_clocks() {
    MeasuredKey of_clocks;
    of_clocks.probe = Probe::host;
    PriceError& clocks = errors_[of_clocks];
    clocks.what = "clocks of tensor cores of another GPU of the kind";
    const double at_limit = dtype_ == Dtype::amp_bf16 ? kClockInBf16 : kClockAtPowerLimit;
    clocks.half_width = std::hypot(power_limit_.is_known() ? at_limit : kTensorCoresAtAnyClock,
                                   shares_ ? kTensorCoresBesideCollectives : 0);
    return clocks;
  }

  void count_error(const PricedOperation& operation) {
    if (!judges_) return;
    const double ns = operation.time.device_ns;
    add_time(*operation.error, ns);
    of_layers_ns_ += ns;
    if (operation.clocks) add_time(*operation.clocks, ns);
  }

  void add_time(PriceError& error, double ns) const {
    if (ns <= 0) return;
    if (error.works_ns.empty() || error.works_ns.back().first != work_) error.works_ns.emplace_back(work_, 0.0);
    error.works_ns.back().second += ns;
  }

  /// Where a leaf is in the model.
  std::string_view part_of(const Leaf& of) const {
    if (!of.part.empty()) return of.part;
    const auto l = static_cast<std::size_t>(of.index);
    const std::vector<Layer>& layers = plan_.spec.model.layers;
    if (layers[l].kind->takes_tokens) return part_names::kEmbedding;
    return has_blocks_ && l + 1 == layers.size() ? part_names::kHead : part_names::kLayers;
  }

  /// Of the work that is priced now.
  void add_kind(const LayerKind* kind, std::string_view name, std::string_view part, double ns) {
    if (ns <= 0) return;
    named_ns_ += ns;
    for (auto known = kinds_ns_.rbegin(); known != kinds_ns_.rend() && known->work == work_; ++known) {
      if (known->kind == kind && known->name == name && known->part == part) {
        known->device_ns += ns;
        return;
      }
    }
    kinds_ns_.push_back({work_, kind, name, part, ns});
  }

  void name_rest_of_work(const Work& work, const TaskCost& cost) {
    const double rest_ns = static_cast<double>(cost.device_ns) - std::exchange(named_ns_, 0.0);
    if (work.kind == TaskKind::sleep || rest_ns < 1) return;
    const std::string_view name = is_collective(work.kind)           ? kind_names::kCollectives
                                  : is_communication(work.kind)      ? kind_names::kTransfers
                                  : work.kind == TaskKind::loss      ? kind_names::kLoss
                                  : work.kind == TaskKind::optimizer ? kind_names::kOptimizer
                                                                     : kind_names::kOther;
    add_kind(nullptr, name, name, rest_ns);
    named_ns_ = 0;
  }

  /// What is no layer: of one kind all together.
  void rest_of_work(const Work& work, const TaskCost& cost) {
    const double rest_ns = static_cast<double>(cost.device_ns) - of_layers_ns_;
    of_layers_ns_ = 0;
    if (!judges_) return;
    if (work.kind == TaskKind::sleep || rest_ns < 1) return;
    PriceError*& rest = rest_of_[is_communication(work.kind) ? 1 : 0];
    if (!rest) {
      MeasuredKey key;
      key.probe = is_communication(work.kind) ? Probe::transfer : Probe::optimizer;
      rest = &errors_[key];
      rest->what = is_communication(work.kind) ? "transfers and collectives" : "loss, optimizer and copies";
      rest->half_width = is_communication(work.kind) && shares_ ? kBesideCompute : kCurveHalfWidth;
    }
    add_time(*rest, rest_ns);
  }

  /// A whole backward has its weight gradients on a second stream beside the input gradients (where that is faster);
  /// the tail of the last weight gradient, and in the model's first stage all of it, has nothing beside it. So time is
  /// not proportional to layers: a stage of n takes T(1) + (n-1) (T(4) - T(1)) / 3, both measured, a straight line in
  /// n. The first layer of a kind is priced T(1), each other one the slope, or T(1) too where only that was measured of
  /// its size. None if these were not measured at all.
  std::optional<OperationTime> time_by_length(const Work& work, std::int32_t index) {
    constexpr std::int64_t kMeasuredLength = 4;
    MeasuredKey alone = layer_key(work, index);
    alone.input_gradient = work.input_gradient || leaf(first_leaf(work)).layer.kind != leaf(index).layer.kind;
    alone.layers = 1;
    MeasuredKey longer = alone;
    longer.layers = kMeasuredLength;
    if (!layers_.has(alone) || !layers_.has(longer)) return std::nullopt;
    const OperationTime one = layers_.at(alone).front();
    if (is_first_of_kind(work, index)) return one;
    OperationTime slope = layers_.at(longer).front();  // a fourth of the stage
    MeasuredKey itself = layer_key(work, index);
    itself.layers = 1;
    if (!slope.probed && layers_.has(itself)) {  // of layers that are no chain there is no longer stage
      const OperationTime measured = layers_.at(itself).front();
      if (measured.probed) return measured;
    }
    const auto per_layer = [&](double fourth, double whole) {
      return std::max(
          0.0, (static_cast<double>(kMeasuredLength) * fourth - whole) / static_cast<double>(kMeasuredLength - 1));
    };
    slope.device_ns = per_layer(slope.device_ns, one.device_ns);
    slope.issue_ns = per_layer(slope.issue_ns, one.issue_ns);
    slope.half_width = std::max(slope.half_width, one.half_width);
    slope.probed = slope.probed && one.probed;
    return slope;
  }

  TaskCost of_kernels(const KernelList& kernels) {
    if (kernels.kernels().empty()) return {};
    if (shares_) kernels_ = kernels.kernels();
    return on_host_ ? kernels.cost_on_host() : kernels.cost(std::llround(calls_.launch_latency_ns));
  }

  OperationTime at_size(const MeasuredCurve& measured, std::int64_t size) {
    return operation_at_size(measured, size, host_quantile_, notices_);
  }

  OperationTime loss(const std::string& implementation, std::int64_t elements, Notices& said) {
    const bool is_mse = plan_.spec.model.loss == Loss::mse;
    const std::string name = is_mse ? "" : kCrossEntropy;
    const MeasuredCurve* found = nullptr;
    const auto unlike = [&](const MeasuredKey& key) {
      const bool other_type = key.dtype && is_amp(*key.dtype) != is_amp(dtype_);
      return (key.implementation != implementation ? 4 : 0) + (key.dtype != dtype_ ? 1 : 0) + (other_type ? 1 : 0);
    };
    for (const MeasuredCurve& measured : profile_.of(Probe::loss)) {
      if (measured.key.name != name) continue;
      if (!found || unlike(measured.key) < unlike(found->key)) found = &measured;
    }
    if (!found) {
      throw InputError("profile " + profile_.name, "no measurement of the loss" + (is_mse ? "" : " " + name),
                       is_mse ? "at least one" : "a profile that has measured it: pdl-calibrate makes one");
    }
    if (unlike(found->key) > 0)
      said.say_substitute("loss", profile_.name,
                          "loss " + (is_mse ? "" : name + " ") + implementation + " " + to_string(dtype_),
                          describe(found->key));
    OperationTime time = operation_at_size(*found, elements, host_quantile_, said);
    // Fewer logits than were measured: kernels that read and write all of them are on the line through the curve.
    const std::optional<LineFit>& line = found->curve.line;
    if (!is_mse && line && elements < found->curve.least() && line->size_per_s > 0)
      time.device_ns =
          std::min(time.device_ns, line->latency_ns + 1e9 * static_cast<double>(elements) / line->size_per_s);
    return time;
  }

  TaskCost optimizer(const Work& work) {
    const std::string implementation = name_of(work.implementation);
    const std::string wanted = measured_optimizer(implementation);
    const std::int64_t count = parameters(plan_.spec.model, work.first_layer, work.layer_count);
    if (count == 0) return {};
    const MeasuredCurve* found = nullptr;
    const MeasuredCurve* zero_grad = nullptr;
    for (const MeasuredCurve& measured : profile_.of(Probe::zero_grad)) {
      if (measured.key.implementation == implementation) zero_grad = &measured;
    }
    for (const MeasuredCurve& measured : profile_.of(Probe::optimizer)) {
      if (measured.key.optimizer == wanted && (!found || measured.key.implementation == implementation))
        found = &measured;
    }
    if (!found) refuse_optimizer(wanted);
    if (found->key.implementation != implementation) {
      notices_.say_substitute("optimizer", profile_.name, "optimizer " + implementation + " " + wanted,
                              describe(found->key));
    }
    KernelList kernels;
    const bool scaler = plan_.spec.dtype == Dtype::amp_fp16;
    const bool waits = scaler && !work.same_call;
    if (scaler && !waits) kernels.add(in_python(at_size(unscale(), count), 0));
    if (zero_grad) kernels.add(in_python(at_size(*zero_grad, count), 0));
    kernels.add(in_python(at_size(*found, count), optimizer_in_python_ns(work)));
    if (casts_once_a_step() && !plan_.microbatch_rows.empty()) cast_parameters(work, kernels);  // else a bound's
    return waits ? after_scaler(kernels, count) : of_kernels(kernels);
  }

  /// Pipelines of pdl-run cast their parameters once a step, behind the optimizer: what their forwards lack.
  void cast_parameters(const Work& work, KernelList& kernels) {
    static const std::vector<Kernel> kNone;
    Work forward = work;
    forward.kind = TaskKind::forward;
    forward.implementation = implementation_of_layers(plan_.parallel.program, dtype_);
    forward.rows = plan_.microbatch_rows.front();
    for (std::int32_t i = first_leaf(work); i < end_leaf(work); ++i) {
      OperationTime casts{.kernels = &kNone};
      for (const bool are_there : {false, true}) {
        forward.casts_are_there = are_there;
        for (const PricedOperation& operation : priced_layer(forward, i).operations) {
          casts.device_ns += (are_there ? -1 : 1) * operation.time.device_ns;
          casts.issue_ns += (are_there ? -1 : 1) * operation.time.issue_ns;
        }
      }
      if (casts.device_ns > 0) kernels.add(casts);
    }
  }

  /// AdamW is Adam with one more product of all parameters, and fused what pipelines have of Adam: where it was not
  /// measured, that is taken.
  std::string measured_optimizer(const std::string& implementation) {
    const std::string wanted = to_string(plan_.spec.optimizer);
    if (plan_.spec.optimizer == Optimizer::sgd || plan_.spec.optimizer == Optimizer::adam) return wanted;
    const auto curves = profile_.of(Probe::optimizer);
    const bool has_it = std::any_of(curves.begin(), curves.end(),
                                    [&](const MeasuredCurve& measured) { return measured.key.optimizer == wanted; });
    if (has_it) return wanted;
    notices_.say_substitute("optimizer", profile_.name, "optimizer " + implementation + " " + wanted,
                            "optimizer " + implementation + " adam");
    return to_string(Optimizer::adam);
  }

  [[noreturn]] void refuse_optimizer(const std::string& wanted) const {
    std::set<std::string> known;
    for (const MeasuredCurve& measured : profile_.of(Probe::optimizer)) {
      if (measured.key.optimizer != "unscale") known.insert(measured.key.optimizer);
    }
    throw InputError("--optimizer", wanted,
                     known.empty() ? "a profile with an optimizer: profile " + profile_.name + " has none"
                                   : "what profile " + profile_.name +
                                         " has: " + list_words(std::vector<std::string>(known.begin(), known.end())));
  }

  const MeasuredCurve& unscale() const {
    for (const MeasuredCurve& measured : profile_.of(Probe::optimizer)) {
      if (measured.key.optimizer == "unscale") return measured;
    }
    throw InputError("--dtype", to_string(plan_.spec.dtype),
                     "a profile with GradScaler's unscale: profile " + profile_.name + " has none");
  }

  OperationTime in_python(OperationTime time, double issue_ns) const {
    time.issue_ns = python_.known ? issue_ns : time.issue_ns * slower_in_python_;
    return time;
  }

  /// The part of one optimizer that this work is: a pipeline's process has one for all of its stages, and so has one
  /// thread; a replica has one of its own.
  double optimizer_in_python_ns(const Work& work) const {
    const bool of_replica = is_data_parallel(plan_.parallel.program);
    const double stages = of_replica ? 1 : static_cast<double>(plan_.stages.size());
    const double optimizers = is_pipeline_of_pytorch() ? static_cast<double>(plan_.parallel.mesh.gpus()) : 1;
    const double tensors =
        static_cast<double>(parameter_tensor_count(plan_.spec.model, work.first_layer, work.layer_count));
    return python_.optimizer.call_ns * optimizers / stages + python_.optimizer.layer_ns * tensors / 2;  // 2 a layer
  }

  /// GradScaler.step: unscale and look for what is not finite, wait on the host for the answer, then the optimizer.
  TaskCost after_scaler(const KernelList& optimizer, std::int64_t count) {
    KernelList before;
    before.add(in_python(at_size(unscale(), count), std::max(0.0, python_.scaler_ns - calls_.scaler_wait_ns)));
    const TaskCost first = of_kernels(before), then = of_kernels(optimizer);
    kernels_.clear();
    const std::int64_t after_ns = std::llround(calls_.scaler_wait_ns) + then.span_ns;
    return {first.device_ns + after_ns, first.device_ns + after_ns, first.first_launch_ns, first.span_ns + after_ns};
  }

  void say_missing_and_fit_warnings() {
    host_.say_missing();
    const std::vector<std::string>& fit = profile_.warnings;
    for (std::size_t i = 0; i < std::min(fit.size(), kFitWarningsShown); ++i) {
      notices_.say("profile " + profile_.name + ": " + fit[i]);
    }
    if (fit.size() > kFitWarningsShown) {
      notices_.say("profile " + profile_.name + ": " + std::to_string(fit.size() - kFitWarningsShown) +
                   " more warnings");
    }
  }

  void give_warnings(PricedWork& priced) const {
    const std::vector<Notice> notices = notices_.list();
    const std::vector<std::optional<double>> shares = notice_shares(notices, plan_.graph, priced.costs);
    for (std::size_t n = 0; n < notices.size(); ++n) {
      priced.warnings.push_back(notices[n].text);
      if (shares[n]) priced.warning_shares[notices[n].text] = *shares[n];
    }
  }

  void check_total(const std::vector<TaskCost>& costs) const {
    double total_ns = 0;
    for (const TaskCost& cost : costs) {
      if (cost.device_ns < 0 || cost.span_ns < 0 || cost.issue_ns < 0)
        throw std::logic_error("a price below 0 by profile " + profile_.name);
    }
    for (const Task& task : plan_.graph.tasks) {
      total_ns += static_cast<double>(costs[task.work].span_ns) + static_cast<double>(costs[task.work].issue_ns);
    }
    if (total_ns < kLongestStep_ns) return;
    throw InputError("the plan with profile " + profile_.name, "a step of more than 100 years", "one that ends before");
  }

  const Plan& plan_;
  const CostProfile& profile_;
  Dtype dtype_;
  PowerLimit power_limit_;
  bool judges_;  // gives warnings and errors too
  Notices notices_;
  Notices of_layer_;  // what is said while a layer is priced
  double host_quantile_;
  ModelLeaves leaves_;
  LayerTimes layers_;
  HostTimes host_;
  PythonHost python_;        // of PyTorch's programs
  double slower_in_python_;  // than LibTorch in C++, where that is all that is known
  HostCalls calls_;
  CommunicationPrices communication_;
  bool shares_;                      // multiprocessors, with collectives or messages
  bool slows_all_reduces_;           // they share with collectives
  bool on_host_;                     // a CPU's
  bool has_blocks_;                  // the model
  MemoryContention contention_;      // where multiprocessors are shared
  KernelList of_layers_;             // of the compute work that was priced last, with what goes with them
  std::vector<KernelCost> kernels_;  // of the work that was priced last, where multiprocessors are shared
  std::size_t work_ = 0;             // that is priced now
  double of_layers_ns_ = 0;          // of it
  LimitedLayers limited_;            // of it
  double named_ns_ = 0;              // of it: what kinds_ns_ has
  std::vector<KindTime> kinds_ns_;
  std::map<MeasuredKey, PriceError> errors_;
  std::array<PriceError*, 2> rest_of_{};  // of them: of what is no layer, and of communication
  std::vector<PricedLayer> priced_layers_;
};

}  // namespace

PricedWork price_by_profile(const Plan& plan, LayerFamilies& families, HostSpeed host) {
  const LayerKind* checked = nullptr;  // equal layers stand one after another, a million of them in some models
  for (const Layer& layer : plan.spec.model.layers) {
    if (layer.kind != checked) {
      for (const InnerLayer& inner : inner_layers(layer)) check_kind_is_measured(inner.layer, families.profile());
    }
    checked = layer.kind;
  }
  const double usual = quantile_of_slowest(plan.parallel.program == Program::ddp ? plan.graph.workers : 1);
  return Pricer(plan, families, host, host == HostSpeed::slow ? kSlowHost : usual).price();
}

PricedWork price_by_profile(const Plan& plan, const CostProfile& profile, HostSpeed host) {
  LayerFamilies families(profile);
  return price_by_profile(plan, families, host);
}

}  // namespace pdl
