// --noise N: how many steps are drawn (sim/predict/noise.hpp). Their seed is the setting --seed.
#pragma once

#include <optional>

#include "sim/predict/noise.hpp"
#include "sim/tool/flags.hpp"

namespace pdl {

class NoiseFlags {
 public:
  explicit NoiseFlags(CLI::App& app);
  /// Nothing if no noise is asked for; on all cores. Throws InputError: no number of draws from 1 to
  /// kMostDraws.
  std::optional<NoiseOptions> options() const;

 private:
  OnceFlag noise_;
};

}  // namespace pdl
