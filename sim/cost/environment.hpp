// Where a file of samples or a profile was measured. A free JSON object; these keys mean something to us:
//
//   "device": "cuda"|"cpu", "card": "NVIDIA H100 80GB HBM3", "count": 4, "date": "2026-11-27",
//   "multiprocessors": 132, "memory_capacity_bytes": 85899345920,
//   "peak_flops_per_s": {"fp32": 66.9e12, ...},
//   "added": [{"card": "NVIDIA H200", "count": 2, "python": {...}}, ...]      host times of Python, of that machine
//
// Everything else (driver, versions, clocks, power, command) is kept as it is.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/model/dtype.hpp"

namespace pdl {

class JsonPlace;

/// Absent keys: empty, 0.
struct Environment {
  std::string device;
  std::string card;
  std::int64_t count = 0;
  std::string date;
  std::int64_t multiprocessors = 0;
  std::int64_t memory_capacity_bytes = 0;
  std::map<Dtype, double> peak_flops_per_s;  // other words of the file than data types count for nothing
  /// "2 x NVIDIA H200", where the host times of Python that were added last are of another card or of another number of
  /// GPUs than the file's own; empty: they are its own, or none were added.
  std::string other_machine_of_python;
};

/// Throws InputError: not an object, or one of the keys above with a value it cannot have.
Environment read_environment(const JsonPlace& environment);

}  // namespace pdl
