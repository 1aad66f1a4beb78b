#include "sim/run/run_name.hpp"

#include "sim/spec/schedule.hpp"
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
  CHECK(run_name(spec("--gpus 2 --strategy ddp --delay-ms 5 --seed 3 --repeat 2"))
            .ends_with("_nccl_process_delay5_seed3_repeat2"));
}

TEST_CASE("a model file gives its stem and its number of layers") {
  RunSpec file = spec("--gpus 2");
  file.model_name = "../models/my model.json";
  CHECK(run_name(file) == "pp-1f1b_gpus2_my-model_8layers_batch2048_mb8_fp32_sgd_copy_thread");
}

TEST_CASE("every setting makes another run") {
  const RunSpec base = spec("--gpus 2 --depth 4 --dim 8 --batch 16 --microbatches 2");
  CHECK(same_run(base, spec("--microbatches 2 --batch 16 --dim 8 --depth 4 --gpus 2 --strategy pp --schedule 1f1b")));
  for (const char* other :
       {"--gpus 3 --depth 4 --dim 8 --batch 16 --microbatches 2",
        "--gpus 2 --depth 5 --dim 8 --batch 16 --microbatches 2",
        "--gpus 2 --depth 4 --dim 9 --batch 16 --microbatches 2",
        "--gpus 2 --depth 4 --dim 8 --batch 17 --microbatches 2",
        "--gpus 2 --depth 4 --dim 8 --batch 16 --microbatches 3",
        "--gpus 2 --depth 4 --dim 8 --batch 16 --microbatches 2 --schedule gpipe",
        "--gpus 2 --depth 4 --dim 8 --batch 16 --microbatches 2 --dtype tf32",
        "--gpus 2 --depth 4 --dim 8 --batch 16 --microbatches 2 --optimizer adam",
        "--gpus 2 --depth 4 --dim 8 --batch 16 --microbatches 2 --transport nccl",
        "--gpus 2 --depth 4 --dim 8 --batch 16 --microbatches 2 --seed 1",
        "--gpus 2 --depth 4 --dim 8 --batch 16 --microbatches 2 --repeat 2",
        "--gpus 2 --depth 4 --dim 8 --batch 16 --microbatches 2 --transport nccl --workers process"}) {
    CHECK_FALSE(same_run(base, spec(other)));
    CHECK(run_name(base) != run_name(spec(other)));
  }
}

TEST_CASE("stages of a GPU are named where they are not the usual number, and recomputation") {
  const std::string four = "--gpus 2 --depth 8 --dim 8 --batch 8 --microbatches 4 ";
  const std::string rest = "_gpus2_mlp8x8_batch8_mb4_fp32_sgd_copy_thread";
  CHECK(run_name(spec(four + "--schedule interleaved")) == "pp-interleaved" + rest);
  CHECK(run_name(spec(four + "--schedule interleaved --chunks 2")) == "pp-interleaved" + rest);
  CHECK(run_name(spec(four + "--schedule interleaved --chunks 4")) == "pp-interleaved_c4" + rest);
  CHECK(run_name(spec(four + "--schedule interleaved --chunks 1")) == "pp-interleaved_c1" + rest);
  CHECK(run_name(spec(four + "--schedule zb-v")) == "pp-zb-v" + rest);
  CHECK(run_name(spec(four + "--schedule gpipe --recompute 1")) == "pp-gpipe" + rest + "_recompute");
  CHECK(run_name(spec(four + "--schedule zb-h2 --overlap-steps 0")) == "pp-zb-h2" + rest + "_barrier");
  CHECK(run_name(spec(four + "--schedule zb-h2 --overlap-steps 1")) == "pp-zb-h2" + rest);
  CHECK(run_name(spec(four + "--schedule gpipe --overlap-steps 1")) == "pp-gpipe" + rest + "_overlap");
  CHECK(same_run(spec(four + "--schedule zb-h2 --overlap-steps 1"), spec(four + "--schedule zb-h2")));
  CHECK_FALSE(same_run(spec(four + "--schedule zb-h2 --overlap-steps 0"), spec(four + "--schedule zb-h2")));
  CHECK_FALSE(same_run(spec(four + "--schedule gpipe --recompute 1"), spec(four + "--schedule gpipe")));
}

TEST_CASE("a schedule from a file: the stem in the name, the order decides") {
  RunSpec mine = spec("--gpus 2 --depth 4 --dim 8 --batch 8 --microbatches 2"), other = mine, named = mine;
  const auto file_of = [](const char* name) {
    ScheduleFile file;
    file.order = make_order(*find_schedule(name), {.workers = 2, .chunks = 1, .microbatches = 2});
    return std::make_shared<const ScheduleFile>(file);
  };
  mine.schedule = "orders/my order.csv";
  mine.schedule_file = file_of("gpipe");
  other.schedule = "elsewhere/b.csv";
  other.schedule_file = file_of("gpipe");
  CHECK(run_name(mine).starts_with("pp-my-order_gpus2_"));
  CHECK(same_run(mine, other));
  CHECK_FALSE(same_run(mine, named));
  other.schedule_file = file_of("naive");
  CHECK_FALSE(same_run(mine, other));
  mine.schedule = "orders/gpipe.csv";
  CHECK(run_name(mine).starts_with("pp-gpipe-file_gpus2_"));
}

TEST_CASE("auto before its search is the same run as after it") {
  const RunSpec before = spec("--gpus 2 --depth 4 --dim 8 --batch 8 --microbatches 2 --schedule auto");
  RunSpec after = before;
  ScheduleFile found;
  found.order = make_order(*find_schedule("1f1b"), {.workers = 2, .chunks = 1, .microbatches = 2});
  after.schedule_file = std::make_shared<const ScheduleFile>(found);
  CHECK(run_name(before).starts_with("pp-auto_gpus2_"));
  CHECK(run_name(before) == run_name(after));
  CHECK(same_run(before, after));
}
