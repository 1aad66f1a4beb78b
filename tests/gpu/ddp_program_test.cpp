// DDP and mixed precision on the GPUs of this host: processes that pdl-run starts.
#include <algorithm>
#include <string>

#include "sim/run/run_json.hpp"
#include "tests/gpu/gpu_host.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process.hpp"

using namespace pdl;

namespace {

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("DDP on GPUs trains as one GPU with the whole batch does", "[gpu][data_parallel]") {
  for (const int gpus : {1, 2, 4}) {
    if (!enough_gpus(gpus)) return;
    for (const std::string flags :
         {"", "--accum 4 --no-sync 1 --bucket-mb 0.4 --first-bucket-mb 0.1 --optimizer adam --learning-rate 0.001",
          "--accum 2 --bucket-views 1"}) {
      const TemporaryFolder folder;
      const bool adam = flags.find("adam") != std::string::npos;
      const Process run =
          run_program("pdl-run",
                      "--strategy ddp --dim 256 --depth 6 --batch 130 --steps 5 --warmup 2 --check --json run.json " +
                          std::string(adam ? "" : "--learning-rate 10 ") + flags + " --gpus " + std::to_string(gpus),
                      folder);
      INFO(flags << " on " << gpus << "\n" << run.err);
      REQUIRE(run.exit_code == 0);
      CHECK(count(run.err, "(equal)") == static_cast<std::size_t>(gpus));
      const RunResult result = read_run(folder / "run.json");
      CHECK(result.peak_memory_bytes.size() == static_cast<std::size_t>(gpus));
      for (const Span& span : result.timeline.spans) CHECK(span.end_ns > span.start_ns);
    }
  }
}

TEST_CASE("A recorded step of DDP: the all-reduces of large buckets lie beside the backward", "[gpu][data_parallel]") {
  if (!enough_gpus(2)) return;
  const TemporaryFolder folder;
  const Process run = run_program(
      "pdl-run", "--strategy ddp --gpus 2 --dim 4096 --depth 6 --batch 2048 --steps 10 --json run.json", folder);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const RunResult result = read_run(folder / "run.json");
  const Plan plan = make_plan(result.spec);
  REQUIRE(result.timeline.spans.size() == plan.graph.tasks.size());
  std::int64_t reducing_ns = 0;
  for (const Span& span : result.timeline.spans) {
    if (span.kind == TaskKind::all_reduce) reducing_ns += span.end_ns - span.start_ns;
    // 67 MB over NVLink or PCIe: never in a few microseconds.
    if (span.kind == TaskKind::all_reduce) CHECK(span.end_ns - span.start_ns > 50'000);
  }
  CHECK(reducing_ns > 0);
}

TEST_CASE("Mixed precision on GPUs follows fp32", "[gpu][data_parallel]") {
  for (const int gpus : {1, 2}) {
    if (!enough_gpus(gpus)) return;
    for (const std::string program : {"--strategy ddp", "--strategy mp --microbatches 1"}) {
      for (const std::string dtype : {"amp-fp16", "amp-bf16"}) {
        const TemporaryFolder folder;
        const Process run = run_program("pdl-run",
                                        program + " --dtype " + dtype + " --gpus " + std::to_string(gpus) +
                                            " --dim 512 --depth 4 --batch 128 --steps 10 --check --json run.json",
                                        folder);
        INFO(program << " " << dtype << " on " << gpus << "\n" << run.err);
        REQUIRE(run.exit_code == 0);
        CHECK(count(run.err, "(equal)") == 1);
        const RunResult result = read_run(folder / "run.json");
        if (dtype == "amp-fp16") CHECK(result.extra["skipped_steps"] == 0);
      }
    }
  }
}
