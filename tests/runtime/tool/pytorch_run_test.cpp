// pdl-run --program pytorch as a user runs it, on CPU: PyTorch's own programs, in Python.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/run/run_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/pdl_run.hpp"

using namespace pdl;

namespace {

/// Of the wheel that this program was built with.
std::string with_pytorch() {
  const char* others = std::getenv("PYTHONPATH");
  return "PYTHONPATH='" + std::string(PDL_PYTHON_PATH) + (others ? std::string(":") + others : "") + "'";
}

const std::string kSmall = "--program pytorch --device cpu --gpus 2 --dim 16 --batch 32 --warmup 1 --steps 2 --quiet ";

/// Every kind of layer, those without a matrix at both ends.
const std::string kNorms =
    R"({"layers": [{"kind": "layer_norm", "features": 16}, {"kind": "linear_relu", "in": 16, "out": 24},
  {"kind": "linear_relu", "in": 24, "out": 8}, {"kind": "gelu", "features": 8}]})";

/// Its interpreter cannot load it.
bool has_no_pytorch(const Process& run) {
  const bool none = run.err.find("which has no PyTorch") != std::string::npos;
  if (none) WARN("test skipped: " + run.err);
  return none;
}

}  // namespace

/// Every task of the plan has a span of its kind.
void check_spans(const RunResult& result) {
  CHECK(result.measured);
  CHECK(result.spec.program == ProgramOf::pytorch);
  CHECK(result.step_time.n == 2);
  CHECK(result.steps.size() == 3);
  CHECK(result.environment.contains("python"));
  const Plan plan = make_plan(on_cpu(result.spec));
  REQUIRE(result.timeline.spans.size() == plan.graph.tasks.size());
  for (std::size_t t = 0; t < plan.graph.tasks.size(); ++t) {
    CHECK(result.timeline.spans[t].kind == plan.graph.tasks[t].kind);
    CHECK(result.timeline.spans[t].end_ns > 0);
  }
}

/// And the training is one.
void check_run_of_pytorch(const RunResult& result) {
  check_spans(result);
  // The loss falls, or stays where it is; it is that of numbers with a variance of 1 and of small outputs.
  const auto& losses = result.extra["losses"];
  CHECK(losses.size() == 3 + 5);
  CHECK(losses.front().get<double>() > .5);
  CHECK(losses.front().get<double>() < 2);
  CHECK(losses.back().get<double>() <= losses.front().get<double>() + 1e-3);
}

TEST_CASE("pipelines of PyTorch are measured into the same file as any other run", "[runtime][tool]") {
  for (const std::string schedule : {"GPipe --depth 4 --microbatches 4", "1F1B --depth 5 --microbatches 4 --accum 2",
                                     "interleaved-zb --depth 4 --microbatches 2 --optimizer adam --scale-grads 1"}) {
    const TemporaryFolder folder;
    const Process run = pdl_run(kSmall + "--json run.json --schedule " + schedule, folder, with_pytorch());
    if (has_no_pytorch(run)) return;
    CAPTURE(schedule, run.err);
    REQUIRE(run.exit_code == 0);
    check_run_of_pytorch(read_run(folder / "run.json"));
  }
}

// Their losses are those of one pipeline that has all samples. Of stages of 512 x 512 a tensor is a bucket.
TEST_CASE("replicas of PyTorch's pipelines train as one pipeline does", "[runtime][tool]") {
  const std::string both =
      "--program pytorch --device cpu --warmup 1 --steps 2 --batch 32 --quiet --json run.json "
      "--schedule interleaved --depth 4 --dim 512 --microbatches 2 --accum 2 --dtype amp-bf16 ";
  const TemporaryFolder one, two;
  const Process of_one = pdl_run(both + "--gpus 2", one, with_pytorch());
  if (has_no_pytorch(of_one)) return;
  const Process of_two = pdl_run(both + "--gpus 4 --dp 2", two, with_pytorch());
  CAPTURE(of_one.err, of_two.err);
  REQUIRE(of_one.exit_code == 0);
  REQUIRE(of_two.exit_code == 0);
  const RunResult replicas = read_run(two / "run.json");
  check_run_of_pytorch(replicas);
  const auto expected = read_run(one / "run.json").extra["losses"].get<std::vector<double>>();
  const auto losses = replicas.extra["losses"].get<std::vector<double>>();
  REQUIRE(losses.size() == expected.size());
  for (std::size_t step = 0; step < losses.size(); ++step) CHECK(losses[step] == Approx(expected[step]).epsilon(1e-4));
}

TEST_CASE("PyTorch's other programs are measured too, all of them by one start of Python", "[runtime][tool]") {
  const TemporaryFolder folder;
  folder.write("norms.json", kNorms);
  folder.write("rows.json", R"({"id": "rows", "title": "Rows", "columns": ["step_time_ms"],
    "settings": {"program": "pytorch", "batch": 32},
    "configurations": [{"strategy": "ddp", "gpus": 2, "accum": 2, "no-sync": 1, "first-bucket-mb": 25, "dim": 16},
                       {"strategy": "ddp", "gpus": 2, "bucket-views": 1, "dtype": "amp-bf16", "straggler": "1:2",
                        "dim": 16},
                       {"strategy": "single", "dtype": "amp-bf16", "optimizer": "adam", "dim": 16},
                       {"strategy": "mp", "gpus": 2, "delay-ms": 1, "dim": 16},
                       {"strategy": "ddp", "gpus": 2, "model": "norms.json"},
                       {"strategy": "mp", "gpus": 2, "model": "norms.json"},
                       {"strategy": "pp", "schedule": "gpipe", "gpus": 2, "microbatches": 2, "model": "norms.json",
                        "dtype": "amp-bf16"},
                       {"strategy": "pp", "gpus": 2, "workers": "one", "schedule": "option-c", "microbatches": 3,
                        "dim": 16}]})");
  const Process run =
      pdl_run("scenario rows.json --out runs --device cpu --warmup 1 --steps 2", folder, with_pytorch());
  if (has_no_pytorch(run) || run.out.find("which has no PyTorch") != std::string::npos) return;
  CAPTURE(run.out, run.err);
  REQUIRE(run.exit_code == 0);
  std::size_t runs = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder / "runs")) {
    CAPTURE(file.path().string());
    check_run_of_pytorch(read_run(file.path().string()));
    ++runs;
  }
  CHECK(runs == 8);
}

namespace {

/// Blocks of 16 features, sequences of 4 tokens of 24; the head of the one is tied.
const std::string kGpt = R"({"layers": [
  {"kind": "gpt_embedding", "vocabulary": 24, "positions": 6, "features": 16, "tokens": 4, "dropout_percent": 10},
  {"kind": "gpt_block", "features": 16, "heads": 2, "inner": 32, "tokens": 4, "dropout_percent": 10, "gelu_tanh": 1},
  {"kind": "gpt_block", "features": 16, "heads": 2, "inner": 32, "tokens": 4},
  {"kind": "gpt_head", "features": 16, "vocabulary": 24, "tokens": 4}]})";
const std::string kLlama = R"({"layers": [
  {"kind": "embedding", "vocabulary": 24, "features": 16, "tokens": 4},
  {"kind": "llama_block", "features": 16, "heads": 2, "kv_heads": 1, "inner": 24, "tokens": 4},
  {"kind": "llama_block", "features": 16, "heads": 2, "kv_heads": 2, "inner": 24, "tokens": 4},
  {"kind": "llama_head", "features": 16, "vocabulary": 24, "tokens": 4}]})";

std::string tied(std::string model) {
  const std::string end = R"("tokens": 4}]})";
  return model.replace(model.rfind(end), end.size(), R"("tokens": 4, "tied": 1}]})");
}

}  // namespace

TEST_CASE("transformers are trained by PyTorch's programs", "[runtime][tool]") {
  const TemporaryFolder folder;
  folder.write("gpt.json", kGpt);
  folder.write("llama.json", kLlama);
  folder.write("tied.json", tied(kGpt));
  folder.write("rows.json", R"({"id": "rows", "title": "Rows", "columns": ["step_time_ms"],
    "settings": {"program": "pytorch", "batch": 8, "optimizer": "adamw", "gpus": 2, "learning-rate": 0.01},
    "configurations": [{"strategy": "single", "gpus": 1, "model": "tied.json"},
                       {"strategy": "single", "gpus": 1, "model": "llama.json", "optimizer": "adamw-fused"},
                       {"strategy": "ddp", "model": "tied.json", "bucket-mb": 0.005, "first-bucket-mb": 0.005},
                       {"strategy": "ddp", "model": "llama.json", "dtype": "amp-bf16"},
                       {"strategy": "mp", "model": "gpt.json"},
                       {"strategy": "pp", "schedule": "gpipe", "microbatches": 4, "model": "gpt.json"},
                       {"strategy": "pp", "schedule": "1f1b", "microbatches": 2, "model": "llama.json"},
                       {"strategy": "pp", "schedule": "1f1b", "microbatches": 2, "model": "llama.json",
                        "dtype": "amp-bf16"}]})");
  const Process run =
      pdl_run("scenario rows.json --out runs --device cpu --warmup 1 --steps 2", folder, with_pytorch());
  if (has_no_pytorch(run) || run.out.find("which has no PyTorch") != std::string::npos) return;
  CAPTURE(run.out, run.err);
  REQUIRE(run.exit_code == 0);
  std::size_t runs = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder / "runs")) {
    CAPTURE(file.path().string());
    const RunResult result = read_run(file.path().string());
    check_spans(result);
    const auto losses = result.extra["losses"].get<std::vector<double>>();
    CHECK(losses.front() == Approx(std::log(24)).epsilon(.15));
    CHECK(losses.back() < losses.front());
    ++runs;
  }
  CHECK(runs == 8);
}

TEST_CASE("PyTorch's checkpointed layers train exactly as those that keep everything", "[runtime][tool]") {
  const TemporaryFolder folder;
  folder.write("gpt.json", tied(kGpt));
  folder.write("norms.json", kNorms);
  const std::vector<std::string> programs = {
      R"("strategy": "single", "gpus": 1, "model": "gpt.json")",
      R"("strategy": "single", "gpus": 1, "model": "gpt.json", "dtype": "amp-bf16", "accum": 2)",
      R"("strategy": "single", "gpus": 1, "model": "norms.json")",
      R"("strategy": "ddp", "model": "gpt.json", "bucket-mb": 0.005, "first-bucket-mb": 0.005)",
      R"("strategy": "ddp", "dim": 16, "dtype": "amp-bf16")"};
  std::string rows;
  for (const std::string& program : programs) {
    for (const std::string recompute : {"0", "1"})
      rows += (rows.empty() ? "{" : ", {") + program + ", \"recompute\": " + recompute + "}";
  }
  folder.write("rows.json", R"({"id": "rows", "title": "Rows", "columns": ["step_time_ms"],
    "settings": {"program": "pytorch", "batch": 8, "gpus": 2, "learning-rate": 0.01},
    "configurations": [)" + rows +
                                "]}");
  const Process run =
      pdl_run("scenario rows.json --out runs --device cpu --warmup 1 --steps 2", folder, with_pytorch());
  if (has_no_pytorch(run) || run.out.find("which has no PyTorch") != std::string::npos) return;
  CAPTURE(run.out, run.err);
  REQUIRE(run.exit_code == 0);
  int compared = 0;
  const std::string word = "_recompute";
  for (const auto& file : std::filesystem::directory_iterator(folder / "runs")) {
    std::string name = file.path().filename().string();
    if (name.find(word) == std::string::npos) continue;
    CAPTURE(name);
    const RunResult recomputed = read_run(file.path().string());
    check_spans(recomputed);
    const RunResult kept = read_run((file.path().parent_path() / name.erase(name.find(word), word.size())).string());
    CHECK(recomputed.extra["losses"] == kept.extra["losses"]);
    CHECK(recomputed.extra["losses"].front() != recomputed.extra["losses"].back());
    ++compared;
  }
  CHECK(compared == 5);
}

TEST_CASE("a question that PyTorch refuses leaves it in order for the next one", "[runtime][tool]") {
  const TemporaryFolder folder;
  folder.write("rows.json", R"({"id": "rows", "title": "Rows", "columns": ["step_time_ms"],
    "settings": {"program": "pytorch", "dim": 16, "depth": 4, "batch": 32, "strategy": "ddp", "gpus": 2},
    "configurations": [{"bucket-mb": 50}, {"learning-rate": 1e6}, {}]})");
  const Process run =
      pdl_run("scenario rows.json --out runs --device cpu --warmup 1 --steps 2", folder, with_pytorch());
  if (has_no_pytorch(run) || run.out.find("which has no PyTorch") != std::string::npos) return;
  CAPTURE(run.out, run.err);
  CHECK(run.exit_code == 3);
  CHECK_THAT(run.out, ContainsSubstring("a first bucket of another size than the others"));
  CHECK_THAT(run.out, ContainsSubstring("is not a finite number"));
  CHECK_THAT(run.err, ContainsSubstring("2 of 3 runs of rows were not measured"));
}

TEST_CASE("what PyTorch's program here has not is refused before anything is started", "[runtime][tool]") {
  const TemporaryFolder folder;
  folder.write("v.csv", "0F0,0F1,3F0,3F1,3B0,3B1,0B0,0B1\n1F0,1F1,2F0,2F1,2B0,2B1,1B0,1B1\n");
  folder.write("gelu_last.json", R"({"layers": [{"kind": "linear_relu", "in": 16, "out": 24},
                                                {"kind": "gelu", "features": 24}]})");
  folder.write("killed", "#!/bin/sh\nkill -9 $$\n");
  std::filesystem::permissions(folder / "killed", std::filesystem::perms::owner_all);
  for (const auto& [flags, said] : {
           std::pair<std::string, std::string>{"--strategy dp", "--strategy: found dp with program pytorch on CPU"},
           {"--schedule zb-v --depth 4", "one without a V"},
           {"--schedule v.csv --depth 4 --microbatches 2", "one without a V"},
           {"--strategy ddp --dtype tf32", "--dtype: found tf32 on CPU"},
           {"--schedule gpipe --json no/such/run.json", "--json: found no/such/run.json in a folder that is not there"},
           {"--schedule gpipe --delay-ms 1", "with hosts that sleep"},
           {"--schedule gpipe --check", "--check: found program pytorch"},
           {"--schedule gpipe --python /no/such/python", "--python: found /no/such/python, which cannot be started"},
           {"--schedule gpipe --python false", "PyTorch by false: it ended with exit code 1 and said nothing"},
           {"--schedule gpipe --python ./killed", "PyTorch by ./killed: it was killed by signal 9"},
           {"--schedule gpipe --python true", "--python: found true, which gave no answer"},
           {"--schedule gpipe --port 29512", "--port: found program pytorch"},
           {"--schedule gpipe --transport nccl", "--transport: found nccl on CPU, expected gloo"},
       }) {
    const Process run = pdl_run(kSmall + flags, folder, with_pytorch());
    CAPTURE(flags, run.err);
    const bool ends_later = flags.ends_with("false") || flags.ends_with("killed");
    CHECK(run.exit_code == (ends_later ? 3 : 2));
    CHECK_THAT(run.err, ContainsSubstring(said));
  }
  const std::string of_file = "--program pytorch --device cpu --gpus 2 --batch 4 ";
  const Process stage = pdl_run(of_file + "--schedule gpipe --microbatches 2 --model gelu_last.json", folder);
  CHECK(stage.exit_code == 2);
  CHECK_THAT(stage.err, ContainsSubstring("--model: found a stage of layers 1 to 1 without parameters"));
  const Process ours = pdl_run("--device cpu --dim 16 --python python3", folder);
  CHECK(ours.exit_code == 2);
  CHECK_THAT(ours.err, ContainsSubstring("--python: found program pdl"));
}

TEST_CASE("a training whose numbers leave their range is no measurement", "[runtime][tool]") {
  const TemporaryFolder folder;
  const Process run =
      pdl_run(kSmall + "--schedule gpipe --depth 4 --learning-rate 1000000 --json run.json", folder, with_pytorch());
  if (has_no_pytorch(run)) return;
  CHECK(run.exit_code == 3);
  CHECK_THAT(run.err, ContainsSubstring("is not a finite number"));
  CHECK_FALSE(std::filesystem::exists(folder / "run.json"));
}

TEST_CASE("PyTorch's processes are started by one of pdl-run", "[runtime][tool]") {
  const TemporaryFolder folder;
  const Process run = pdl_run(kSmall + "--schedule gpipe", folder, "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0");
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, ContainsSubstring("--program: found pytorch in one of 2 processes"));
}

TEST_CASE("an interpreter without PyTorch is named", "[runtime][tool]") {
  const TemporaryFolder folder;
  const std::string python = folder.write("python", "#!/bin/sh\necho no module >&2\nexit 4\n");
  REQUIRE(std::system(("chmod +x '" + python + "'").c_str()) == 0);
  const Process run = pdl_run(kSmall + "--schedule gpipe --python " + python, folder);
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, ContainsSubstring("which has no PyTorch (no module)"));
}
