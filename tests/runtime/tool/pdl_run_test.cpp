// pdl-run as a user runs it, on CPU.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <sstream>
#include <string>

#include "runtime/comm/process_group.hpp"
#include "sim/run/run_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/pdl_run.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

const std::string kTiny = "--device cpu --dim 16 --batch 13 --warmup 1 ";
const std::string kSmall = kTiny + "--steps 3 ";
// Starts what runs for hours, and waits until it has started its workers: $1, $2, ... are their processes.
const std::string kStartLongRun = R"(
  $PDL_RUN $flags --steps 1000000 &
  p=$!
  while set -- $(cat /proc/$p/task/$p/children) && [ $# -lt $workers ]; do kill -0 $p || exit 99; sleep 0.01; done
  say_who_runs() { for child in "$@"; do
     grep -qs '^State:[[:space:]]*[RSDTtI]' /proc/$child/status && echo left $child; done; true; }
)";

/// A port of this host that somebody listens on, for as long as this lives.
class TakenPort {
 public:
  TakenPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    REQUIRE(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(listen(socket_, 8) == 0);
    socklen_t length = sizeof address;
    REQUIRE(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length) == 0);
    number_ = ntohs(address.sin_port);
  }
  ~TakenPort() { close(socket_); }
  int number() const { return number_; }

 private:
  int socket_;
  int number_ = 0;
};

}  // namespace

TEST_CASE("One run: table, JSON, and the training checked", "[runtime][pdl-run]") {
  const TemporaryFolder folder;
  const Process run =
      pdl_run(kSmall + "--gpus 2 --depth 4 --microbatches 4 --schedule 1f1b --check --json run.json", folder);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out, ContainsSubstring("step time"));
  CHECK_THAT(run.err, ContainsSubstring("(equal)"));
  const RunResult result = read_run(folder / "run.json");
  CHECK(result.measured);
  CHECK(result.step_time.n == 3);
  CHECK(result.spec.schedule == "1f1b");
  CHECK(result.timeline.spans.size() == 2 * (4 + 4 + 1) + 8u);
  CHECK(result.extra["losses"].size() == 9);  // 1 dropped, 3 measured, 5 recorded
  CHECK(result.extra["check"]["steps"] == 9);
  CHECK_THAT(result.environment["command"].get<std::string>(), ContainsSubstring("pdl-run --device cpu --dim 16"));
  CHECK(result.environment["command"].get<std::string>().find("json") == std::string::npos);
}

TEST_CASE("The same seed gives the same losses, another seed others", "[runtime][pdl-run]") {
  const TemporaryFolder folder;
  const std::string flags = kSmall + "--gpus 2 --depth 4 --microbatches 4 --schedule gpipe ";
  for (const std::string seed : {"1", "1b", "2"}) {
    REQUIRE(pdl_run(flags + "--seed " + seed.substr(0, 1) + " --json " + seed + ".json", folder).exit_code == 0);
  }
  const auto losses = [&](const std::string& name) { return read_run(folder / (name + ".json")).extra["losses"]; };
  CHECK(losses("1") == losses("1b"));
  CHECK(losses("1") != losses("2"));
}

TEST_CASE("A schedule from a file, and one thread that follows option C", "[runtime][pdl-run]") {
  const TemporaryFolder folder;
  folder.write("mine.csv", "0F0,0F1,3F0,3I0,3W0,3F1,3B1,0I0,0B1,0W0\n1F0,2F0,1F1,2F1,2B0,1I0,2I1,1B1,2W1,1W0\n");
  const Process mine = pdl_run(kTiny + "--steps 3 --depth 5 --schedule mine.csv --check --json run.json", folder);
  INFO(mine.err);
  CHECK(mine.exit_code == 0);
  CHECK_THAT(mine.err, ContainsSubstring("(equal)"));
  CHECK(read_run(folder / "run.json").spec.gpus == 2);
  const Process option_c =
      pdl_run(kSmall + "--gpus 2 --depth 4 --microbatches 4 --schedule option-c --workers one --check", folder);
  INFO(option_c.err);
  CHECK(option_c.exit_code == 0);
  CHECK_THAT(option_c.err, ContainsSubstring("(equal)"));
}

TEST_CASE("Pipelines under autocast, checked against one device under autocast", "[runtime][pdl-run]") {
  const TemporaryFolder folder;
  std::vector<std::string> programs = {"--schedule 1f1b", "--schedule zb-h1 --optimizer adam",
                                       "--schedule gpipe --recompute 1"};
  for (std::string& program : programs) program += " --gpus 2 --batch 13";
  if (has_process_groups(c10::kCPU)) {
    const std::string processes = "--schedule 1f1b --workers process --transport gloo ";
    programs.push_back(processes + "--gpus 2 --batch 13");
    programs.push_back(processes + "--gpus 4 --pp 2 --dp 2 --batch 16");
  }
  for (const std::string& program : programs) {
    INFO(program);
    const Process run = pdl_run(
        "--device cpu --dim 16 --warmup 1 --steps 3 --depth 4 --microbatches 4 "
        "--dtype amp-bf16 --check --json run.json " +
            program,
        folder);
    INFO(run.err);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.err, ContainsSubstring("plain training under autocast") && ContainsSubstring("(equal)"));
    CHECK(read_run(folder / "run.json").extra["check"]["largest_loss_difference"] < .05);
  }
  const Process refused = pdl_run(kSmall + "--gpus 2 --depth 4 --dtype amp-fp16 --schedule 1f1b", folder);
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, ContainsSubstring("--dtype: found amp-fp16 for a pipeline with a worker a GPU, expected "
                                            "amp-bf16, which needs no GradScaler"));
}

TEST_CASE("Where no GPU is visible the CPU has to be asked for", "[runtime][pdl-run]") {
  const TemporaryFolder folder;
  const std::string small = "--dim 16 --depth 2 --batch 13 --warmup 1 --steps 2 ", hidden = "CUDA_VISIBLE_DEVICES=";
  for (const std::string more :
       {"", "--strategy ddp --gpus 2", "--workers process --gpus 2 --schedule gpipe", "--device cuda"}) {
    INFO(more);
    const Process refused = pdl_run(small + more, folder, hidden);
    CHECK(refused.exit_code == 2);
    CHECK(refused.out == "");
    CHECK_THAT(refused.err, ContainsSubstring("--device: found cuda"));
    CHECK_THAT(refused.err, ContainsSubstring("cpu, or a host with GPUs"));
  }
  const Process asked = pdl_run(small + "--device cpu", folder, hidden);
  CHECK(asked.exit_code == 0);
  CHECK(asked.err == "");
}

TEST_CASE("A worker that is stopped ends the run at the limit on waiting", "[runtime][pdl-run]") {
  if (!has_process_groups(c10::kCPU)) {
    WARN("test skipped: built without Gloo");
    return;
  }
  const TemporaryFolder folder;
  // Long enough that the worker is stopped in the middle.
  const Process run = run_script(
      "$PDL_RUN --device cpu --workers process --gpus 2 --dim 64 --depth 2 --batch 8 --microbatches 2 "
      "--schedule gpipe --transport gloo --steps 1000000 --wait-limit 2 & run=$!\n"
      "until workers=$(pgrep -P $run) && [ $(echo $workers | wc -w) = 2 ]; do sleep .1; done\n"
      "sleep 3; kill -STOP ${workers##*\n}; wait $run; echo $?; pgrep -P $run || echo none left",
      folder);
  INFO(run.err);
  CHECK(run.out == "3\nnone left\n");
  CHECK_THAT(run.err, ContainsSubstring("nothing has moved for 2 s (--wait-limit):\n  "));
  CHECK_THAT(run.err, ContainsSubstring("stopped: worker ") || ContainsSubstring(") is stopped\n") ||
                          ContainsSubstring(": worker "));
}

TEST_CASE("Who waits for a worker that is at work is not ended by the limit on waiting", "[runtime][pdl-run]") {
  if (!has_process_groups(c10::kCPU)) {
    WARN("test skipped: built without Gloo");
    return;
  }
  const TemporaryFolder folder;
  // Afterwards worker 0 trains the same model alone, for longer than the limit, and worker 1 waits for it.
  const Process run = pdl_run(
      "--device cpu --gpus 2 --strategy ddp --dtype amp-bf16 --dim 512 --depth 4 --batch 256 --steps 1 "
      "--warmup 0 --check --wait-limit 0.5",
      folder);
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.err, ContainsSubstring("(equal)"));
}

TEST_CASE("JSON alone on standard output", "[runtime][pdl-run]") {
  const TemporaryFolder folder;
  const Process run = pdl_run(kSmall + "--depth 2 --microbatches 2 --json -", folder);
  CHECK(run.exit_code == 0);
  CHECK(nlohmann::json::parse(run.out)["gpus"].size() == 1);
}

TEST_CASE("Wrong words are refused by name", "[runtime][pdl-run]") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& arguments, const std::string& words) {
    INFO(arguments);
    const Process run = pdl_run(arguments, folder);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, ContainsSubstring(words));
    CHECK(run.out.empty());
  };
  refused(kSmall + "--gups 2", "--gpus");
  refused(kSmall + "--gpus 0", "--gpus: found 0");
  refused(kTiny + "--steps 0", "--steps: found 0");
  refused("--device tpu", "--device: found tpu, expected cuda or cpu");
  refused(kSmall + "--gpus 2 --gpus 2", "--gpus");
  refused(kSmall + "--gpus 2 --depth 2 --transport nccl", "--transport: found nccl on CPU");
  refused(kSmall + "--gpus 2 --depth 2 --workers process", "found copy between processes");
  refused(kSmall + "--gpus 2 --depth 2 --port 4000", "--port: found 4000 with --workers thread");
  refused(kSmall + "--gpus 2 --depth 2 --dtype tf32", "--dtype: found tf32 on CPU");
  refused(kSmall + "--gpus 2 --depth 2 --tf 1 --tb 2", "synthetic");
  refused("--device cuda --gpus 1000 --depth 1000", "expected");
  refused(kSmall + "--gpus 2 --depth 2 --schedule auto", "pdl-sim");
  refused(kSmall + "--gpus 2 --depth 2 --schedule zb-w", "zb-v");
  refused(kSmall + "--gpus 2 --depth 2 --schedule zb-v", "4 stages for 2 layers");
  refused(kSmall + "--gpus 2 --depth 2 --schedule 1f1b --workers one", "option-c");
}

#if PDL_GLOO

TEST_CASE("Workers that are processes", "[runtime][pdl-run]") {
  const TemporaryFolder folder;
  const Process run = pdl_run(kSmall +
                                  "--gpus 3 --depth 7 --microbatches 4 --schedule 1f1b --workers process "
                                  "--transport gloo --check --json run.json",
                              folder);
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out, ContainsSubstring("step time"));
  std::size_t equal = 0;
  for (std::size_t at = run.err.find("(equal)"); at != std::string::npos; at = run.err.find("(equal)", at + 1)) ++equal;
  CHECK(equal == 3);  // every process checks its own layers
  const RunResult result = read_run(folder / "run.json");
  CHECK(result.timeline.spans.size() == 3 * (4 + 4 + 1) + 2 * 2 * 2 * 4u);  // sends and receives
  for (const Span& span : result.timeline.spans) CHECK(span.end_ns > 0);
  CHECK(result.extra["losses"].size() == 9);
}

TEST_CASE("Processes with several stages check the layers that they hold", "[runtime][pdl-run]") {
  const TemporaryFolder folder;
  for (const std::string schedule : {"interleaved --chunks 2", "zb-v"}) {
    const Process run =
        pdl_run(kSmall + "--gpus 2 --depth 7 --microbatches 4 --workers process --transport gloo --check --schedule " +
                    schedule,
                folder);
    INFO(run.err);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.err, ContainsSubstring("worker 1: after 9 steps"));
  }
}

TEST_CASE("Processes started by others", "[runtime][pdl-run]") {
  const TemporaryFolder folder;
  const std::string flags =
      kSmall + "--gpus 2 --depth 4 --microbatches 4 --schedule gpipe --workers process --transport gloo ";
  const auto start = [&](const std::string& names) {
    const int port = TakenPort().number();  // free again
    std::ostringstream script;
    for (int rank = 0; rank < 2; ++rank) {
      std::istringstream words(names);
      std::string rank_name, size_name, local_name;
      words >> rank_name >> size_name >> local_name;
      script << rank_name << "=" << rank << " " << size_name << "=2 " << local_name << "=" << rank << " $PDL_RUN "
             << flags << "--port " << port << " --json run.json &\np" << rank << "=$!\n";
    }
    script << "wait $p0; a=$?; wait $p1; b=$?; exit $((a + b))\n";
    return run_script(script.str(), folder);
  };
  for (const std::string names :
       {"RANK WORLD_SIZE LOCAL_RANK", "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK",
        "SLURM_PROCID SLURM_NTASKS SLURM_LOCALID"}) {
    std::filesystem::remove(folder / "run.json");
    const Process run = start(names);
    INFO(names << "\n" << run.err);
    CHECK(run.exit_code == 0);
    CHECK(read_run(folder / "run.json").measured);
  }
}

TEST_CASE("As many processes as GPUs", "[runtime][pdl-run]") {
  const TemporaryFolder folder;
  const Process number =
      pdl_run(kSmall + "--gpus 2 --depth 2 --workers process --transport gloo", folder, "RANK=0 WORLD_SIZE=3");
  CHECK(number.exit_code == 2);
  CHECK_THAT(number.err, ContainsSubstring("--gpus: found 2 in one of 3 processes, expected 3"));
  const Process kind = pdl_run(kSmall + "--gpus 2 --depth 2", folder, "RANK=0 WORLD_SIZE=2");
  CHECK(kind.exit_code == 2);
  CHECK_THAT(kind.err, ContainsSubstring("--workers: found thread in one of 2 processes"));
  CHECK(pdl_run(kSmall + "--gpus 2 --depth 2", folder, "SLURM_PROCID=0 SLURM_NTASKS=2").exit_code == 0);
}

TEST_CASE("A port in use", "[runtime][pdl-run]") {
  const TemporaryFolder folder;
  const TakenPort taken;
  const std::string port = std::to_string(taken.number());
  const Process run = pdl_run(kSmall + "--gpus 2 --depth 2 --workers process --transport gloo --port " + port, folder);
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, ContainsSubstring("--port: found " + port + ", which is in use"));
}

TEST_CASE("A worker that dies ends all, at whatever moment", "[runtime][pdl-run]") {
  const TemporaryFolder folder;
  const std::string flags = kTiny +
                            "--gpus 3 --depth 6 --microbatches 4 --schedule 1f1b --workers process --transport gloo "
                            "--json run.json";
  for (const std::string moment : {"0", "3"}) {
    const auto start = std::chrono::steady_clock::now();
    const Process run = run_script("flags='" + flags + "' workers=3\n" + kStartLongRun + "sleep " + moment + R"(
      kill -9 $2
      wait $p; code=$?
      say_who_runs $1 $2 $3
      exit $code)",
                                   folder);
    INFO(run.err);
    CHECK(run.exit_code == 3);
    CHECK_THAT(run.err, ContainsSubstring("worker 1 has died (signal 9"));
    CHECK(run.out.empty());  // no process is left
    CHECK_FALSE(std::filesystem::exists(folder / "run.json"));
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  }
}

TEST_CASE("Workers end with the process that started them", "[runtime][pdl-run]") {
  const TemporaryFolder folder;
  const std::string flags = kTiny + "--gpus 2 --depth 4 --workers process --transport gloo";
  const Process run = run_script("flags='" + flags + "' workers=2\n" + kStartLongRun + R"(
    sleep 2
    kill -9 $p
    sleep 1
    say_who_runs $1 $2)",
                                 folder);
  INFO(run.err << run.out);
  CHECK(run.exit_code == 0);
  CHECK(run.out.empty());
}

#endif

TEST_CASE("Every run of a scenario, and those that are there are kept", "[runtime][pdl-run]") {
  const TemporaryFolder folder;
  folder.write("small.json", R"({"id": "small", "title": "t", "source": "test", "question": "",
    "settings": {"depth": 4, "dim": 8, "batch": 8, "microbatches": 2, "schedule": "gpipe"},
    "vary": {"gpus": [1, 2]}, "columns": ["gpus", "step_time_ms"]})");
  const std::string command = "scenario small.json --out runs --device cpu --steps 2 --warmup 0";
  const Process first = pdl_run(command, folder);
  INFO(first.err);
  CHECK(first.exit_code == 0);
  const std::string one = folder / "runs/pp-gpipe_gpus1_mlp4x8_batch8_mb2_fp32_sgd_copy_thread.json";
  const std::string two = folder / "runs/pp-gpipe_gpus2_mlp4x8_batch8_mb2_fp32_sgd_copy_thread.json";
  CHECK(read_run(two).spec.gpus == 2);
  CHECK(read_run(two).step_time.n == 2);
  const std::string kept = read_text(two);
  std::filesystem::remove(one);
  const Process second = pdl_run(command, folder);
  CHECK(second.exit_code == 0);
  CHECK_THAT(second.out, ContainsSubstring("kept: the file is there"));
  CHECK(read_text(two) == kept);
  CHECK(read_run(one).spec.gpus == 1);
}

TEST_CASE("Runs of a scenario that cannot be measured are listed", "[runtime][pdl-run]") {
  const TemporaryFolder folder;
  folder.write("mixed.json", R"({"id": "mixed", "title": "t", "source": "test", "question": "",
    "settings": {"depth": 4, "dim": 8, "batch": 8, "microbatches": 2, "schedule": "gpipe", "gpus": 2},
    "vary": {"transport": ["copy", "nccl"]}, "columns": ["gpus", "step_time_ms"]})");
  const Process run = pdl_run("scenario mixed.json --out runs --device cpu --steps 2 --warmup 0", folder);
  CHECK(run.exit_code == 3);
  CHECK_THAT(run.err, ContainsSubstring("1 of 2 runs of mixed were not measured"));
  CHECK_THAT(run.err, ContainsSubstring("nccl on CPU"));
  CHECK(read_run(folder / "runs/pp-gpipe_gpus2_mlp4x8_batch8_mb2_fp32_sgd_copy_thread.json").measured);
}
