#include "sim/cost/price.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <stdexcept>

#include "sim/cost/collective_time.hpp"
#include "sim/cost/host_times.hpp"
#include "sim/cost/hosts_of_profile.hpp"
#include "sim/cost/kernel_list.hpp"
#include "sim/cost/layer_time.hpp"
#include "sim/cost/memory_contention.hpp"
#include "sim/cost/notices.hpp"
#include "sim/cost/transfer_time.hpp"
#include "sim/io/error.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

constexpr std::size_t kFitWarningsShown = 5;

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

const char* collective_operation(TaskKind kind) {
  switch (kind) {
    case TaskKind::all_reduce: return "all_reduce";
    case TaskKind::broadcast: return "broadcast";
    case TaskKind::reduce: return "reduce";
    default: throw std::logic_error("no collective");
  }
}

/// Of the program: sleeps have none.
std::string implementation_of(const Plan& plan) {
  for (const Work& work : plan.graph.works) {
    if (work.kind != TaskKind::sleep) return name_of(work.implementation);
  }
  return "";
}

class Pricer {
 public:
  Pricer(const Plan& plan, const CostProfile& profile, double host_quantile)
      : plan_(plan),
        profile_(profile),
        dtype_(to_string(plan.spec.dtype)),
        host_quantile_(host_quantile),
        layers_(profile, dtype_, notices_, host_quantile),
        transfers_(profile, to_string(plan.spec.transport), notices_),
        host_(profile, implementation_of(plan), host_quantile, notices_) {
    const std::string transport = to_string(plan.spec.transport);
    const bool has_transfers = std::any_of(plan.graph.works.begin(), plan.graph.works.end(),
                                           [](const Work& work) { return is_transfer(work.kind); });
    const auto has = [&](TaskKind kind) {
      return std::any_of(plan.graph.works.begin(), plan.graph.works.end(),
                         [&](const Work& work) { return work.kind == kind; });
    };
    // A process of its own waits for its own GPU only.
    const bool own_process = plan.spec.strategy == Strategy::ddp;
    step_overhead_ns_ = host_.of("step_overhead", {.workers = own_process ? 1 : plan.graph.workers}, true);
    on_host_ = profile.host_description.device == "cpu";
    const bool on_gpu = profile.host_description.device == "cuda";
    if (has_transfers) transfer_issue_ns_ = host_.of("transfer_issue", {transport}, on_gpu || transport != "copy");
    if (has_transfers) wait_issue_ns_ = host_.of("wait_issue", {transport}, on_gpu);
    launch_latency_ns_ = host_.of("launch_latency", {}, on_gpu);
    if (plan.spec.strategy == Strategy::ddp) reducer_hook_ns_ = host_.of("reducer_hook", {}, true);
    if (has(TaskKind::all_reduce)) collective_issue_ns_ = host_.of("collective_issue", {collective_transport()}, true);
    // The Reducer of a single GPU calls allreduce too, though there is nothing for the device to do.
    if (plan.spec.strategy == Strategy::ddp && !has(TaskKind::all_reduce)) {
      call_without_peers_ns_ = host_.of("collective_issue", {collective_transport(), 1}, false);
      const bool measured = std::any_of(profile.host.begin(), profile.host.end(), [](const HostTime& host) {
        return host.key.name == "collective_issue" && host.key.workers == 1;
      });
      if (call_without_peers_ns_ > 0 && !measured) {
        notices_.say_substitute(profile.name, "host collective_issue in a group of one GPU", "that of larger groups");
      }
    }
    if (has(TaskKind::sleep)) sleep_overrun_ns_ = host_.of("sleep_overrun", {}, true);
    if (plan.spec.dtype == Dtype::amp_fp16) scaler_wait_ns_ = host_.of("scaler_wait", {}, on_gpu);
    shares_ = on_gpu && has(TaskKind::all_reduce) && profile.host_description.multiprocessors > 0;
    if (shares_) contention_ = MemoryContention(profile);
    has_receives_ = std::any_of(plan.graph.works.begin(), plan.graph.works.end(),
                                [](const Work& work) { return is_receive(work.kind); });
  }

  PricedWork price() {
    PricedWork priced;
    for (const Work& work : plan_.graph.works) {
      priced.costs.push_back(cost(work));
      if (shares_) priced.shared.kernels.push_back(std::move(kernels_));
    }
    if (shares_) {
      priced.shared.count = profile_.host_description.multiprocessors;
      priced.shared.launch_latency_ns = std::llround(launch_latency_ns_);
    }
    if (hosts_are_alone()) {
      priced.pauses = HostPauses(profile_, dtype_, notices_);
      if (plan_.spec.strategy == Strategy::ddp) {
        priced.pauses.prepares_exchange(host_.of("reducer_prepare", {}, !priced.pauses.empty()));
      }
    }
    check_total(priced.costs);
    if (const std::string notice = hosts_notice(plan_.spec, profile_); !notice.empty()) notices_.say(notice);
    say_missing_and_fit_warnings();
    priced.warnings = notices_.texts();
    priced.step_overhead_ns = std::llround(step_overhead_ns_);
    return priced;
  }

 private:
  /// DDP's processes, and one thread that runs everything: their hosts wait for GPUs only.
  bool hosts_are_alone() const {
    return plan_.spec.strategy == Strategy::ddp || (implementation_of(plan_) == "autograd" && plan_.graph.hosts == 1);
  }

  TaskCost cost(const Work& work) {
    kernels_.clear();
    if (is_compute(work.kind)) return compute(work);
    if (is_transfer(work.kind)) return transfer(work);
    if (is_collective(work.kind)) return collective(work);
    switch (work.kind) {
      case TaskKind::sleep: {
        const std::int64_t ns = work.sleep_ns + std::llround(sleep_overrun_ns_);
        return {0, ns, 0, ns};
      }
      case TaskKind::bucket_copy_in:
      case TaskKind::bucket_copy_out: return bucket_copy(work);
      case TaskKind::loss: {
        KernelList kernels;
        kernels.add(loss(name_of(work.implementation), work.bytes / kBytesPerNumber));
        return of_kernels(kernels);
      }
      default: return optimizer(work);
    }
  }

  /// By what GPUs, or workers on CPU, exchange what is not of a pipeline. DataParallel's workers on CPU are threads
  /// that copy.
  std::string collective_transport() const {
    if (plan_.spec.strategy == Strategy::ddp) return to_string(plan_.spec.transport);
    if (profile_.host_description.device != "cpu") return plan_.spec.transport == Transport::gloo ? "gloo" : "nccl";
    return plan_.spec.strategy == Strategy::dp ? "copy" : "gloo";
  }

  TaskCost collective(const Work& work) {
    Collective wanted;
    wanted.operation = collective_operation(work.kind);
    wanted.transport = collective_transport();
    wanted.ranks = work.ranks;
    wanted.bytes = work.bytes;
    wanted.hosts = plan_.spec.hosts;
    wanted.network_bytes_per_s = plan_.spec.network_gb_per_s * 1e9;
    wanted.network_latency_ns = plan_.spec.network_latency_us * 1e3;
    wanted.network_given = plan_.spec.network_given;
    const CollectiveTime time = collectives_.at(wanted);
    KernelList kernels;
    // DataParallel moves a chunk of several tensors as one (flatten_dense_tensors).
    if (work.kind != TaskKind::all_reduce && work.tensors > 1) kernels.add(of_bucket("join", work.bytes));
    // DDP calls c10d for its one GPU; DataParallel calls NCCL for all of them.
    kernels.add_collective(time.device_ns, work.kind == TaskKind::all_reduce ? collective_issue_ns_ : time.issue_ns,
                           time.blocks);
    if (on_host_ && plan_.spec.strategy == Strategy::dp) return of_kernels(kernels);
    kernels_ = kernels.kernels();
    return kernels.cost(std::llround(launch_latency_ns_));
  }

  /// A plain copy is recorded without its kernel (CUPTI calls it a memory copy, not a kernel): it has the thread blocks
  /// of the copy in, which moves as much.
  OperationTime of_bucket(const std::string& operation, std::int64_t bytes) {
    for (const MeasuredCurve& measured : profile_.of(Probe::bucket)) {
      if (measured.key.operation != operation) continue;
      OperationTime time = at_size(measured, std::max<std::int64_t>(bytes / kBytesPerNumber, 1));
      if (time.kernels->empty() && operation == "copy_out") time.kernels = of_bucket("copy_in", bytes).kernels;
      return time;
    }
    throw InputError("profile " + profile_.name, "no measurement of bucket " + operation,
                     "one: pdl-calibrate measures it");
  }

  /// In: the host time is that of the Reducer's hook of each tensor. A sum reads two and writes one where a copy reads
  /// one and writes one.
  TaskCost bucket_copy(const Work& work) {
    const bool in = work.kind == TaskKind::bucket_copy_in;
    OperationTime time = of_bucket(in ? "copy_in" : "copy_out", work.bytes);
    if (work.accumulate) time.device_ns *= 1.5;
    time.issue_ns *= work.tensors;
    if (in) time.issue_ns = reducer_hook_ns_ * work.tensors;
    KernelList kernels;
    kernels.slows_collectives(contention_.of_copies());
    kernels.add(time);
    if (in && call_without_peers_ns_ > 0) kernels.add_collective(0, call_without_peers_ns_, 0);
    return of_kernels(kernels);
  }

  MeasuredKey layer_key(const Work& work, std::int32_t index) const {
    const Layer& layer = plan_.spec.model.layers[static_cast<std::size_t>(index)];
    MeasuredKey key;
    key.probe = Probe::layer;
    key.implementation = name_of(work.implementation);
    key.operation = layer_operation(work.kind);
    key.accumulate = work.accumulate && (work.kind == TaskKind::backward || work.kind == TaskKind::backward_weight);
    const bool gives_input = work.kind == TaskKind::backward || work.kind == TaskKind::backward_input;
    key.input_gradient = !gives_input || work.input_gradient || index != work.first_layer;
    key.dtype = dtype_;
    key.in = layer.in_features;
    key.out = layer.out_features;
    key.size = work.rows;
    return key;
  }

  std::vector<OperationTime> layer_times(const Work& work, std::int32_t index) {
    if (work.kind == TaskKind::backward) {
      if (const auto time = time_by_length(work, index)) return {*time};
    }
    return layers_.at(layer_key(work, index));
  }

  TaskCost compute(const Work& work) {
    KernelList kernels;
    const std::vector<Layer>& layers = plan_.spec.model.layers;
    if (work.loss) {
      const Layer& last = layers[static_cast<std::size_t>(work.first_layer + work.layer_count - 1)];
      kernels.add(loss(name_of(work.implementation), work.rows * last.out_features));
    }
    const bool forward = work.kind == TaskKind::forward || work.kind == TaskKind::recompute;
    for (std::int32_t i = 0; i < work.layer_count; ++i) {
      const std::int32_t index = work.first_layer + (forward ? i : work.layer_count - 1 - i);
      for (const OperationTime& time : layer_times(work, index)) {
        if (shares_ && work.kind == TaskKind::backward) {
          kernels.slows_collectives(
              contention_.of_layer(layer_key(work, index), time.device_ns, replica_count(plan_.spec)));
        }
        kernels.add(time);
      }
    }
    return of_kernels(kernels);
  }

  /// A whole backward has its weight gradients on a second stream beside the input gradients (where that is faster);
  /// the tail of the last weight gradient, and in the model's first stage all of it, has nothing beside it. So time is
  /// not proportional to layers: a stage of n takes T(1) + (n-1) (T(4) - T(1)) / 3, both measured, a straight line in
  /// n. The first layer is priced T(1), each other one the slope. None if these were not measured.
  std::optional<OperationTime> time_by_length(const Work& work, std::int32_t index) {
    constexpr std::int64_t kMeasuredLength = 4;
    MeasuredKey alone = layer_key(work, index);
    alone.input_gradient = work.input_gradient;
    alone.layers = 1;
    MeasuredKey longer = alone;
    longer.layers = kMeasuredLength;
    if (!layers_.has(alone) || !layers_.has(longer)) return std::nullopt;
    const OperationTime one = layers_.at(alone).front();
    if (index == work.first_layer) return one;
    OperationTime slope = layers_.at(longer).front();  // a fourth of the stage
    const auto per_layer = [&](double fourth, double whole) {
      return std::max(
          0.0, (static_cast<double>(kMeasuredLength) * fourth - whole) / static_cast<double>(kMeasuredLength - 1));
    };
    slope.device_ns = per_layer(slope.device_ns, one.device_ns);
    slope.issue_ns = per_layer(slope.issue_ns, one.issue_ns);
    return slope;
  }

  /// On CPU the host is the device: it is occupied until the work is done.
  TaskCost of_kernels(const KernelList& kernels) {
    kernels_ = kernels.kernels();
    if (!on_host_) return kernels.cost(std::llround(launch_latency_ns_));
    const std::int64_t ns = kernels.cost(0).device_ns;
    return {ns, ns, 0, ns};
  }

  OperationTime at_size(const MeasuredCurve& measured, std::int64_t size) {
    const CurveReading reading = read_curve(measured.curve, size);
    if (reading.extrapolated()) {
      notices_.extrapolated(std::string(size_name(measured.key.probe)) + " of " + describe(measured.key), size,
                            measured.curve.least(), measured.curve.largest());
    }
    return {reading.time_ns, read_issue_ns(measured.curve, size, host_quantile_),
            &nearest_point(measured.curve, size).kernels};
  }

  OperationTime loss(const std::string& implementation, std::int64_t elements) {
    const MeasuredCurve* found = nullptr;
    const auto unlike = [&](const MeasuredKey& key) {
      return (key.implementation != implementation ? 2 : 0) + (key.dtype != dtype_ ? 1 : 0);
    };
    for (const MeasuredCurve& measured : profile_.of(Probe::loss)) {
      if (!found || unlike(measured.key) < unlike(found->key)) found = &measured;
    }
    if (!found) throw InputError("profile " + profile_.name, "no measurement of the loss", "at least one");
    if (unlike(found->key) > 0)
      notices_.say_substitute(profile_.name, "loss " + implementation + " " + dtype_, describe(found->key));
    return at_size(*found, elements);
  }

  TaskCost optimizer(const Work& work) {
    const std::string implementation = name_of(work.implementation);
    const std::string wanted = to_string(plan_.spec.optimizer);
    const std::int64_t count = parameters(plan_.spec.model, work.first_layer, work.layer_count);
    const MeasuredCurve* found = nullptr;
    const MeasuredCurve* zero_grad = nullptr;
    std::set<std::string> known;
    for (const MeasuredCurve& measured : profile_.of(Probe::zero_grad)) {
      if (measured.key.implementation == implementation) zero_grad = &measured;
    }
    for (const MeasuredCurve& measured : profile_.of(Probe::optimizer)) {
      if (measured.key.optimizer == "unscale") continue;
      known.insert(measured.key.optimizer);
      if (measured.key.optimizer == wanted && (!found || measured.key.implementation == implementation))
        found = &measured;
    }
    if (!found) {
      throw InputError("--optimizer", wanted,
                       known.empty() ? "a profile with an optimizer: profile " + profile_.name + " has none"
                                     : "what profile " + profile_.name +
                                           " has: " + list_words(std::vector<std::string>(known.begin(), known.end())));
    }
    if (found->key.implementation != implementation) {
      notices_.say_substitute(profile_.name, "optimizer " + implementation + " " + wanted, describe(found->key));
    }
    KernelList kernels;
    if (zero_grad) kernels.add(at_size(*zero_grad, count));
    kernels.add(at_size(*found, count));
    if (plan_.spec.dtype == Dtype::amp_fp16) return after_scaler(kernels, count);
    return of_kernels(kernels);
  }

  /// GradScaler.step: unscale and look for what is not finite, wait on the host for the answer, then the optimizer.
  TaskCost after_scaler(const KernelList& optimizer, std::int64_t count) {
    const MeasuredCurve* unscale = nullptr;
    for (const MeasuredCurve& measured : profile_.of(Probe::optimizer)) {
      if (measured.key.optimizer == "unscale") unscale = &measured;
    }
    if (!unscale) {
      throw InputError("--dtype", to_string(plan_.spec.dtype),
                       "a profile with GradScaler's unscale: profile " + profile_.name + " has none");
    }
    KernelList before;
    before.add(at_size(*unscale, count));
    const TaskCost first = of_kernels(before), then = of_kernels(optimizer);
    kernels_.clear();
    const std::int64_t after_ns = std::llround(scaler_wait_ns_) + then.span_ns;
    return {first.device_ns + after_ns, first.device_ns + after_ns, first.first_launch_ns, first.span_ns + after_ns};
  }

  TaskCost transfer(const Work& work) {
    static const std::vector<Kernel> kOne;
    const bool sends =
        is_send(work.kind) || ((work.kind == TaskKind::scatter || work.kind == TaskKind::gather) && !work.receives);
    // A peer copy is issued by the sender alone. Who needs what came waits for it: a wait that is issued with the
    // receive, or where no receive is a task of its own, counted with the send.
    const bool issues = sends || plan_.spec.transport != Transport::copy;
    const double issue_ns = (issues ? transfer_issue_ns_ : 0) + (sends && has_receives_ ? 0 : wait_issue_ns_);
    KernelList kernels;
    kernels.add({transfers_.at(work.from_worker, work.to_worker, work.bytes), issue_ns, &kOne});
    const bool by_sending_host = plan_.spec.transport == Transport::copy && sends;
    const TaskCost cost = by_sending_host ? of_kernels(kernels) : kernels.cost(std::llround(launch_latency_ns_));
    kernels_.clear();  // on a stream of its own, beside the kernels of the compute stream: it holds no multiprocessor
    return cost;
  }

  void say_missing_and_fit_warnings() {
    transfers_.say_missing();
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

  void check_total(const std::vector<TaskCost>& costs) const {
    double total_ns = 0;
    for (const Task& task : plan_.graph.tasks) {
      total_ns += static_cast<double>(costs[task.work].span_ns) + static_cast<double>(costs[task.work].issue_ns);
    }
    if (total_ns < kLongestStep_ns) return;
    throw InputError("the plan with profile " + profile_.name, "a step of more than 100 years", "one that ends before");
  }

  const Plan& plan_;
  const CostProfile& profile_;
  std::string dtype_;
  Notices notices_;
  double host_quantile_;
  LayerTimes layers_;
  TransferTimes transfers_;
  HostTimes host_;
  CollectiveTimes collectives_{profile_, notices_};
  MemoryContention contention_;      // where multiprocessors are shared
  std::vector<KernelCost> kernels_;  // of the work that was priced last
  bool shares_ = false;
  double reducer_hook_ns_ = 0;
  double collective_issue_ns_ = 0;
  double call_without_peers_ns_ = 0;
  double scaler_wait_ns_ = 0;
  double sleep_overrun_ns_ = 0;
  double step_overhead_ns_ = 0;
  double transfer_issue_ns_ = 0;
  double wait_issue_ns_ = 0;
  double launch_latency_ns_ = 0;
  bool has_receives_ = false;
  bool on_host_ = false;
};

}  // namespace

PricedWork price_by_profile(const Plan& plan, const CostProfile& profile, HostSpeed host) {
  const bool own_processes = plan.spec.strategy == Strategy::ddp;
  const double usual = quantile_of_slowest(own_processes ? plan.graph.workers : 1);
  return Pricer(plan, profile, host == HostSpeed::slow ? kSlowHost : usual).price();
}

}  // namespace pdl
