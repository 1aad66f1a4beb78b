#include "sim/predict/noise.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "sim/cost/error_bar.hpp"
#include "sim/io/by_threads.hpp"
#include "sim/io/statistics.hpp"
#include "sim/predict/step_of_plan.hpp"

namespace pdl {
namespace {

constexpr double kNormal90 = 1.6448536269514722;  // 90 % of a normal distribution lie within so many deviations

// Places of what is drawn: of the host, of the step as a whole, of the first source of error.
constexpr std::uint64_t kHost = 0, kStep = 1, kSources = 2;

/// A counter to 64 bits that look random (the finalizer of SplitMix64: Steele, Lea, Flood, "Fast splittable
/// pseudorandom number generators", 2014).
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;

/// In (0, 1].
double uniform(std::uint64_t bits) {
  return static_cast<double>((bits >> 11) + 1) / 9007199254740992.0;
}

std::int64_t scaled(std::int64_t ns, double factor) {
  return std::llround(static_cast<double>(ns) * factor);
}

/// Through the usual time and the slow one, at so many deviations from the usual.
std::int64_t at_host(std::int64_t usual_ns, std::int64_t slow_ns, double deviations) {
  if (usual_ns <= 0 || slow_ns <= usual_ns) return usual_ns;
  const double ratio = static_cast<double>(slow_ns) / static_cast<double>(usual_ns);
  return scaled(usual_ns, std::pow(ratio, deviations / kNormal90));
}

/// What all draws of a plan share.
class Draws {
 public:
  Draws(const Plan& plan, const PricedWork& usual, const PricedWork& slow)
      : plan_(plan), seed_(static_cast<std::uint64_t>(plan.spec.seed)), usual_(usual), slow_(slow) {}

  double step_ms(std::uint64_t draw) const {
    PricedWork drawn = usual_;
    const std::vector<double> device = device_factors(draw);
    const double host = standard_normal(seed_, draw, kHost);
    for (std::size_t w = 0; w < drawn.costs.size(); ++w) {
      if (plan_.graph.works[w].kind == TaskKind::sleep) continue;
      drawn.costs[w] = cost_at(usual_.costs[w], slow_.costs[w], host, device[w]);
    }
    for (std::size_t w = 0; w < drawn.shared.kernels.size(); ++w) {
      for (std::size_t k = 0; k < drawn.shared.kernels[w].size(); ++k) {
        KernelCost& kernel = drawn.shared.kernels[w][k];
        kernel.issue_ns = at_host(kernel.issue_ns, slow_.shared.kernels[w][k].issue_ns, host);
        kernel.device_ns = scaled(kernel.device_ns, device[w]);
      }
    }
    drawn.step_overhead_ns = at_host(usual_.step_overhead_ns, slow_.step_overhead_ns, host);
    return static_cast<double>(step_ns(run_plan(plan_, drawn), steps_overlap(plan_.spec))) / 1e6;
  }

 private:
  /// By work: what its device time is multiplied by.
  std::vector<double> device_factors(std::uint64_t draw) const {
    std::vector<double> factors(usual_.costs.size(), 1.0);
    for (std::size_t e = 0; e < usual_.errors.size(); ++e) {
      const PriceError& error = usual_.errors[e];
      const double off = factor(draw, kSources + e, error.half_width) - 1;
      for (const auto& [work, ns] : error.works_ns) {
        const double device_ns = static_cast<double>(usual_.costs[work].device_ns);
        if (device_ns > 0) factors[work] += off * std::min(1.0, ns / device_ns);
      }
    }
    const double of_step = factor(draw, kStep, kStepFloor);
    for (double& factor : factors) factor = std::max(0.0, factor) * of_step;
    return factors;
  }

  double factor(std::uint64_t draw, std::uint64_t place, double half_width) const {
    return std::exp(standard_normal(seed_, draw, place) * std::log1p(half_width) / kNormal90);
  }

  /// The end of a task on an idle stream moves with the device as far as the device is what it waits for.
  static TaskCost cost_at(const TaskCost& usual, const TaskCost& slow, double host, double device) {
    TaskCost cost = usual;
    cost.device_ns = scaled(usual.device_ns, device);
    cost.issue_ns = at_host(usual.issue_ns, slow.issue_ns, host);
    cost.first_launch_ns = at_host(usual.first_launch_ns, slow.first_launch_ns, host);
    const std::int64_t more_ns = cost.device_ns - usual.device_ns;
    cost.span_ns = std::max(at_host(usual.span_ns, slow.span_ns, host) + std::min<std::int64_t>(more_ns, 0),
                            cost.first_launch_ns + cost.device_ns);
    return cost;
  }

  const Plan& plan_;
  std::uint64_t seed_;
  const PricedWork &usual_, &slow_;
};

}  // namespace

double standard_normal(std::uint64_t seed, std::uint64_t draw, std::uint64_t place) {
  const std::uint64_t counter = mixed(mixed(mixed(seed + kGolden) + draw * kGolden) + place * kGolden);
  const double radius = std::sqrt(-2 * std::log(uniform(mixed(counter + kGolden))));
  return radius * std::cos(2 * std::numbers::pi * uniform(mixed(counter + 2 * kGolden)));
}

StepDistribution draw_steps(const Plan& plan, const PricedWork& usual, const PricedWork& slow,
                            const NoiseOptions& options) {
  if (options.draws < 1) throw std::logic_error("a distribution of no draw");
  const Draws draws(plan, usual, slow);
  std::vector<double> steps_ms(static_cast<std::size_t>(options.draws));
  by_threads(steps_ms.size(), options.threads, [&](std::size_t draw) { steps_ms[draw] = draws.step_ms(draw); });
  std::sort(steps_ms.begin(), steps_ms.end());
  return {options.draws, plan.spec.seed, quantile(steps_ms, 0.1), quantile(steps_ms, 0.5), quantile(steps_ms, 0.9)};
}

}  // namespace pdl
