// The outputs of a single prediction, and of two compared: --explain, --html, --markdown, --csv.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <utility>

#include "tests/support/catch.hpp"
#include "tests/support/process.hpp"

using namespace pdl;

namespace {

const std::string kRun = "--gpus 2 --depth 2 --microbatches 2 --schedule gpipe --tf 1 --tb 2 --tcomm 1 ";

Process sim(const std::string& arguments, const TemporaryFolder& folder) {
  return run_program("pdl-sim", arguments, folder);
}

}  // namespace

TEST_CASE("with --explain: in the text, in the JSON, and in neither without it") {
  const TemporaryFolder folder;
  const Process explained = sim(kRun + "--explain --json run.json", folder);
  CHECK(explained.exit_code == 0);
  CHECK_THAT(explained.out, ContainsSubstring("Without transfers the step would take 9.000 ms instead of 11.000 ms"));
  CHECK_THAT(explained.out, ContainsSubstring("The critical path"));
  const nlohmann::json explain = nlohmann::json::parse(read_text(folder / "run.json"))["explain"];
  CHECK(explain["mean"]["useful_ms"] == 6);
  CHECK(explain["without"][0]["what"] == "transfers");
  CHECK(explain["without"][0]["step_time_ms"] == 9);
  const Process plain = sim(kRun + "--json plain.json", folder);
  CHECK(plain.out.find("critical path") == std::string::npos);
  CHECK_FALSE(nlohmann::json::parse(read_text(folder / "plain.json")).contains("explain"));
}

TEST_CASE("a run as a page, Markdown and CSV, beside the text") {
  const TemporaryFolder folder;
  const Process run = sim(kRun + "--html a.html --markdown a.md --csv a.csv", folder);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out, ContainsSubstring("step time: 11.000 ms, predicted"));
  CHECK(read_text(folder / "a.html").starts_with("<!doctype html>"));
  CHECK_THAT(read_text(folder / "a.md"), ContainsSubstring("| GPU | layers | range | busy (ms) |"));
  CHECK(read_text(folder / "a.csv").starts_with("gpu,layers,layer_range,busy_ms,"));
  const Process alone = sim(kRun + "--csv -", folder);
  CHECK(alone.out == read_text(folder / "a.csv"));
}

TEST_CASE("the line of the other program says what that program's own prediction does, or nothing") {
  const TemporaryFolder folder;
  const std::string pipeline = "--gpus 2 --depth 16 --dim 4096 --batch 4096 --schedule gpipe --profile h200x2";
  const auto number_after = [](const std::string& text, const std::string& words) {
    std::smatch found;
    const bool has = std::regex_search(text, found, std::regex(words + ": ([0-9.]+) ms"));
    return has ? found[1].str() : "not in the text";
  };
  const std::string ours = sim(pipeline, folder).out;
  const std::string pytorchs = sim(pipeline + " --program pytorch", folder).out;
  CHECK(number_after(ours, "in PyTorch, ScheduleGPipe") == number_after(pytorchs, "step time"));
  CHECK(number_after(pytorchs, "by pdl-run") == number_after(ours, "step time"));
  // Its memory is another: 1.88 GiB against 1.70 on the GPU that needs most.
  CHECK_THAT(sim(pipeline + " --program pytorch --memory 1.75GiB", folder).out, !ContainsSubstring("by pdl-run"));
  CHECK(sim(pipeline + " --memory 1.75GiB", folder).exit_code == 3);
  // DDP is the same kernels: told apart where the profile has Python's host times.
  const std::string ddp = "--strategy ddp --gpus 2 --dim 1024 --profile ";
  const std::string by_python = sim("--program pytorch " + ddp + "h200x2", folder).out;
  CHECK(number_after(by_python, "by pdl-run") == number_after(sim(ddp + "h200x2", folder).out, "step time"));
  nlohmann::json without = nlohmann::json::parse(read_text(PDL_SOURCE_DIR "/data/h200x2/profile.json"));
  without.erase("checksum");
  nlohmann::json host = nlohmann::json::array();
  for (const nlohmann::json& time : without["host"]) {
    if (!time["name"].get<std::string>().starts_with("python_")) host.push_back(time);
  }
  without["host"] = host;
  folder.write("without.json", without.dump());
  CHECK_THAT(sim("--program pytorch " + ddp + "without.json", folder).out,
             ContainsSubstring("by pdl-run: the same kernels"));
}

TEST_CASE("two outputs at one place are refused before anything is written") {
  const TemporaryFolder folder;
  for (const auto& [flags, message] :
       {std::pair{"--json - --csv -", "--csv: found - beside --json -"},
        std::pair{"--json x --html x", "--html: found x, the file of --json too"},
        std::pair{"--schedule-csv x --markdown x", "--markdown: found x, the file of --schedule-csv too"},
        std::pair{"--json x --markdown ./x", "--markdown: found ./x, the file of --json too"}}) {
    const Process run = sim(kRun + flags, folder);
    INFO(flags << "\n" << run.err);
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK_THAT(run.err, ContainsSubstring(message));
    CHECK_FALSE(std::filesystem::exists(folder / "x"));
  }
}

TEST_CASE("a trace is not replaced by what is said of it, under whatever name") {
  const TemporaryFolder folder;
  const std::string trace =
      R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": 2, "args": {"stream": 7}}]})";
  folder.write("a.json", trace);
  std::filesystem::create_symlink(folder / "a.json", folder / "link.json");
  for (const char* arguments : {"--json a.json", "--json ./a.json", "--json link.json", "--csv a.json"}) {
    const Process run = sim(std::string("import-trace a.json ") + arguments, folder);
    INFO(arguments << "\n" << run.err);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, ContainsSubstring("which was read as an input"));
    CHECK(read_text(folder / "a.json") == trace);
  }
  CHECK(sim("import-trace a.json --json b.json", folder).exit_code == 0);
}

TEST_CASE("an output never replaces an input, under whatever name") {
  const TemporaryFolder folder;
  REQUIRE(sim(kRun + "--json a.json", folder).exit_code == 0);
  std::filesystem::create_symlink(folder / "a.json", folder / "link.json");
  const std::string before = read_text(folder / "a.json");
  for (const char* arguments : {"compare a.json a.json --html a.json", "compare a.json a.json --json ./a.json",
                                "compare link.json a.json --csv link.json"}) {
    const Process run = sim(arguments, folder);
    INFO(arguments << "\n" << run.err);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, ContainsSubstring("which was read as an input"));
    CHECK(read_text(folder / "a.json") == before);
  }
  CHECK(sim("compare a.json a.json --html new.html", folder).exit_code == 0);
}

TEST_CASE("compare: where both steps go, as text, JSON and a page") {
  const TemporaryFolder folder;
  CHECK(sim(kRun + "--json a.json", folder).exit_code == 0);
  CHECK(sim(kRun + "--tcomm 0 --json b.json", folder).exit_code == 2);  // twice
  CHECK(sim("--gpus 2 --depth 2 --microbatches 2 --schedule gpipe --tf 1 --tb 2 --json b.json", folder).exit_code == 0);
  const Process run = sim("compare a.json b.json --explain --json c.json --html c.html --csv c.csv", folder);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out, ContainsSubstring("Where the steps go"));
  const nlohmann::json compared = nlohmann::json::parse(read_text(folder / "c.json"));
  CHECK(compared["explain"]["a"]["mean"]["transfers_ms"] == 1);
  CHECK(compared["explain"]["b"]["mean"]["transfers_ms"] == 0);
  CHECK_THAT(read_text(folder / "c.csv"), ContainsSubstring("transfers exposed,1,0,1,"));
  CHECK(read_text(folder / "c.html").starts_with("<!doctype html>"));
}

TEST_CASE("compare does not explain spans that are not those of the plan") {
  const TemporaryFolder folder;
  CHECK(sim(kRun + "--json a.json", folder).exit_code == 0);
  nlohmann::ordered_json edited = nlohmann::ordered_json::parse(read_text(folder / "a.json"));
  edited["spans"].erase(0);
  folder.write("edited.json", edited.dump());
  CHECK(sim("compare a.json edited.json", folder).exit_code == 0);
  const Process run = sim("compare a.json edited.json --explain", folder);
  CHECK(run.exit_code == 2);
  CHECK(run.out.empty());
  CHECK_THAT(run.err, ContainsSubstring("edited.json: found spans that are not those of the plan of its settings"));
}
