// pdl-sim as a user meets it: the built program, its output, its exit codes.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/cost/cost_profile.hpp"
#include "sim/spec/run_spec.hpp"
#include "sim/spec/settings.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

Process sim(const std::string& arguments, const TemporaryFolder& folder, const std::string& environment = "") {
  return run_program("pdl-sim", arguments, folder, environment);
}

nlohmann::json json_of(const std::string& arguments) {
  const TemporaryFolder folder;
  const Process run = sim(arguments + " --json -", folder);
  INFO(arguments << ": " << run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(run.err.empty());
  return nlohmann::json::parse(run.out);
}

struct Refused {
  std::string arguments;
  std::string message;  // a part of it
  int exit_code = 2;
};

void check_refused(const std::vector<Refused>& cases) {
  for (const Refused& refused : cases) {
    const TemporaryFolder folder;
    const Process run = sim(refused.arguments, folder);
    INFO("pdl-sim " << refused.arguments << "\n" << run.err);
    CHECK(run.exit_code == refused.exit_code);
    CHECK(run.out.empty());
    CHECK_THAT(run.err, ContainsSubstring(refused.message));
    CHECK(run.err.starts_with("pdl-sim: "));
  }
}

/// A data folder with the tiny profile, for $PDL_DATA.
std::string tiny_data(const TemporaryFolder& folder) {
  save_profile(tiny_profile(), folder.write("data/tiny/profile.json", ""));
  return "PDL_DATA='" + folder / "data" + "'";
}

}  // namespace

// Source: torchtitan issue 775. Fewer micro-batches than stages must not hang.
TEST_CASE("pdl-sim runs fewer micro-batches than stages") {
  const std::vector<std::pair<int, double>> known = {{1, 24}, {2, 27}, {4, 33}, {7, 42}, {8, 45}};
  const std::vector<double> bubbles = {.8750, .7778, .6364, .5000, .4667};
  for (const char* schedule : {"1f1b", "gpipe"}) {
    for (std::size_t i = 0; i < known.size(); ++i) {
      const nlohmann::json json = json_of("--gpus 8 --depth 8 --microbatches " + std::to_string(known[i].first) +
                                          " --schedule " + schedule + " --tf 1 --tb 2 --tcomm 0");
      CHECK(json["step_time_ms"]["median"] == known[i].second);
      CHECK(json["bubble_fraction"].get<double>() == Approx(bubbles[i]).margin(0.00005));
    }
  }
}

// Source: PiPPy issue 1064.
TEST_CASE("one micro-batch on four GPUs") {
  for (const char* schedule : {"naive", "gpipe", "1f1b"}) {
    const nlohmann::json json = json_of(std::string("--gpus 4 --microbatches 1 --tf 1 --tb 2 --schedule ") + schedule);
    CHECK(json["step_time_ms"]["median"] == 12);
    CHECK(json["bubble_fraction"] == 0.75);
  }
}

// Source: ColossalAI pull request 2156: as many micro-batches as stages, with sends that wait for their receives.
TEST_CASE("as many micro-batches as stages do not deadlock under rendezvous") {
  for (const auto& [p, ms] : {std::pair{2, 9}, std::pair{4, 21}, std::pair{8, 45}}) {
    const std::string n = std::to_string(p);
    for (const char* p2p : {"eager", "rendezvous"}) {
      CHECK(json_of("--gpus " + n + " --microbatches " + n + " --schedule 1f1b --tf 1 --tb 2 --p2p " +
                    p2p)["step_time_ms"]["median"] == ms);
    }
  }
}

// Source: algolocal pull request 95.
TEST_CASE("GPipe and 1F1B take the same time, not the same memory") {
  for (const auto& [schedule, live] : {std::pair{"gpipe", 32}, std::pair{"1f1b", 8}}) {
    const nlohmann::json json = json_of(std::string("--gpus 8 --microbatches 32 --tf 1 --tb 1 --schedule ") + schedule);
    CHECK(json["step_time_ms"]["median"] == 78);
    CHECK(json["bubble_fraction"].get<double>() == Approx(.1795).margin(0.00005));
    CHECK(json["stages"][0]["live_microbatches"] == live);
  }
}

// Source: astra-sim issue 318.
TEST_CASE("one GPU: M x (tf + tb), no bubble, whatever the strategy and schedule") {
  for (const char* how : {"", "--strategy single", "--strategy mp", "--strategy pp", "--schedule naive",
                          "--schedule gpipe", "--schedule 1f1b"}) {
    const nlohmann::json json = json_of(std::string("--gpus 1 --microbatches 5 --tf 1.5 --tb 2.5 ") + how);
    CHECK(json["step_time_ms"]["median"] == 20);
    CHECK(json["bubble_fraction"] == 0);
    CHECK(json["transfers"]["count"] == 0);
    CHECK(json["gpus"].size() == 1);
  }
}

// Source: Megatron-LM issues 468, 1304: layers that do not divide were dropped.
TEST_CASE("depth not divisible: layers add up to the depth") {
  const nlohmann::json json = json_of("--gpus 4 --depth 30 --dim 64 --tf 1 --tb 2");
  std::vector<std::int64_t> layers;
  for (const auto& gpu : json["gpus"]) layers.push_back(gpu["layers"]);
  CHECK(layers == std::vector<std::int64_t>{8, 8, 7, 7});
  CHECK(json["model"]["parameters"] == 30 * (64 * 64 + 64));
}

// Source: zero-bubble-pipeline-parallelism issue 73.
TEST_CASE("start of fill: F0 on stage s starts at s x tf") {
  const nlohmann::json json = json_of("--tcomm 0 --gpus 4 --microbatches 8 --tf 1 --tb 2");
  for (const auto& span : json["spans"]) {
    if (span["name"] == "F0") CHECK(span["start_us"] == 1000.0 * span["worker"].get<double>());
  }
}

TEST_CASE("the times of every GPU add up to the step, in the JSON too") {
  const nlohmann::json json = json_of("--gpus 3 --microbatches 4 --schedule gpipe --tf 0.7 --tb 1.9 --tcomm 0.21");
  for (const auto& gpu : json["gpus"]) {
    CHECK(gpu["busy_ms"].get<double>() + gpu["comm_ms"].get<double>() + gpu["idle_ms"].get<double>() ==
          Approx(json["step_time_ms"]["median"].get<double>()).epsilon(1e-12));
  }
}

// Source: DeepSpeed issue 8260.
TEST_CASE("pdl-sim refuses nonsense by name") {
  check_refused({
      {"--gpus 0 --tf 1 --tb 2", "--gpus: found 0, expected a whole number from 1"},
      {"--gpus -1 --tf 1 --tb 2", "--gpus: found -1"},
      {"--gpus 2.5 --tf 1 --tb 2", "--gpus: found 2.5"},
      {"--gpus two --tf 1 --tb 2", "--gpus: found two"},
      {"--gpus 99999999999999999999 --tf 1 --tb 2", "--gpus: found 99999999999999999999"},
      {"--gpus '' --tf 1 --tb 2", "--gpus: found nothing"},
      {"--gpus", "--gpus: found no value, expected one"},
      {"--gpus 9 --depth 8 --tf 1 --tb 2", "--gpus: found 9 stages for 8 layers"},
      {"--microbatches 0 --tf 1 --tb 2", "--microbatches: found 0"},
      {"--depth 0 --tf 1 --tb 2", "--depth: found 0"},
      {"--dim 0 --tf 1 --tb 2", "--dim: found 0"},
      {"--batch 0 --tf 1 --tb 2", "--batch: found 0"},
      {"--tf -1 --tb 2", "--tf: found -1"},
      {"--tf nan --tb 2", "--tf: found nan"},
      {"--tf inf --tb 2", "--tf: found inf"},
      {"--tf 1,5 --tb 2", "--tf: found 2 times for 1 stage"},
      {"--tf 1", "--tf: found no tb"},
      {"--schedule gpip --tf 1 --tb 2", "did you mean gpipe?"},
      {"--strategy single --gpus 2 --tf 1 --tb 2", "--strategy: found single with 2 GPUs"},
      {"--strategy mp --schedule 1f1b --tf 1 --tb 2", "--schedule: found 1f1b with strategy mp"},
      {"--model none.json --tf 1 --tb 2", "none.json"},
  });
}

TEST_CASE("words that are not known are refused with the nearest one") {
  check_refused({
      {"--gups 5", "an unknown flag --gups, expected --gpus"},
      {"--seq 512", "an unknown flag --seq, expected --sequence"},
      {"-x", "an unknown flag -x, expected --help, --version, --model, "},
      {"--tp 2", "(tensor parallelism is not modelled yet)"},
      {"--json", "--json: found no value, expected one"},
      {"--gups=5", "an unknown flag --gups, expected --gpus"},
      {"comapre a b", "an unknown subcommand comapre, expected compare"},
      {"nothinglikeit", "an unknown subcommand nothinglikeit, expected "},
      {"compare --jsn x a b", "pdl-sim: compare: found an unknown flag --jsn, expected --json"},
      {"profiles extra", "pdl-sim: profiles: found an argument too many, extra"},
      {"--gpus 2 --gpus 3 --tf 1 --tb 2", "--gpus: found given 2 times, expected once"},
      {"--json a --json b --tf 1 --tb 2", "--json: found given 2 times"},
      {"--gpus 2 compare a b", "--gpus: found given before compare"},
      {"--gantt --no-gantt --tf 1 --tb 2", "--gantt: found --no-gantt beside it"},
      {"compare", "pdl-sim: compare: found 0 files, expected two"},
      {"compare a.json", "found 1 files, expected two"},
      {"compare a.json b.json c.json", "a.json: found no such file"},
      {"compare a.json b.json", "a.json: found no such file"},
      {"validate", "pdl-sim: validate: found no run"},
      {"validate none.json", "none.json: found no such file"},
      {"validate --markdown a --markdown b x", "--markdown: found given 2 times"},
      {"scenario", "pdl-sim: scenario: found no file"},
      {"scenario none.json", "none.json: found no such file"},
      {"scenario --all a.json", "--all: found a.json beside it"},
      {"--profile nosuchprofile", "--profile: found \"nosuchprofile\""},
      {"--profile none/profile.json", "none/profile.json: found no such file"},
      {"--profile x --tf 1 --tb 2", "--profile: found x beside synthetic costs"},
      {"--json no/such/folder/a.json --tf 1 --tb 2",
       "--json: found no/such/folder/a.json in a folder that is not there"},
  });
}

TEST_CASE("the version of a subcommand (--version) is that of the program") {
  const TemporaryFolder folder;
  const std::string version = sim("--version", folder).out;
  for (const std::string command : {"sweep", "scenario", "validate", "compare", "schedules", "profiles"}) {
    const Process run = sim(command + " --version", folder);
    INFO(command << run.err);
    CHECK(run.exit_code == 0);
    CHECK(run.out == version);
  }
}

TEST_CASE("what a sweep says of all rows is true of all of them, of refused ones too") {
  const TemporaryFolder folder;
  const Process refused = sim("sweep --tf 1 --tb 2 --depth 8 --gpus 4,9", folder);
  INFO(refused.out);
  CHECK(refused.exit_code == 0);
  const std::string head = refused.out.substr(0, refused.out.find("\n\n"));
  CHECK_THAT(head, ContainsSubstring("all rows: ") && ContainsSubstring("depth 8") && !ContainsSubstring("gpus 4"));
  const Process costs = sim("sweep --tf 1,2 --tb 2 --gpus 4", folder);
  CHECK_THAT(costs.out,
             ContainsSubstring("synthetic costs: other ones for each row") && !ContainsSubstring("forward 1 ms"));
  CHECK_THAT(sim("sweep --tf 1 --tb 2 --gpus 4,9 --depth 8", folder).out,
             ContainsSubstring("synthetic costs: forward 1 ms"));
}

TEST_CASE("$PDL_DATA without a profile is said, a profile that cannot be read has a short cell") {
  const TemporaryFolder folder;
  const std::string empty = "COLUMNS=1000 PDL_DATA='" + folder.path() + "'";
  const std::string said = "has no profile in it (NAME/profile.json)";
  for (const std::string arguments : {"--gpus 2", "--gpus 2 --profile h100x4", "profiles"}) {
    const Process run = sim(arguments, folder, empty);
    INFO(arguments << run.out << run.err);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.out + run.err, ContainsSubstring(said));
  }
  std::filesystem::create_directory(folder / "mine");
  folder.write("mine/profile.json", "{");
  const Process broken = sim("profiles", folder, empty);
  CHECK_THAT(broken.out, !ContainsSubstring(said) && ContainsSubstring("warning (mine): cannot be read: ") &&
                             ContainsSubstring("not whole JSON"));
  const std::string table = broken.out.substr(0, broken.out.find("warning (mine)"));
  CHECK_THAT(table, ContainsSubstring("cannot be read") && !ContainsSubstring("JSON"));
}

TEST_CASE("a sweep: table, files, the codes of what cannot run") {
  const TemporaryFolder folder;
  const std::string textbook = "sweep --tf 1 --tb 2 --gpus 4 ";
  const Process table = sim(textbook + "--schedule gpipe,naive --microbatches 4:8:x2", folder);
  CHECK(table.exit_code == 0);
  CHECK(table.err.empty());
  // Twice as many micro-batches of 1 and 2 ms are twice the work.
  CHECK_THAT(table.out, ContainsSubstring("No row is the fastest: --tf is the time of one micro-batch") &&
                            ContainsSubstring("21.000") && !ContainsSubstring("Fastest"));
  CHECK_THAT(sim(textbook + "--schedule gpipe,naive --microbatches 4", folder).out,
             ContainsSubstring("Fastest: schedule gpipe, 21.000 ms a step"));
  const Process files = sim(textbook + "--schedule gpipe,naive --json a.json --csv - --threads 2", folder);
  CHECK(files.out.starts_with("gpus,schedule,tf,tb,step_time_ms,"));
  CHECK_THAT(files.out, ContainsSubstring("\n4,gpipe,1,2,33,33,"));
  const Process scaling =
      sim("sweep --tf 1 --tb 2 --strategy ddp --gpus 1,2,4 --batch 64 --scaling weak --csv -", folder);
  CHECK(scaling.exit_code == 0);
  CHECK_THAT(scaling.out, ContainsSubstring("\n256,4,ddp,1,2,3,3,"));  // batch, GPUs
  CHECK(nlohmann::json::parse(read_text(folder / "a.json"))["rows"][0]["config"]["schedule"] == "gpipe");
  const Process refused = sim(textbook + "--schedule interleaved --microbatches 9,11", folder);
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err,
             ContainsSubstring("none of the 2 configurations can run; the first: --microbatches: found 9"));
  const Process small = sim(textbook + "--memory 1kB", folder);
  CHECK(small.exit_code == 3);
  CHECK_THAT(small.err, ContainsSubstring("out of memory: no configuration needs"));
  const std::string data = tiny_data(folder);
  CHECK(sim("sweep --depth 8 --dim 4096,8192 --profile tiny", folder, data).exit_code == 3);
  CHECK(sim("sweep --gpus 2,3 --depth 6 --dim 64 --batch 256 --profile tiny", folder, data).exit_code == 0);
}

TEST_CASE("a sweep that is asked for wrongly") {
  check_refused({
      {"sweep --gups 2", "sweep: found an unknown flag --gups, expected --gpus"},
      {"sweep --gantt", "sweep: found an unknown flag --gantt"},
      {"sweep --gpus 2,2 --tf 1 --tb 2", "--gpus: found 2 twice"},
      {"sweep --gpus 4:2 --tf 1 --tb 2", "--gpus: found 4:2, expected a range from less to more"},
      {"sweep --gpus 0,2 --tf 1 --tb 2", "--gpus: found 0"},
      {"sweep --schedule gpip,1f1b --tf 1 --tb 2", "did you mean gpipe?"},
      {"sweep --threads 0 --tf 1 --tb 2", "--threads: found 0"},
      {"sweep --gpus 1,2 --scaling tall --tf 1 --tb 2", "--scaling: found tall, expected strong or weak"},
      {"sweep --gpus 2 --scaling weak --tf 1 --tb 2", "--scaling: found weak with one number of GPUs"},
      {"sweep --memory big --tf 1 --tb 2", "--memory: found big"},
      {"sweep --json - --csv - --tf 1 --tb 2", "--csv: found - beside --json -"},
      {"sweep --profile x --tf 1 --tb 2", "--profile: found x beside synthetic costs"},
      {"--gpus 2 sweep", "--gpus: found given before sweep"},
  });
}

TEST_CASE("every schedule is listed with its source, within the width") {
  const TemporaryFolder folder;
  const Process text = sim("schedules", folder, "COLUMNS=110"), json = sim("schedules --json -", folder);
  CHECK(text.exit_code == 0);
  const nlohmann::json listed = nlohmann::json::parse(json.out)["schedules"];
  CHECK(listed.size() == schedules().size());
  for (std::size_t s = 0; s < schedules().size(); ++s) {
    CHECK_THAT(text.out, ContainsSubstring("\n" + std::string(schedules()[s].name) + " "));
    CHECK(listed[s]["source"] == schedules()[s].source);
    CHECK(listed[s]["bubble"] == schedules()[s].bubble);
  }
  std::istringstream lines(text.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 110);
}

TEST_CASE("help is complete and is no error") {
  const TemporaryFolder folder;
  const Process help = sim("--help", folder);
  CHECK(help.exit_code == 0);
  for (const SettingRow& setting : all_settings()) CHECK_THAT(help.out, ContainsSubstring("--" + setting.name + " "));
  for (const char* word :
       {"--profile", "--json", "--gantt", "compare", "validate", "scenario", "profiles", "Exit codes", "Examples"}) {
    CHECK_THAT(help.out, ContainsSubstring(word));
  }
  for (const char* subcommand : {"compare", "validate", "scenario", "profiles", "sweep", "schedules"}) {
    const Process of = sim(std::string(subcommand) + " --help", folder);
    CHECK(of.exit_code == 0);
    CHECK_THAT(of.out, ContainsSubstring("Example: pdl-sim "));
  }
}

TEST_CASE("the largest profile is the default, and is named") {
  const TemporaryFolder folder;
  const std::string data = tiny_data(folder);
  const Process profiles = sim("profiles", folder, data);
  CHECK(profiles.exit_code == 0);
  CHECK_THAT(profiles.out, ContainsSubstring("tiny"));
  CHECK_THAT(profiles.out, ContainsSubstring("Tiny GPU"));
  CHECK_THAT(profiles.out, ContainsSubstring("2026-01-02"));
  const Process run = sim("--gpus 2 --depth 4 --dim 64 --batch 256 --microbatches 4 --profile tiny", folder, data);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out, ContainsSubstring("costs: profile tiny (4 x Tiny GPU, measured 2026-01-02)"));
  CHECK_THAT(run.out, ContainsSubstring("GPU 1 |"));
  CHECK(run.err.empty());
}

TEST_CASE("more memory than the cards have: exit code 3") {
  const TemporaryFolder folder;
  const std::string data = tiny_data(folder);
  const Process run = sim("--depth 8 --dim 8192 --profile tiny", folder, data);
  CHECK(run.exit_code == 3);
  CHECK(run.out.empty());
  CHECK_THAT(run.err, ContainsSubstring("out of memory: GPU 0 needs"));
}

TEST_CASE("JSON to a file, and both to compare") {
  const TemporaryFolder folder;
  const Process first = sim("--gpus 2 --tf 1 --tb 2 --schedule gpipe --json a.json", folder);
  CHECK(first.exit_code == 0);
  CHECK_THAT(first.out, ContainsSubstring("step time"));
  CHECK(sim("--gpus 2 --tf 1 --tb 2 --schedule 1f1b --json b.json --no-gantt", folder).exit_code == 0);
  const Process compared = sim("compare a.json b.json", folder);
  CHECK(compared.exit_code == 0);
  CHECK_THAT(compared.out, ContainsSubstring("differs: schedule is gpipe in A, 1f1b in B"));
  CHECK(sim("compare a.json b.json --json c.json --no-gantt", folder).exit_code == 0);
  CHECK(nlohmann::json::parse(read_text(folder / "c.json"))["step_time_ms"]["difference_percent"] == 0);
}

TEST_CASE("the chart: usual, left out, or beside JSON on the standard output") {
  const TemporaryFolder folder;
  const std::string run = "--gpus 2 --tf 1 --tb 2 ";
  CHECK_THAT(sim(run + "--gantt", folder).out, ContainsSubstring("GPU 1 |"));
  CHECK(sim(run + "--gantt", folder).out == sim(run, folder).out);
  CHECK(sim(run + "--no-gantt", folder).out.find("GPU 1 |") == std::string::npos);
  const Process both = sim(run + "--gantt --json -", folder);
  CHECK(nlohmann::json::parse(both.out)["step_time_ms"]["median"] == 27);
  CHECK_THAT(both.err, ContainsSubstring("GPU 1 |"));
}

TEST_CASE("the locale changes nothing") {
  const TemporaryFolder folder;
  const std::string arguments = "--gpus 3 --tf 0.5 --tb 1.25 --tcomm 0.125";
  const Process plain = sim(arguments, folder, "LC_ALL=C");
  CHECK_THAT(plain.out, ContainsSubstring("19.000 ms"));
  for (const char* locale : {"de_DE.UTF-8", "fr_FR.UTF-8", "tr_TR.UTF-8"}) {
    CHECK(sim(arguments, folder, std::string("LC_ALL=") + locale + " LC_NUMERIC=" + locale).out == plain.out);
  }
}

TEST_CASE("the same command gives the same bytes") {
  const TemporaryFolder folder;
  const std::string arguments =
      "--gpus 4 --depth 9 --microbatches 7 --schedule 1f1b --tf 0.31 --tb 0.77 --tcomm 0.05 --json -";
  const Process first = sim(arguments, folder);
  for (int i = 0; i < 5; ++i) CHECK(sim(arguments, folder).out == first.out);
}

TEST_CASE("the chart follows COLUMNS, and has no colours in a file") {
  const TemporaryFolder folder;
  const Process narrow = sim("--gpus 2 --tf 1 --tb 2", folder, "COLUMNS=60");
  const Process wide = sim("--gpus 2 --tf 1 --tb 2", folder, "COLUMNS=140");
  CHECK_THAT(wide.out, ContainsSubstring("|\n"));
  const auto length_of_row = [](const std::string& text) {
    const std::size_t start = text.find("GPU 0 |");
    return text.find('\n', start) - start;
  };
  CHECK(length_of_row(narrow.out) == 60);
  CHECK(length_of_row(wide.out) == 140);
  CHECK(wide.out.find('\x1b') == std::string::npos);
}

TEST_CASE("control characters of names and files reach no screen") {
  const TemporaryFolder folder;
  const std::string evil =
      "x\x1b[2J\x1b]0;title\x07\r\nFastest: me\t\x7f\xc2\x9b"
      "31m";
  CostProfile profile = tiny_profile();
  profile.name = evil;
  profile.environment["card"] = evil;
  profile.environment["date"] = evil;
  profile.warnings.push_back(evil);
  save_profile(profile, folder.write("data/tiny/profile.json", ""));
  save_profile(profile, folder.write("data/\x1b[31mred/profile.json", ""));
  const std::string scenario =
      folder.write("s.json", nlohmann::json({{"id", evil},
                                             {"title", evil},
                                             {"source", evil},
                                             {"question", evil},
                                             {"settings", {{"gpus", 2}, {"depth", 2}, {"dim", 64}}},
                                             {"columns", {"gpus", "step_time_ms"}}})
                                 .dump());
  folder.write("bad.json", nlohmann::json({{"id", "x"}, {evil, 1}}).dump());
  const std::string file = "'\x1b[31m\x07.json'";
  const std::vector<std::pair<std::string, int>> lines = {
      {"--gpus 2 --depth 2 --dim 64 --json run.json", 0},
      {"profiles", 0},
      {"sweep --gpus 1,2 --depth 2 --dim 64", 0},
      {"scenario s.json", 0},
      {"scenario bad.json", 2},
      {"compare run.json run.json", 0},
      {"--model " + file, 2},
      {"--profile " + file, 2},
      {"--schedule " + file + " --gpus 2", 2},
      {"--strategy '\x1b[31m'", 2},
      {"--gpus '\x1b[31m'", 2},
      {"'--\x1b[31m'", 2},
      {"compare " + file + " run.json", 2},
      {"validate run.json " + file, 2},
      {"sweep --tf 1 --tb 2 --schedule gpipe,'\x1b[31m'", 2},
  };
  for (const auto& [arguments, exit_code] : lines) {
    const Process run = sim(arguments, folder, "PDL_DATA='" + folder / "data" + "'");
    INFO(arguments << "\n" << run.out << run.err);
    CHECK(run.exit_code == exit_code);
    for (const char c : run.out + run.err) {
      if (c != '\n' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)) FAIL_CHECK("byte " << static_cast<int>(c));
    }
    CHECK((run.out + run.err).find("\xc2\x9b") == std::string::npos);
    CHECK((run.out + run.err).find("\nFastest: me") == std::string::npos);
  }
}

TEST_CASE("pdl-sim plan: the best configuration, silent in a pipe, the same for any number of threads") {
  const TemporaryFolder folder;
  const std::string data = tiny_data(folder), words = "plan --profile tiny --gpus 4 --depth 8 --dim 64 --batch 256";
  const Process one = sim(words + " --threads 1", folder, data), four = sim(words + " --threads 4", folder, data);
  CHECK(one.exit_code == 0);
  CHECK(one.err.empty());
  CHECK(one.out == four.out);
  CHECK_THAT(one.out, ContainsSubstring("Fastest: ") && ContainsSubstring("Why the others lost"));
  // The winner's command line is one of pdl-sim, and gives the same step time.
  const std::size_t begin = one.out.find("\npdl-sim ") + 9;
  const std::string command = one.out.substr(begin, one.out.find('\n', begin) - begin);
  const Process winner = sim(command + " --json -", folder, data);
  INFO(command);
  REQUIRE(winner.exit_code == 0);
  const Process plan = sim(words + " --json -", folder, data);
  const nlohmann::json tables = nlohmann::json::parse(plan.out)["tables"];
  for (const nlohmann::json& table : tables) {
    if (table["name"] != "plan") continue;
    CHECK(table["rows"][0]["step_time_ms"] == nlohmann::json::parse(winner.out)["step_time_ms"]["median"]);
  }
}

TEST_CASE("pdl-sim plan refuses what cannot be planned with") {
  check_refused({{"plan --gpus 4 --memory 20GiBs", "--memory: found 20GiBs"},
                 {"plan --gpus 4 --batch 4,8", "--batch: found 4,8, expected one value"},
                 {"plan --gpus 4 --schedule 1f1", "--schedule: found 1f1"},
                 {"plan --gpus 4 --threads 0", "--threads: found 0"},
                 {"plan --gpus 4 --tf 1 --tb 2 --profile h200", "--profile: found h200 beside synthetic costs"},
                 {"plan --gpus 4 --tf 1 --tb 2 --microbatches 4,8", "expected one value beside synthetic costs"}});
  const TemporaryFolder folder;
  const Process nothing = sim("plan --gpus 2 --depth 4 --dim 1024 --batch 64 --memory 1MiB", folder);
  CHECK(nothing.exit_code == 3);
  CHECK_THAT(nothing.err, ContainsSubstring("out of memory: none of the ") && ContainsSubstring("the least is "));
}
