#include "calibrate/probe/pause_probe.hpp"

#include <torch/cuda.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>
#include <utility>

#include "calibrate/fit/statistics.hpp"
#include "calibrate/probe/device_timer.hpp"
#include "calibrate/probe/on_device.hpp"
#include "calibrate/probe/small_step.hpp"
#include "runtime/comm/process_group.hpp"
#include "runtime/executor/devices.hpp"
#include "runtime/measure/span_recorder.hpp"

namespace pdl {
namespace {

constexpr int kWarmup = 2;
constexpr int kUsual = 40;  // steps without a pause
constexpr std::int64_t kPauses_ns[] = {300'000, 1'000'000, 3'000'000, 10'000'000, 30'000'000, 100'000'000};
constexpr std::int64_t kSeconds_ns = 200'000'000;  // about as long for all steps of one pause

/// What the host does before a step, or inside it.
enum class Pause { none, wait_before_forward, sleep_before_forward, sleep_before_backward };

struct StepTimes {
  double forward_us = 0, backward_us = 0, optimizer_us = 0, paused_us = 0;
};

/// To two digits, so that nearly equal pauses are one.
std::int64_t rounded_ns(double us) {
  const double unit = std::pow(10, std::floor(std::log10(us)) - 1);
  return std::llround(std::round(us / unit) * unit * 1e3);
}

double us_since(std::int64_t begin_ns) {
  // A clock of whole nanoseconds: nothing takes no time.
  return static_cast<double>(std::max<std::int64_t>(steady_now_ns() - begin_ns, 1)) / 1e3;
}

std::vector<double> all(const std::vector<StepTimes>& steps, double StepTimes::*what) {
  std::vector<double> values;
  for (const StepTimes& step : steps) values.push_back(step.*what);
  return values;
}

class PauseProbe {
 public:
  PauseProbe(c10::Device device, const RuntimeOptions& runtime, const std::string& dtype, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
             const Collect& collect)
      : device_(device), dtype_(dtype), collect_(collect), plain_(device, runtime, dtype, nullptr), reduced_(device, runtime, dtype, group) {}

  void run() {
    measure_again_and_again();
    const std::vector<StepTimes> usual = steps(reduced_, Pause::none, 0, kUsual);
    // Of a backward with the Reducer what it takes without is known from `plain_`, and what its hooks take has its own probe.
    const double hooks_us = median(all(usual, &StepTimes::backward_us)) - median(all(steps(plain_, Pause::none, 0, kUsual), &StepTimes::backward_us));
    usual_.backward_us += std::max(hooks_us, 0.0);
    rest_us_ = median(all(usual, &StepTimes::forward_us)) + median(all(usual, &StepTimes::backward_us)) + median(all(usual, &StepTimes::optimizer_us));
    give(usual, "later", "later", "later");
    for (const std::int64_t pause_ns : kPauses_ns) {
      const int count = static_cast<int>(std::clamp<std::int64_t>(kSeconds_ns / pause_ns, 6, 20));
      if (device_.is_cuda()) give(steps(reduced_, Pause::wait_before_forward, pause_ns, count), "after_wait", "later", "later");
      give(steps(reduced_, Pause::sleep_before_forward, pause_ns, count), "after_sleep", "later", "later");
      give(steps(reduced_, Pause::sleep_before_backward, pause_ns, count), "later", "after_sleep", "later");
    }
    for (auto& [key, values] : values_) hand_over(key, std::move(values));
  }

 private:
  double timed(const std::function<void()>& work) const {
    const std::int64_t begin = steady_now_ns();
    work();
    synchronize();
    return us_since(begin);
  }

  void synchronize() const {
    if (device_.is_cuda()) torch::cuda::synchronize(device_.index());
  }

  double median_of(const std::function<double()>& measure) const {
    std::vector<double> values;
    for (int i = 0; i < kWarmup + kUsual; ++i) values.push_back(measure());
    return median({values.begin() + kWarmup, values.end()});
  }

  /// The same call again and again, as the probes of layers and optimizers have it.
  void measure_again_and_again() {
    usual_.forward_us = median_of([&] { return timed([&] { plain_.forward(); }); });
    usual_.backward_us = median_of([&] {
      plain_.clear();
      return timed([&] { plain_.backward(/*keep=*/true); });
    });
    usual_.optimizer_us = median_of([&] { return timed([&] { plain_.optimize(); }); });
  }

  double pause(Pause kind, Pause wanted, std::int64_t ns) const {
    if (kind != wanted) return 0;
    const std::int64_t begin = steady_now_ns();
    if (kind == Pause::wait_before_forward) {
      hold_current_stream(ns);
      synchronize();
    } else {
      std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
    }
    return us_since(begin);
  }

  std::vector<StepTimes> steps(SmallStep& step, Pause kind, std::int64_t pause_ns, int count) {
    std::vector<StepTimes> all;
    for (int i = 0; i < kWarmup + count; ++i) {
      StepTimes times;
      step.clear();
      times.paused_us += pause(kind, Pause::wait_before_forward, pause_ns);
      times.paused_us += pause(kind, Pause::sleep_before_forward, pause_ns);
      times.forward_us = timed([&] { step.forward(); });
      times.paused_us += pause(kind, Pause::sleep_before_backward, pause_ns);
      times.backward_us = timed([&] { step.backward(); });
      times.optimizer_us = timed([&] { step.optimize(); });
      if (i >= kWarmup) all.push_back(times);
    }
    return all;
  }

  void give(const std::vector<StepTimes>& steps, const char* forward, const char* backward, const char* optimizer) {
    const std::int64_t pause_ns = rounded_ns(median(all(steps, &StepTimes::paused_us)) + rest_us_);
    const auto add = [&](const char* operation, const char* name, double StepTimes::*what) {
      MeasuredKey key;
      key.probe = Probe::pause;
      key.implementation = "autograd";
      key.operation = operation;
      key.name = name;
      key.dtype = dtype_;
      key.size = pause_ns;
      // On a noisy host one may be faster than the median without a pause: a sample is a time, at least one nanosecond.
      for (const double us : all(steps, what)) values_[key].push_back(std::max(us - usual_.*what, 1e-3));
    };
    add("forward", forward, &StepTimes::forward_us);
    add("backward", backward, &StepTimes::backward_us);
    add("optimizer", optimizer, &StepTimes::optimizer_us);
  }

  void hand_over(const MeasuredKey& key, std::vector<double> values) const {
    Sample sample;
    sample.key = key;
    sample.unit = "us";
    sample.calls_before = kWarmup;
    sample.values = std::move(values);
    collect_(std::move(sample));
  }

  c10::Device device_;
  std::string dtype_;
  const Collect& collect_;
  SmallStep plain_, reduced_;
  StepTimes usual_;     // medians of the same call again and again
  double rest_us_ = 0;  // a step without a pause
  std::map<MeasuredKey, std::vector<double>> values_;
};

}  // namespace

void probe_pauses(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect, const Progress& progress) {
  const c10::Device device = device_of(runtime, 0);
  if (!has_process_groups(device)) return;
  const OnDevice on_device(device);
  const auto group = make_process_group({c10::make_intrusive<c10d::HashStore>(), 0, 1, device, true}, {});
  for (std::size_t d = 0; d < options.dtypes.size(); ++d) {
    progress(static_cast<double>(d) / static_cast<double>(options.dtypes.size()), "host after pauses, " + options.dtypes[d]);
    if (options.dtypes[d] != "tf32") PauseProbe(device, runtime, options.dtypes[d], group, collect).run();  // tf32 is fp32 to a host
  }
  leave(*group, device.type());
}

}  // namespace pdl
