#include "calibrate/probe/layer_passes.hpp"

#include <set>

#include "tests/support/catch.hpp"

namespace pdl {
namespace {

/// As they are filled in for a GPU where nothing is asked for.
ProbeOptions usual_options() {
  ProbeOptions options;
  options.gpus = 1;
  options.dims = {1024, 2048, 4096, 8192};
  options.tensor_core_dims = {1024, 4096, 8192};
  options.rows = {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
  options.least_pipeline_rows = 32;
  options.dtypes.assign(kAllDtypes.begin(), kAllDtypes.end());
  options.optimizers = {"sgd", "adam"};
  options.random_shapes = 24;
  return options;
}

constexpr std::int64_t kMemoryOfH200 = 150109880320;

const LayerPass& named(const std::vector<LayerPass>& passes, const std::string& name) {
  for (const LayerPass& pass : passes) {
    if (pass.name == name) return pass;
  }
  FAIL("no pass " << name);
  throw;
}

/// Of all optimizers, each number once, in millions.
std::set<std::int64_t> sizes_of_optimizers(const LayerPass& pass) {
  std::set<std::int64_t> sizes;
  for (const OptimizerShape& shape : pass.optimizers) sizes.insert(parameters(shape) / 1'000'000);
  return sizes;
}

TEST_CASE("the passes of a GPU: what is in them, and about how long they take", "[layer_passes]") {
  const std::vector<LayerPass> passes = layer_passes(usual_options(), nullptr, kMemoryOfH200);
  std::string names;
  double seconds = 0;
  for (const LayerPass& pass : passes) {
    names += pass.name + "\n";
    seconds += pass.share;
  }
  CHECK(names ==
        "compute fp32 1024\ncompute fp32 2048\ncompute fp32 4096\ncompute fp32 8192\ncompute fp32 between "
        "widths\nsustained fp32\n"
        "compute tf32 1024\ncompute tf32 4096\ncompute tf32 8192\ncompute tf32 between widths\nsustained tf32\n"
        "compute amp-fp16 1024\ncompute amp-fp16 4096\ncompute amp-fp16 8192\ncompute amp-fp16 between "
        "widths\nsustained amp-fp16\n"
        "compute amp-bf16 1024\ncompute amp-bf16 4096\ncompute amp-bf16 8192\ncompute amp-bf16 between "
        "widths\nsustained amp-bf16\n"
        "compute fp32 row-wise\ncompute amp-fp16 row-wise\ncompute amp-bf16 row-wise\n"
        "compute optimizers\ncompute buckets\n");
  CHECK(seconds < 180);  // of 200 s in all: transfers, pauses and the like are the rest
  CHECK(named(passes, "compute fp32 between widths").layers.size() == 24);
  CHECK(named(passes, "compute tf32 between widths").layers.size() == 16);

  const LayerPass& sustained = named(passes, "sustained tf32");
  CHECK(sustained.layers.size() == 2 * 2);  // 4096 and 8192, 1024 and 4096 rows
  CHECK(sustained.sustained_seconds > 0);
  CHECK_FALSE(sustained.rested);
  CHECK(named(passes, "compute tf32 4096").rested);
  CHECK_FALSE(named(passes, "compute fp32 4096").rested);

  const LayerPass& largest = named(passes, "compute amp-bf16 8192");
  CHECK(largest.layers.size() == 10);
  CHECK_FALSE(largest.layers.front().pipeline);
  CHECK((largest.losses.back() == LossShape{"autograd", Dtype::amp_bf16, 8192, 8192}));
  const LayerPass& fp32 = named(passes, "compute fp32 1024");
  CHECK_FALSE(fp32.layers[1].pipeline);  // 16 rows: in the one-thread programs alone
  CHECK(fp32.layers[2].pipeline);

  // 1, 4 layers of 1024, 2048, 4096, 8192; 8 and 20 of 8192. Each by sgd and adam of two programs, and unscaled.
  const LayerPass& optimizers = named(passes, "compute optimizers");
  CHECK(sizes_of_optimizers(optimizers) == std::set<std::int64_t>{1, 4, 16, 67, 268, 536, 1342});
  CHECK(optimizers.optimizers.size() == 10 * 5);
}

TEST_CASE("optimizers of fewer layers where the memory is less, which is said", "[layer_passes]") {
  ProbeOptions options = usual_options();
  std::vector<std::string> notes;
  options.note = [&](const std::string& note) { notes.push_back(note); };
  const auto sizes = [&](std::int64_t memory_bytes) {
    return sizes_of_optimizers(named(layer_passes(options, nullptr, memory_bytes), "compute optimizers"));
  };
  CHECK(sizes(24LL << 30) == std::set<std::int64_t>{1, 4, 16, 67, 268, 536, 604});  // 9 layers
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] == "memory for an optimizer of 9 layers of width 8192, not of 20: its curve ends there");
  CHECK(sizes(8LL << 30) == std::set<std::int64_t>{1, 4, 16, 67});
}

TEST_CASE("a plan's passes: only what the others do not measure", "[layer_passes]") {
  ProbeOptions options = usual_options();
  options.dtypes = {Dtype::fp32};
  const Layer known = linear_relu(4096, 4096), unknown = linear_relu(5120, 5120);
  const LayerKind* norm = find_layer_kind("layer_norm");
  REQUIRE(norm);
  PlanOfProbe plan;
  plan.shapes.layers = {{known, 512, Dtype::fp32, true, false},
                        {known, 500, Dtype::fp32, true, false},
                        {unknown, 512, Dtype::fp32, true, true},
                        {layer_of_width(*norm, 5120), 512, Dtype::fp32, true, false}};
  plan.shapes.losses = {{"pipeline", Dtype::fp32, 512, 4096}, {"pipeline", Dtype::fp32, 512, 5120}};
  plan.shapes.optimizers = {{"pipeline", "sgd", {known}}, {"pipeline", "sgd", {known, known}}};
  std::vector<LayerPass> passes = layer_passes(options, &plan, kMemoryOfH200);
  REQUIRE(passes.size() == 4 + 1 + 1 + 1 + 2 + 3);  // widths, between them, sustained, row-wise, optimizers and buckets
  passes.erase(passes.begin(), passes.end() - 3);
  CHECK(passes[0].name == "plan: fp32");
  CHECK((passes[0].layers ==
         std::vector<LayerShape>{{known, 500, Dtype::fp32, true, false}, {unknown, 512, Dtype::fp32, true, true}}));
  CHECK((passes[0].losses == std::vector<LossShape>{{"pipeline", Dtype::fp32, 512, 5120}}));
  CHECK(passes[1].name == "plan: fp32 row-wise");
  CHECK(passes[1].layers.size() == 1);
  CHECK(passes[2].name == "plan: optimizers");
  CHECK((passes[2].optimizers == std::vector<OptimizerShape>{{"pipeline", "sgd", {known, known}}}));

  const Samples samples;
  options.beside = &samples;
  CHECK(layer_passes(options, &plan, kMemoryOfH200).front().name == "plan: fp32");
  CHECK(layer_passes(options, &plan, 1 << 20).size() == 2);  // no memory for an optimizer
}

}  // namespace
}  // namespace pdl
