#include "sim/predict/times_by_kind.hpp"

#include <map>

#include "sim/predict/at_power_limit.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/step_of_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/tiny_profile.hpp"
#include "tests/support/tiny_transformer.hpp"

namespace pdl {
namespace {

std::map<std::string, double> us_by_name(const std::vector<NamedTime>& times) {
  std::map<std::string, double> us;
  for (const NamedTime& time : times) us[time.name] = time.ms * 1e3;
  return us;
}

double sum_ms(const std::vector<NamedTime>& times) {
  double sum = 0;
  for (const NamedTime& time : times) sum += time.overlaps ? 0 : time.ms;
  return sum;
}

/// Of each work the sum of its kinds.
void check_kinds_add_up(const Plan& plan, const PricedWork& priced) {
  std::vector<double> ns(plan.graph.works.size(), 0);
  std::size_t before = 0;
  for (const KindTime& time : priced.kinds_ns) {
    CHECK(before <= time.work);
    before = time.work;
    ns[time.work] += time.device_ns;
  }
  for (std::size_t w = 0; w < ns.size(); ++w) {
    INFO(static_cast<int>(plan.graph.works[w].kind));
    CHECK(ns[w] == Approx(static_cast<double>(priced.costs[w].device_ns)).margin(1));
  }
}

}  // namespace

// A block has 4 linears, 2 norms, 2 sums, attention, its split, gelu, and 2 sums of gradients; the head a norm and a
// product; the embedding 2 lookups. Each 10 us forward and 20 us backward.
TEST_CASE("a step by kinds of layers and by parts of the model, by hand", "[times_by_kind]") {
  const RunSpec asked = tiny_transformer("--strategy single --gpus 1 --batch 2", 3);
  const CostProfile profile = profile_of(asked, 2);
  const RunResult run = predict(asked, &profile);
  const std::map<std::string, double> kinds = us_by_name(run.layer_kinds), parts = us_by_name(run.layer_parts);
  CHECK(kinds.at("linear") == Approx(3 * 4 * 30));
  CHECK(kinds.at("linear_no_bias") == Approx(30));
  CHECK(kinds.at("layer_norm") == Approx((3 * 2 + 1) * 30));
  CHECK(kinds.at("scaled_dot_product") == Approx(3 * 30));
  CHECK(kinds.at("gelu") == Approx(3 * 30));
  CHECK(kinds.at("loss") == Approx(30));
  CHECK(kinds.at("optimizer") == Approx(50));
  CHECK(run.layer_kinds.front().name == "linear");
  CHECK(run.layer_kinds.back().name == "rest");
  CHECK(sum_ms(run.layer_kinds) == Approx(run.step_time.median_ms));
  CHECK(sum_ms(run.layer_parts) == Approx(run.step_time.median_ms));
  CHECK(parts.at("embedding") == Approx(2 * 30));
  CHECK(parts.at("mlp") > parts.at("head"));
  CHECK(parts.at("head") == Approx(2 * 30));
  CHECK(parts.count("layers") == 0);
  CHECK(parts.at("rest") == Approx(kinds.at("rest")).margin(1e-6));
  double layers_us = 0;
  for (const auto& [name, us] : kinds) layers_us += name == "loss" || name == "optimizer" || name == "rest" ? 0 : us;
  CHECK(parts.at("attention") + parts.at("mlp") + parts.at("embedding") + parts.at("head") == Approx(layers_us));
  check_kinds_add_up(make_plan(asked), price_by_profile(make_plan(asked), profile));
}

TEST_CASE("kinds of layers of a pipeline are a mean over its GPUs, what it transfers is beside them",
          "[times_by_kind]") {
  const RunSpec asked = tiny_transformer("--gpus 2 --batch 8 --microbatches 4 --schedule 1f1b", 2);
  const CostProfile profile = profile_of(asked, 2);
  const RunResult run = predict(asked, &profile);
  const std::map<std::string, double> kinds = us_by_name(run.layer_kinds);
  CHECK(kinds.at("linear") == Approx(4 * 2 * 4 * 30 / 2.0));
  CHECK(kinds.at("loss") == Approx(4 * 30 / 2.0));
  CHECK(kinds.at("optimizer") == Approx(50));
  CHECK(run.layer_kinds.back() == NamedTime{"transfers", run.layer_kinds.back().ms, true});
  CHECK(kinds.at("transfers") == Approx(4 * 2 * 5 / 2.0));
  CHECK(kinds.at("rest") > 0);
  CHECK(sum_ms(run.layer_kinds) == Approx(run.step_time.median_ms));
  check_kinds_add_up(make_plan(asked), price_by_profile(make_plan(asked), profile));
}

TEST_CASE("an mlp has one kind and one part, synthetic costs and slow hosts have none", "[times_by_kind]") {
  const CostProfile profile = tiny_profile();
  const RunSpec asked = spec("--gpus 2 --depth 4 --dim 64 --batch 64 --microbatches 2 --schedule gpipe");
  const RunResult run = predict(asked, &profile);
  CHECK(us_by_name(run.layer_kinds).at("linear_relu") == Approx(us_by_name(run.layer_parts).at("layers")));
  CHECK(sum_ms(run.layer_kinds) == Approx(run.step_time.median_ms));
  const Plan plan = make_plan(asked);
  check_kinds_add_up(plan, price_by_profile(plan, profile));
  CHECK(price_by_profile(plan, profile, HostSpeed::slow).kinds_ns.empty());
  CHECK(predict(spec("--gpus 2 --depth 4 --tf 1 --tb 2"), nullptr).layer_kinds.empty());
}

TEST_CASE("at the power limit products and attention take longer, what waits for the memory does not",
          "[times_by_kind]") {
  const RunSpec asked = tiny_transformer("--strategy single --gpus 1 --batch 2", 1);
  const Plan plan = make_plan(asked);
  PricedWork priced = price_by_profile(plan, profile_of(asked, 2));
  priced.limited.resize(priced.costs.size());
  for (const KindTime& time : priced.kinds_ns) {
    if (time.kind && time.kind->scaling != LayerScaling::row_wise)
      priced.limited[time.work].device_ns += time.device_ns;
  }
  const PricedWork full = priced;
  slow_down_layers(priced, 1.25);
  check_kinds_add_up(plan, priced);
  for (std::size_t k = 0; k < priced.kinds_ns.size(); ++k) {
    const KindTime &now = priced.kinds_ns[k], &before = full.kinds_ns[k];
    const bool slower = now.name.starts_with("linear") || now.name == "scaled_dot_product";
    CHECK(now.device_ns == Approx(before.device_ns * (slower ? 1.25 : 1)));
  }
}

}  // namespace pdl
