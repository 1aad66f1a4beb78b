#include "calibrate/probe/pause_probe.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "calibrate/probe/device_timer.hpp"
#include "calibrate/probe/on_device.hpp"
#include "calibrate/probe/small_step.hpp"
#include "runtime/comm/waiting.hpp"
#include "runtime/device/devices.hpp"
#include "sim/io/statistics.hpp"

namespace pdl {
namespace {

constexpr int kLayers = 2;
constexpr int kWarmup = 1;
constexpr int kUsual = 40;  // steps without a pause
constexpr int kAgain = 10;  // calls again and again, before each pause
constexpr std::int64_t kPauses_ns[] = {300'000, 1'000'000, 3'000'000, 10'000'000, 30'000'000, 100'000'000};
constexpr std::int64_t kNoPause_ns = 1;         // a sample has a size
constexpr std::int64_t kEach_ns = 100'000'000;  // about as long for all steps of one pause

enum Call { kForward, kBackward, kOptimizer, kCalls };
constexpr const char* kNames[kCalls] = {"forward", "backward", "optimizer"};

enum class Pause { none, wait, sleep };

/// One call in a step.
struct Issued {
  double us = 0;
  double since_us = 0;  // from the end of the same call in the step before
};
using StepCalls = std::array<Issued, kCalls>;

/// To two digits, so that nearly equal pauses are one.
std::int64_t rounded_ns(double us) {
  const double unit = std::pow(10, std::floor(std::log10(us)) - 1);
  return std::llround(std::round(us / unit) * unit * 1e3);
}

class PauseProbe {
 public:
  PauseProbe(c10::Device device, const RuntimeOptions& runtime, Dtype dtype)
      : device_(device), dtype_(dtype), step_(kLayers, device, runtime, dtype, nullptr) {}

  void run(const Collect& collect) {
    const std::vector<StepCalls> usual = steps(Pause::none, kForward, 0, kUsual);
    step_.keep_gradients();
    for (const Call call : {kForward, kBackward, kOptimizer}) keep(call, "later", usual);
    for (const std::int64_t pause_ns : kPauses_ns) {
      again_and_again();
      const int count = static_cast<int>(std::clamp<std::int64_t>(kEach_ns / pause_ns, 4, 20));
      // One history a curve: `later` after a wait where there are waits.
      const bool cuda = device_.is_cuda();
      for (const Call before : {kForward, kBackward, kOptimizer}) {
        const std::vector<StepCalls> slept = steps(Pause::sleep, before, pause_ns, count);
        const std::vector<StepCalls> waited =
            cuda ? steps(Pause::wait, before, pause_ns, count) : std::vector<StepCalls>{};
        keep(before, "after_sleep", slept);
        if (cuda) keep(before, "after_wait", waited);
        const Call behind = before == kForward ? kBackward : before == kBackward ? kOptimizer : kForward;
        keep(behind, "later", cuda ? waited : slept);
      }
    }
    for (auto& [key, values] : values_) {
      Sample sample;
      sample.key = key;
      sample.unit = "us";
      sample.calls_before = kWarmup;
      sample.values = std::move(values);
      collect(std::move(sample));
    }
  }

 private:
  void issue(Call call) {
    if (call == kForward) {
      step_.clear();  // the first thing of a step
      step_.forward();
    } else if (call == kBackward) {
      step_.backward();
    } else {
      step_.optimize();
    }
  }

  void pause(Pause kind, std::int64_t ns) const {
    if (kind == Pause::none) return;
    if (kind == Pause::sleep) return std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
    hold_current_stream(ns);
    synchronize(device_);
  }

  std::vector<StepCalls> steps(Pause kind, Call before, std::int64_t pause_ns, int count) {
    std::vector<StepCalls> all;
    std::array<std::int64_t, kCalls> ended_ns{};
    for (int i = 0; i < kWarmup + count; ++i) {
      StepCalls calls;
      for (const Call call : {kForward, kBackward, kOptimizer}) {
        Waiting::renew();
        if (call == before) pause(kind, pause_ns);
        calls[call].since_us = us_since(ended_ns[call]);
        calls[call].us = elapsed_us([&] { issue(call); });
        synchronize(device_);
        ended_ns[call] = steady_now_ns();
      }
      if (i >= kWarmup) all.push_back(calls);
    }
    return all;
  }

  /// The first calls are not the same again: they are dropped.
  void again_and_again() {
    const auto repeat = [&](Call call, const std::function<void()>& before, const std::function<void()>& work) {
      for (int i = 0; i < kWarmup + kAgain; ++i) {
        before();
        const double us = elapsed_us(work);
        if (i >= kWarmup) values_[key(call, "again", kNoPause_ns)].push_back(us);
      }
      synchronize(device_);
    };
    repeat(kForward, [&] { step_.restore_gradients(); }, [&] { issue(kForward); });
    repeat(kBackward, [&] { step_.clear(); }, [&] { step_.backward(/*keep=*/true); });
    step_.restore_gradients();
    repeat(kOptimizer, [] {}, [&] { issue(kOptimizer); });
  }

  MeasuredKey key(Call call, const char* name, std::int64_t since_ns) const {
    MeasuredKey key;
    key.probe = Probe::pause;
    key.implementation = "autograd";
    key.operation = kNames[call];
    key.name = name;
    key.dtype = dtype_;
    key.size = since_ns;
    return key;
  }

  void keep(Call call, const char* name, const std::vector<StepCalls>& steps) {
    std::vector<double> since_us;
    for (const StepCalls& calls : steps) since_us.push_back(calls[call].since_us);
    std::vector<double>& values = values_[key(call, name, rounded_ns(median(since_us)))];
    for (const StepCalls& calls : steps) values.push_back(calls[call].us);
  }

  c10::Device device_;
  Dtype dtype_;
  SmallStep step_;
  std::map<MeasuredKey, std::vector<double>> values_;
};

}  // namespace

void probe_pauses(const ProbeOptions& options, const RuntimeOptions& runtime, const Collect& collect,
                  const Progress& progress) {
  const c10::Device device = device_of(runtime, 0);
  const OnDevice on_device(device);
  for (std::size_t d = 0; d < options.dtypes.size(); ++d) {
    progress(static_cast<double>(d) / static_cast<double>(options.dtypes.size()),
             "host after pauses, " + to_string(options.dtypes[d]));
    if (options.dtypes[d] != Dtype::tf32)
      PauseProbe(device, runtime, options.dtypes[d]).run(collect);  // tf32 is fp32 to a host
  }
}

}  // namespace pdl
