// The JSON of a run, predicted or measured: one format, written and read.
//
//   {"config": {"model": "mlp", "depth": 8, ...},          every setting: reading gives back the RunSpec
//    "measured": false,
//    "step_time_ms": {"median": 24.0, "half_width_90": 0.3},    measured: median, p25, p75, n
//    "uncertainty": {"half_width_90_percent": 1.25, "probed": true, "unprobed_share": 0.0, "carried_by": [...]},
//    "steps": [{"step_time_ms": 512.3, "loss": 1.0013, "warmup": true}, ...],    measured: every step, as it came
//    "throughput_samples_per_s": 85333.3, "mfu": 0.413, "bubble_fraction": 0.875,
//    "model": {"parameters": 536936448, "flops_per_step": 6.32e12},
//    "transfers": {"count": 14, "bytes": 939524096, "each_bytes": [...]},
//    "collectives": {"count": 0, "bytes": 0},
//    "layer_kinds": [{"name": "linear_relu", "ms": 3.0, "share": 0.125}, ...],    predictions by a profile
//    "gpus": [{"layers": 1, "busy_ms": 3.0, "comm_ms": 0.0, "idle_ms": 21.0, "bubble_fraction": 0.875,
//              "peak_memory_bytes": 805437440, "ops": ["F0", "B0"]}, ...],
//    "stages": [{"gpu": 0, "first_layer": 0, "layer_count": 1, "slots": 1, "live_microbatches": 1}, ...],
//    "microbatch_rows": [2048], "timeline_step_us": 24000.0,
//    "spans": [{"name": "F0", "kind": "forward", "worker": 0, "stage": 0, "microbatch": 0, "stream": "compute",
//               "start_us": 0.0, "end_us": 1000.0}, ...],
//    "warnings": [], "environment": {...}, "extra": {...}}
//
// Units are in the keys. Microseconds carry three decimals, so that whole nanoseconds survive. The whole format:
// docs/formats-run.md.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/io/json_place.hpp"
#include "sim/run/explain.hpp"
#include "sim/run/run_result.hpp"

namespace pdl {

/// Keys in the order above; with an explanation "explain" too, which is not read back.
nlohmann::ordered_json to_json(const RunResult& run, const Explanation* explanation = nullptr);

/// Checks everything: missing keys, types, ranges, sums (layers, rows, bytes). `place` opens each message. Throws
/// InputError with the path inside the JSON: "a.json: gpus[1].layers: found \"x\", expected ...". What can be computed
/// from the rest (metrics) is read over, not trusted.
RunResult run_from_json(const nlohmann::json& json, const std::string& place);

/// The text of the file: an object of a list a line, everything else a line of its own.
std::string run_text(const RunResult& run, const Explanation* explanation = nullptr);

/// Writes the file whole (a temporary file in the same folder, renamed) or not at all. "-": standard output.
/// Throws InputError if it cannot be written.
void write_run(const RunResult& run, const std::string& path, const Explanation* explanation = nullptr);

/// Throws InputError: no such file, not JSON (with line and column), cut off, or as run_from_json.
RunResult read_run(const std::string& path);

}  // namespace pdl
