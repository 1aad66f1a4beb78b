#include "sim/cost/price.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <stdexcept>

#include "sim/cost/collective_time.hpp"
#include "sim/cost/layer_time.hpp"
#include "sim/cost/notices.hpp"
#include "sim/spec/error.hpp"
#include "sim/spec/words.hpp"

namespace pdl {
namespace {

constexpr double kLongestStep_ns = 4e18;  // 126 years: the engine adds up 64-bit nanoseconds
constexpr std::size_t kFitWarningsShown = 5;

std::string name_of(Implementation implementation) {
  return implementation == Implementation::pipeline ? "pipeline" : "autograd";
}

const char* layer_operation(TaskKind kind) {
  switch (kind) {
    case TaskKind::forward:
    case TaskKind::recompute:
      return "forward";
    case TaskKind::backward:
      return "backward";
    case TaskKind::backward_input:
      return "backward_input";
    case TaskKind::backward_weight:
      return "backward_weight";
    default:
      throw std::logic_error("no operation of layers");
  }
}

/// The kernels of one piece of work, in order. Times are rounded so that the sum stays right to half a nanosecond.
class KernelList {
 public:
  void add(const OperationTime& operation) {
    double recorded_ns = 0;
    double launches = 0;
    for (const Kernel& kernel : *operation.kernels) {
      recorded_ns += kernel.time_ns * static_cast<double>(kernel.count);
      launches += static_cast<double>(kernel.count);
    }
    if (launches == 0) return add_kernel(operation.device_ns, operation.issue_ns);
    for (const Kernel& kernel : *operation.kernels) {
      const double share = kernel.time_ns / recorded_ns;
      for (std::int64_t launch = 0; launch < kernel.count; ++launch) {
        add_kernel(operation.device_ns * share, operation.issue_ns / launches, &kernel);
      }
    }
  }

  /// Kernels added from here on slow a collective beside them by so much.
  void slows_collectives(double by) { slows_collectives_ = by; }

  /// One kernel that holds so many multiprocessors.
  void add_collective(double device_ns, double issue_ns, std::int64_t multiprocessors) {
    add_kernel(device_ns, issue_ns);
    kernels_.back().blocks = multiprocessors;
    kernels_.back().blocks_per_multiprocessor = multiprocessors > 0 ? 1 : 0;
  }

  const std::vector<KernelCost>& kernels() const { return kernels_; }

  /// `launch_latency_ns`: from the launch of a kernel to its start on an idle stream.
  TaskCost cost(std::int64_t launch_latency_ns) const {
    TaskCost cost = collapse(issue_.parts_ns, device_.parts_ns);
    cost.first_launch_ns += launch_latency_ns;
    cost.span_ns += launch_latency_ns;
    return cost;
  }

 private:
  struct Sum {
    double exact_ns = 0;
    std::int64_t given_ns = 0;
    std::vector<std::int64_t> parts_ns;

    void add(double ns) {
      exact_ns += ns;
      parts_ns.push_back(std::llround(std::min(exact_ns, kLongestStep_ns)) - given_ns);
      given_ns += parts_ns.back();
    }
  };

  void add_kernel(double device_ns, double issue_ns, const Kernel* kernel = nullptr) {
    device_.add(device_ns);
    issue_.add(issue_ns);
    kernels_.push_back({issue_.parts_ns.back(), device_.parts_ns.back(), kernel ? kernel->blocks : 0,
                        kernel ? kernel->blocks_per_multiprocessor : 0, slows_collectives_});
  }

  Sum device_;
  Sum issue_;
  std::vector<KernelCost> kernels_;
  double slows_collectives_ = 0;
};

class Pricer {
 public:
  Pricer(const Plan& plan, const CostProfile& profile)
      : plan_(plan), profile_(profile), dtype_(to_string(plan.spec.dtype)), layers_(profile, dtype_, notices_) {
    if (!plan.graph.works.empty()) implementation_ = name_of(plan.graph.works.front().implementation);
    const std::string transport = to_string(plan.spec.transport);
    const bool has_transfers = std::any_of(plan.graph.works.begin(), plan.graph.works.end(),
                                           [](const Work& work) { return is_transfer(work.kind); });
    const auto has = [&](TaskKind kind) {
      return std::any_of(plan.graph.works.begin(), plan.graph.works.end(), [&](const Work& work) { return work.kind == kind; });
    };
    // A process of its own waits for its own GPU only.
    const bool own_process = plan.spec.strategy == Strategy::ddp;
    step_overhead_ns_ = host_ns("step_overhead", "", own_process ? 1 : plan.graph.workers, true);
    on_host_ = profile.host_description.device == "cpu";
    const bool on_gpu = profile.host_description.device == "cuda";
    if (has_transfers) transfer_issue_ns_ = host_ns("transfer_issue", transport, 0, on_gpu || transport != "copy");
    if (has_transfers) wait_issue_ns_ = host_ns("wait_issue", transport, 0, on_gpu);
    launch_latency_ns_ = host_ns("launch_latency", "", 0, on_gpu);
    if (plan.spec.strategy == Strategy::ddp) reducer_hook_ns_ = host_ns("reducer_hook", "", 0, true);
    if (has(TaskKind::all_reduce)) collective_issue_ns_ = host_ns("collective_issue", collective_transport(), 0, true);
    if (has(TaskKind::sleep)) sleep_overrun_ns_ = host_ns("sleep_overrun", "", 0, false);
    if (plan.spec.dtype == Dtype::amp_fp16) scaler_wait_ns_ = host_ns("scaler_wait", "", 0, on_gpu);
    shares_ = on_gpu && has(TaskKind::all_reduce) && profile.host_description.multiprocessors > 0;
    if (shares_) memory_slowdown_ = memory_slowdown();
    has_receives_ = std::any_of(plan.graph.works.begin(), plan.graph.works.end(), [](const Work& work) {
      return is_receive(work.kind);
    });
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
    check_total(priced.costs);
    say_missing_and_fit_warnings();
    priced.warnings = notices_.texts();
    priced.step_overhead_ns = std::llround(step_overhead_ns_);
    return priced;
  }

 private:
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

  /// By what GPUs, or workers on CPU, exchange what is not of a pipeline. DataParallel's workers on CPU are threads that copy.
  std::string collective_transport() const {
    if (profile_.host_description.device != "cpu") return plan_.spec.transport == Transport::gloo ? "gloo" : "nccl";
    return plan_.spec.strategy == Strategy::dp ? "copy" : "gloo";
  }

  TaskCost collective(const Work& work) {
    Collective wanted;
    wanted.operation = work.kind == TaskKind::all_reduce ? "all_reduce" : work.kind == TaskKind::broadcast ? "broadcast" : "reduce";
    wanted.transport = collective_transport();
    wanted.ranks = work.ranks;
    wanted.bytes = work.bytes;
    wanted.hosts = plan_.spec.hosts;
    wanted.network_bytes_per_s = plan_.spec.network_gb_per_s * 1e9;
    wanted.network_latency_ns = plan_.spec.network_latency_us * 1e3;
    const CollectiveTime time = collectives_.at(wanted);
    KernelList kernels;
    // DataParallel moves a chunk of several tensors as one (flatten_dense_tensors).
    if (work.kind != TaskKind::all_reduce && work.tensors > 1) kernels.add(of_bucket("join", work.bytes));
    kernels.add_collective(time.device_ns, collective_issue_ns_, time.blocks);
    if (on_host_ && plan_.spec.strategy == Strategy::dp) return of_kernels(kernels);
    kernels_ = kernels.kernels();
    return kernels.cost(std::llround(launch_latency_ns_));
  }

  OperationTime of_bucket(const char* operation, std::int64_t bytes) {
    for (const MeasuredCurve& measured : profile_.of(Probe::bucket)) {
      if (measured.key.operation == operation) return at_size(measured, std::max<std::int64_t>(bytes / kBytesPerNumber, 1));
    }
    throw InputError("profile " + profile_.name, std::string("no measurement of bucket ") + operation, "a profile of today's pdl-calibrate");
  }

  /// In: the host time is that of the Reducer's hook of each tensor. A sum reads two and writes one where a copy reads one
  /// and writes one.
  TaskCost bucket_copy(const Work& work) {
    const bool in = work.kind == TaskKind::bucket_copy_in;
    OperationTime time = of_bucket(in ? "copy_in" : "copy_out", work.bytes);
    if (work.accumulate) time.device_ns *= 1.5;
    time.issue_ns *= work.tensors;
    if (in) time.issue_ns = reducer_hook_ns_ * work.tensors;
    KernelList kernels;
    kernels.slows_collectives(memory_slowdown_);  // does nothing but move memory
    kernels.add(time);
    return of_kernels(kernels);
  }

  /// What a kernel that does nothing but move memory adds to the time of a collective beside it: from the probe of all-reduces
  /// beside copies, of the nearest number of GPUs. Each of these also waits for the blocks of the copy at hand, however large
  /// it is itself: so the growth from the smallest to the largest is what counts.
  double memory_slowdown() {
    const MeasuredCurve* nearest = nullptr;
    const auto far = [&](const MeasuredCurve& measured) { return std::abs(measured.key.ranks - replica_count(plan_.spec)); };
    for (const MeasuredCurve& measured : profile_.of(Probe::overlap)) {
      if (measured.key.name != "communication" || measured.key.operation != kAllReduceBesideCopies) continue;
      if (measured.curve.points.size() > 1 && (!nearest || far(measured) < far(*nearest))) nearest = &measured;
    }
    if (!nearest) return 0;
    const CurvePoint &least = nearest->curve.points.front(), &largest = nearest->curve.points.back();
    const auto alone_ns = [&](std::int64_t bytes) {
      return collectives_.at({"all_reduce", nearest->key.transport, nearest->key.ranks, bytes}).device_ns;
    };
    return std::max(0.0, (largest.time_ns - least.time_ns) / (alone_ns(largest.size) - alone_ns(least.size)) - 1);
  }

  /// The GPUs of a ring are not in step: at any moment it goes at the pace of the one that is at its memory most. Of a
  /// backward with its copies into buckets the memory is wanted for a share s of the time; that one GPU of n wants it has the
  /// probability 1 - (1 - s)^n.
  double slowdown_by(const Work& work) {
    double bytes = 0, time_ns = 0;
    for (std::int32_t index = work.first_layer; index < work.first_layer + work.layer_count; ++index) {
      const Layer& layer = plan_.spec.model.layers[static_cast<std::size_t>(index)];
      const MeasuredKey key = layer_key(work, layer);
      bytes += layer_bytes(key);
      for (const OperationTime& time : layers_.at(key)) time_ns += time.device_ns;
      const std::int64_t gradients = parameters(layer) * kBytesPerNumber;
      if (plan_.spec.strategy != Strategy::ddp) continue;
      bytes += 2 * static_cast<double>(gradients);
      time_ns += of_bucket("copy_in", gradients).device_ns;
    }
    const double share = std::min(1.0, bytes / time_ns / layers_.best_bytes_per_ns());
    return memory_slowdown_ * (1 - std::pow(1 - share, static_cast<double>(replica_count(plan_.spec))));
  }

  /// As if the layer were not the first one of the model.
  MeasuredKey layer_key(const Work& work, const Layer& layer) const {
    MeasuredKey key;
    key.probe = Probe::layer;
    key.implementation = name_of(work.implementation);
    key.operation = layer_operation(work.kind);
    key.accumulate = work.accumulate && (work.kind == TaskKind::backward || work.kind == TaskKind::backward_weight);
    key.dtype = dtype_;
    key.in = layer.in_features;
    key.out = layer.out_features;
    key.size = work.rows;
    return key;
  }

  TaskCost compute(const Work& work) {
    KernelList kernels;
    const std::vector<Layer>& layers = plan_.spec.model.layers;
    if (work.loss) {
      const Layer& last = layers[static_cast<std::size_t>(work.first_layer + work.layer_count - 1)];
      kernels.add(loss(name_of(work.implementation), work.rows * last.out_features));
    }
    const bool forward = work.kind == TaskKind::forward || work.kind == TaskKind::recompute;
    const double slowdown = shares_ && work.kind == TaskKind::backward ? slowdown_by(work) : 0;
    for (std::int32_t i = 0; i < work.layer_count; ++i) {
      const std::int32_t index = work.first_layer + (forward ? i : work.layer_count - 1 - i);
      MeasuredKey key = layer_key(work, layers[static_cast<std::size_t>(index)]);
      const bool gives_input = work.kind == TaskKind::backward || work.kind == TaskKind::backward_input;
      key.input_gradient = !gives_input || work.input_gradient || index != work.first_layer;
      if (work.kind == TaskKind::backward && add_by_length(key, work, index, kernels)) continue;
      for (const OperationTime& time : layers_.at(key)) {
        kernels.slows_collectives(slowdown);
        kernels.add(time);
      }
    }
    return of_kernels(kernels);
  }

  /// A whole backward has its weight gradients on a second stream beside the input gradients (where that is faster); the
  /// tail of the last weight gradient, and in the model's first stage all of it, has nothing beside it. So time is not
  /// proportional to layers: a stage of n takes T(1) + (n-1) (T(4) - T(1)) / 3, both measured, a straight line in n. The
  /// first layer is priced T(1), each other one the slope.
  bool add_by_length(MeasuredKey key, const Work& work, std::int32_t index, KernelList& kernels) {
    constexpr std::int64_t kMeasuredLength = 4;
    key.input_gradient = work.input_gradient;
    key.layers = 1;
    MeasuredKey longer = key;
    longer.layers = kMeasuredLength;
    if (!layers_.has(key) || !layers_.has(longer)) return false;
    const OperationTime alone = layers_.at(key).front();
    if (index == work.first_layer) {
      kernels.add(alone);
      return true;
    }
    OperationTime slope = layers_.at(longer).front();  // a fourth of the stage
    const auto per_layer = [&](double fourth, double one) {
      return std::max(0.0, (static_cast<double>(kMeasuredLength) * fourth - one) / static_cast<double>(kMeasuredLength - 1));
    };
    slope.device_ns = per_layer(slope.device_ns, alone.device_ns);
    slope.issue_ns = per_layer(slope.issue_ns, alone.issue_ns);
    kernels.add(slope);
    return true;
  }

  /// On CPU the host is the device: it is occupied until the work is done.
  TaskCost of_kernels(const KernelList& kernels) {
    kernels_ = kernels.kernels();
    if (!on_host_) return kernels.cost(std::llround(launch_latency_ns_));
    const std::int64_t ns = kernels.cost(0).device_ns;
    return {ns, ns, 0, ns};
  }

  OperationTime at_size(const MeasuredCurve& measured, std::int64_t size) {
    const CurveReading reading = read(measured.curve, size);
    if (reading.extrapolated()) {
      // Not a notice for every pair of workers.
      const MeasuredKey& key = measured.key;
      notices_.extrapolated(std::string(size_name(key.probe)) + " of " +
                                (key.probe == Probe::transfer ? "transfer " + key.transport : describe(key)),
                            size, measured.curve.least(), measured.curve.largest());
    }
    return {reading.time_ns, read_issue_ns(measured.curve, size), &nearest_point(measured.curve, size).kernels};
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
    if (unlike(found->key) > 0) say_substitute("loss " + implementation + " " + dtype_, describe(found->key));
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
      say_substitute("optimizer " + implementation + " " + wanted, describe(found->key));
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
      throw InputError("--dtype", to_string(plan_.spec.dtype), "a profile with GradScaler's unscale: profile " + profile_.name + " has none");
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
    const bool sends = is_send(work.kind) || ((work.kind == TaskKind::scatter || work.kind == TaskKind::gather) && !work.receives);
    // A peer copy is issued by the sender alone. Who needs what came waits for it: a wait that is issued with the
    // receive, or where no receive is a task of its own, counted with the send.
    const bool issues = sends || plan_.spec.transport != Transport::copy;
    const double issue_ns = (issues ? transfer_issue_ns_ : 0) + (sends && has_receives_ ? 0 : wait_issue_ns_);
    KernelList kernels;
    kernels.add({transfer_ns(work.from_worker, work.to_worker, work.bytes), issue_ns, &kOne});
    const bool by_sending_host = plan_.spec.transport == Transport::copy && sends;
    const TaskCost cost = by_sending_host ? of_kernels(kernels) : kernels.cost(std::llround(launch_latency_ns_));
    kernels_.clear();  // on a stream of its own, beside the kernels of the compute stream: it holds no multiprocessor
    return cost;
  }

  double transfer_ns(std::int32_t from, std::int32_t to, std::int64_t bytes) {
    const std::string transport = to_string(plan_.spec.transport);
    std::set<std::string> known;
    std::vector<const MeasuredCurve*> pairs;
    bool both_ways = true;  // nothing else was measured
    for (const MeasuredCurve& measured : profile_.of(Probe::transfer)) {
      known.insert(measured.key.transport);
      if (measured.key.transport != transport || (measured.key.bidirectional && !both_ways)) continue;
      if (!measured.key.bidirectional && both_ways) pairs.clear();
      both_ways = measured.key.bidirectional;
      pairs.push_back(&measured);
    }
    if (pairs.empty()) {
      throw InputError("--transport", transport,
                       known.empty() ? "a profile with transfers: profile " + profile_.name + " has none"
                                     : "what profile " + profile_.name +
                                           " has: " + list_words(std::vector<std::string>(known.begin(), known.end())));
    }
    if (both_ways) say_substitute("transfers " + transport + " one way", "transfers both ways at once");
    std::vector<double> times_ns;
    for (const MeasuredCurve* pair : pairs) {
      if (pair->key.from == from && pair->key.to == to) return at_size(*pair, bytes).device_ns;
      times_ns.push_back(read(pair->curve, bytes).time_ns);
    }
    missing_pairs_.insert({from, to});
    for (const MeasuredCurve* pair : pairs) {
      if (read(pair->curve, bytes).extrapolated()) {
        notices_.extrapolated("bytes of transfer " + transport, bytes, pair->curve.least(), pair->curve.largest());
      }
    }
    measured_pairs_ = pairs.size();
    std::sort(times_ns.begin(), times_ns.end());
    return (times_ns[(times_ns.size() - 1) / 2] + times_ns[times_ns.size() / 2]) / 2;
  }

  /// The entry of that name that says most about this plan. 0 if there is none; `needed`: then it is said.
  double host_ns(const std::string& name, const std::string& transport, std::int64_t workers, bool needed) {
    const HostTime* found = nullptr;
    const auto distance = [&](const HostTime& host) {
      const MeasuredKey& key = host.key;
      double far = 0;
      if (key.implementation != implementation_) far += key.implementation.empty() ? 1e3 : 1e6;
      if (key.transport != transport) far += key.transport.empty() ? 1e3 : 1e6;
      if (workers > 0 && key.workers != workers) {
        far += key.workers == 0 ? 100
                                : std::abs(std::log(static_cast<double>(key.workers) / static_cast<double>(workers)));
      }
      return far;
    };
    for (const HostTime& host : profile_.host) {
      if (host.key.name == name && (!found || distance(host) < distance(*found))) found = &host;
    }
    if (!found) {
      if (needed) not_measured_.push_back(name);
      return 0;
    }
    const bool other_workers = workers > 0 && found->key.workers > 0 && found->key.workers != workers;
    if (distance(*found) >= 1e6 || other_workers) {
      say_substitute("host " + name + " " + implementation_ + (transport.empty() ? "" : " " + transport) +
                         (workers > 0 ? " " + std::to_string(workers) + " workers" : ""),
                     describe(found->key));
    }
    return found->time_ns;
  }

  void say_substitute(const std::string& wanted, const std::string& used) {
    notices_.say("not in profile " + profile_.name + ": " + wanted + "; " + used + " used instead");
  }

  void say_missing_and_fit_warnings() {
    if (!missing_pairs_.empty()) {
      std::vector<std::string> pairs;
      for (const auto& [from, to] : missing_pairs_) {
        if (pairs.size() < 8) pairs.push_back(std::to_string(from) + " -> " + std::to_string(to));
      }
      std::string text;
      for (const std::string& pair : pairs) text += (text.empty() ? "" : ", ") + pair;
      if (missing_pairs_.size() > pairs.size()) {
        text += " and " + std::to_string(missing_pairs_.size() - pairs.size()) + " more";
      }
      notices_.say("not in profile " + profile_.name + ": transfers " + to_string(plan_.spec.transport) + " " + text +
                   "; the median of its " + std::to_string(measured_pairs_) +
                   (measured_pairs_ == 1 ? " pair" : " pairs") + " used instead");
    }
    std::string missing;
    for (const std::string& name : not_measured_) missing += (missing.empty() ? "" : ", ") + name;
    if (!missing.empty()) {
      notices_.say("not in profile " + profile_.name + ": host " + missing + "; taken as no time");
    }
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
  std::string implementation_;
  Notices notices_;
  LayerTimes layers_;
  CollectiveTimes collectives_{profile_, notices_};
  std::vector<KernelCost> kernels_;  // of the work that was priced last
  bool shares_ = false;
  double memory_slowdown_ = 0;
  double reducer_hook_ns_ = 0;
  double collective_issue_ns_ = 0;
  double scaler_wait_ns_ = 0;
  double sleep_overrun_ns_ = 0;
  double step_overhead_ns_ = 0;
  double transfer_issue_ns_ = 0;
  double wait_issue_ns_ = 0;
  double launch_latency_ns_ = 0;
  bool has_receives_ = false;
  bool on_host_ = false;
  std::vector<std::string> not_measured_;
  std::set<std::pair<std::int32_t, std::int32_t>> missing_pairs_;
  std::size_t measured_pairs_ = 0;
};

std::int64_t synthetic_ns(double ms, double share) {
  const double ns = ms * 1e6 / share;
  if (!(ns >= 0) || ns > kLongestStep_ns) {
    throw InputError("synthetic costs", to_text(ms) + " ms", "a time from 0 to 4e12 ms");
  }
  return std::llround(ns);
}

std::int64_t part_of(std::int64_t ns, double share) { return std::llround(static_cast<double>(ns) * share); }

}  // namespace

PricedWork price(const Plan& plan, const CostProfile& profile) {
  return Pricer(plan, profile).price();
}

std::vector<TaskCost> price_synthetic(const Plan& plan, const SyntheticCosts& costs) {
  const double stages = static_cast<double>(plan.stages.size());
  const auto layers = static_cast<double>(plan.spec.model.layers.size());
  // The parts of a backward add up to it, to the nanosecond.
  const auto of_layers = [&](const Work& work, std::int64_t ns) {
    return part_of(ns, (work.first_layer + work.layer_count) / layers) - part_of(ns, work.first_layer / layers);
  };
  const double all_bytes = static_cast<double>(parameters(plan.spec.model) * kBytesPerNumber);
  const bool data_parallel = is_data_parallel(plan.spec);
  const double workers = static_cast<double>(plan.graph.workers);
  const double share = workers > 0 && stages > workers ? stages / workers : 1;
  const std::int64_t forward_ns = synthetic_ns(costs.tf_ms, share);
  const std::int64_t backward_ns = synthetic_ns(costs.tb_ms, share);
  const std::int64_t weight_ns = costs.tw_ms ? synthetic_ns(*costs.tw_ms, share) : backward_ns / 2;
  const std::int64_t input_ns = costs.tw_ms ? backward_ns : backward_ns - weight_ns;
  const std::int64_t transfer_ns = synthetic_ns(costs.tcomm_ms, 1);
  std::vector<TaskCost> priced;
  for (const Work& work : plan.graph.works) {
    switch (work.kind) {
      case TaskKind::forward:
      case TaskKind::recompute:
        priced.push_back(device_only(forward_ns));
        break;
      case TaskKind::backward:
        priced.push_back(device_only(data_parallel ? of_layers(work, input_ns + weight_ns) : input_ns + weight_ns));
        break;
      case TaskKind::backward_input:
        priced.push_back(device_only(input_ns));
        break;
      case TaskKind::backward_weight:
        priced.push_back(device_only(weight_ns));
        break;
      case TaskKind::optimizer:
      case TaskKind::loss:
      case TaskKind::scatter:
      case TaskKind::gather:
      case TaskKind::bucket_copy_in:
      case TaskKind::bucket_copy_out:
        priced.push_back(device_only(0));
        break;
      case TaskKind::sleep:
        priced.push_back({0, work.sleep_ns, 0, work.sleep_ns});
        break;
      case TaskKind::all_reduce:
      case TaskKind::broadcast:
      case TaskKind::reduce:
        priced.push_back(device_only(part_of(transfer_ns, static_cast<double>(work.bytes) / all_bytes)));
        break;
      case TaskKind::send_forward:
      case TaskKind::send_backward:
      case TaskKind::receive_forward:
      case TaskKind::receive_backward:
        priced.push_back(device_only(transfer_ns));
        break;
    }
  }
  return priced;
}

}  // namespace pdl
