#include "calibrate/probe/probe_shapes.hpp"

#include <algorithm>

#include "sim/io/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process.hpp"

namespace pdl {
namespace {

std::string drawing(const PlanShapes& shapes) {
  std::string text;
  for (const LayerShape& shape : shapes.layers) {
    text += to_text(shape.layer) + ", " + std::to_string(shape.rows) + " rows, " + to_string(shape.dtype) +
            (shape.pipeline ? ", pipeline" : "") + (shape.autograd ? ", autograd" : "") + "\n";
  }
  for (const LossShape& shape : shapes.losses) {
    text += "loss " + std::to_string(shape.rows) + " x " + std::to_string(shape.width) + ", " + to_string(shape.dtype) +
            ", " + shape.implementation + "\n";
  }
  for (const OptimizerShape& shape : shapes.optimizers) {
    text += shape.optimizer + " of " + std::to_string(shape.layers.size()) + " layers, " +
            std::to_string(parameters(shape)) + " parameters, " + shape.implementation + "\n";
  }
  return text;
}

PlanShapes shapes_of(const std::vector<SettingValue>& words) {
  return shapes_of_plan(make_plan(parse_run_spec(words)));
}

TEST_CASE("a pipeline's layers, loss and stages, each once", "[probe_shapes]") {
  CHECK(drawing(shapes_of({{"gpus", "2", "--gpus"},
                           {"depth", "4", "--depth"},
                           {"dim", "16", "--dim"},
                           {"batch", "8", "--batch"},
                           {"microbatches", "2", "--microbatches"},
                           {"schedule", "gpipe", "--schedule"}})) ==
        "linear_relu 16 x 16, 4 rows, fp32, pipeline\n"
        "loss 4 x 16, fp32, pipeline\n"
        "sgd of 2 layers, 544 parameters, pipeline\n");  // 2 * (16 * 16 + 16) of either stage
}

TEST_CASE("an update of a tied head has what it trains itself: the norm before it", "[probe_shapes]") {
  const PlanShapes shapes = shapes_of({{"model", "gpt", "--model"},
                                       {"layers", "1", "--layers"},
                                       {"hidden", "16", "--hidden"},
                                       {"heads", "2", "--heads"},
                                       {"sequence", "4", "--sequence"},
                                       {"vocabulary", "10", "--vocabulary"},
                                       {"batch", "2", "--batch"},
                                       {"strategy", "single", "--strategy"}});
  REQUIRE(shapes.optimizers.size() == 1);
  const OptimizerShape& shape = shapes.optimizers.front();
  // Embeddings 10 x 16 and 1024 x 16, a block 12 * 16 * 16 + 13 * 16, a norm 2 * 16: those of the model.
  CHECK(parameters(shape) == 160 + 16384 + 3280 + 32);
  CHECK(shape.layers.back().kind->name == "layer_norm");
}

TEST_CASE("mixed precision: autograd alone, with the unscaling of gradients", "[probe_shapes]") {
  CHECK(drawing(shapes_of({{"gpus", "2", "--gpus"},
                           {"strategy", "ddp", "--strategy"},
                           {"depth", "3", "--depth"},
                           {"dim", "16", "--dim"},
                           {"batch", "10", "--batch"},
                           {"optimizer", "adam", "--optimizer"},
                           {"dtype", "amp-fp16", "--dtype"}})) ==
        "linear_relu 16 x 16, 5 rows, amp-fp16, autograd\n"
        "loss 5 x 16, amp-fp16, autograd\n"
        "adam of 3 layers, 816 parameters, autograd\n"
        "unscale of 3 layers, 816 parameters, autograd\n");
}

TEST_CASE("layers of tensor cores at two clocks are not put together", "[probe_shapes]") {
  const auto check = [](const std::vector<std::pair<Probe, Dtype>>& there, Dtype dtype) {
    std::vector<Sample> samples;
    for (const auto& [probe, of] : there) {
      samples.emplace_back().key.probe = probe;
      samples.back().key.dtype = of;
      samples.back().key.layer = linear_relu(64, 64);
    }
    PlanShapes shapes;
    shapes.layers = {{linear_relu(16, 16), 4, dtype, true, false}};
    try {
      check_same_clock(shapes, samples, "old.json");
    } catch (const InputError& error) {
      return std::string(error.what()).substr(0, 34);
    }
    return std::string("fine");
  };
  CHECK(check({{Probe::layer, Dtype::tf32}}, Dtype::tf32) == "old.json: found layers in tf32 at ");
  CHECK(check({{Probe::layer, Dtype::tf32}, {Probe::sustained, Dtype::amp_bf16}}, Dtype::tf32) ==
        "old.json: found layers in tf32 at ");
  CHECK(check({{Probe::layer, Dtype::tf32}, {Probe::sustained, Dtype::tf32}}, Dtype::tf32) == "fine");
  CHECK(check({{Probe::layer, Dtype::fp32}}, Dtype::fp32) == "fine");
  CHECK(check({{Probe::layer, Dtype::fp32}}, Dtype::tf32) == "fine");  // nothing to mix with
}

TEST_CASE("every shape of a model file, and micro-batches that are not equal", "[probe_shapes]") {
  const TemporaryFolder folder;
  const std::string model = folder.write("m.json", R"({"layers": [{"kind": "linear_relu", "in": 16, "out": 64},
      {"kind": "layer_norm", "features": 64}, {"kind": "linear_relu", "in": 64, "out": 64},
      {"kind": "linear_relu", "in": 64, "out": 64}, {"kind": "linear_relu", "in": 64, "out": 8}]})");
  CHECK(drawing(shapes_of({{"gpus", "2", "--gpus"},
                           {"model", model, "--model"},
                           {"batch", "7", "--batch"},
                           {"microbatches", "2", "--microbatches"},
                           {"dtype", "tf32", "--dtype"},
                           {"schedule", "1f1b", "--schedule"}})) ==
        "linear_relu 16 x 64, 4 rows, tf32, pipeline\n"
        "layer_norm 64, 4 rows, fp32, pipeline\n"
        "linear_relu 64 x 64, 4 rows, tf32, pipeline\n"
        "linear_relu 16 x 64, 3 rows, tf32, pipeline\n"
        "layer_norm 64, 3 rows, fp32, pipeline\n"
        "linear_relu 64 x 64, 3 rows, tf32, pipeline\n"
        "linear_relu 64 x 8, 4 rows, tf32, pipeline\n"
        "linear_relu 64 x 8, 3 rows, tf32, pipeline\n"
        "loss 4 x 8, tf32, pipeline\n"
        "loss 3 x 8, tf32, pipeline\n"
        "sgd of 3 layers, 5376 parameters, pipeline\n"    // 16 * 64 + 64, 2 * 64, 64 * 64 + 64
        "sgd of 2 layers, 4680 parameters, pipeline\n");  // 64 * 64 + 64, 64 * 8 + 8
}

TEST_CASE("what samples have measured is left out", "[probe_shapes]") {
  const Layer layer = linear_relu(16, 16);
  PlanShapes shapes;
  shapes.layers = {{layer, 4, Dtype::fp32, true, true}, {layer, 8, Dtype::fp32, true, false}};
  shapes.losses = {{"pipeline", Dtype::fp32, 4, 16}, {"autograd", Dtype::fp32, 4, 16}};
  shapes.optimizers = {{"pipeline", "sgd", {layer}}, {"pipeline", "sgd", {layer, layer}}};
  std::vector<Sample> samples;
  const auto add = [&](Probe probe, const char* implementation, const char* operation, std::int64_t size) -> Sample& {
    Sample& sample = samples.emplace_back();
    sample.key.probe = probe;
    sample.key.implementation = implementation;
    sample.key.operation = operation;
    sample.key.dtype = Dtype::fp32;
    sample.key.size = size;
    return sample;
  };
  add(Probe::layer, "pipeline", "forward", 4).key.layer = layer;
  add(Probe::layer, "pipeline", "backward_input", 8).key.layer = layer;
  add(Probe::loss, "autograd", "", 64);
  add(Probe::optimizer, "pipeline", "", 544).key.optimizer = "sgd";
  remove_measured(shapes, samples);
  CHECK(drawing(shapes) ==
        "linear_relu 16 x 16, 4 rows, fp32, autograd\n"
        "linear_relu 16 x 16, 8 rows, fp32, pipeline\n"
        "loss 4 x 16, fp32, pipeline\n"
        "sgd of 1 layers, 272 parameters, pipeline\n");
}

TEST_CASE("layers between the widths of a grid: always the same, within their bounds", "[probe_shapes]") {
  const ShapeBounds bounds{1024, 8192, 32, 4096};
  const std::vector<LayerShape> shapes = random_layer_shapes(24, bounds, Dtype::fp32, 0);
  REQUIRE(shapes.size() == 24);
  CHECK(to_text(shapes[0].layer) + ", " + std::to_string(shapes[0].rows) == "linear_relu 3776 x 3776, 419");
  CHECK(to_text(shapes[2].layer) + ", " + std::to_string(shapes[2].rows) == "linear_relu 960 x 3200, 1840");
  CHECK((shapes == random_layer_shapes(24, bounds, Dtype::fp32, 0)));
  CHECK((shapes != random_layer_shapes(24, bounds, Dtype::fp32, 1)));
  std::int64_t square = 0, narrow = 0, wide = 0;
  for (const LayerShape& shape : shapes) {
    const std::int64_t in = input_numbers(shape.layer), out = output_numbers(shape.layer);
    INFO(to_text(shape.layer) << ", " << shape.rows << " rows");
    for (const std::int64_t width : {in, out}) CHECK((width >= 512 && width <= 12288 && width % 64 == 0));
    CHECK((shape.rows >= 32 && shape.rows <= 4096));
    CHECK(2.0 * static_cast<double>(shape.rows * in) * static_cast<double>(out) <= 4e11);
    square += in == out ? 1 : 0;
    narrow += in < 1024 ? 1 : 0;
    wide += in > 4096 ? 1 : 0;
  }
  CHECK(square == 16);
  CHECK(narrow >= 2);
  CHECK(wide >= 4);
}

TEST_CASE("layers between small widths are multiples of 8", "[probe_shapes]") {
  for (const LayerShape& shape : random_layer_shapes(30, {64, 512, 4, 64, 1e5}, Dtype::fp32, 0)) {
    const std::int64_t in = input_numbers(shape.layer), out = output_numbers(shape.layer);
    CHECK((in >= 32 && in <= 768 && in % 8 == 0));
    CHECK((shape.rows == 1 || 2 * shape.rows * in * out <= 100000));
  }
}

}  // namespace
}  // namespace pdl
