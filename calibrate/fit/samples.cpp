#include "calibrate/fit/samples.hpp"

#include <cmath>

#include "calibrate/fit/check_samples.hpp"
#include "calibrate/fit/nccl_tests.hpp"
#include "sim/cost/environment.hpp"
#include "sim/cost/time_unit.hpp"
#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/json_text.hpp"
#include "sim/io/output_file.hpp"

namespace pdl {
namespace {

using nlohmann::ordered_json;
using Words = std::vector<std::string>;

constexpr const char* kFormat = "pdl-samples-1";
constexpr std::int64_t kLargestCount = std::int64_t{1} << 40;
constexpr double kLargestNumber = 1e300;

/// Numbers as they are; what they may be is checked once, for files and for probes alike (check_samples.hpp).
std::vector<double> read_values(const JsonPlace& list) {
  std::vector<double> values;
  list.array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonPlace value = list.at(i);
    if (!value.json().is_number()) value.refuse("a positive, finite number");
    values.push_back(value.json().get<double>());
  }
  return values;
}

KernelSample read_kernel(const JsonPlace& place) {
  static const Words known = {"name", "time", "blocks", "blocks_per_multiprocessor", "count"};
  place.object_of(known);
  KernelSample kernel;
  kernel.name = place.at("name").text();
  kernel.time = place.at("time").number(0, kLargestNumber);
  if (place.has("blocks")) kernel.blocks = place.at("blocks").whole(0, kLargestCount);
  if (place.has("blocks_per_multiprocessor")) {
    kernel.blocks_per_multiprocessor = place.at("blocks_per_multiprocessor").whole(0, kLargestCount);
  }
  if (place.has("count")) kernel.count = place.at("count").whole(1, kMostKernelLaunches);
  return kernel;
}

}  // namespace

Sample sample_from_json(const JsonPlace& place) {
  place.object();
  const Probe probe = read_probe(place.at("probe"));
  Words known = key_fields(probe, place);
  if (!size_name(probe).empty()) known.emplace_back(size_name(probe));
  for (const char* key :
       {"probe", "unit", "warmup", "values", "calls_before", "calls_a_value", "sm_clock_mhz", "power_w"}) {
    known.emplace_back(key);
  }
  if (probe != Probe::memory) known.emplace_back("issue_values");
  if (probe != Probe::memory && probe != Probe::host) known.emplace_back("kernels");
  place.object_of(known);

  Sample sample;
  sample.key = read_key(probe, place, true);
  sample.unit = place.at("unit").text();
  if (probe != Probe::memory || place.has("warmup")) sample.warmup = place.at("warmup").whole(0, kLargestCount);
  sample.values = read_values(place.at("values"));
  if (place.has("issue_values")) sample.issue_values = read_values(place.at("issue_values"));
  if (place.has("calls_before")) sample.calls_before = place.at("calls_before").whole(0, kLargestCount);
  if (place.has("calls_a_value")) sample.calls_a_value = place.at("calls_a_value").whole(1, kLargestCount);
  if (place.has("kernels")) {
    const JsonPlace kernels = place.at("kernels");
    kernels.array();
    for (std::size_t i = 0; i < kernels.size(); ++i) sample.kernels.push_back(read_kernel(kernels.at(i)));
  }
  if (place.has("sm_clock_mhz")) sample.sm_clock_mhz = place.at("sm_clock_mhz").number(0, 1e6);
  if (place.has("power_w")) sample.power_w = place.at("power_w").number(0, 1e6);
  return sample;
}

ordered_json to_json(const Sample& sample) {
  ordered_json json;
  json["probe"] = std::string(to_string(sample.key.probe));
  write_key(sample.key, true, json);
  json["unit"] = sample.unit;
  json["warmup"] = sample.warmup;
  json["values"] = sample.values;
  if (!sample.issue_values.empty()) json["issue_values"] = sample.issue_values;
  if (sample.calls_before != 0) json["calls_before"] = sample.calls_before;
  if (sample.calls_a_value != 1) json["calls_a_value"] = sample.calls_a_value;
  if (!sample.kernels.empty()) {
    json["kernels"] = ordered_json::array();
    for (const KernelSample& kernel : sample.kernels) {
      json["kernels"].push_back({{"name", kernel.name},
                                 {"time", kernel.time},
                                 {"blocks", kernel.blocks},
                                 {"blocks_per_multiprocessor", kernel.blocks_per_multiprocessor},
                                 {"count", kernel.count}});
    }
  }
  if (sample.sm_clock_mhz) json["sm_clock_mhz"] = *sample.sm_clock_mhz;
  if (sample.power_w) json["power_w"] = *sample.power_w;
  return json;
}

namespace {

void check_format(const JsonPlace& format) {
  if (format.text() == kFormat) return;
  std::string expected = std::string("\"") + kFormat + "\"";
  if (format.text() == "pdl-profile-1") expected += " (this is a profile, which is fitted already)";
  format.refuse(expected);
}

}  // namespace

Samples samples_from_json(const nlohmann::json& document, const std::string& place) {
  static const Words known = {"format", "environment", "samples", "products"};
  const JsonPlace root(document, place);
  check_format(root.at("format"));
  root.object_of(known);
  Samples samples;
  read_environment(root.at("environment"));
  read_nccl_tests_notes(root.at("environment"));
  samples.environment = root.at("environment").json();
  const JsonPlace list = root.at("samples");
  list.array();
  for (std::size_t i = 0; i < list.size(); ++i) samples.samples.push_back(sample_from_json(list.at(i)));
  if (root.has("products")) samples.products = product_samples_from_json(root.at("products"));
  check_samples(samples, place);
  return samples;
}

Samples load_samples(const std::string& path) {
  return samples_from_json(read_json_file(path), path);
}

ordered_json to_json(const Samples& samples) {
  ordered_json json;
  json["format"] = kFormat;
  json["environment"] = samples.environment;
  json["samples"] = ordered_json::array();
  for (const Sample& sample : samples.samples) json["samples"].push_back(to_json(sample));
  if (!samples.products.empty()) json["products"] = to_json(samples.products);
  return json;
}

void check_finite(const Sample& sample, const std::string& place) {
  for (const std::vector<double>* values : {&sample.values, &sample.issue_values}) {
    for (const double value : *values) {
      if (!std::isfinite(value)) {
        throw InputError(place + ": " + describe(sample.key), std::to_string(value), "numbers that a file can hold");
      }
    }
  }
}

void save_samples(const Samples& samples, const std::string& path) {
  for (const Sample& sample : samples.samples) check_finite(sample, path);
  const std::string text = json_text(to_json(samples));
  write_output(path, [&](std::ostream& out) { out << text; });
}

}  // namespace pdl
