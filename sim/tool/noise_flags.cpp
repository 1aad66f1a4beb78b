#include "sim/tool/noise_flags.hpp"

#include <algorithm>
#include <thread>

#include "sim/io/words.hpp"

namespace pdl {

NoiseFlags::NoiseFlags(CLI::App& app)
    : noise_(app, "--noise", "N",
             "draw so many steps from the spread of hosts and prices, and give their quantiles of 10, 50 and 90 %; the "
             "same --seed draws the same steps") {}

std::optional<NoiseOptions> NoiseFlags::options() const {
  const auto draws = noise_.value();
  if (!draws) return std::nullopt;
  return NoiseOptions{.draws = parse_whole("--noise", *draws, 1, kMostDraws),
                      .threads = std::max<std::int64_t>(1, std::thread::hardware_concurrency())};
}

}  // namespace pdl
