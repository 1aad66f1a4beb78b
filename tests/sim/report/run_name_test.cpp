#include "sim/report/run_name.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

TEST_CASE("names of runs") {
  CHECK(run_name(spec("--gpus 4 --depth 16 --dim 4096 --batch 4096 --schedule 1f1b")) ==
        "pp-1f1b_gpus4_mlp16x4096_batch4096_mb8_fp32_sgd_copy_thread");
  CHECK(run_name(spec("--gpus 2 --strategy mp --microbatches 1 --optimizer adam --dtype amp-bf16")) ==
        "mp_gpus2_mlp8x8192_batch2048_mb1_amp-bf16_adam_copy_one");
  CHECK(run_name(spec("--gpus 2 --transport nccl --workers process")) ==
        "pp-1f1b_gpus2_mlp8x8192_batch2048_mb8_fp32_sgd_nccl_process");
  CHECK(run_name(spec("--gpus 2 --tf 1 --tb 1 --p2p rendezvous")).ends_with("_copy_thread_rendezvous"));
}

TEST_CASE("a model file gives its stem and its number of layers") {
  RunSpec file = spec("--gpus 2");
  file.model_name = "../models/my model.json";
  CHECK(run_name(file) == "pp-1f1b_gpus2_my-model_8layers_batch2048_mb8_fp32_sgd_copy_thread");
}

TEST_CASE("every setting makes another run") {
  const RunSpec base = spec("--gpus 2 --depth 4 --dim 8 --batch 16 --microbatches 2");
  CHECK(same_run(base, spec("--microbatches 2 --batch 16 --dim 8 --depth 4 --gpus 2 --strategy pp --schedule 1f1b")));
  for (const char* other : {"--gpus 3 --depth 4 --dim 8 --batch 16 --microbatches 2",
                            "--gpus 2 --depth 5 --dim 8 --batch 16 --microbatches 2",
                            "--gpus 2 --depth 4 --dim 9 --batch 16 --microbatches 2",
                            "--gpus 2 --depth 4 --dim 8 --batch 17 --microbatches 2",
                            "--gpus 2 --depth 4 --dim 8 --batch 16 --microbatches 3",
                            "--gpus 2 --depth 4 --dim 8 --batch 16 --microbatches 2 --schedule gpipe",
                            "--gpus 2 --depth 4 --dim 8 --batch 16 --microbatches 2 --dtype tf32",
                            "--gpus 2 --depth 4 --dim 8 --batch 16 --microbatches 2 --optimizer adam",
                            "--gpus 2 --depth 4 --dim 8 --batch 16 --microbatches 2 --transport nccl",
                            "--gpus 2 --depth 4 --dim 8 --batch 16 --microbatches 2 --workers process"}) {
    CHECK_FALSE(same_run(base, spec(other)));
    CHECK(run_name(base) != run_name(spec(other)));
  }
}
