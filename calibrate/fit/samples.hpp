// Raw measurements, as the probes write them: samples.json. Nothing is averaged or dropped here.
//
//   {"format": "pdl-samples-1",
//    "environment": {"card": "NVIDIA H100 80GB HBM3", "count": 4, "device": "cuda", ...},
//    "samples": [{"probe": "layer", "implementation": "pipeline", "operation": "forward", "accumulate": false,
//                 "input_gradient": true, "dtype": "fp32", "in": 4096, "out": 4096, "rows": 512,
//                 "unit": "us", "warmup": 3, "values": [371.2, 364.1, 363.9, 364.0, 364.2], "issue_values": [...],
//                 "kernels": [{"name": "gemm", "time": 360.1, "blocks": 128, "blocks_per_multiprocessor": 1, ...}],
//                 "sm_clock_mhz": 1980, "power_w": 620}, ...]}
//
// The whole format, key by key: docs/formats-profile.md. Times are in the sample's own unit: ns, us, ms or s.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/fit/product_samples.hpp"
#include "sim/cost/measured_key.hpp"

namespace pdl {

class JsonPlace;

/// One kernel of an operation, in the order of execution.
struct KernelSample {
  std::string name;
  double time = 0;                             // of one launch, in the unit of the sample
  std::int64_t blocks = 0;                     // thread blocks of the launch; 0: not known
  std::int64_t blocks_per_multiprocessor = 0;  // resident at once; 0: not known
  std::int64_t count = 1;                      // launches one after another
};

struct Sample {
  MeasuredKey key;
  std::string unit;                  // of values, issue_values and kernels: ns, us, ms, s; memory: bytes
  std::int64_t warmup = 0;           // leading values that are not measurements; they stay in the file
  std::vector<double> values;        // time on the device (host probes: of the host), one a measurement
  std::vector<double> issue_values;  // time the host took to issue it; empty: not measured
  /// Calls before the first value that no value counts: warm-up of the program that measured.
  std::int64_t calls_before = 0;
  std::int64_t calls_a_value = 1;     // calls of which each value is the mean
  std::vector<KernelSample> kernels;  // empty: not recorded
  std::optional<double> sm_clock_mhz;
  std::optional<double> power_w;
  std::string output;  // the output of nccl-tests that it was read from just now; not in samples.json
};

struct Samples {
  nlohmann::json environment = nlohmann::json::object();
  std::vector<Sample> samples;
  ProductSamples products;  // matrix products of many sizes; often empty
};

/// Throws InputError naming file, place and what is wrong: not JSON, cut off, larger than a file of samples can be,
/// unknown or missing key, missing or unknown unit, NaN, infinite, negative or zero time, no sample at all, a sample
/// with nothing left after its warm-up.
Samples load_samples(const std::string& path);
Samples samples_from_json(const nlohmann::json& document, const std::string& place);

/// Writes the file whole or not at all. Throws InputError: a value that no file can hold (NaN, infinite), a file that
/// cannot be written.
void save_samples(const Samples& samples, const std::string& path);
nlohmann::ordered_json to_json(const Samples& samples);

/// One of them. sample_from_json throws InputError for keys and words; what the numbers may be is checked for all
/// samples together (calibrate/fit/check_samples.hpp). check_finite throws InputError, beginning with `place`, for a
/// value that no file can hold.
nlohmann::ordered_json to_json(const Sample& sample);
Sample sample_from_json(const JsonPlace& place);
void check_finite(const Sample& sample, const std::string& place);

}  // namespace pdl
