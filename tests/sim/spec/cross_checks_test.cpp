// What is refused beside what, by the rows and the cross-checks together: settings of data parallelism, and amounts
// that no 64-bit integer holds.
#include "sim/io/error.hpp"
#include "sim/plan/plan.hpp"
#include "sim/predict/predict.hpp"
#include "tests/sim/spec/surviving_settings.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

TEST_CASE("what data parallelism refuses") {
  const auto refused = [](const std::string& flags) {
    try {
      make_plan(spec(flags));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  CHECK_THAT(refused("--strategy ddp --gpus 2 --bucket-mb 0"), ContainsSubstring("--bucket-mb"));
  CHECK_THAT(refused("--strategy ddp --gpus 2 --first-bucket-mb -1"), ContainsSubstring("--first-bucket-mb"));
  CHECK_THAT(refused("--strategy ddp --gpus 2 --accum 0"), ContainsSubstring("--accum"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --straggler 4:20"), ContainsSubstring("rank 4"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --straggler 20"), ContainsSubstring("RANK:MS"));
  CHECK_THAT(refused("--strategy mp --gpus 4 --straggler 1:20"), ContainsSubstring("one host thread"));
  // torch.chunk makes 2 2 1 of 5 samples: GPU 3 has no thread that could sleep.
  CHECK_THAT(refused("--strategy dp --gpus 4 --batch 5 --straggler 3:20"),
             ContainsSubstring("rank 3, which has no samples") && ContainsSubstring("0 to 2"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --batch 3"), ContainsSubstring("3 samples for 4 replicas"));
  CHECK_THAT(refused("--gpus 4 --pp 3 --dp 2"), ContainsSubstring("number of GPUs"));
  CHECK_THAT(refused("--gpus 4 --pp 2 --dp 2 --batch 2047"), ContainsSubstring("multiple"));
  CHECK_THAT(refused("--gpus 4 --strategy ddp --dp 2"), ContainsSubstring("strategy pp"));
  CHECK_THAT(refused("--gpus 2 --bucket-mb 25"), ContainsSubstring("no meaning"));
  CHECK_THAT(refused("--gpus 2 --strategy mp --no-sync 1"),
             ContainsSubstring("no_sync") || ContainsSubstring("no-sync"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --hosts 3"), ContainsSubstring("hosts"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --transport copy"), ContainsSubstring("nccl"));
  CHECK_THAT(refused("--strategy ddp --gpus 4 --workers thread"), ContainsSubstring("process"));
  CHECK_THAT(refused("--strategy dp --gpus 4 --recompute 1"), ContainsSubstring("no meaning"));
  CHECK_THAT(refused("--strategy mp --gpus 4 --recompute 1"), ContainsSubstring("one thread for 4 GPUs"));
  CHECK_THAT(refused("--strategy dp --gpus 4 --overlap-steps 1"), ContainsSubstring("no meaning"));
}

TEST_CASE("settings of data parallelism survive their own words") {
  for (const char* flags :
       {"--strategy ddp --gpus 4 --accum 8 --no-sync 1 --bucket-mb 100 --first-bucket-mb 0.5 --bucket-views 1",
        "--strategy ddp --gpus 16 --hosts 2 --network-gb-per-s 25 --network-latency-us 10 --delay-ms 2.5 --straggler "
        "3:20",
        "--strategy dp --gpus 3 --batch 12 --microbatches 2 --dtype amp-fp16 --loss-scale 1024 --accum 2 --straggler "
        "2:0.5",
        "--strategy ddp --gpus 4 --recompute 1", "--strategy single --workers one --recompute 1",
        "--gpus 8 --pp 4 --dp 2 --schedule zb-h1 --accum 2 --no-sync 1", "--pp 2 --dp 3 --batch 2400"}) {
    check_that_settings_survive(flags);
  }
}

TEST_CASE("the largest model and batch that are taken: no count of bytes overflows") {
  // 2.5e17 parameters, 5e17 bytes of activations: 4e18 bytes of parameters, gradients and Adam's state beside them.
  const RunResult run =
      predict(spec("--gpus 1 --strategy pp --schedule zb-h1 --depth 250000 --dim 1000000 --batch 499998 "
                   "--optimizer adam --tf 1 --tb 1 --tw 1"),
              nullptr);
  CHECK(run.peak_memory_bytes[0] > 4'900'000'000'000'000'000);
  CHECK_THROWS_WITH(spec("--depth 250000 --dim 1000000 --batch 499999 --tf 1 --tb 1"),
                    ContainsSubstring("--batch: found ") && ContainsSubstring("bytes of activations in a step"));
  const std::string rounds = "--strategy ddp --gpus 2 --batch 2 --depth 250000 --dim 1000000 --tf 1 --tb 1 --accum ";
  CHECK_THROWS_WITH(spec(rounds + "3"), ContainsSubstring("--accum: found ") &&
                                            ContainsSubstring("bytes that replicas exchange in a step"));
  CHECK_NOTHROW(spec(rounds + "3 --no-sync 1"));
}
