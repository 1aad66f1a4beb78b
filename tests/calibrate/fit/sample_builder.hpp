// Samples for tests, and the tables of public all-reduce measurements.
//
//   SampleBuilder b;
//   b.transfer(1024, {9.0, 5.0, 5.1}, "us", 1);      // one warm-up value
//   CostProfile profile = fit_profile(b.samples);
#pragma once

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "calibrate/fit/samples.hpp"
#include "tests/support/catch.hpp"

namespace pdl {

struct SampleBuilder {
  Samples samples;

  SampleBuilder() { samples.environment = {{"device", "cpu"}, {"card", "Test CPU"}, {"count", 2}}; }

  Sample& add(const MeasuredKey& key, std::vector<double> values, const std::string& unit = "us",
              std::int64_t warmup = 1) {
    Sample sample;
    sample.key = key;
    sample.unit = unit;
    sample.warmup = warmup;
    sample.values = std::move(values);
    samples.samples.push_back(sample);
    return samples.samples.back();
  }

  static MeasuredKey transfer_key(std::int64_t bytes, std::int64_t from = 0, std::int64_t to = 1) {
    MeasuredKey key;
    key.probe = Probe::transfer;
    key.transport = "copy";
    key.from = from;
    key.to = to;
    key.size = bytes;
    return key;
  }

  static MeasuredKey layer_key(std::int64_t dim, std::int64_t rows, const std::string& operation = "forward") {
    MeasuredKey key;
    key.probe = Probe::layer;
    key.implementation = "pipeline";
    key.operation = operation;
    key.dtype = Dtype::fp32;
    key.layer = linear_relu(dim, dim);
    key.size = rows;
    return key;
  }

  static MeasuredKey all_reduce_key(std::int64_t bytes) {
    MeasuredKey key;
    key.probe = Probe::collective;
    key.operation = "all_reduce";
    key.transport = "nccl";
    key.ranks = 8;
    key.size = bytes;
    return key;
  }

  Sample& transfer(std::int64_t bytes, std::vector<double> values, const std::string& unit = "us",
                   std::int64_t warmup = 1) {
    return add(transfer_key(bytes), std::move(values), unit, warmup);
  }
  Sample& layer(std::int64_t dim, std::int64_t rows, std::vector<double> values, const std::string& unit = "us",
                std::int64_t warmup = 1) {
    return add(layer_key(dim, rows), std::move(values), unit, warmup);
  }
};

struct BytesAndTimes {
  std::int64_t bytes;
  std::vector<double> times_us;  // one a column
};

/// A CSV of tests/golden: comments, a head, then bytes and times.
inline std::vector<BytesAndTimes> read_table(const std::string& name) {
  std::ifstream file(PDL_SOURCE_DIR "/tests/golden/" + name);
  std::vector<BytesAndTimes> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] < '0' || line[0] > '9') continue;
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream words(line);
    BytesAndTimes row;
    words >> row.bytes;
    for (double time; words >> time;) row.times_us.push_back(time);
    rows.push_back(row);
  }
  REQUIRE(rows.size() > 10);
  return rows;
}

}  // namespace pdl
