// Measured runs beside a profile, by the settings that they are of.
//
//   data/h200x4/profile.json
//   data/h200x4/runs/pp-1f1b_gpus4_mlp16x4096_batch4096_mb8_fp32_sgd_copy_thread.json     runs_folder("h200x4")
//   data/h200x4/runs_on_host_1/...                                                          runs_of_other_hosts(...)
//   data/h200x4/runs_pytorch/...   beside each such folder, or in it: runs of PyTorch's own programs
//
//   find_measured(runs_folder("h200x4"), spec)      the run of the file run_name(spec).json, or nothing
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/run/run_result.hpp"

namespace pdl {

/// Of the host that the profile is of. `profile`: a name or a path.
std::filesystem::path runs_folder(const std::string& profile);

/// Of other hosts with the cards of a profile: runs_on_host_1, ... beside it, sorted by name, without runs_*_pytorch.
/// `profile`: its file.
std::vector<std::filesystem::path> runs_of_other_hosts(const std::string& profile_path);

/// In the folder, or of PyTorch's program in that beside it. Throws InputError if the file holds another run
/// than its name says.
std::optional<RunResult> find_measured(const std::filesystem::path& folder, const RunSpec& spec);

}  // namespace pdl
