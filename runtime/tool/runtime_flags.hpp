// The flags of pdl-run that are not settings of the run itself: device, steps. The seed and the
// learning rate are settings of the run.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/device/runtime_options.hpp"
#include "sim/spec/run_spec.hpp"
#include "sim/tool/flags.hpp"

namespace pdl {

class RuntimeFlags {
 public:
  explicit RuntimeFlags(CLI::App& app);

  /// Throws InputError naming the flag; also where the device is cuda, which it is if nothing is said, and none is
  /// visible.
  RuntimeOptions options() const;

  /// None: any free port.
  std::optional<int> port() const;

 private:
  OnceFlag device_, steps_, warmup_, wait_limit_, port_;
};

/// Of this process: options.wait_limit_s.
void limit_waiting(const RuntimeOptions& options);

/// device, steps, warmup, wait-limit: the flags that give these options.
std::vector<SettingValue> to_settings(const RuntimeOptions& options);

}  // namespace pdl
