// pdl-calibrate as a user runs it, without hardware: the built program, its output, its exit codes.
#include "calibrate/fit/samples.hpp"
#include "sim/cost/cost_profile.hpp"
#include "tests/calibrate/fit/sample_builder.hpp"
#include "tests/support/process.hpp"

namespace pdl {
namespace {

/// A few layers and a link, with one size off and one doubt.
Samples small_samples() {
  SampleBuilder b;
  for (const std::int64_t rows : {8, 32})
    b.layer(64, rows, {9, 5.0 + static_cast<double>(rows), 5.2 + static_cast<double>(rows)});
  for (int k = 10; k <= 24; k += 2) {
    const double us = (k == 16 ? 40 : 1) * (10 + static_cast<double>(1LL << k) / 40e3);
    b.transfer(1LL << k, {99, us, us});
  }
  b.samples.samples[0].warmup = 0;
  return b.samples;
}

TEST_CASE("fits without hardware and says what it fitted: --from", "[calibrate_tool]") {
  const TemporaryFolder folder;
  save_samples(small_samples(), folder / "samples.json");
  const Process run = run_program("pdl-calibrate", "--from samples.json --out profile.json --name mine", folder);
  CHECK(run.err == "");
  CHECK(run.exit_code == 0);
  check_golden("calibrate_summary.txt", run.out);
  CHECK(load_profile(folder / "profile.json").name == "mine");
}

TEST_CASE("outputs of nccl-tests, alone and beside samples", "[calibrate_tool]") {
  const TemporaryFolder folder;
  folder.write("all_reduce.txt",
               "# nThread 1 nGpus 4 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1\n"
               "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
               "# (B) (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s)\n"
               "1048576 262144 float sum -1 27.37 38.31 57.47 0 26.93 38.94 58.41 0\n"
               "# Out of bounds values : 0 OK\n");
  const std::string flags = "--from-nccl-tests all_reduce.txt --collective all_reduce --ranks 4 --out p.json";
  CHECK(run_program("pdl-calibrate", flags, folder).exit_code == 0);
  CHECK(load_profile(folder / "p.json").curves.size() == 1);
  CHECK(run_program("pdl-calibrate", flags + " --hosts 2", folder).exit_code == 0);
  CHECK(load_profile(folder / "p.json").curves.front().key.hosts == 2);
  CHECK_THAT(run_program("pdl-calibrate", "--from samples.json --out q.json --hosts 2", folder).err,
             ContainsSubstring("--hosts: found it without --from-nccl-tests"));
  save_samples(small_samples(), folder / "samples.json");
  const Process both = run_program("pdl-calibrate", "--from samples.json " + flags, folder);
  CHECK(both.exit_code == 0);
  CHECK_THAT(both.out, ContainsSubstring("collective nccl all_reduce") && ContainsSubstring("transfer copy"));
}

TEST_CASE("the profile on standard output, the summary beside it", "[calibrate_tool]") {
  const TemporaryFolder folder;
  save_samples(small_samples(), folder / "samples.json");
  const Process run = run_program("pdl-calibrate", "--from samples.json --out -", folder);
  CHECK(run.exit_code == 0);
  CHECK_NOTHROW(profile_from_json(nlohmann::json::parse(run.out), "stdout"));
  CHECK_THAT(run.err, ContainsSubstring("transfer copy"));
}

TEST_CASE("a profile in a folder of data/ is called like the folder", "[calibrate_tool]") {
  const TemporaryFolder folder;
  save_samples(small_samples(), folder / "samples.json");
  folder.write("h100x4/keep", "");
  CHECK(run_program("pdl-calibrate", "--from samples.json --out h100x4/profile.json", folder).exit_code == 0);
  CHECK(load_profile(folder / "h100x4").name == "h100x4");
}

TEST_CASE("samples that are refused leave no profile, nor touch an old one", "[calibrate_tool]") {
  const TemporaryFolder folder;
  folder.write("samples.json", "{\"format\": \"pdl-samples-1\", \"environment\": {}, \"samples\": [");
  folder.write("profile.json", "old");
  const Process run = run_program("pdl-calibrate", "--from samples.json --out profile.json", folder);
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, ContainsSubstring("pdl-calibrate: samples.json"));
  CHECK(read_text(folder / "profile.json") == "old");
}

TEST_CASE("command lines that cannot be: exit 2, the flag named", "[calibrate_tool]") {
  const TemporaryFolder folder;
  save_samples(small_samples(), folder / "samples.json");
  for (const auto& [arguments, named] : std::vector<std::pair<std::string, std::string>>{
           {"", "--out"},
           {"--out p.json --gpus 0", "--gpus"},
           {"--out p.json --gpus -1", "--gpus"},
           {"--out p.json --gpus two", "--gpus"},
           {"--out p.json --gups 2", "--gpus"},
           {"--out p.json --dims 64,0", "--dims"},
           {"--out p.json --rows 1.5", "--rows"},
           {"--out p.json --max-seconds 0", "--max-seconds"},
           {"--out p.json --max-seconds nan", "--max-seconds"},
           {"--out p.json --out q.json", "--out"},
           {"--out p.json --samples p.json", "--samples"},
           {"--out none/p.json", "--out"},
           {"--out .", "--out"},
           {"--out p.json --samples none/s.json", "--samples"},
           {"--from samples.json --out p.json --gpus 2", "--gpus"},
           {"--from samples.json --out p.json --samples s.json", "--samples"},
           {"--from samples.json --out samples.json", "--out"},
           {"--from none.json --out p.json", "none.json"},
           {"--from samples.json", "--out"},
           {"--from-nccl-tests none.txt --out p.json", "none.txt"},
           {"--from-nccl-tests samples.json --out p.json", "samples.json"},
           {"--from-nccl-tests a.txt --out p.json --gpus 2", "--gpus"},
           {"--from-nccl-tests a.txt --out a.txt", "--out"},
           {"--from-nccl-tests a.txt --out p.json --ranks 1", "--ranks"},
           {"--from-nccl-tests a.txt --out p.json --collective alltoall", "--collective"},
           {"--from samples.json --out p.json --ranks 4", "--ranks"},
           {"extra --out p.json", "extra"}}) {
    INFO(arguments);
    const Process run = run_program("pdl-calibrate", arguments, folder);
    CHECK(run.exit_code == 2);
    CHECK(run.out == "");
    CHECK_THAT(run.err, ContainsSubstring(named));
  }
}

TEST_CASE("says what there is and what it means: --help", "[calibrate_tool]") {
  const TemporaryFolder folder;
  const Process run = run_program("pdl-calibrate", "--help", folder);
  CHECK(run.exit_code == 0);
  for (const char* word :
       {"--device", "--gpus", "--out", "--samples", "--from", "--name", "--dims", "--rows", "Examples", "Exit codes"}) {
    CHECK_THAT(run.out, ContainsSubstring(word));
  }
}

}  // namespace
}  // namespace pdl
