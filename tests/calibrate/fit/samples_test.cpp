#include "calibrate/fit/samples.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include "calibrate/fit/check_samples.hpp"
#include "sim/io/error.hpp"
#include "sim/io/json_text.hpp"
#include "tests/calibrate/fit/sample_builder.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pdl {
namespace {

Samples all_kinds() {
  SampleBuilder b;
  Sample& layer = b.layer(64, 16, {9, 5.5, 5.25});
  layer.issue_values = {9, 3, 3};
  layer.kernels = {{"gemm", 4.5, 128, 1, 1}, {"relu", 0.5, 2048, 8, 2}};
  layer.sm_clock_mhz = 1980;
  layer.power_w = 612.5;
  b.transfer(1024, {7, 5}, "us").key.bidirectional = true;
  b.add(SampleBuilder::all_reduce_key(8), {13e-6, 12e-6}, "s");
  MeasuredKey host;
  host.probe = Probe::host;
  host.name = "step_overhead";
  host.workers = 2;
  b.add(host, {20, 19}, "us");
  MeasuredKey memory;
  memory.probe = Probe::memory;
  memory.name = "workspace";
  b.add(memory, {8519680}, "bytes", 0);
  return b.samples;
}

nlohmann::json document() {
  return nlohmann::json::parse(json_text(to_json(all_kinds())));
}

std::string refusal(const std::function<void(nlohmann::json&)>& change) {
  nlohmann::json changed = document();
  change(changed);
  try {
    samples_from_json(changed, "s.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

std::string file_refusal(const std::string& path) {
  try {
    load_samples(path);
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

TEST_CASE("samples as a file", "[samples]") {
  const std::string text = json_text(to_json(all_kinds()));
  check_golden("samples.json", text);
  CHECK(json_text(to_json(samples_from_json(nlohmann::json::parse(text), "s.json"))) == text);
}

TEST_CASE("samples are written whole and read back, the warm-up stays in the file", "[samples]") {
  const TemporaryFolder folder;
  save_samples(all_kinds(), folder / "samples.json");
  const Samples read = load_samples(folder / "samples.json");
  CHECK(read.samples.size() == 5);
  CHECK(read.samples[0].warmup == 1);
  CHECK(read.samples[0].values == std::vector<double>{9, 5.5, 5.25});
}

TEST_CASE("a value that a file cannot hold is refused when written", "[samples]") {
  const TemporaryFolder folder;
  Samples samples = all_kinds();
  samples.samples[1].values[1] = std::nan("");
  CHECK_THROWS_WITH(save_samples(samples, folder / "samples.json"), ContainsSubstring("transfer copy 0 -> 1"));
  CHECK_FALSE(std::filesystem::exists(folder / "samples.json"));
}

TEST_CASE("a sample without unit, or with another, is refused", "[samples]") {
  CHECK_THAT(refusal([](auto& s) { s["samples"][1].erase("unit"); }),
             ContainsSubstring("s.json: samples[1]: found no key \"unit\""));
  CHECK_THAT(refusal([](auto& s) { s["samples"][1]["unit"] = "ticks"; }),
             ContainsSubstring("samples[1].unit") && ContainsSubstring("ns, us, ms or s"));
  CHECK_THAT(refusal([](auto& s) { s["samples"][1]["unit"] = ""; }), ContainsSubstring("samples[1].unit"));
  CHECK_THAT(refusal([](auto& s) { s["samples"][1]["unit"] = "bytes"; }), ContainsSubstring("samples[1].unit"));
  CHECK_THAT(refusal([](auto& s) { s["samples"][4]["unit"] = "us"; }), ContainsSubstring("samples[4].unit"));
  CHECK_THAT(refusal([](auto& s) { s["samples"][1]["unit"] = 3; }), ContainsSubstring("samples[1].unit"));
}

TEST_CASE("values that are no times are refused with their place", "[samples]") {
  const std::string at = "s.json: samples[0].values[2]";
  for (const nlohmann::json& value : std::vector<nlohmann::json>{
           -3, 0, 0.0, 1e300, nullptr, "5", true, nlohmann::json::array(), std::nan(""), HUGE_VAL, 1e-30}) {
    CHECK_THAT(refusal([&](auto& s) { s["samples"][0]["values"][2] = value; }), ContainsSubstring(at));
  }
  CHECK_THAT(refusal([](auto& s) { s["samples"][0]["issue_values"][1] = -1; }),
             ContainsSubstring("samples[0].issue_values[1]"));
  CHECK(refusal([](auto& s) { s["samples"][0]["issue_values"][1] = 0; }) == "not refused");
  CHECK_THAT(refusal([](auto& s) { s["samples"][0]["kernels"][1]["time"] = 0; }),
             ContainsSubstring("samples[0].kernels[1].time"));
  CHECK_THAT(refusal([](auto& s) { s["samples"][0]["kernels"][1]["count"] = 1e9; }),
             ContainsSubstring("kernels[1].count"));
  CHECK_THAT(refusal([](auto& s) { s["samples"][4]["values"][0] = 1.5; }), ContainsSubstring("whole number of bytes"));
  // Even as warm-up: it would say that the measurement is broken.
  CHECK_THAT(refusal([](auto& s) { s["samples"][0]["values"][0] = -1; }), ContainsSubstring("samples[0].values[0]"));
}

TEST_CASE("nothing left after the warm-up, or nothing at all", "[samples]") {
  CHECK_THAT(refusal([](auto& s) { s["samples"][0]["warmup"] = 3; }), ContainsSubstring("3 values, 3 of them warm-up"));
  CHECK_THAT(refusal([](auto& s) { s["samples"][0]["values"] = nlohmann::json::array(); }),
             ContainsSubstring("0 values"));
  CHECK_THAT(refusal([](auto& s) { s["samples"][0].erase("values"); }), ContainsSubstring("no key \"values\""));
  CHECK_THAT(refusal([](auto& s) { s["samples"][0].erase("warmup"); }), ContainsSubstring("no key \"warmup\""));
  CHECK_THAT(refusal([](auto& s) { s["samples"][0]["warmup"] = -1; }), ContainsSubstring("samples[0].warmup"));
  CHECK_THAT(refusal([](auto& s) { s["samples"] = nlohmann::json::array(); }),
             ContainsSubstring("s.json: samples: found an empty list"));
  CHECK_THAT(refusal([](auto& s) { s.erase("samples"); }), ContainsSubstring("no key \"samples\""));
}

TEST_CASE("unknown keys and words are named with the nearest known", "[samples]") {
  CHECK_THAT(refusal([](auto& s) { s["samples"][0]["warm_up"] = 1; }),
             ContainsSubstring("\"warm_up\"") && ContainsSubstring("\"warmup\" perhaps"));
  CHECK_THAT(refusal([](auto& s) { s["samples"][0]["probe"] = "layers"; }), ContainsSubstring("\"layer\" perhaps"));
  CHECK_THAT(refusal([](auto& s) { s["samples"][1]["rows"] = 5; }), ContainsSubstring("unknown key \"rows\""));
  CHECK_THAT(refusal([](auto& s) { s["enviroment"] = 1; }), ContainsSubstring("\"environment\" perhaps"));
  CHECK_THAT(refusal([](auto& s) { s["format"] = "pdl-samples-2"; }), ContainsSubstring("s.json: format"));
  CHECK_THAT(refusal([](auto& s) { s["environment"] = 7; }), ContainsSubstring("s.json: environment"));
  CHECK_THAT(refusal([](auto& s) { s["samples"][0]["operation"] = "sideways"; }),
             ContainsSubstring("samples[0].operation"));
}

TEST_CASE("files that are not samples: refused, with file and place", "[samples]") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text) { return file_refusal(folder.write("bad.json", text)); };
  for (const char* text :
       {"", " \n", "# a comment\n", "// a comment\n", "bytes,time_us\n", "{", "[]", "null", "NaN", "\xff\xfe",
        "{\"format\": \"pdl-samples-1\", \"environment\": {}, \"samples\": []}",
        "{\"format\": \"pdl-samples-1\", \"format\": \"pdl-samples-1\", \"environment\": {}, \"samples\": []}"}) {
    INFO(text);
    CHECK_THAT(refused(text), ContainsSubstring("bad.json"));
  }
  std::string nan = json_text(to_json(all_kinds()));
  nan.replace(nan.find("5.25"), 4, "NaN");
  CHECK_THAT(refused(nan), ContainsSubstring("line"));
  std::string infinite = json_text(to_json(all_kinds()));
  infinite.replace(infinite.find("5.25"), 4, "1e999");
  CHECK_THAT(refused(infinite), ContainsSubstring("bad.json"));
  CHECK_THAT(refused(std::string(100000, '[')), ContainsSubstring("bad.json"));
  CHECK_THAT(file_refusal(folder.path()), ContainsSubstring("a folder"));
  CHECK_THAT(file_refusal(folder / "none.json"), ContainsSubstring("no such file"));
}

TEST_CASE("every cut of a file of samples is refused", "[samples]") {
  const TemporaryFolder folder;
  const std::string text = json_text(to_json(all_kinds()));
  for (std::size_t length = 0; length + 2 < text.size(); length += 29) {
    CHECK_THAT(file_refusal(folder.write("cut.json", text.substr(0, length))), ContainsSubstring("cut.json"));
  }
}

TEST_CASE("a file of 4 GB is refused before it is read", "[samples]") {
  const TemporaryFolder folder;
  const std::string path = folder.write("huge.json", "{");
  std::filesystem::resize_file(path, std::uintmax_t{4} << 30);  // a hole: takes no room
  CHECK_THAT(file_refusal(path), ContainsSubstring("huge.json: found more than 1073741824 bytes"));
}

TEST_CASE("samples of a probe in this process are checked like those of a file", "[samples]") {
  Samples samples = all_kinds();
  CHECK_NOTHROW(check_samples(samples, "probe"));
  samples.samples[0].values[1] = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH(check_samples(samples, "probe"),
                    ContainsSubstring("probe: samples[0].values[1]") && ContainsSubstring("found inf"));
  samples = all_kinds();
  samples.samples[0].key.size = 0;
  CHECK_THROWS_WITH(check_samples(samples, "probe"), ContainsSubstring("rows"));
  CHECK_THROWS_AS(check_samples(Samples{}, "probe"), InputError);
}

}  // namespace
}  // namespace pdl
