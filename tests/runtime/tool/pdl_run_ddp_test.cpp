// pdl-run with processes that average gradients, as a user starts it, on CPU.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "sim/run/run_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/free_port.hpp"
#include "tests/support/pdl_run.hpp"

using namespace pdl;

#if PDL_GLOO

namespace {

const std::string kDdp = "--device cpu --strategy ddp --dim 16 --depth 4 --batch 13 --warmup 1 --steps 3 ";

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

/// Two processes with an environment each, which `of_rank` writes: "A=1 B=2".
template <typename Environment>
std::string two_processes(const Environment& of_rank, const std::string& flags) {
  std::ostringstream script;
  for (int rank = 0; rank < 2; ++rank) {
    script << of_rank(rank) << " $PDL_RUN " << flags << " --json run.json &\np" << rank << "=$!\n";
  }
  script << "wait $p0; a=$?; wait $p1; b=$?; echo $a $b; exit $((a > b ? a : b))\n";
  return script.str();
}

bool has_command(const std::string& name) {
  return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace

TEST_CASE("DDP starts its own processes, takes Gloo on CPU, and is checked", "[runtime][data_parallel]") {
  const TemporaryFolder folder;
  for (const std::string more : {"--gpus 2 --accum 4", "--gpus 3 --accum 2 --no-sync 1 --bucket-views 1", "--gpus 1"}) {
    const Process run = pdl_run(kDdp + more + " --check --json run.json", folder);
    INFO(more << "\n" << run.err);
    CHECK(run.exit_code == 0);
    const RunResult result = read_run(folder / "run.json");
    CHECK(count(run.err, "(equal)") == static_cast<std::size_t>(result.spec.gpus));  // every rank holds all layers
    CHECK(result.spec.transport == Transport::gloo);
    CHECK(result.extra["losses"].size() == 9);
    for (const Span& span : result.timeline.spans) CHECK(span.end_ns > 0);
  }
}

TEST_CASE("The loss of DDP is that of the whole batch", "[runtime][data_parallel]") {
  const TemporaryFolder folder;
  REQUIRE(pdl_run(kDdp + "--gpus 3 --json 3.json", folder).exit_code == 0);
  REQUIRE(pdl_run(kDdp + "--gpus 1 --json 1.json", folder).exit_code == 0);
  const auto losses = [&](const std::string& name) {
    return read_run(folder / name).extra["losses"].get<std::vector<double>>();
  };
  const std::vector<double> three = losses("3.json"), one = losses("1.json");
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(three[i] == Approx(one[i]).epsilon(1e-5));
}

TEST_CASE("Mixed precision under DDP is checked by its losses", "[runtime][data_parallel]") {
  const TemporaryFolder folder;
  for (const std::string dtype : {"amp-bf16", "amp-fp16"}) {
    const Process run = pdl_run(kDdp + "--gpus 2 --check --json run.json --dtype " + dtype, folder);
    INFO(run.err);
    CHECK(run.exit_code == 0);
    CHECK(count(run.err, "(equal)") == 1);
    CHECK(read_run(folder / "run.json").extra.contains("loss_scale") == (dtype == "amp-fp16"));
  }
}

TEST_CASE("A scenario of DDP without a transport takes Gloo on CPU", "[runtime][data_parallel]") {
  const TemporaryFolder folder;
  folder.write("x1.json",
               R"({"id": "x1", "title": "t", "settings": {"strategy": "ddp", "dim": 64, "depth": 3, "batch": 12},
    "vary": {"gpus": [1, 2], "accum": [1, 2]}, "columns": ["gpus", "step_time_ms"], "answer": "strong_scaling"})");
  const Process run = pdl_run("scenario x1.json --device cpu --steps 2 --warmup 0 --out runs", folder);
  INFO(run.err << run.out);
  CHECK(run.exit_code == 0);
  for (const std::string name : {"ddp_gpus2_mlp3x64_batch12_mb1_fp32_sgd_gloo_process",
                                 "ddp_gpus2_mlp3x64_batch12_mb1_fp32_sgd_gloo_process_accum2"}) {
    const std::string file = folder / ("runs/" + name + ".json");
    INFO(file);
    REQUIRE(std::filesystem::exists(file));
    CHECK(read_run(file).spec.transport == Transport::gloo);
  }
  folder.write("said.json",
               R"({"id": "x1", "title": "t", "settings": {"strategy": "ddp", "dim": 64, "depth": 3, "batch": 12,
    "transport": "nccl"}, "vary": {"gpus": [2]}, "columns": ["gpus", "step_time_ms"], "answer": "strong_scaling"})");
  const Process said = pdl_run("scenario said.json --device cpu --steps 2 --warmup 0 --out runs", folder);
  CHECK(said.exit_code == 3);
  CHECK_THAT(said.err, ContainsSubstring("--transport: found nccl on CPU"));
}

TEST_CASE("A run whose steps are all skipped is an error, not a time", "[runtime][data_parallel]") {
  const TemporaryFolder folder;
  const Process run = pdl_run(kDdp + "--gpus 2 --dtype amp-fp16 --loss-scale 1e30 --json run.json", folder);
  INFO(run.err);
  CHECK(run.exit_code == 3);
  CHECK_THAT(run.err, ContainsSubstring("all 3 measured steps were skipped"));
  CHECK_FALSE(std::filesystem::exists(folder / "run.json"));
}

TEST_CASE("DDP under the variables of other launchers, which say how many there are", "[runtime][data_parallel]") {
  const TemporaryFolder folder;
  for (const std::string names :
       {"RANK WORLD_SIZE LOCAL_RANK", "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK",
        "SLURM_PROCID SLURM_NTASKS SLURM_LOCALID"}) {
    std::filesystem::remove(folder / "run.json");
    const int port = free_port();
    std::istringstream words(names);
    std::string rank_name, size_name, local_name;
    words >> rank_name >> size_name >> local_name;
    const auto variables = [&](int rank) {
      return rank_name + "=" + std::to_string(rank) + " " + size_name + "=2 " + local_name + "=" + std::to_string(rank);
    };
    const Process run = run_script(two_processes(variables, kDdp + "--check --port " + std::to_string(port)), folder);
    INFO(names << "\n" << run.err);
    CHECK(run.exit_code == 0);
    CHECK(read_run(folder / "run.json").spec.gpus == 2);
  }
}

TEST_CASE("Workers that were given different commands end at once, all with the setting", "[runtime][data_parallel]") {
  const TemporaryFolder folder;  // each worker starts in one of its own
  folder.write("0/net.json", R"({"layers": [{"kind": "linear_relu", "in": 8, "out": 8}]})");
  folder.write("1/net.json", R"({"layers": [{"kind": "linear_relu", "in": 8, "out": 4}]})");
  struct Row {
    std::string first, second, message;
  };
  const std::vector<Row> table = {
      {"--batch 10", "--batch 14", "--batch: found 10 in worker 0 and 14 in worker 1"},
      {"--depth 3", "--depth 4", "--depth: found 3 in worker 0 and 4 in worker 1"},
      {"--learning-rate 0.5", "", "--learning-rate: found 0.5 in worker 0 and its default in worker 1"},
      {"--seed 1", "--seed 2", "--seed: found 1 in worker 0 and 2 in worker 1"},
      {"--steps 3", "--steps 4", "--steps: found 3 in worker 0 and 4 in worker 1"},
      {"--warmup 0", "", "--warmup: found 0 in worker 0 and 5 in worker 1"},
      {"--dtype amp-bf16", "", "--dtype: found amp-bf16 in worker 0 and fp32 in worker 1"},
      {"", "--straggler 1:5", "--straggler: found its default in worker 0 and 1:5 in worker 1"},
      {"--accum 2 --no-sync 1", "--accum 2", "--no-sync: found 1 in worker 0 and its default in worker 1"},
      {"--check", "", "--check: found 1 in worker 0 and 0 in worker 1"},
      {"--model net.json", "--model net.json", "--model: found net.json (contents "},
  };
  for (const std::string hosts : {"a a", "a b"}) {
    for (const Row& row : table) {
      INFO(hosts << ": " << row.first << " / " << row.second);
      if (hosts == "a b" && row.first != "--batch 10") continue;  // one is enough to see the other way to meet
      const std::string port = std::to_string(free_port());
      std::ostringstream script;
      for (int rank = 0; rank < 2; ++rank) {
        const std::string flags = rank == 0 ? row.first : row.second;
        const std::string model = flags.starts_with("--model") ? " " : " --dim 16 ";
        script << "( cd " << rank << " && PDL_HOST=" << hosts[rank == 0 ? 0 : 2] << " RANK=" << rank
               << " WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=" << port
               << " $PDL_RUN --device cpu --strategy ddp" << model << flags << " --json run.json )&\np" << rank
               << "=$!\n";
      }
      script << "SECONDS=0; wait $p0; a=$?; wait $p1; b=$?; echo $a $b $((SECONDS < 20))\n";
      const Process run = run_script(script.str(), folder);
      INFO(run.err);
      CHECK(run.out == "2 2 1\n");
      CHECK(count(run.err, row.message) == 2);
      CHECK(count(run.err, ", expected the same in all workers") == 2);
      CHECK_FALSE(std::filesystem::exists(folder / "0/run.json"));
    }
  }
}

TEST_CASE("DDP under mpirun", "[runtime][data_parallel]") {
  if (!has_command("mpirun")) {
    WARN("test skipped: there is no mpirun");
    return;
  }
  const TemporaryFolder folder;
  const Process run = run_script("mpirun --allow-run-as-root --oversubscribe -n 2 $PDL_RUN " + kDdp +
                                     "--check --json run.json --port " + std::to_string(free_port()),
                                 folder);
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK(count(run.err, "(equal)") == 2);
  CHECK(read_run(folder / "run.json").spec.gpus == 2);
}

TEST_CASE("Workers on two hosts", "[runtime][data_parallel]") {
  const TemporaryFolder folder;
  const auto start = [&](const std::string& more, const std::string& second = "b") {
    const std::string port = std::to_string(free_port());
    return run_script(two_processes(
                          [&](int rank) {
                            return "PDL_HOST=" + (rank == 0 ? std::string("a") : second) +
                                   " RANK=" + std::to_string(rank) +
                                   " WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port;
                          },
                          kDdp + more),
                      folder);
  };
  const Process run = start("--check --straggler 1:30");
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK(count(run.err, "(equal)") == 2);
  const RunResult result = read_run(folder / "run.json");
  CHECK(result.spec.hosts == 2);
  REQUIRE(result.warnings.size() >= 1);
  CHECK_THAT(result.warnings.back(), ContainsSubstring("the clocks of 2 hosts are not compared"));
  // Both workers' times count from their own start of the step.
  CHECK(result.step_time.median_ms >= 30);
  CHECK(result.step_time.median_ms < 5'000);
  for (const Span& span : result.timeline.spans) CHECK(span.end_ns <= result.timeline.step_ns);

  CHECK(start("--gpus 2 --hosts 2").exit_code == 0);
  const Process one = start("--gpus 2 --hosts 2", "a");
  CHECK(one.exit_code == 2);
  CHECK(count(one.err, "--hosts: found 2, expected 1") == 2);  // both say so, whoever is first
  const Process pipeline =
      run_script(two_processes(
                     [port = std::to_string(free_port())](int rank) {
                       return "PDL_HOST=" + std::to_string(rank) + " RANK=" + std::to_string(rank) +
                              " WORLD_SIZE=2 LOCAL_RANK=0 MASTER_PORT=" + port;
                     },
                     "--device cpu --gpus 2 --dim 8 --depth 2 --batch 8 --workers process --transport gloo"),
                 folder);
  CHECK(pipeline.exit_code == 2);
  CHECK_THAT(pipeline.err, ContainsSubstring("--workers: found processes on 2 hosts"));
}

namespace {

/// Kills the second of two workers while they train, and says how long the first one took to end. `hosts`: theirs.
Process kill_second(const TemporaryFolder& folder, const std::string& hosts, const std::string& signal) {
  const std::string port = std::to_string(free_port());
  std::istringstream words(hosts);
  std::ostringstream script;
  for (int rank = 0; rank < 2; ++rank) {
    std::string host;
    words >> host;
    script << "PDL_HOST=" << host << " RANK=" << rank
           << " WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=" << port << " $PDL_RUN " << kDdp
           << "--steps 1000000 --json run.json &\np" << rank << "=$!\n";
  }
  script << "sleep 4\nkill -" << signal
         << " $p1\nSECONDS=0\nwait $p0; code=$?\necho $SECONDS\nkill -9 $p1 2>/dev/null\nexit $code\n";
  std::string text = script.str();
  const std::string twice = "--warmup 1 --steps 3 ";
  for (std::size_t at = text.find(twice); at != std::string::npos; at = text.find(twice))
    text.replace(at, twice.size(), "--warmup 1 ");
  return run_script(text, folder);
}

}  // namespace

TEST_CASE("A DDP worker that dies ends all, named, within 30 s", "[runtime][data_parallel]") {
  const TemporaryFolder folder;
  struct Row {
    std::string hosts, signal, words;
  };
  const std::vector<Row> table = {
      {"a a", "KILL", "worker"},  // seen by its process
      {"a b", "KILL", "worker"},  // by its connections, or its silence
      {"a b", "STOP", "worker 1 has died, or its host is out of reach: silent for 15 s"},
  };
  for (const Row& row : table) {
    INFO(row.hosts << " " << row.signal);
    const Process run = kill_second(folder, row.hosts, row.signal);
    INFO(run.err << run.out);
    CHECK(run.exit_code == 3);
    CHECK_THAT(run.err, ContainsSubstring(row.words));
    CHECK(count(run.err, "frame #") == 0);
    CHECK(std::atoi(run.out.c_str()) < 30);
    CHECK_FALSE(std::filesystem::exists(folder / "run.json"));
  }
}

TEST_CASE("A DDP worker that pdl-run started and that dies is named", "[runtime][data_parallel]") {
  const TemporaryFolder folder;
  const Process run = run_script(
      "$PDL_RUN --device cpu --strategy ddp --gpus 3 --dim 16 --depth 4 --batch 13 --steps 1000000 --json run.json &\n"
      "p=$!\nwhile set -- $(cat /proc/$p/task/$p/children) && [ $# -lt 3 ]; do kill -0 $p || exit 99; sleep 0.01; "
      "done\n"
      "sleep 3\nkill -9 $2\nSECONDS=0\nwait $p; code=$?\necho $SECONDS\nexit $code\n",
      folder);
  INFO(run.err);
  CHECK(run.exit_code == 3);
  CHECK_THAT(run.err, ContainsSubstring("worker 1 has died (signal 9"));
  CHECK(std::atoi(run.out.c_str()) < 30);
}

#endif
