#include "calibrate/probe/probe.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "calibrate/fit/fit.hpp"
#include "calibrate/probe/layer_probe.hpp"
#include "runtime/measure/environment.hpp"
#include "sim/io/error.hpp"
#include "sim/model/layer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process.hpp"

namespace pdl {
namespace {

/// A whole calibration of two workers on CPU, as small as one can be.
const Samples& small_samples() {
  static const Samples samples = [] {
    ProbeOptions options;
    options.device = "cpu";
    options.gpus = 2;
    options.dims = {16};
    options.rows = {2};
    options.dtypes = {Dtype::fp32, Dtype::amp_bf16};
    options.plan = {
        {"strategy", "mp", "--strategy"}, {"depth", "2", "--depth"}, {"dim", "24", "--dim"}, {"batch", "4", "--batch"}};
    return probe_host(options);
  }();
  return samples;
}

std::int64_t count(const std::string& start) {
  const std::vector<Sample>& samples = small_samples().samples;
  return std::count_if(samples.begin(), samples.end(),
                       [&](const Sample& sample) { return describe(sample.key).starts_with(start); });
}

/// One test: every test is a process of its own, and a calibration takes seconds.
TEST_CASE("a whole calibration of two workers on CPU", "[probe]") {
  // A CPU is probed for everything that data parallelism needs.
  CHECK(count("layer pipeline forward fp32 16x16, rows 2") == 1);
  CHECK(count("layer autograd forward fp32 16x16, rows 2") == 1);
  CHECK(count("layer autograd backward fp32 accumulate without input gradient 16x16, rows 2") == 1);
  CHECK(count("collective broadcast copy of 2") == 15);  // 1 KiB to 16 MiB
  CHECK(count("collective reduce copy of 2") == 15);
  for (const char* operation : {"copy_in", "copy_out", "join"}) CHECK(count(std::string("bucket ") + operation) == 11);
  CHECK(count("optimizer autograd unscale, parameters 272") == 1);   // 16 x 16 + 16
  CHECK(count("optimizer autograd unscale, parameters 1088") == 1);  // four layers
  for (const char* optimizer : {"pipeline sgd", "autograd sgd", "pipeline adam", "autograd adam"}) {
    for (const char* parameters : {"272", "1088", "2176", "5440"})  // of 1, 4, 8 and 20 layers
      CHECK(count(std::string("optimizer ") + optimizer + ", parameters " + parameters) == 1);
  }
  CHECK(count("loss autograd fp32, elements 256") == 1);  // 16 rows, more than those of layers
  CHECK(count("loss pipeline fp32, elements 256") == 1);
  CHECK(count("host scaler_wait autograd") == 1);
  CHECK(count("host sleep_overrun autograd") == 1);
#if PDL_GLOO
  CHECK(count("collective all_reduce gloo of 2") == 15);
  CHECK(count("host reducer_hook autograd") == 1);
  CHECK(count("host reducer_prepare autograd") == 1);
  CHECK(count("host collective_issue autograd gloo 1 workers") == 1);
  for (const char* dtype : {"fp32", "amp-bf16"}) {
    const auto pauses = [&](const std::string& operation, const char* name) {
      return count("pause " + operation + " " + name + " autograd " + dtype);
    };
    for (const char* operation : {"forward", "backward", "optimizer"}) {
      CHECK(pauses(operation, "again") == 1);
      CHECK(pauses(operation, "after_sleep") >= 5);  // 6 pauses, of which two may be the same to two digits
      CHECK(pauses(operation, "later") >= 6);        // and none
    }
    CHECK(pauses("forward", "after_wait") == 0);  // a CPU is its own host
  }
  CHECK(count("host collective_issue autograd gloo") == 2);  // also that of one rank
#endif

  // How long each part took is in the environment.
  const nlohmann::json& seconds = small_samples().environment.at("probe_seconds");
  const auto kinds = layer_kinds();
  const auto is_row_wise = [](const LayerKind* kind) { return kind->scaling == LayerScaling::row_wise; };
  CHECK(seconds.size() == (std::any_of(kinds.begin(), kinds.end(), is_row_wise) ? 14 : 12));  // two data types
  for (const char* part :
       {"host", "host of data parallelism", "pauses", "transfers", "collectives", "compute fp32 16",
        "compute amp-bf16 16", "compute optimizers", "compute buckets", "overlap", "plan: fp32", "plan: optimizers"}) {
    CHECK(seconds.contains(part));
  }

  // Every kind of layer is probed, in the operations that it has.
  for (const LayerKind* kind : kinds) {
    if (!is_row_wise(kind) || kind->takes_tokens || kind->sizes.size() > 2)
      continue;  // those are probed for transformers
    const Layer layer = layer_of_width(*kind, 16);
    const std::string shape = std::string(kind->name) + (kind->sizes.size() > 1 ? " 16x10" : " 16") + ", rows 2";
    INFO(shape);
    const bool trained = has_parameters(layer);
    CHECK(count("layer pipeline forward fp32 " + shape) == 1);
    CHECK(count("layer pipeline backward_input fp32 " + shape) == 1);
    CHECK(count("layer pipeline backward fp32 " + shape) == 1);
    CHECK(count("layer pipeline backward_weight fp32 accumulate " + shape) == (trained ? 1 : 0));
    for (const std::string dtype : {"fp32 ", "amp-bf16 "}) {
      CHECK(count("layer autograd forward " + dtype + shape) == 1);
      CHECK(count("layer autograd backward " + dtype + shape) == 1);
      CHECK(count("layer autograd backward " + dtype + "accumulate " + shape) == (trained ? 1 : 0));
    }
    CHECK(count("layer autograd backward fp32 without input gradient " + shape) == (trained ? 1 : 0));
  }

  // Autocast is probed in the programs that have it, fp32 alone has the optimizers and buckets.
  CHECK(count("layer autograd forward amp-bf16 16x16, rows 2") == 1);
  CHECK(count("layer autograd backward amp-bf16 16x16") == 1);
  CHECK(count("layer autograd backward amp-bf16 accumulate without input gradient 16x16") == 1);
  CHECK(count("loss autograd amp-bf16, elements 32") == 1);
  CHECK(count("layer pipeline forward amp-bf16") == 0);

  // The plan's own shapes: a batch of 4 on each GPU in turn, by one thread.
  CHECK(count("layer autograd forward fp32 24x24, rows 4") == 1);
  CHECK(count("layer pipeline forward fp32 24x24") == 0);
  CHECK(count("loss autograd fp32, elements 96") == 1);
  CHECK(count("optimizer autograd sgd, parameters 600") == 1);  // 24 x 24 + 24

  // What was probed can be fitted, and a sleep is no shorter than asked for.
  const CostProfile profile = fit_profile(small_samples());
  CHECK(profile.of(Probe::bucket).size() == 3);
  for (const HostTime& host : profile.host) {
    if (host.key.name == "sleep_overrun") CHECK(host.time_ns.median_ns > 0);
  }
}

std::vector<std::string> described(const std::vector<Sample>& samples) {
  std::vector<std::string> keys;
  for (const Sample& sample : samples) keys.push_back(describe(sample.key));
  return keys;
}

/// Samples of this host that a plan's shapes can be added to.
void write_samples_of_this_host(const std::string& path) {
  RuntimeOptions runtime;
  runtime.device = DeviceKind::cpu;
  Samples samples;
  samples.environment = describe_environment(runtime, 2, "");
  Sample sample;
  sample.key.probe = Probe::loss;
  sample.key.implementation = "pipeline";
  sample.key.dtype = Dtype::fp32;
  sample.key.size = 72;
  sample.unit = "us";
  sample.warmup = 1;
  sample.values = {1, 1, 1};
  samples.samples = {sample};
  save_samples(samples, path);
}

TEST_CASE("a plan beside samples: exactly what it needs and they have not", "[probe]") {
  const TemporaryFolder folder;
  write_samples_of_this_host(folder / "s.json");
  folder.write("m.json", R"({"layers": [{"kind": "linear_relu", "in": 16, "out": 24},
                                        {"kind": "linear_relu", "in": 24, "out": 24}]})");
  const std::string plan = "--device cpu --gpus 1 --plan-gpus 2 --model m.json --batch 6 --microbatches 2 ";
  const Process run = run_program("pdl-calibrate", "--from s.json " + plan + "--samples all.json --out p.json", folder);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const Samples all = load_samples(folder / "all.json");
  std::vector<std::string> expected = {"loss pipeline fp32, elements 72"};  // that of the file
  const auto layer = [&](const std::string& operation, const std::string& shape) {
    expected.push_back("layer pipeline " + operation + " " + shape + ", rows 3");
  };
  for (const std::string shape : {"16x24", "24x24"}) {
    const bool chain = shape == "24x24";
    layer("forward fp32", shape);
    layer("backward_input fp32", shape);
    layer("backward_input fp32 without input gradient", shape);
    for (const std::string accumulate : {"fp32", "fp32 accumulate"}) {
      layer("backward " + accumulate + " without input gradient in a stage of 1", shape);
      if (chain) layer("backward " + accumulate + " without input gradient in a stage of 4", shape);
      layer("backward " + accumulate + " in a stage of 1", shape);
      if (chain) layer("backward " + accumulate + " in a stage of 4", shape);
      layer("backward_weight " + accumulate, shape);
    }
  }
  expected.push_back("optimizer pipeline sgd, parameters 408");  // 16 x 24 + 24
  expected.push_back("optimizer pipeline sgd, parameters 600");  // 24 x 24 + 24
  CHECK(described(all.samples) == expected);
  CHECK(all.environment.at("count") == 2);
  REQUIRE(all.environment.at("added").size() == 1);
  CHECK(all.environment.at("added")[0].at("count") == 1);
  CHECK(read_text(folder / "all.json.partial") == "");  // gone

  // Nothing is left to measure.
  const Process again = run_program("pdl-calibrate", "--from all.json " + plan + "--out q.json", folder);
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.err, ContainsSubstring("nothing to measure: all.json has every shape of this plan"));
  CHECK(read_text(folder / "q.json") == read_text(folder / "p.json"));
}

TEST_CASE("words of a plan that cannot be: exit 2, the flag named, nothing written", "[probe]") {
  const TemporaryFolder folder;
  write_samples_of_this_host(folder / "s.json");
  Samples other = load_samples(folder / "s.json");
  other.environment["torch"] = "1.0.0";
  save_samples(other, folder / "other.json");
  folder.write("wrong.json", R"({"layers": [{"kind": "linear_relu", "in": 16, "out": 24},
                                            {"kind": "linear_relu", "in": 8, "out": 24}]})");
  for (const auto& [arguments, named] : std::vector<std::pair<std::string, std::string>>{
           {"--from other.json --dim 16", "other.json: environment.torch: found \"1.0.0\""},
           {"--from s.json --model wrong.json", "wrong.json"},
           {"--from s.json --model none.json", "none.json"},
           {"--from s.json --depth 2 --plan-gpus 4", "--plan-gpus: found 4 stages for 2 layers"},
           {"--from s.json --strategy ddp --schedule gpipe", "--schedule"},
           {"--from s.json --dim 16 --dims 16", "--dims: found it together with --from"},
           {"--plan-gpus 2", "--plan-gpus: found it without the words of a plan"},
           {"--dim 16 --plan-gpus 0", "--plan-gpus"},
           {"--dim 16 --dtypes fp32 --dtype amp-bf16", "--dtype: found amp-bf16 beside --dtypes fp32"},
           {"--dim 16 --optimizers sgd --optimizer adam", "--optimizer: found adam beside --optimizers sgd"},
           {"--dim 16 --dtype tf32", "tf32 on CPU"},
           {"--dim 16,32", "--dim"},
           {"--dim 16 --dim 16", "--dim"}}) {
    INFO(arguments);
    const Process run = run_program("pdl-calibrate", "--device cpu " + arguments + " --out p.json", folder);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, ContainsSubstring(named));
    CHECK(read_text(folder / "p.json") == "");
    CHECK(read_text(folder / "p.json.partial") == "");
  }
}

TEST_CASE("layers between the widths, and layers that are no chain, in all operations", "[probe]") {
  ProbeOptions options;
  options.device = "cpu";
  options.gpus = 1;
  options.dims = options.tensor_core_dims = {16};
  options.rows = {2};
  options.dtypes = {Dtype::fp32, Dtype::amp_bf16};
  options.random_shapes = 3;
  RuntimeOptions runtime;
  runtime.device = DeviceKind::cpu;
  const Pace pace = [] { return 1.0; };
  std::map<std::string, std::vector<std::int64_t>> operations;  // by part: of each layer, in their order
  for (const ProbePart& part : compute_parts(options, nullptr, runtime, pace)) {
    if (!part.name.ends_with("between widths")) continue;
    std::vector<std::int64_t>& counts = operations[part.name];
    const Collect collect{[&](const Sample& sample) {
                            if (sample.key.operation == "forward" &&
                                (sample.key.implementation == "pipeline" || is_amp(*sample.key.dtype)))
                              counts.push_back(0);
                            ++counts.back();
                          },
                          {}};
    part.run(collect, [](double, const std::string&) {});
  }
  // Of a chain 13 operations of the pipeline, else 9, and 5 of autograd. The third layer is not square.
  CHECK(operations["compute fp32 between widths"] == std::vector<std::int64_t>{18, 18, 14});
  CHECK(operations["compute amp-bf16 between widths"] == std::vector<std::int64_t>{5, 5});
}

TEST_CASE("data types that a CPU does not have, or twice: refused", "[probe]") {
  ProbeOptions options;
  options.device = "cpu";
  options.dtypes = {Dtype::tf32};
  CHECK_THROWS_WITH(probe_host(options), ContainsSubstring("tf32 on CPU"));
  options.dtypes = {Dtype::fp32, Dtype::fp32};
  CHECK_THROWS_WITH(probe_host(options), ContainsSubstring("fp32 twice"));
  const TemporaryFolder folder;
  const Process unknown = run_program("pdl-calibrate", "--device cpu --dtypes fp64 --out p.json", folder);
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, ContainsSubstring("--dtypes: found fp64, expected fp32, tf32, amp-fp16 or amp-bf16"));
  options.dtypes = {};
  options.transports = {"nccl"};
  CHECK_THROWS_WITH(probe_host(options), ContainsSubstring("copy or gloo"));
}

/// Parts that are measured in a moment; the rest takes the same on CPU whatever is asked.
const std::string kSmall = "--device cpu --gpus 2 --dims 16 --rows 2 --transports copy ";

TEST_CASE("a calibration that is killed goes on where it stopped", "[probe]") {
  const TemporaryFolder folder;
  const std::string arguments = kSmall + "--samples s.json --out p.json";
  const Process killed =
      run_script("\"$PDL_CALIBRATE\" " + arguments +
                     " & it=$!\n"
                     "until grep -qs '\"seconds\"' s.json.partial; do sleep .01; done; kill -9 $it; wait $it",
                 folder);
  CHECK(killed.exit_code == 137);
  const std::string partial = read_text(folder / "s.json.partial");
  CHECK_THAT(partial, ContainsSubstring("pdl-calibration-1"));
  CHECK(read_text(folder / "p.json") == "");

  const Process other = run_program("pdl-calibrate", arguments + " --resume --seed 1", folder);
  CHECK(other.exit_code == 2);
  CHECK_THAT(other.err, ContainsSubstring("s.json.partial:1: found seed 0"));

  const Process resumed = run_program("pdl-calibrate", arguments + " --resume", folder);
  INFO(resumed.err);
  CHECK(resumed.exit_code == 0);
  const Samples samples = load_samples(folder / "s.json");
  CHECK(samples.environment.at("resumed").size() == 1);
  const std::string first = partial.substr(partial.find("\"values\""),
                                           partial.find(']', partial.find("\"values\"")) - partial.find("\"values\""));
  CHECK(nlohmann::json(to_json(samples.samples.front())).dump().find(first) !=
        std::string::npos);                           // not measured again
  CHECK(read_text(folder / "s.json.partial") == "");  // gone
}

TEST_CASE("a calibration that is interrupted says how it goes on, and is not begun anew unasked", "[probe]") {
  const TemporaryFolder folder;
  const Process run =
      run_script("set -m; \"$PDL_CALIBRATE\" " + kSmall +
                     "--out p.json & it=$!\n"
                     "until grep -qs '\"seconds\"' p.json.partial; do sleep .01; done; kill -INT $it; wait $it",
                 folder);
  CHECK(run.exit_code == 130);
  CHECK_THAT(run.err,
             ContainsSubstring(
                 "pdl-calibrate: interrupted; what was measured is in p.json.partial: --resume goes on with it\n"));
  const std::string before = read_text(folder / "p.json.partial");
  const Process again = run_program("pdl-calibrate", kSmall + "--out p.json", folder);
  CHECK(again.exit_code == 2);
  CHECK_THAT(again.err, ContainsSubstring("--resume to go on with it"));
  CHECK(read_text(folder / "p.json.partial") == before);
}

TEST_CASE("a calibration that stands still ends by exit code 3 and says which probe", "[probe]") {
  const TemporaryFolder folder;
  // One operation of layers so wide takes longer than the limit.
  const Process run = run_program(
      "pdl-calibrate", "--device cpu --gpus 1 --dims 8192 --rows 2048 --transports copy --wait-limit 2 --out p.json",
      folder);
  INFO(run.err);
  CHECK(run.exit_code == 3);
  CHECK_THAT(run.err,
             ContainsSubstring(
                 "pdl-calibrate: nothing has moved for 2 s (--wait-limit):\n  probe compute fp32 8192\n  rank 0: "));
  CHECK_THAT(run.err, ContainsSubstring("what was measured is in p.json.partial: --resume goes on with it\n"));
  CHECK_THAT(read_text(folder / "p.json.partial"), ContainsSubstring("\"part\":\"host\""));
}

TEST_CASE("a place that takes no more ends a calibration by exit code 2, not a file cut off", "[probe]") {
  const TemporaryFolder folder;
  const Process full =
      run_script("ulimit -f 8; trap '' XFSZ; \"$PDL_CALIBRATE\" " + kSmall + "--samples s.json --out p.json", folder);
  INFO(full.err);
  CHECK(full.exit_code == 2);
  CHECK_THAT(full.err, ContainsSubstring("s.json.partial"));
  CHECK(read_text(folder / "s.json") == "");
}

}  // namespace
}  // namespace pdl
