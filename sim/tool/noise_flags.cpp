#include "sim/tool/noise_flags.hpp"

#include <algorithm>
#include <limits>
#include <thread>

#include "sim/io/error.hpp"
#include "sim/io/words.hpp"

namespace pdl {

NoiseFlags::NoiseFlags(CLI::App& app)
    : noise_(app, "--noise", "N",
             "draw so many steps from the spread of hosts, kernels and prices, and give their quantiles of 10, 50 and "
             "90 %"),
      seed_(app, "--seed", "N", "of the drawn steps: the same seed draws the same steps (default 1)") {}

std::optional<NoiseOptions> NoiseFlags::options() const {
  const auto draws = noise_.value(), seed = seed_.value();
  if (!draws) {
    if (seed) throw InputError("--seed", "no --noise beside it", "--noise N, which it is for");
    return std::nullopt;
  }
  NoiseOptions options;
  options.draws = parse_whole("--noise", *draws, 1, kMostDraws);
  if (seed) {
    options.seed =
        static_cast<std::uint64_t>(parse_whole("--seed", *seed, 0, std::numeric_limits<std::int64_t>::max()));
  }
  options.threads = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  return options;
}

}  // namespace pdl
