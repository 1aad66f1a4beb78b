#include "calibrate/fit/product_fit.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <regex>
#include <tuple>

#include "sim/cost/kernel_name.hpp"
#include "sim/io/statistics.hpp"

namespace pdl {
namespace {

/// How near to what is expected a set of parameters stays: as if one product had been measured that much too exactly.
/// Nearer where a family has a hundred kernels, of a few products each, and one design. Of a fifth of the products held
/// back, fits of the others are 2.3 % off in fp32 with .03 and 2.7 % with .15; under AMP 3.8 % with .1, 4.4 % with .01
/// (H200, 2026-11-30).
constexpr double kPriorWeight = 0.03;
constexpr double kPriorWeightNvjet = 0.1;
constexpr int kRobustRounds = 4;
constexpr double kLeastScale = 0.01;    // relative; residuals below twice the scale count in full
constexpr double kWorstResidual = 0.3;  // in the choice between two readings of a name
constexpr double kLeastGain = 0.97;     // by which another reading must be better
constexpr double kReferenceTile = 128 * 128;
constexpr int kClockRounds = 3;
constexpr double kClockFlops[] = {1e9, 1e10, 3e10, 1e11, 3e11, 1e12, 3e12};
constexpr std::size_t kWellKnown = 5;  // products of a kernel that says something about its family

struct Timing {
  const ProductTiming* measured = nullptr;
  const SeenKernel* kernel = nullptr;
  double us = 0;
};

/// Kernels of one design, data type and order of operands: their times are alike but for the tile.
std::string family_of(const std::string& name) {
  for (const char* word : {"nvjet", "sm90_xmma", "sm80_xmma", "simt", "tensorop"}) {
    if (name.find(word) == name.npos) continue;
    const bool tf32 = name.find("tf32") != name.npos;
    return std::string(word) + (tf32 ? " tf32" : "");
  }
  return "other";
}

bool contains(const std::string& text, const char* word) {
  return text.find(word) != text.npos;
}

/// Without what makes no difference to its times: of nvjet kernels the type of their numbers, of which 16 bits are 16,
/// how deep they fetch ahead, their clusters, a bias, and where the second operand is not transposed the order of the
/// first.
std::string short_name(const std::string& name) {
  static const std::regex nvjet(R"((nvjet_sm\d+)_[a-z]+_(\d+x\d+)_\d+x\d+_\dx\d_[hv]_(.*))");
  static const std::regex operands(R"((.*?)(bias_)?[NT]N([NT])(.*))");
  std::smatch parts;
  if (std::regex_match(name, parts, nvjet))
    return parts.str(1) + "_" + parts.str(2) + "_" + std::regex_replace(parts.str(3), operands, "$1?N$3$4");
  static const std::regex cutlass(R"((cutlass_\d+_\w+?_align\d+))");
  if (std::regex_search(name, parts, cutlass)) return parts.str(1);
  static const std::regex execute(R"(_execute(_segment_k_(off|on))?.*)");
  return std::regex_replace(name, execute, "$1");
}

/// The grid of nvjet kernels is one row, which hides their clusters' shape; their names say it.
std::pair<std::int64_t, std::int64_t> cluster_of(const SeenKernel& kernel) {
  static const std::regex nvjet(R"(nvjet_sm\d+_[a-z]+_\d+x\d+_\d+x\d+_(\d)x(\d)_[hv]_)");
  std::smatch parts;
  if (std::regex_search(kernel.name, parts, nvjet)) return {std::stoll(parts.str(1)), std::stoll(parts.str(2))};
  return {kernel.cluster_x, kernel.cluster_y};
}

double area(const KernelTiling& tiling) {
  return static_cast<double>(tiling.tile_m * tiling.tile_n);
}

/// Kernels that share parameters: short name, resident, splits, adds parts, accumulates.
using GroupKey = std::tuple<std::string, std::int64_t, bool, bool, bool>;

GroupKey group_of(const SeenKernel& kernel, bool accumulates) {
  return {short_name(kernel.name), kernel.resident, kernel.splits > 1, kernel.adds_parts, accumulates};
}

bool accumulates(const ProductKind& kind) {
  return product_shape(kind, {1, 1, 1}).accumulates;
}

struct Fitted {
  KernelTerms parameters_us{};
  Turned turned;
  double residual = 0;
  std::size_t probes = 0;
};

/// A kernel of a family that is known well: what a step of depth of one of its blocks takes.
struct KnownTile {
  double log_area = 0;  // over the reference tile
  double log_depth_us = 0;
  double weight = 0;
};

/// What a kernel of a family is expected to take: of a launch, of memory, and of a step of depth, by its tile's area.
struct Family {
  double launch_us = 4;
  double memory_us = 0.2;
  double log_depth_us = 0;  // of the reference tile, where no kernel is known well
  std::vector<KnownTile> known;
};

/// Small tiles take more for what they multiply: a straight line of the logarithms through the kernels with tiles of
/// such an area, with a slope of about 1.
double log_depth_us(const Family& family, double log_area) {
  constexpr double kAlike = 0.4;     // of the logarithm of areas
  constexpr double kSlopeIsOne = 3;  // as if kernels of that weight, twice as large, said so
  constexpr double kFar = 1e-3;      // a weight that the farthest kernels still have
  if (family.known.empty()) return family.log_depth_us + log_area;
  double w = 0, wx = 0, wy = 0, wxx = kSlopeIsOne, wxy = kSlopeIsOne;
  for (const KnownTile& tile : family.known) {
    const double x = tile.log_area - log_area;
    const double weight = tile.weight * (std::exp(-x * x / (2 * kAlike * kAlike)) + kFar);
    w += weight;
    wx += weight * x;
    wy += weight * tile.log_depth_us;
    wxx += weight * x * x;
    wxy += weight * x * tile.log_depth_us;
  }
  const double slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  return (wy - slope * wx) / w;
}

KernelTerms expected(const Family& family, const KernelTiling& tiling) {
  const double tiles = area(tiling) / kReferenceTile;
  const double depth_us = std::exp(log_depth_us(family, std::log(tiles)));
  const auto resident = static_cast<double>(tiling.grid_limit > 0 ? 1 : tiling.resident);
  return {family.launch_us, family.memory_us,      0.3, depth_us, 1.2 * depth_us, 0.7 * depth_us,
          0.3 * depth_us,   1.5 * tiles * resident};
}

KernelTerms terms_of(const Timing& timing, Turned turned, std::int64_t multiprocessors) {
  return kernel_terms(tiling_of(*timing.kernel, turned), timing.kernel->splits,
                      product_shape(timing.measured->kind, timing.measured->size),
                      product_number_bytes(timing.measured->kind.dtype), multiprocessors);
}

double dot(const KernelTerms& a, const KernelTerms& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

Fitted fit_group(const std::vector<Timing>& timings, const Family& family, Turned turned,
                 std::int64_t multiprocessors) {
  std::vector<KernelTerms> relative;  // terms over the time: y is 1 for all
  for (const Timing& timing : timings) {
    KernelTerms terms = terms_of(timing, turned, multiprocessors);
    for (double& term : terms) term /= timing.us;
    relative.push_back(terms);
  }
  const KernelTerms prior = expected(family, tiling_of(*timings.front().kernel, turned));
  const bool is_nvjet = contains(timings.front().kernel->name, "nvjet");
  KernelTerms weight{};
  for (std::size_t t = 0; t < kKernelTerms; ++t) weight[t] = (is_nvjet ? kPriorWeightNvjet : kPriorWeight) / prior[t];
  Fitted fitted;
  fitted.turned = turned;
  fitted.probes = timings.size();
  std::vector<double> counts(timings.size(), 1.0), residuals(timings.size());
  for (int round = 0; round < kRobustRounds; ++round) {
    std::vector<KernelTerms> weighted = relative;
    for (std::size_t i = 0; i < weighted.size(); ++i) {
      for (double& term : weighted[i]) term *= counts[i];
    }
    fitted.parameters_us = least_squares_from(weighted, counts, prior, weight);
    for (std::size_t i = 0; i < relative.size(); ++i)
      residuals[i] = std::abs(dot(relative[i], fitted.parameters_us) - 1);
    const double scale = std::max(kLeastScale, 1.5 * median(residuals));
    for (std::size_t i = 0; i < counts.size(); ++i)
      counts[i] = std::sqrt(1 / std::max(1.0, residuals[i] / (2 * scale)));
  }
  for (const double residual : residuals)
    fitted.residual += std::min(residual, kWorstResidual) / static_cast<double>(residuals.size());
  return fitted;
}

class ProductFit {
 public:
  ProductFit(const ProductSamples& products, std::int64_t multiprocessors)
      : products_(products), multiprocessors_(multiprocessors) {
    for (const ProductTiming& timing : products.timings) {
      const SeenKernel& kernel = products.kernels[timing.kernel];
      groups_[group_of(kernel, accumulates(timing.kind))].push_back({&timing, &kernel, median(timing.values_us)});
    }
    for (auto& [key, timings] : groups_) {  // sums are the same whatever the order of the file
      std::sort(timings.begin(), timings.end(), [](const Timing& a, const Timing& b) {
        return std::tie(a.measured->kind, a.measured->size, a.us, *a.kernel) <
               std::tie(b.measured->kind, b.measured->size, b.us, *b.kernel);
      });
    }
    guess_families();
    fit_groups();
    for (int round = 0; round < kClockRounds; ++round) {
      learn_clocks();
      learn_families();
      fit_groups();
    }
  }

  const std::vector<ClockCurve>& clocks() const { return clocks_; }

  /// Of any kernel, one without products too: it is expected to be as the others, or if it was only seen to do the
  /// other of both, as it is then.
  ProductKernel kernel(const SeenKernel& seen, bool accumulates) const {
    ProductKernel kernel{tiling_of(seen, {}), {}, 0};
    for (const bool as : {accumulates, !accumulates}) {
      const auto found = fitted_.find(group_of(seen, as));
      if (found == fitted_.end()) continue;
      kernel = {tiling_of(seen, found->second.turned), found->second.parameters_us, 0};
      if (as == accumulates) kernel.probes = static_cast<std::int64_t>(found->second.probes);
      if (as != accumulates && seen.splits == 1)
        kernel.parameters_us[2] = expected(family(seen.name), kernel.tiling)[2];
      break;
    }
    if (kernel.parameters_us == KernelTerms{}) kernel.parameters_us = expected(family(seen.name), kernel.tiling);
    kernel.tiling.accumulates = accumulates;
    return kernel;
  }

 private:
  Family family(const std::string& name) const {
    const auto found = families_.find(family_of(name));
    return found != families_.end() ? found->second : Family{4, 0.2, default_log_depth_us_, {}};
  }

  /// From what each product takes over its launch, per tile and depth, as if all multiprocessors were always full.
  void guess_families() {
    std::map<std::string, std::vector<double>> of_family;
    std::vector<double> all;
    for (const auto& [key, timings] : groups_) {
      for (const Timing& timing : timings) {
        const KernelTiling tiling = tiling_of(*timing.kernel, {});
        const KernelTerms terms = terms_of(timing, {}, multiprocessors_);
        const double depth = terms[3] + terms[4] + terms[5] + terms[6];
        if (timing.us < 20 || depth <= 0) continue;
        const double log_us = std::log((timing.us - 4) / depth / (area(tiling) / kReferenceTile));
        of_family[family_of(timing.kernel->name)].push_back(log_us);
        all.push_back(log_us);
      }
    }
    if (!all.empty()) default_log_depth_us_ = median(all);
    for (const auto& [name, log_us] : of_family) families_[name] = {4, 0.2, median(log_us), {}};
  }

  void fit_groups() {
    fitted_.clear();
    for (const auto& [key, timings] : groups_) {
      const SeenKernel& seen = *timings.front().kernel;
      Fitted best = fit_group(timings, family(seen.name), {}, multiprocessors_);
      for (const Turned turned : {Turned{true, true}, Turned{false, true}, Turned{true, false}}) {
        if (contains(seen.name, "nvjet")) break;                                        // its names are sure
        if (turned.tile != turned.cluster && !contains(seen.name, "sm90_xmma")) break;  // has no clusters
        Fitted other = fit_group(timings, family(seen.name), turned, multiprocessors_);
        if (other.residual < kLeastGain * best.residual) best = other;
      }
      fitted_[key] = best;
    }
  }

  /// What well-known kernels of a family have in common.
  void learn_families() {
    struct Learned {
      std::vector<KnownTile> known;
      std::vector<double> launch_us, memory_us;
    };
    std::map<std::string, Learned> learned;
    for (const auto& [key, fitted] : fitted_) {
      if (fitted.probes < kWellKnown || fitted.parameters_us[3] <= 0) continue;
      const SeenKernel& seen = *groups_.at(key).front().kernel;
      Learned& of_family = learned[family_of(seen.name)];
      of_family.known.push_back({std::log(area(tiling_of(seen, {})) / kReferenceTile),
                                 std::log(fitted.parameters_us[3]),
                                 static_cast<double>(std::min<std::size_t>(fitted.probes, 30))});
      of_family.launch_us.push_back(fitted.parameters_us[0]);
      of_family.memory_us.push_back(fitted.parameters_us[1]);
    }
    for (auto& [name, of_family] : learned) {
      Family& family = families_[name];
      family.launch_us = std::max(1.0, median(of_family.launch_us));
      family.memory_us = std::max(0.02, median(of_family.memory_us));
      family.known = std::move(of_family.known);
    }
  }

  /// What the products of a data type take over their kernels' times, as a mean around each point of the curve, and the
  /// times of all products at the clock of small ones.
  void learn_clocks() {
    struct Around {
      double weight = 0.5, log_ratio = 0;  // weight: as if so many products had said that there is nothing
    };
    std::map<Dtype, std::vector<Around>> all;
    for (const auto& [key, timings] : groups_) {
      for (const Timing& timing : timings) {
        const Dtype dtype = timing.measured->kind.dtype;
        if (dtype == Dtype::fp32) continue;  // no tensor cores: no limit was ever seen
        const ProductShape shape = product_shape(timing.measured->kind, timing.measured->size);
        const double us =
            dot(terms_of(timing, fitted_.at(key).turned, multiprocessors_), fitted_.at(key).parameters_us);
        const double flops =
            2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
        std::vector<Around>& around = all[dtype];
        around.resize(std::size(kClockFlops));
        for (std::size_t i = 0; i < around.size(); ++i) {
          const double away = std::log(flops / kClockFlops[i]);
          const double weight = std::exp(-away * away);
          around[i].weight += weight;
          around[i].log_ratio += weight * std::clamp(std::log(timing.us / us), -kWorstResidual, kWorstResidual);
        }
      }
    }
    for (const auto& [dtype, around] : all) {
      const Dtype wanted = dtype;  // clang 14 has no structured bindings in lambdas
      auto curve = std::find_if(clocks_.begin(), clocks_.end(), [&](const ClockCurve& c) { return c.dtype == wanted; });
      if (curve == clocks_.end()) {
        clocks_.push_back({dtype,
                           {std::begin(kClockFlops), std::end(kClockFlops)},
                           std::vector<double>(std::size(kClockFlops), 0.0)});
        curve = clocks_.end() - 1;
      }
      for (std::size_t i = 0; i < around.size(); ++i) curve->log_factor[i] += around[i].log_ratio / around[i].weight;
    }
    for (auto& [key, timings] : groups_) {
      for (Timing& timing : timings) {
        const ProductTiming& measured = *timing.measured;
        timing.us =
            median(measured.values_us) *
            std::exp(-log_clock_factor(clocks_, measured.kind.dtype, product_shape(measured.kind, measured.size)));
      }
    }
  }

  const ProductSamples& products_;
  std::int64_t multiprocessors_;
  std::vector<ClockCurve> clocks_;
  std::map<GroupKey, std::vector<Timing>> groups_;
  std::map<GroupKey, Fitted> fitted_;
  std::map<std::string, Family> families_;
  double default_log_depth_us_ = std::log(80.0);
};

/// Blocks that work through all tiles are as many as the multiprocessors hold of their clusters, unless there are fewer
/// tiles: the most that were seen of any kernel with clusters of that size.
std::vector<SeenKernel> with_grid_limits(std::vector<SeenKernel> kernels) {
  std::map<std::int64_t, std::int64_t> most;
  for (const SeenKernel& kernel : kernels) {
    if (!works_through_tiles(kernel.name)) continue;
    std::int64_t& of_cluster = most[kernel.cluster_x * kernel.cluster_y];
    of_cluster = std::max(of_cluster, kernel.blocks);
  }
  for (SeenKernel& kernel : kernels) {
    if (works_through_tiles(kernel.name)) kernel.blocks = most.at(kernel.cluster_x * kernel.cluster_y);
  }
  return kernels;
}

/// The rate that hardly any product goes beyond, of those that are larger than the caches. 0 where there is none.
double memory_rate(const ProductSamples& products) {
  constexpr double kBeyondCaches = 100e6;
  constexpr std::size_t kEnough = 20;
  constexpr double kHardlyAny = 0.98;
  std::vector<double> rates;
  for (const ProductTiming& timing : products.timings) {
    const double bytes =
        product_bytes(product_shape(timing.kind, timing.size), product_number_bytes(timing.kind.dtype));
    if (bytes > kBeyondCaches) rates.push_back(bytes / (median(timing.values_us) * 1e3));
  }
  std::sort(rates.begin(), rates.end());
  return rates.size() < kEnough ? 0 : quantile(rates, kHardlyAny);
}

/// Of the ways of one size that are known the one whose kernel is fastest; the first where there is one alone.
std::optional<KernelChoice> fastest(const ProductAnswers& answers, std::size_t shape, std::size_t row,
                                    const std::vector<ProductKernel>& kernels,
                                    const std::vector<KernelChoice>& choice_of, std::int64_t multiprocessors) {
  const auto ways = static_cast<std::size_t>(answers.ways);
  const auto [in, out] = answers.shapes[shape];
  const ProductShape size = product_shape(answers.kind, {answers.rows[row], in, out});
  std::optional<KernelChoice> best;
  double least_us = INFINITY;
  for (std::size_t way = 0; way < ways; ++way) {
    const std::optional<std::size_t> seen = answers.kernels[shape][row * ways + way];
    if (!seen) continue;
    const KernelChoice choice = choice_of[*seen];
    const double us = dot(kernel_terms(kernels[choice.kernel].tiling, choice.splits, size,
                                       product_number_bytes(answers.kind.dtype), multiprocessors),
                          kernels[choice.kernel].parameters_us);
    if (us >= least_us) continue;
    least_us = us;
    best = choice;
  }
  return best;
}

}  // namespace

void drop_unchosen_kernels(ProductModel& model) {
  std::map<std::size_t, std::size_t> now;
  for (const ProductChoices& choices : model.choices) {
    for (const auto& of_shape : choices.of_shape) {
      for (const KernelChoice& choice : of_shape) now.emplace(choice.kernel, 0);
    }
  }
  std::vector<ProductKernel> kept;
  for (auto& [before, index] : now) {
    index = kept.size();
    kept.push_back(std::move(model.kernels[before]));
  }
  model.kernels = std::move(kept);
  for (ProductChoices& choices : model.choices) {
    for (auto& of_shape : choices.of_shape) {
      for (KernelChoice& choice : of_shape) choice.kernel = now.at(choice.kernel);
    }
  }
}

KernelTerms least_squares_from(const std::vector<KernelTerms>& terms, const std::vector<double>& y,
                               const KernelTerms& prior, const KernelTerms& weight) {
  constexpr auto kTerms = static_cast<Eigen::Index>(kKernelTerms);
  using Square = Eigen::Matrix<double, kTerms, kTerms>;
  Square normal = Square::Zero();
  Eigen::Matrix<double, kTerms, 1> right = Eigen::Matrix<double, kTerms, 1>::Zero();
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const Eigen::Map<const Eigen::Matrix<double, kTerms, 1>> row(terms[i].data());
    normal += row * row.transpose();
    right += row * y[i];
  }
  for (Eigen::Index t = 0; t < kTerms; ++t) {
    const double squared = weight[static_cast<std::size_t>(t)] * weight[static_cast<std::size_t>(t)];
    normal(t, t) += squared;
    right(t) += squared * prior[static_cast<std::size_t>(t)];
  }
  // One parameter after the other, each to its best value that is not below zero, until none moves.
  KernelTerms x = prior;
  for (int round = 0; round < 20000; ++round) {
    double moved = 0;
    for (Eigen::Index t = 0; t < kTerms; ++t) {
      double rest = right(t);
      for (Eigen::Index other = 0; other < kTerms; ++other) {
        if (other != t) rest -= normal(t, other) * x[static_cast<std::size_t>(other)];
      }
      const double best = std::max(0.0, rest / normal(t, t));
      double& old = x[static_cast<std::size_t>(t)];
      moved = std::max(moved, std::abs(best - old) / std::max(std::abs(old), 1e-3));
      old = best;
    }
    if (moved < 1e-9) break;
  }
  return x;
}

KernelTiling tiling_of(const SeenKernel& kernel, Turned turned) {
  KernelTiling tiling;
  tiling.name = short_name(kernel.name);
  std::tie(tiling.tile_m, tiling.tile_n) =
      tile_in_name(kernel.name).value_or(std::pair<std::int64_t, std::int64_t>(32, 32));
  std::tie(tiling.cluster_m, tiling.cluster_n) = cluster_of(kernel);
  if (turned.tile) std::swap(tiling.tile_m, tiling.tile_n);
  if (turned.cluster) std::swap(tiling.cluster_m, tiling.cluster_n);
  tiling.swizzles = contains(kernel.name, "cutlass_80");
  tiling.resident = kernel.resident;
  if (works_through_tiles(kernel.name)) tiling.grid_limit = kernel.blocks;
  tiling.shares_tiles = contains(kernel.name, "segment_k_on");
  tiling.splits_depth = kernel.splits > 1;
  tiling.adds_parts = kernel.adds_parts;
  return tiling;
}

ProductModel fit_products(const ProductSamples& samples, std::int64_t multiprocessors, const std::string& card) {
  ProductSamples products = samples;
  products.kernels = with_grid_limits(products.kernels);
  ProductModel model;
  model.library = products.library;
  model.asked_by = products.asked_by;
  model.card = card;
  model.multiprocessors = multiprocessors;
  const ProductFit fit(products, multiprocessors);
  model.clocks = fit.clocks();
  model.memory_bytes_per_ns = memory_rate(products);
  std::array<std::vector<ProductKernel>, 2> of_seen;  // by whether it accumulates
  std::map<KernelTiling, ProductKernel> by_tiling;
  for (const SeenKernel& seen : products.kernels) {
    for (const bool accumulating : {false, true}) {
      of_seen[accumulating].push_back(fit.kernel(seen, accumulating));
      by_tiling.emplace(of_seen[accumulating].back().tiling, of_seen[accumulating].back());
    }
  }
  std::map<KernelTiling, std::size_t> index;
  for (const auto& [tiling, kernel] : by_tiling) {
    index[tiling] = model.kernels.size();
    model.kernels.push_back(kernel);
  }
  std::array<std::vector<KernelChoice>, 2> choice_of;
  for (const bool accumulating : {false, true}) {
    for (std::size_t k = 0; k < of_seen[accumulating].size(); ++k)
      choice_of[accumulating].push_back({index.at(of_seen[accumulating][k].tiling), products.kernels[k].splits});
  }
  for (const ProductAnswers& answers : products.answers) {
    ProductChoices choices;
    choices.kind = answers.kind;
    choices.rows = answers.rows;
    std::vector<std::size_t> order(answers.shapes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return answers.shapes[a] < answers.shapes[b]; });
    for (const std::size_t s : order) {
      std::vector<KernelChoice> of_shape;
      for (std::size_t r = 0; r < answers.rows.size(); ++r) {
        const auto choice =
            fastest(answers, s, r, model.kernels, choice_of[accumulates(answers.kind)], multiprocessors);
        if (choice) of_shape.push_back(*choice);
      }
      if (of_shape.size() != answers.rows.size()) continue;  // the library did not answer for all rows
      choices.shapes.push_back(answers.shapes[s]);
      choices.of_shape.push_back(std::move(of_shape));
    }
    if (!choices.shapes.empty()) model.choices.push_back(std::move(choices));
  }
  std::sort(model.choices.begin(), model.choices.end(), goes_before);
  return model;
}

}  // namespace pdl
