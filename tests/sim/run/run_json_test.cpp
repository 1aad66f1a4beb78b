#include "sim/run/run_json.hpp"

#include <fstream>

#include "sim/io/error.hpp"
#include "sim/predict/predict.hpp"
#include "sim/run/metrics.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_transformer.hpp"

using namespace pdl;

namespace {

RunResult measured_run() {
  RunResult run =
      drawn_run(2, {{0, "aabb....BBBAAAo"}, {0, "..>>..........."}, {1, "...aabbBBBAAA.o"}, {1, "..........<<..."}});
  run.measured = true;
  run.step_time = {15.1, 15.05, 15.25, 30};
  run.peak_memory_bytes = {1000, 1 << 30};
  run.warnings = {"clocks were not \"locked\""};
  run.environment = {{"card", "Tiny GPU"}, {"count", 2}, {"date", "2026-01-02"}};
  run.extra = {{"losses", {0.5, 0.25}}};
  run.steps = {{512.25, 0.5, true}, {15.1, std::nullopt, false}, {15.25, 0.25, false}};
  run.timeline.spans[0].end_ns = 1'999'999;
  return run;
}

void check_equal(const RunResult& a, const RunResult& b) {
  CHECK(to_json(a) == to_json(b));
  CHECK(describe(a.spec) == describe(b.spec));
  CHECK(a.timeline.spans == b.timeline.spans);
  CHECK(a.timeline.step_ns == b.timeline.step_ns);
  CHECK(a.timeline.workers == b.timeline.workers);
  CHECK(a.timeline.stages == b.timeline.stages);
  CHECK(a.step_time.median_ms == b.step_time.median_ms);
  CHECK(a.step_time.p25_ms == b.step_time.p25_ms);
  CHECK(a.step_time.p75_ms == b.step_time.p75_ms);
  CHECK(a.step_time.n == b.step_time.n);
  CHECK(a.transfer_bytes == b.transfer_bytes);
  CHECK(a.peak_memory_bytes == b.peak_memory_bytes);
  CHECK(a.microbatch_rows == b.microbatch_rows);
  CHECK(a.warnings == b.warnings);
  CHECK(a.environment == b.environment);
  CHECK(a.extra == b.extra);
  REQUIRE(a.steps.size() == b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    CHECK(a.steps[i].step_time_ms == b.steps[i].step_time_ms);
    CHECK(a.steps[i].loss == b.steps[i].loss);
    CHECK(a.steps[i].warmup == b.steps[i].warmup);
  }
  CHECK(a.measured == b.measured);
}

std::string message_of(const nlohmann::json& json) {
  try {
    run_from_json(json, "a.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

/// The message when the value at a JSON pointer is replaced.
std::string message_with(const char* pointer, const nlohmann::json& value) {
  nlohmann::json json = to_json(measured_run());
  json[nlohmann::json::json_pointer(pointer)] = value;
  return message_of(json);
}

std::string message_without(const std::string& key) {
  nlohmann::json json = to_json(measured_run());
  json.erase(key);
  return message_of(json);
}

}  // namespace

TEST_CASE("a run comes back from its file exactly") {
  const TemporaryFolder folder;
  const RunResult run = measured_run();
  write_run(run, folder / "run.json");
  check_equal(run, read_run(folder / "run.json"));
  write_run(read_run(folder / "run.json"), folder / "again.json");
  CHECK(read_text(folder / "run.json") == read_text(folder / "again.json"));
  check_golden("run.json", read_text(folder / "run.json"));
}

TEST_CASE("predicted runs of every schedule come back exactly") {
  const TemporaryFolder folder;
  for (const char* flags : {"--schedule gpipe", "--schedule 1f1b", "--schedule naive --workers one", "--strategy mp",
                            "--schedule 1f1b --p2p rendezvous"}) {
    const RunResult run = predict(
        spec("--gpus 3 --depth 7 --microbatches 4 --tf 0.1 --tb 1.7e-3 --tcomm 0.0333333 " + std::string(flags)),
        nullptr);
    write_run(run, folder / "run.json");
    check_equal(run, read_run(folder / "run.json"));
  }
}

TEST_CASE("the file is what to_json gives") {
  const TemporaryFolder folder;
  write_run(measured_run(), folder / "run.json");
  CHECK(nlohmann::ordered_json::parse(read_text(folder / "run.json")) == to_json(measured_run()));
}

TEST_CASE("what the model gets done, and the times of its kinds of layers, come back") {
  RunResult run = measured_run();
  run.measured = false;
  run.steps.clear();
  run.spec.model = tiny_transformer("--gpus 1 --strategy single", 0).model;
  run.spec.model_name = "gpt.json";
  run.environment = {{"profile", {{"card", "NVIDIA H200"}}}};
  run.layer_kinds = {{"linear", 9.5}, {"rest", 5.6}, {"collectives", 4, true}};
  run.layer_parts = {{"mlp", 9.5}, {"rest", 5.6}};
  nlohmann::json json = to_json(run);
  CHECK(json["model"]["flops_per_step"] == 4 * 800 * 4 * 6);
  CHECK(json["mfu"] == compute_metrics(run).mfu.value());
  CHECK(json["throughput_tokens_per_s"] == Approx(4 * 4 / 0.0151));
  CHECK(json["layer_kinds"][0] == nlohmann::json{{"name", "linear"}, {"ms", 9.5}, {"share", 9.5 / 15.1}});
  CHECK(json["layer_kinds"][2]["overlaps"] == true);
  const RunResult back = run_from_json(json, "a.json");
  CHECK(back.layer_kinds == run.layer_kinds);
  CHECK(back.layer_parts == run.layer_parts);
  CHECK(nlohmann::json(to_json(back)) == json);
  CHECK(nlohmann::json::parse(run_text(run)) == json);
  json["layer_kinds"][1]["ms"] = -1;
  CHECK_THAT(message_of(json), ContainsSubstring("a.json: layer_kinds[1].ms: found -1"));
  nlohmann::json measured = to_json(measured_run());
  CHECK_FALSE(measured.contains("mfu"));
  CHECK_FALSE(measured.contains("throughput_tokens_per_s"));
  measured["layer_kinds"] = json["layer_kinds"];  // which it does not know
  CHECK(run_from_json(measured, "b.json").layer_kinds.empty());
}

TEST_CASE("keys of the contract") {
  const nlohmann::json json = to_json(measured_run());
  CHECK(json["step_time_ms"] == nlohmann::json{{"median", 15.1}, {"p25", 15.05}, {"p75", 15.25}, {"n", 30}});
  CHECK(json["steps"] ==
        nlohmann::json::parse(R"([{"step_time_ms": 512.25, "loss": 0.5, "warmup": true}, {"step_time_ms": 15.1}, )"
                              R"({"step_time_ms": 15.25, "loss": 0.25}])"));
  CHECK(json["model"]["parameters"] == 40);
  CHECK(json["transfers"]["count"] == 2);
  CHECK(json["transfers"]["bytes"] == 64);
  CHECK(json["collectives"] == nlohmann::json{{"count", 0}, {"bytes", 0}});
  CHECK(json["gpus"][0]["ops"] == nlohmann::json{"F0", "F1", "B1", "B0"});
  CHECK(json["gpus"][1]["peak_memory_bytes"] == 1 << 30);
  CHECK(json["spans"][2]["name"] == "B1");
  CHECK(json["spans"][5]["name"] == "send F0");
  CHECK(json["spans"][0]["end_us"] == 1999.999);
  CHECK(json["bubble_fraction"].is_number());
  CHECK(json["throughput_samples_per_s"].is_number());
}

TEST_CASE("a model file need not be there when its run is read") {
  RunResult run = measured_run();
  run.spec.model_name = "gone/model.json";
  run.spec.model.layers = {linear_relu(4, 8), linear_relu(8, 4)};
  run.spec.depth = 2;
  const nlohmann::json json = to_json(run);
  const RunResult back = run_from_json(json, "a.json");
  CHECK(back.spec.model_name == "gone/model.json");
  CHECK(parameters(back.spec.model) == 4 * 8 + 8 + 8 * 4 + 4);
  CHECK(nlohmann::json(to_json(back)) == json);
}

TEST_CASE("the layers in a run are refused as those of a model file are") {
  RunResult run = measured_run();
  run.spec.model_name = "gone/model.json";
  run.spec.model.layers = {linear_relu(4, 8), linear_relu(8, 4)};
  run.spec.depth = 2;
  const nlohmann::json good = to_json(run);
  const auto refused = [&](const char* at, const nlohmann::json& value) {
    nlohmann::json bad = good;
    bad[nlohmann::json::json_pointer(at)] = value;
    return message_of(bad);
  };
  CHECK(refused("/model/layers/1/in", 7) ==
        "a.json: model.layers[1].in: found 7, expected 8, the width that the layer before gives");
  CHECK_THAT(
      refused("/model/layers/1/kind", "conv2d"),
      ContainsSubstring("a.json: model.layers[1].kind: found \"conv2d\", expected a kind of layer: linear_relu"));
  CHECK_THAT(refused("/model/layers/0/bias", true),
             ContainsSubstring("a.json: model.layers[0]: found an unknown key \"bias\""));
  CHECK_THAT(refused("/model/layers/0", {{"in", 4}, {"out", 8}}),
             ContainsSubstring("a.json: model.layers[0]: found no key \"kind\""));
  CHECK_THAT(refused("/model/layers/0/out", 10'000'001),
             ContainsSubstring("a.json: model.layers[0].out: found 10000001"));
  CHECK_THAT(refused("/model/layers", nlohmann::json::array()), ContainsSubstring("from 1 to 1000000 layers"));
  const nlohmann::json widest = {{"kind", "linear_relu"}, {"in", 10'000'000}, {"out", 10'000'000}};
  CHECK_THAT(refused("/model/layers", nlohmann::json::array_t(2501, widest)),
             ContainsSubstring("a.json: model.layers: found more than 2.5e17 parameters"));
}

TEST_CASE("the environment in a run is refused as that of a profile is") {
  CHECK(message_with("/environment/card", 3) == "a.json: environment.card: found 3, expected text in quotes");
  CHECK(message_with("/environment/device", 3) == "a.json: environment.device: found 3, expected text in quotes");
}

TEST_CASE("memory that is not known is null, not 0") {
  RunResult run = measured_run();
  run.peak_memory_bytes.clear();
  const nlohmann::json json = to_json(run);
  CHECK(json["gpus"][0]["peak_memory_bytes"].is_null());
  CHECK(run_from_json(json, "a.json").peak_memory_bytes.empty());
}

TEST_CASE("a file of the steps of several plans is said to be no run, and what to do") {
  CHECK_THAT(message_of({{"environment", {}}, {"cases", {{{"case", "gpipe"}}, {{"case", "1f1b"}}}}}),
             ContainsSubstring("a.json: found measured step times of 2 plans, PyTorch's") &&
                 ContainsSubstring("pdl-run --program pytorch"));
}

TEST_CASE("what is wrong in a run is named with its place") {
  CHECK(message_without("config") == "a.json: found no key \"config\", expected one");
  CHECK(message_without("spans") == "a.json: found no key \"spans\", expected one");
  CHECK(message_without("measured") == "a.json: found no key \"measured\", expected one");
  CHECK(message_of({1, 2}) == "a.json: found a list of 2, expected an object");
  CHECK(message_with("/config/gpus", 0) == "a.json: config.gpus: found 0, expected a whole number from 1 to 1000000");
  CHECK(message_with("/config/gups", 2) == "a.json: config.gups: found an unknown setting gups, expected gpus");
  CHECK(message_with("/config/depth", {1}) == "a.json: config.depth: found a list of 1, expected text or a number");
  CHECK(message_with("/measured", 1) == "a.json: measured: found 1, expected true or false");
  CHECK(message_with("/step_time_ms/median", "fast") ==
        "a.json: step_time_ms.median: found \"fast\", expected a number from 0 to 1e+13");
  CHECK(message_with("/step_time_ms/median", 0) == "a.json: step_time_ms.median: found 0, expected a time above 0");
  CHECK_THAT(message_with("/step_time_ms/p25", 15.2), ContainsSubstring("a.json: step_time_ms.p25: found 15.2"));
  CHECK(message_with("/stages/1/layer_count", 2) ==
        "a.json: stages[1].layer_count: found 2, expected a whole number from 1 to 1");
  CHECK(message_with("/stages/1/gpu", 2) == "a.json: stages[1].gpu: found 2, expected a whole number from 0 to 1");
  CHECK(message_with("/microbatch_rows", {2, 1}) ==
        "a.json: microbatch_rows: found 3 samples in all, expected 4, the batch");
  CHECK_THAT(message_with("/transfers/bytes", 65), ContainsSubstring("a.json: transfers.bytes: found 65"));
  CHECK_THAT(message_with("/transfers/count", 3), ContainsSubstring("a.json: transfers.count: found 3"));
  CHECK_THAT(message_with("/gpus/0/peak_memory_bytes", -1),
             ContainsSubstring("a.json: gpus[0].peak_memory_bytes: found -1"));
  CHECK_THAT(message_with("/gpus/0/peak_memory_bytes", nullptr), ContainsSubstring("of 1 GPUs only"));
  CHECK_THAT(message_with("/gpus/2", nlohmann::json::object()),
             ContainsSubstring("a.json: gpus: found 3 GPUs, expected 2"));
  CHECK_THAT(message_with("/spans/0/kind", "forwards"), ContainsSubstring("a.json: spans[0].kind: found \"forwards\""));
  CHECK_THAT(message_with("/spans/0/end_us", 15001.0), ContainsSubstring("a.json: spans[0].end_us: found 15001"));
  CHECK_THAT(message_with("/spans/1/start_us", nullptr), ContainsSubstring("a.json: spans[1].start_us: found null"));
  CHECK_THAT(message_with("/spans/1/worker", 2), ContainsSubstring("a.json: spans[1].worker: found 2"));
  CHECK_THAT(message_with("/spans", nlohmann::json::array()), ContainsSubstring("expected at least one span"));
  CHECK_THAT(message_with("/warnings", "none"), ContainsSubstring("a.json: warnings: found \"none\", expected a list"));
}

TEST_CASE("steps: of measured runs only, the warm-up first, and none in older runs") {
  CHECK(message_with("/steps/0/step_time_ms", 0) == "a.json: steps[0].step_time_ms: found 0, expected a time above 0");
  CHECK_THAT(message_with("/steps/1/step_time_ms", "fast"),
             ContainsSubstring("a.json: steps[1].step_time_ms: found \"fast\""));
  CHECK_THAT(message_with("/steps/1/loss", nullptr), ContainsSubstring("a.json: steps[1].loss: found null"));
  CHECK(message_with("/steps/2/warmup", true) ==
        "a.json: steps[2].warmup: found true, expected false: a step before it is not of the warm-up");
  CHECK_THAT(message_with("/steps/2/warmup", 1), ContainsSubstring("a.json: steps[2].warmup: found 1"));
  CHECK_THAT(message_with("/measured", false),
             ContainsSubstring("a.json: steps: found a list of 3, expected none: a predicted run"));
  CHECK(message_without("steps") == "accepted");
  CHECK_FALSE(to_json(drawn_run(1, {{0, "aA"}})).contains("steps"));
}

TEST_CASE("a measured run in two units is refused, and counts that cannot be") {
  for (const double factor : {1000., .001}) {
    nlohmann::json json = to_json(measured_run());
    for (auto& [key, value] : json["step_time_ms"].items()) {
      if (key != "n") value = factor * value.get<double>();
    }
    CHECK_THAT(message_of(json), ContainsSubstring("a.json: timeline_step_us: found ") &&
                                     ContainsSubstring("as step_time_ms.median has it (another unit?)"));
  }
  CHECK_THAT(message_with("/extra/skipped_steps", -7), ContainsSubstring("a.json: extra.skipped_steps: found -7"));
  CHECK_THAT(message_with("/extra/warmup_ms", {12, -1}), ContainsSubstring("a.json: extra.warmup_ms[1]: found -1"));
}

TEST_CASE("files that are no runs") {
  const TemporaryFolder folder;
  const auto message = [](const std::string& path) -> std::string {
    try {
      read_run(path);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  write_run(measured_run(), folder / "whole.json");
  const std::string whole = read_text(folder / "whole.json");
  CHECK(message(folder / "none.json") == folder / "none.json" + ": found no such file, expected a JSON file");
  CHECK_THAT(message(folder.path()), ContainsSubstring("a folder"));
  CHECK_THAT(message(folder.write("empty.json", "")), ContainsSubstring("empty.json"));
  for (const std::size_t length : {std::size_t{1}, std::size_t{40}, whole.size() / 2, whole.size() - 2}) {
    CHECK_THAT(message(folder.write("cut.json", whole.substr(0, length))), ContainsSubstring("cut.json"));
  }
  CHECK_THAT(message(folder.write("twice.json", "{\"config\": 1, \"config\": 2}")), ContainsSubstring("config"));
}

TEST_CASE("a run that cannot be written leaves nothing behind") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(write_run(measured_run(), folder / "no/such/folder/run.json"), InputError);
  CHECK_THROWS_AS(write_run(measured_run(), folder.path()), InputError);
  folder.write("run.json", "old");
  RunResult broken = measured_run();
  broken.timeline.spans.clear();
  CHECK_THROWS(write_run(broken, folder / "run.json"));
  CHECK(read_text(folder / "run.json") == "old");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

namespace {

RunResult with_error_bar() {
  RunResult run = predict(spec("--gpus 2 --depth 2 --microbatches 2 --tf 1 --tb 2"), nullptr);
  run.step_time.median_ms = 40;
  run.error_bar = ErrorBar{1.1, 0.25, {{"a, 7 rows", 0.25, 3.5, false}, {"b", 0.7, 0.3, true}}};
  run.probe_command = "pdl-calibrate --dim 4";
  return run;
}

}  // namespace

TEST_CASE("the error bar of a prediction comes back from its file, to the byte") {
  const TemporaryFolder folder;
  const RunResult run = with_error_bar();
  write_run(run, folder / "run.json");
  const RunResult read = read_run(folder / "run.json");
  CHECK(read.error_bar == run.error_bar);
  CHECK(read.probe_command == run.probe_command);
  write_run(read, folder / "again.json");
  CHECK(read_text(folder / "run.json") == read_text(folder / "again.json"));
  const nlohmann::json json = to_json(run);
  CHECK(json["step_time_ms"]["median"] == 40);
  CHECK(json["step_time_ms"]["half_width_90"].get<double>() == Approx(0.44));
  CHECK(json["uncertainty"] == nlohmann::json::parse(R"({"half_width_90_percent": 1.1, "probed": false,
      "unprobed_share": 0.25, "command": "pdl-calibrate --dim 4", "carried_by": [
        {"what": "a, 7 rows", "share": 0.25, "half_width_90_percent": 3.5, "probed": false},
        {"what": "b", "share": 0.7, "half_width_90_percent": 0.3, "probed": true}]})"));
}

TEST_CASE("a prediction whose errors are not known has no error bar in its file") {
  RunResult run = with_error_bar();
  run.error_bar.reset();
  run.probe_command.clear();
  const nlohmann::json json = to_json(run);
  CHECK_FALSE(json.contains("uncertainty"));
  CHECK(json["step_time_ms"] == nlohmann::json{{"median", 40}});
  CHECK_FALSE(run_from_json(json, "a.json").error_bar);
  CHECK_FALSE(half_width_ms(run));
  CHECK_FALSE(lies_inside(run, measured_run()));
}

TEST_CASE("a probed prediction has no command") {
  RunResult run = with_error_bar();
  run.error_bar->unprobed_share = 0.004;
  run.probe_command.clear();
  const nlohmann::json json = to_json(run);
  CHECK(json["uncertainty"]["probed"] == true);
  CHECK_FALSE(json["uncertainty"].contains("command"));
  CHECK(run_from_json(json, "a.json").probe_command.empty());
}

TEST_CASE("an error bar that cannot be is refused") {
  nlohmann::json json = to_json(with_error_bar());
  json["uncertainty"]["unprobed_share"] = 1.5;
  CHECK_THAT(message_of(json), ContainsSubstring("a.json: uncertainty.unprobed_share: found 1.5"));
  json = to_json(with_error_bar());
  json["uncertainty"]["carried_by"][1].erase("what");
  CHECK_THAT(message_of(json), ContainsSubstring("a.json: uncertainty.carried_by[1]"));
  json = to_json(measured_run());
  json["uncertainty"] = to_json(with_error_bar())["uncertainty"];
  CHECK_THAT(message_of(json), ContainsSubstring("expected none: a measured run has no error bar of a prediction"));
}

TEST_CASE("a measured median on the edge of the bar lies inside") {
  RunResult predicted = with_error_bar(), measured = measured_run();
  predicted.error_bar->half_width_percent = 2.5;  // 40 +- 1 ms
  const auto inside = [&](double median_ms) {
    measured.step_time.median_ms = median_ms;
    return lies_inside(predicted, measured).value();
  };
  CHECK(inside(41));
  CHECK(inside(39));
  CHECK_FALSE(inside(41.01));
  CHECK_FALSE(inside(38.99));
}

TEST_CASE("a measured run has no error bar, though it was made from a prediction that has one") {
  RunResult run = with_error_bar();
  run.measured = true;
  CHECK_FALSE(to_json(run).contains("uncertainty"));
  CHECK_FALSE(to_json(run)["step_time_ms"].contains("half_width_90"));
  CHECK_FALSE(half_width_ms(run));
}
