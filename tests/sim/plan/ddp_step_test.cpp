#include "sim/plan/plan.hpp"
#include "tests/sim/plan/drawn_step.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

TEST_CASE("ddp: a part of the backward, the copy in and the all-reduce of each bucket, the copies out, the optimizer") {
  CHECK(tasks_of("--strategy ddp --gpus 2 --depth 3 --dim 4096 --batch 8", 1) ==
        "F0 | B0 | bucket in 0 | all-reduce 0 | B0 | bucket in 1 | all-reduce 1 | B0 | bucket in 2 | all-reduce 2 | "
        "bucket out 0 | bucket out 1 | bucket out 2 | optimizer");
  CHECK(tasks_of("--strategy ddp --gpus 2 --depth 3 --dim 4096 --batch 8 --bucket-views 1", 0) ==
        "F0 | B0 | bucket in 0 | all-reduce 0 | B0 | bucket in 1 | all-reduce 1 | B0 | bucket in 2 | all-reduce 2 | "
        "optimizer");
  CHECK(tasks_of("--strategy ddp --gpus 1 --depth 2 --dim 4096 --batch 8", 0) ==
        "F0 | B0 | bucket in 0 | B0 | bucket in 1 | bucket out 0 | bucket out 1 | optimizer");
}

TEST_CASE("ddp: rounds exchange in every round, or with no_sync in the last one only") {
  const std::string flags =
      "--strategy ddp --gpus 2 --depth 1 --dim 512 --batch 8 --accum 2 --delay-ms 3 --straggler 1:5";
  CHECK(tasks_of(flags, 0) ==
        "F0 | sleep | B0 | bucket in 0 | all-reduce 0 | bucket out 0 | F1 | sleep | B1 | bucket in 0 | all-reduce 0 | "
        "bucket out 0 | optimizer");
  CHECK(tasks_of(flags + " --no-sync 1", 1) ==
        "sleep | F0 | sleep | B0 | F1 | sleep | B1 | bucket in 0 | all-reduce 0 | bucket out 0 | optimizer");
  // Micro-batches of a round are not exchanged one by one.
  CHECK(tasks_of("--strategy ddp --gpus 2 --depth 1 --dim 512 --batch 8 --microbatches 2 --accum 2", 1) ==
        "F0 | B0 | F1 | B1 | bucket in 0 | all-reduce 0 | bucket out 0 | F2 | B2 | F3 | B3 | bucket in 0 | all-reduce "
        "0 | bucket out 0 | optimizer");
}

TEST_CASE("ddp: an all-reduce starts when its bucket is full and goes on beside the backward") {
  // A layer: forward 1, backward 2, exchange 1.    F F F F B3 B3 B2 B2 B1 B1 B0 B0
  //                                                            3     2     1     0
  CHECK(step_ms("--strategy ddp --gpus 4 --depth 4 --tf 4 --tb 8 --tcomm 4") == 13);
  // Exchange 3 a layer: 3 from 6 to 9, then 2, 1, 0 to 18.
  CHECK(step_ms("--strategy ddp --gpus 4 --depth 4 --tf 4 --tb 8 --tcomm 12") == 18);
}

TEST_CASE(
    "ddp with views of the buckets: what comes next waits for the last all-reduce, though nothing is copied back") {
  // Two layers: forward 2, backward 4, exchange 12.    FF BB BB ..............
  //                                                          1111111 0000000     4 to 10, 10 to 16; then the optimizer
  const std::string flags = "--strategy ddp --gpus 2 --depth 2 --tf 2 --tb 4 --tcomm 12 --bucket-views ";
  for (const std::string views : {"0", "1"}) {
    INFO(views);
    CHECK(step_ms(flags + views, 0, {{TaskKind::optimizer, {0, 1}}}) == 17);
    // Two rounds: the second one's forward begins at 16.
    CHECK(step_ms(flags + views + " --accum 2") == 32);
    CHECK(step_ms(flags + views + " --accum 2 --no-sync 1") == 6 + 16);
  }
}

TEST_CASE("ddp slower than one GPU, without overlap") {
  CHECK(step_ms("--strategy ddp --gpus 2 --tf 5.04 --tb 10.08 --tcomm 11.24" + kOneBucket) ==
        Approx(26.36).epsilon(1e-12));
  const double one_gpu_ms = 22.03;  // measured by others, 2 x T4
  CHECK(one_gpu_ms / step_ms("--strategy ddp --gpus 2 --tf 5.04 --tb 10.08 --tcomm 11.24" + kOneBucket) ==
        Approx(.836).margin(5e-4));
}

TEST_CASE("no_sync: one exchange in four rounds, c + s / 4 a round instead of c + s") {
  const std::string flags = "--strategy ddp --gpus 2 --accum 4 --tf 4 --tb 8 --tcomm 6" + kOneBucket;
  CHECK(step_ms(flags + "--no-sync 0") == 4 * (12 + 6));
  CHECK(step_ms(flags + "--no-sync 1") == 4 * 12 + 6);
  CHECK(predict(spec(flags + "--no-sync 0"), nullptr).collective_bytes.size() == 4);
  CHECK(predict(spec(flags + "--no-sync 1"), nullptr).collective_bytes.size() == 1);
}
