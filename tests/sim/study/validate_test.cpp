#include "sim/study/validate.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sim/io/error.hpp"
#include "sim/predict/predict.hpp"
#include "sim/report/validation_document.hpp"
#include "sim/run/run_json.hpp"
#include "sim/run/run_name.hpp"
#include "sim/study/plan_ranking.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

/// A measured run whose step took `factor` of what is predicted for it, and its memory 1 / 1.25 of it on GPU 0.
std::string write_measured(const TemporaryFolder& folder, const std::string& machine, const std::string& flags,
                           double factor) {
  const CostProfile profile = tiny_profile();
  RunResult run = predict(spec(flags), &profile);
  run.measured = true;
  const double median = run.step_time.median_ms * factor;
  run.step_time = {median, median * 0.99, median * 1.02, 30};
  run.peak_memory_bytes[0] = run.peak_memory_bytes[0] * 4 / 5;
  run.environment = {{"card", "Tiny GPU"}, {"count", 4}, {"date", "2026-01-03"}};
  const std::string path = folder.write(machine + "/runs/" + run_name(run.spec) + ".json", "");
  write_run(run, path);
  return path;
}

}  // namespace

TEST_CASE("errors against measured medians, worst first") {
  const TemporaryFolder folder;
  save_profile(tiny_profile(), folder.write("tiny/profile.json", ""));
  const std::string common = "--dim 64 --depth 4 --batch 256 --gpus 2 ";
  const std::vector<std::string> paths = {
      write_measured(folder, "tiny", common + "--microbatches 4 --schedule gpipe", 1.0),
      write_measured(folder, "tiny", common + "--microbatches 4 --schedule 1f1b", 0.8),
      write_measured(folder, "tiny", common + "--microbatches 1 --strategy mp", 1.1)};
  std::vector<std::size_t> progress;
  const Validation validation = validate_runs(
      paths, std::nullopt, {.noise = {}, .progress = [&](std::size_t done) { progress.push_back(done); }});
  CHECK(progress == std::vector<std::size_t>{0, 1, 2});
  REQUIRE(validation.runs.size() == 3);
  CHECK(validation.runs[0].path == paths[1]);
  CHECK(validation.runs[0].error_percent == Approx(25));
  CHECK(validation.runs[1].path == paths[2]);
  CHECK(validation.runs[1].error_percent == Approx(100 * (1 / 1.1 - 1)));
  CHECK(validation.runs[2].error_percent == Approx(0).margin(1e-9));
  CHECK(validation.runs[0].memory_error_percent.size() == 2);
  CHECK(*validation.runs[0].worst_memory_error_percent() == Approx(25).margin(0.01));
  CHECK(validation.step_time().mean == Approx((25 + 100 - 100 / 1.1) / 3));
  CHECK(validation.step_time().median == Approx(100 - 100 / 1.1));
  CHECK(validation.step_time().max == Approx(25));
  CHECK(validation.memory().runs == 6);
  CHECK(validation_json(validation)["step_time_error"]["max_percent"] == validation.step_time().max);
  check_golden("validate.txt", to_terminal(validation_document(validation), {.width = 80}));
  check_golden("validate.md", to_markdown(validation_document(validation)));
}

TEST_CASE("two runs that are called the same have their folders in their names") {
  const TemporaryFolder folder;
  save_profile(tiny_profile(), folder.write("tiny/profile.json", ""));
  const std::string common = "--dim 64 --depth 4 --batch 256 --gpus 2 --microbatches 4 --schedule ";
  const std::string here = write_measured(folder, "tiny", common + "gpipe", 1.0),
                    other = write_measured(folder, "tiny", common + "1f1b", 1.1);
  const std::filesystem::path there = std::filesystem::path(here).parent_path().parent_path() / "runs_on_host_1";
  std::filesystem::create_directories(there);
  std::filesystem::copy_file(here, there / std::filesystem::path(here).filename());
  const std::string name = std::filesystem::path(here).stem().string();
  std::vector<std::string> names;
  for (const ValidatedRun& run : validate_runs({here, other, (there / (name + ".json")).string()}, std::nullopt).runs)
    names.push_back(run.name);
  std::sort(names.begin(), names.end());
  std::vector<std::string> expected = {std::filesystem::path(other).stem().string(), "runs/" + name,
                                       "runs_on_host_1/" + name};
  std::sort(expected.begin(), expected.end());
  CHECK(names == expected);
}

TEST_CASE("each machine has its own profile, one may be given for all") {
  const TemporaryFolder folder;
  save_profile(tiny_profile(), folder.write("one/profile.json", ""));
  CostProfile slow = tiny_profile();
  slow.name = "slow";
  slow.host.clear();
  save_profile(slow, folder.write("two/profile.json", ""));
  const std::string flags = "--dim 64 --depth 1 --batch 256 --microbatches 1";
  const std::string a = write_measured(folder, "one", flags, 1), b = write_measured(folder, "two", flags, 1);
  const Validation own = validate_runs({a, b}, std::nullopt);
  CHECK(own.runs[0].profile_name == "slow");
  CHECK(own.runs[0].error_percent == Approx(100 * (547.0 / 554 - 1)));
  CHECK(own.runs[1].profile_name == "tiny");
  CHECK_THAT(to_terminal(validation_document(own), {}), ContainsSubstring("profile slow"));
  const Validation given = validate_runs({a, b}, folder / "one/profile.json");
  CHECK(given.step_time().max == Approx(0).margin(1e-9));
}

TEST_CASE("summary of errors") {
  CHECK(summarize_errors({}).runs == 0);
  CHECK(summarize_errors({-3, 1}).median == 2);
  CHECK(summarize_errors({-3, 1}).mean == 2);
  CHECK(summarize_errors({-3, 1, 2}).max == 3);
  CHECK(summarize_errors({-3, 1, 2}).median == 2);
}

TEST_CASE("what cannot be validated is named") {
  const TemporaryFolder folder;
  const std::string flags = "--dim 64 --depth 1 --batch 256 --microbatches 1";
  const std::string lonely = write_measured(folder, "lonely", flags, 1);
  CHECK_THROWS_WITH(validate_runs({lonely}, std::nullopt), ContainsSubstring(lonely + ": found no profile"));
  save_profile(tiny_profile(), folder / "lonely/profile.json");
  CHECK_NOTHROW(validate_runs({lonely}, std::nullopt));
  CHECK_THROWS_WITH(validate_runs({lonely, lonely}, std::nullopt), ContainsSubstring("the run given twice"));
  const CostProfile profile = tiny_profile();
  write_run(predict(spec(flags), &profile), lonely);
  CHECK_THROWS_WITH(validate_runs({lonely}, std::nullopt), ContainsSubstring(lonely + ": found a predicted run"));
  CHECK_THROWS_AS(validate_runs({lonely}, std::nullopt), InputError);
}

namespace {

/// Measured 100 ms, predicted `predicted_ms` +- `half_width_percent` of it.
ValidatedRun barred(double predicted_ms, double half_width_percent, double unprobed_share, double host_share = 0) {
  ValidatedRun run;
  run.path = run.name = "run";
  run.profile_name = run.group = "g";
  run.measured.step_time.median_ms = 100;
  run.predicted.step_time.median_ms = predicted_ms;
  run.predicted.error_bar = ErrorBar{half_width_percent, unprobed_share, {}};
  run.error_percent = predicted_ms - 100;
  run.host_share = host_share;
  return run;
}

}  // namespace

TEST_CASE("how good the error bars are: probed, not probed, and host-bound runs apart") {
  Validation validation;
  validation.runs = {barred(104, 5, 0.3),         // 4.0 off, bar of 5.2 ms: inside
                     barred(110, 5, 0.3),         // 10 off, 5.5: outside
                     barred(99, 2, 0.001),        // 1 off, 1.98: inside
                     barred(101, 1, 0),           // 1 off, 1.01: inside
                     barred(97, 1.5, 0),          // 3 off, 1.455: outside
                     barred(150, 60, 0.3, 0.5)};  // host-bound, 50 off, 90: inside
  const ErrorSummary probed = validation.step_time_where(true), other = validation.step_time_where(false);
  CHECK(probed.runs == 3);
  CHECK(probed.mean == Approx(5.0 / 3));
  CHECK(probed.median == Approx(1));
  CHECK(probed.max == Approx(3));
  CHECK(*probed.inside_share == Approx(2.0 / 3));
  CHECK(*probed.median_half_width_percent == Approx(1.5));
  CHECK(other.runs == 2);
  CHECK(other.mean == Approx(7));
  CHECK(*other.inside_share == Approx(0.5));
  CHECK(*other.median_half_width_percent == Approx(5));
  CHECK(*validation.step_time(true).inside_share == 1);
  CHECK(*validation.step_time().inside_share == Approx(4.0 / 6));
  CHECK(*validation.step_time().median_half_width_percent == Approx(3.5));  // of 1, 1.5, 2, 5, 5, 60

  const auto json = validation_json(validation);
  CHECK(json["runs"][0]["half_width_90_percent"] == 5);
  CHECK(json["runs"][0]["inside"] == true);
  CHECK(json["runs"][0]["probed"] == false);
  CHECK(json["runs"][1]["inside"] == false);
  CHECK(json["runs"][2]["probed"] == true);
  CHECK(json["probed"]["values"] == 3);
  CHECK(json["probed"]["inside_share"].get<double>() == Approx(2.0 / 3));
  CHECK(json["not_probed"]["median_half_width_90_percent"] == 5);
  CHECK(json["host_bound_step_time_error"]["inside_share"] == 1);

  const std::string csv = to_csv(validation_document(validation));
  CHECK_THAT(csv, ContainsSubstring("\nprobed,step time,3,1.66") && ContainsSubstring(",1,3,66.6"));
  CHECK_THAT(csv, ContainsSubstring("\nnot probed,step time,2,7,7,10,50,5\n"));
  CHECK_THAT(csv, ContainsSubstring("error_percent,half_width_90_percent,inside,probed,memory_error_percent"));
  CHECK_THAT(csv, ContainsSubstring("\nrun,100,,,110,10,5,no,no,\n"));
}

TEST_CASE("runs of pdl-run's programs and of PyTorch's have tables and summaries of their own") {
  const auto by_pytorch = [](const std::string& schedule, double predicted_ms, double measured_ms) {
    ValidatedRun run = barred(predicted_ms, 5, 0);
    run.measured.spec =
        spec("--gpus 2 --dim 64 --depth 4 --batch 64 --microbatches 4 --program pytorch --schedule " + schedule);
    run.path = "data/tiny/runs_pytorch/" + schedule + ".json";
    run.name = schedule;
    run.group = "pp " + schedule;
    run.measured.step_time.median_ms = measured_ms;
    run.error_percent = 100 * (predicted_ms / measured_ms - 1);
    run.memory_error_percent = {1, -2};
    return run;
  };
  Validation validation;
  validation.runs = {by_pytorch("gpipe", 90, 100), barred(104, 5, 0.3), by_pytorch("1f1b", 80, 82),
                     by_pytorch("zb-v", 79, 85)};
  const std::vector<Validation> programs = by_program(std::move(validation));
  REQUIRE(programs.size() == 2);
  CHECK(programs[0].runs.size() == 1);
  CHECK(programs[1].program() == ProgramOf::pytorch);
  CHECK(programs[1].step_time().runs == 3);
  CHECK(programs[1].step_time().mean_signed < 0);
  check_golden("validate_programs.txt", to_terminal(validation_document(programs), {.width = 100}));

  const auto json = validation_json(programs);
  CHECK(json["runs"].size() == 4);
  CHECK(json["runs"][0]["program"] == "pdl");
  CHECK(json["runs"][1]["program"] == "pytorch");
  CHECK_FALSE(json.contains("step_time_error"));  // no summary has both
  CHECK(json["programs"]["pdl"]["step_time_error"]["mean_signed_percent"] == Approx(4));
  CHECK(json["programs"]["pytorch"]["memory_error"]["max_percent"] == 2);
  const auto& ranking = json["programs"]["pytorch"]["plan_rankings"][0];
  CHECK(ranking["plans"] == 3);
  CHECK(ranking["named"] == "zb-v");
  CHECK(ranking["best"] == "1f1b");
  CHECK(ranking["rank_correlation"] == Approx(0.5));
  CHECK_FALSE(json["programs"]["pdl"].contains("plan_rankings"));
}

TEST_CASE("rank correlation: order alone counts, equal values share a rank") {
  CHECK(*rank_correlation({1, 2, 3, 4}, {10, 20, 30, 4000}) == Approx(1));
  CHECK(*rank_correlation({1, 2, 3, 4}, {4, 3, 2, 1}) == Approx(-1));
  CHECK(*rank_correlation({1, 2, 2, 3}, {1, 2, 3, 4}) == Approx(4.5 / std::sqrt(4.5 * 5)));
  CHECK_FALSE(rank_correlation({1, 1}, {1, 2}));
}

TEST_CASE("predictions without an error bar are in no summary of bars") {
  Validation validation;
  validation.runs = {barred(104, 5, 0.3), barred(99, 2, 0)};
  validation.runs[1].predicted.error_bar.reset();
  CHECK(validation.step_time_where(true).runs == 0);
  CHECK(validation_json(validation)["probed"].is_null());
  CHECK(validation_json(validation)["runs"][1]["inside"].is_null());
  CHECK(*validation.step_time().inside_share == 1);  // of the one that has a bar
  CHECK_THAT(to_csv(validation_document(validation)), ContainsSubstring("\nrun,100,,,99,-1,,,,\n"));
  validation.runs[0].predicted.error_bar.reset();
  CHECK_FALSE(validation.step_time().inside_share);
  CHECK_FALSE(validation_json(validation)["step_time_error"].contains("inside_share"));
  CHECK_THAT(to_csv(validation_document(validation)), !ContainsSubstring("inside"));
}
