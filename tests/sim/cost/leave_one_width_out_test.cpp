// A profile without a width predicts what was measured at that width: the committed profile of 2 x H200, of which all
// layers of one width are taken away, and all that the library was asked of it.
//
//   with 4096: 4096 x 4096, 512 rows, forward and backward      measured
//   without:   the same by the kernels' model and other layers   predicted, to some per cent
//
// Operations alone are harder than steps, of which these are the largest parts (docs/accuracy.md has their errors).
#include <cmath>
#include <string>

#include "sim/cost/layer_time.hpp"
#include "sim/cost/notices.hpp"
#include "tests/support/catch.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kWidths[] = {4096, 8192};
constexpr double kLeast_ns = 100e3;  // shorter ones are launches more than products

/// Forward and backward together; nothing where the profile did not measure both.
std::optional<double> layer_ns(LayerTimes& times, const std::string& implementation, Dtype dtype, std::int64_t width,
                               std::int64_t rows, bool probed) {
  double ns = 0;
  for (const char* operation : {"forward", "backward"}) {
    MeasuredKey key;
    key.probe = Probe::layer;
    key.implementation = implementation;
    key.operation = operation;
    key.dtype = dtype;
    key.layer = linear_relu(width, width);
    key.size = rows;
    if (implementation == "pipeline" && std::string(operation) == "backward") key.layers = 4;
    if (!times.has(key)) return std::nullopt;
    for (const OperationTime& part : times.at(key)) {
      if (part.probed != probed) return std::nullopt;
      ns += part.device_ns;
    }
  }
  return ns;
}

CostProfile without_width(CostProfile profile, std::int64_t width) {
  std::erase_if(profile.curves, [&](const MeasuredCurve& curve) {
    return curve.key.probe == Probe::layer && curve.key.layer == linear_relu(width, width);
  });
  ProductModel model = *profile.products;
  for (ProductChoices& choices : model.choices) {
    for (std::size_t s = choices.shapes.size(); s-- > 0;) {
      if (choices.shapes[s].first != width && choices.shapes[s].second != width) continue;
      choices.shapes.erase(choices.shapes.begin() + static_cast<std::ptrdiff_t>(s));
      choices.of_shape.erase(choices.of_shape.begin() + static_cast<std::ptrdiff_t>(s));
    }
  }
  profile.products = std::move(model);
  return profile;
}

/// Mean over rows, of the errors without sign.
double mean_error(const CostProfile& profile, const CostProfile& rest, const std::string& implementation, Dtype dtype,
                  std::int64_t width) {
  Notices notices;
  LayerTimes measured(profile, dtype, notices), predicted(rest, dtype, notices);
  double sum = 0;
  int count = 0;
  for (const std::int64_t rows : {128, 256, 512, 1024, 2048, 4096}) {
    const auto truth = layer_ns(measured, implementation, dtype, width, rows, true);
    if (!truth || *truth < kLeast_ns) continue;
    const auto without = layer_ns(predicted, implementation, dtype, width, rows, false);
    REQUIRE(without);
    sum += std::abs(*without / *truth - 1);
    ++count;
  }
  REQUIRE(count >= 4);
  return sum / count;
}

TEST_CASE("a profile without a width predicts that width's own probes", "[leave_one_width_out]") {
  const CostProfile profile = load_profile(PDL_SOURCE_DIR "/data/h200x2/profile.json");
  for (const std::int64_t width : kWidths) {
    INFO(width);
    const CostProfile rest = without_width(profile, width);
    CostProfile by_lines = rest;
    by_lines.products = {};
    for (const char* implementation : {"pipeline", "autograd"}) {
      INFO(implementation);
      const double fp32 = mean_error(profile, rest, implementation, Dtype::fp32, width);
      CHECK(fp32 < 0.02);
      CHECK(fp32 < mean_error(profile, by_lines, implementation, Dtype::fp32, width));
      CHECK(mean_error(profile, rest, implementation, Dtype::tf32, width) < 0.06);
    }
    for (const Dtype dtype : {Dtype::amp_fp16, Dtype::amp_bf16}) {
      INFO(to_string(dtype));
      CHECK(mean_error(profile, rest, "autograd", dtype, width) < 0.08);
    }
  }
}

}  // namespace
}  // namespace pdl
