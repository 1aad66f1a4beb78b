// The file name of a run: every setting that can differ between two runs of one host, in a fixed order.
//
//   run_name(spec)  ->  "pp-1f1b_gpus4_mlp16x4096_batch4096_mb8_fp32_sgd_copy_thread"
//                       "mp_gpus2_mlp8x8192_batch2048_mb1_fp32_sgd_copy_one"
//
// Only letters, digits, '-', '_' and '.', so that it is a file name everywhere. Synthetic costs are not in it: they are
// never measured. The value of --p2p ends the name where it is not the transport's own (copy: eager; nccl, gloo:
// rendezvous).
#pragma once

#include <string>

#include "sim/spec/run_spec.hpp"

namespace pdl {

/// Without folder and without ".json".
std::string run_name(const RunSpec& spec);

/// True if two specs are the same run: every setting of to_settings() is equal.
bool same_run(const RunSpec& a, const RunSpec& b);

}  // namespace pdl
