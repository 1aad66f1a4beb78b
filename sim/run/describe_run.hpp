// What a run is, in words of one line: where its times come from, which layers each GPU holds.
//
//   describe_source(run)   "costs: profile h100x4 (4 x NVIDIA H100 80GB HBM3, measured 2026-01-02)"
//   program_name(run.spec.program)    "PyTorch"
//   layers_of_gpus(run)    {"4 (0-1, 6-7)", "4 (2-5)"}
//
// Settings in words: describe() of sim/spec/run_spec.hpp. Tables and charts: sim/report.
#pragma once

#include <string>
#include <vector>

#include "sim/run/run_result.hpp"

namespace pdl {

/// Where the times come from: the profile with card, count and date, and why that one if the user named none;
/// synthetic costs; or the host measured.
std::string describe_source(const RunResult& run);

/// "0-3", "5"; of a model with blocks "embedding, block 0 to block 2". Layers [first, first + count).
std::string layer_range(const Model& model, std::int64_t first, std::int64_t count);

/// The layers of each GPU: "0-3"; "0-1, 8-9" where a GPU holds several stages. In names where the model has blocks.
std::vector<std::string> layer_ranges_of_gpus(const RunResult& run);

/// The same with their number: "4 (0-3)".
std::vector<std::string> layers_of_gpus(const RunResult& run);

/// "pdl-run", "PyTorch": whose program of the step it is.
std::string program_name(ProgramOf program);

}  // namespace pdl
