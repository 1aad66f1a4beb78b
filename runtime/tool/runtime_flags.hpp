// The flags of pdl-run that are not settings of the run itself: device, steps, learning rate. The seed is a setting of
// the run.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/executor/runtime_options.hpp"
#include "sim/spec/run_spec.hpp"
#include "sim/tool/flags.hpp"

namespace pdl {

class RuntimeFlags {
 public:
  explicit RuntimeFlags(CLI::App& app);

  /// Throws InputError naming the flag. Device: cuda if this process sees a GPU, unless given.
  RuntimeOptions options() const;

  /// Where the device was not said and there is no GPU, a line to standard error says so.
  void say_fallback() const;

  /// None: any free port.
  std::optional<int> port() const;

 private:
  OnceFlag device_, steps_, warmup_, learning_rate_, port_;
};

/// device, steps, warmup, learning-rate: the flags that give these options.
std::vector<SettingValue> to_settings(const RuntimeOptions& options);

}  // namespace pdl
