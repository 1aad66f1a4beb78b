#include "runtime/tool/runtime_flags.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>

#include "runtime/comm/waiting.hpp"
#include "runtime/device/devices.hpp"
#include "sim/io/error.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

constexpr int kMostSteps = 1'000'000;

std::int64_t whole(const OnceFlag& flag, std::int64_t otherwise, std::int64_t least, std::int64_t largest) {
  const auto value = flag.value();
  return value ? parse_whole(flag.flag(), *value, least, largest) : otherwise;
}

}  // namespace

RuntimeFlags::RuntimeFlags(CLI::App& app)
    : device_(app, "--device", "cuda|cpu", "GPUs, or threads or processes on the CPU (default: cuda)"),
      steps_(app, "--steps", "N", "measured steps (default 30)"),
      warmup_(app, "--warmup", "N", "steps before them that are dropped (default 5)"),
      wait_limit_(app, "--wait-limit", "S",
                  "ends the run (exit code 3) where a worker has waited so long; longer than a step (default 600)"),
      port_(app, "--port", "N", "where the workers of --workers process meet (default: any free port)") {}

RuntimeOptions RuntimeFlags::options() const {
  RuntimeOptions options;
  const auto device = device_.value();
  if (device && *device != "cuda" && *device != "cpu") throw InputError(device_.flag(), *device, "cuda or cpu");
  options.device = device == "cpu" ? DeviceKind::cpu : DeviceKind::cuda;
  if (options.device == DeviceKind::cuda && gpu_count() == 0) {
    throw InputError("--device",
                     std::string("cuda") + (device ? "" : " (the default)") + " on a host without a visible GPU",
                     "cpu, or a host with GPUs");
  }
  options.steps = static_cast<int>(whole(steps_, options.steps, 1, kMostSteps));
  options.warmup = static_cast<int>(whole(warmup_, options.warmup, 0, kMostSteps));
  if (const auto limit = wait_limit_.value()) {
    options.wait_limit_s = parse_number(wait_limit_.flag(), *limit, kShortestWaitLimit_s, kLongestWaitLimit_s);
  }
  return options;
}

std::optional<int> RuntimeFlags::port() const {
  if (!port_.value()) return std::nullopt;
  return static_cast<int>(whole(port_, 0, 1, std::numeric_limits<std::uint16_t>::max()));
}

void limit_waiting(const RuntimeOptions& options) {
  limit_waiting("pdl-run", std::chrono::milliseconds(std::llround(options.wait_limit_s * 1e3)));
}

std::vector<SettingValue> to_settings(const RuntimeOptions& options) {
  std::vector<SettingValue> settings;
  const auto add = [&](const char* name, const std::string& value) {
    settings.push_back({name, value, std::string("--") + name});
  };
  add("device", options.device == DeviceKind::cuda ? "cuda" : "cpu");
  add("steps", std::to_string(options.steps));
  add("warmup", std::to_string(options.warmup));
  add("wait-limit", to_text(options.wait_limit_s));
  return settings;
}

}  // namespace pdl
