// --noise N and --seed S: how many steps are drawn (sim/predict/noise.hpp), and from what.
#pragma once

#include <optional>

#include "sim/predict/noise.hpp"
#include "sim/tool/flags.hpp"

namespace pdl {

class NoiseFlags {
 public:
  explicit NoiseFlags(CLI::App& app);
  /// Nothing if no noise is asked for; on all cores. Throws InputError: no number of draws from 1 to kMostDraws, a seed
  /// that is no whole number or has no draws.
  std::optional<NoiseOptions> options() const;

 private:
  OnceFlag noise_, seed_;
};

}  // namespace pdl
