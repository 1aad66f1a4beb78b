// The file name of a run: every setting that can differ between two runs of one host, in a fixed order.
//
//   run_name(spec)  ->  "pp-1f1b_gpus4_mlp16x4096_batch4096_mb8_fp32_sgd_copy_thread"
//                       "mp_gpus2_mlp8x8192_batch2048_mb1_fp32_sgd_copy_one"
//                       "pp-interleaved_c4_gpus4_mlp16x4096_batch4096_mb8_fp32_sgd_copy_thread_recompute"
//
// Only letters, digits, '-', '_' and '.', so that it is a file name everywhere. Synthetic costs are not in it: they are
// never measured. The value of --p2p ends the name where it is not the transport's own (copy: eager; nccl, gloo:
// rendezvous). The stages of a GPU (_c4) are in it where they are not the schedule's usual number; _recompute;
// _overlap or _barrier where steps do what is not usual for the schedule. A schedule from a file
// gives the stem of its path: "pp-mine" for orders/mine.csv, "pp-gpipe-file" for gpipe.csv.
#pragma once

#include <string>

#include "sim/spec/run_spec.hpp"

namespace pdl {

/// Without folder and without ".json".
std::string run_name(const RunSpec& spec);

/// True if two specs are the same run: every setting of to_settings() is equal; of schedules from files their order,
/// whatever the files are called. "auto" before its search is the same run as after it.
bool same_run(const RunSpec& a, const RunSpec& b);

}  // namespace pdl
