// Of tables half of whose rows were measured: what is said of those must be what would be said if the others were not
// there.
#include <algorithm>
#include <map>

#include "sim/course/answers.hpp"
#include "sim/predict/predict.hpp"
#include "sim/report/scenario_text.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

EvaluatedRun evaluated(RunResult run) {
  RunMetrics metrics = compute_metrics(run);
  return {std::move(run), std::move(metrics)};
}

ScenarioRow predicted_row(const std::string& flags) {
  ScenarioRow row;
  row.spec = spec("--tf 4 --tb 8 --tcomm 8 " + flags);
  row.predicted = evaluated(predict(row.spec, nullptr));
  return row;
}

/// A measurement unlike the prediction, and unlike that of any other row.
void measure(ScenarioRow& row, std::size_t number) {
  RunResult run = row.predicted.result;
  const double step_ms = 100 + 7.3 * static_cast<double>(number * number % 17);
  run.measured = true;
  run.step_time = {step_ms, 0.99 * step_ms, 1.02 * step_ms, 2};
  const double loss = 1 + 0.01 * static_cast<double>(row.spec.seed);
  run.steps = {{50 * step_ms, loss, true}, {step_ms, 0.9 * loss, false}, {1.01 * step_ms, 0.8 * loss, false}};
  for (std::int64_t& bytes : run.peak_memory_bytes) bytes += static_cast<std::int64_t>(number + 1) << 20;
  row.measured = evaluated(std::move(run));
}

/// Every combination of words: {"--gpus": {"1", "2"}, ...}.
std::vector<std::string> every(const std::string& common,
                               const std::vector<std::pair<std::string, std::vector<std::string>>>& words) {
  std::vector<std::string> all = {common};
  for (const auto& [name, values] : words) {
    std::vector<std::string> longer;
    for (const std::string& before : all) {
      for (const std::string& value : values) longer.push_back(before + " " + name + " " + value);
    }
    all = std::move(longer);
  }
  return all;
}

/// The rows of each exercise, small.
std::vector<std::string> rows_of(const std::string& answer) {
  const std::string ddp = "--strategy ddp --depth 4 --dim 64", mp = "--strategy mp --dim 64 --batch 64",
                    pp = "--depth 8 --dim 64 --batch 64";
  const std::map<std::string, std::vector<std::string>> rows = {
      {"reproducible_benchmark",
       every(ddp + " --batch 64", {{"--gpus", {"1", "2"}}, {"--seed", {"0", "1"}}, {"--repeat", {"1", "2"}}})},
      {"strong_scaling", every(ddp, {{"--batch", {"64", "128"}}, {"--gpus", {"1", "2", "4", "8"}}})},
      {"communication_computation",
       every(ddp, {{"--batch", {"64", "128", "256", "512"}}, {"--gpus", {"1", "2", "4"}}})},
      {"dataparallel_ddp",
       every("--depth 4 --dim 64 --gpus 4", {{"--batch", {"64", "128", "256"}}, {"--strategy", {"ddp", "dp"}}})},
      {"artificial_delay",
       every(ddp + " --batch 64", {{"--gpus", {"1", "2", "4"}}, {"--delay-ms", {"0", "1", "5", "20"}}})},
      {"batch_size", every(ddp, {{"--batch", {"64", "128", "256"}}, {"--gpus", {"1", "2", "4"}}})},
      {"imbalance",
       {ddp + " --gpus 4 --batch 64", ddp + " --gpus 4 --batch 64 --straggler 0:20", ddp + " --gpus 4 --batch 128",
        ddp + " --gpus 4 --batch 128 --straggler 0:20"}},
      {"amp_accumulation",
       every(ddp + " --gpus 4 --batch 64", {{"--dtype", {"fp32", "amp-fp16"}}, {"--accum", {"1", "4"}}})},
      {"three_codes", every(ddp + " --gpus 4", {{"--batch", {"64", "128"}},
                                                {"--dtype", {"fp32", "amp-fp16"}},
                                                {"--accum", {"1", "4"}},
                                                {"--no-sync", {"0", "1"}}})},
      {"accumulation_sweep",
       every(ddp + " --gpus 4 --batch 64",
             {{"--dtype", {"fp32", "amp-fp16"}}, {"--no-sync", {"0", "1"}}, {"--accum", {"4", "8", "16", "32"}}})},
      {"current_behaviour", every(mp, {{"--depth", {"8"}}, {"--gpus", {"2", "4"}}})},
      {"model_size", every(mp + " --gpus 2", {{"--depth", {"6", "12", "24", "48"}}})},
      {"all_gpus", every(mp + " --depth 20", {{"--gpus", {"2", "3", "4", "5"}}})},
      {"more_gpus", every(mp + " --depth 20", {{"--gpus", {"2", "4", "5"}}})},
      {"data_transfer", every(mp + " --depth 20", {{"--gpus", {"2", "4", "5"}}})},
      {"option_a_naive",
       every(pp + " --workers one --schedule naive", {{"--gpus", {"2", "4"}}, {"--microbatches", {"2", "4", "8"}}})},
      {"option_b_gpipe",
       every(pp + " --workers one --schedule gpipe", {{"--gpus", {"2", "4"}}, {"--microbatches", {"2", "4", "8"}}})},
      {"option_c",
       every(pp + " --workers one --schedule option-c", {{"--gpus", {"2", "4"}}, {"--microbatches", {"2", "4", "8"}}})},
      {"options_by_microbatches", every(pp + " --workers one", {{"--gpus", {"2", "4"}},
                                                                {"--microbatches", {"2", "4", "8"}},
                                                                {"--schedule", {"naive", "gpipe", "option-c"}}})},
      {"pipeline_schedules",
       every(pp + " --gpus 4", {{"--microbatches", {"4", "8", "16", "32"}}, {"--schedule", {"gpipe", "1f1b"}}})},
  };
  REQUIRE(rows.contains(answer));
  return rows.at(answer);
}

ScenarioTable table_of(const std::string& answer) {
  ScenarioTable table;
  table.scenario.answer = answer;
  for (const std::string& flags : rows_of(answer)) table.rows.push_back(predicted_row(flags));
  return table;
}

bool holds(const std::vector<std::string>& sentences, const std::string& sentence) {
  return std::find(sentences.begin(), sentences.end(), sentence) != sentences.end();
}

}  // namespace

TEST_CASE("Half of the rows measured: every answer says of those what it says of them alone", "[data_parallel]") {
  for (const Answer& answer : answers()) {
    const ScenarioTable none = table_of(answer.name);
    bool speaks_of_measured = false;
    for (const int half : {0, 1, 2, 3}) {
      INFO(answer.name << ", half " << half);
      ScenarioTable table = none;
      for (std::size_t r = 0; r < table.rows.size(); ++r) {
        const bool first = 2 * r < table.rows.size(), even = r % 2 == 0;
        if (half == 0 ? first : half == 1 ? !first : half == 2 ? even : !even) measure(table.rows[r], r);
      }
      const std::vector<std::string> alone = answer_sentences(measured_rows(table)), all = answer_sentences(table);
      for (const std::string& sentence : alone) {
        INFO(sentence);
        CHECK(holds(all, sentence));
        speaks_of_measured = speaks_of_measured || sentence.find("measured") != std::string::npos ||
                             sentence.find(" took ") != std::string::npos;
      }
      // And nothing else that is said is of measurements.
      for (const std::string& sentence : all) {
        INFO(sentence);
        CHECK((holds(alone, sentence) || sentence.find("(measured") == std::string::npos));
      }
      // What is predicted for the others is not in it.
      ScenarioTable other = table;
      for (ScenarioRow& row : other.rows) {
        if (!row.measured) row.predicted.result.step_time.median_ms *= 3;
      }
      CHECK(answer_sentences(measured_rows(other)) == alone);
      for (const std::string& sentence : alone) CHECK(holds(answer_sentences(other), sentence));
    }
    INFO(answer.name);
    const bool of_plans = answer.name == "all_gpus" || answer.name == "data_transfer";
    CHECK(speaks_of_measured == !of_plans);
  }
}

TEST_CASE("All rows measured, or none: nothing is said of rows that were not", "[data_parallel]") {
  for (const Answer& answer : answers()) {
    INFO(answer.name);
    ScenarioTable table = table_of(answer.name);
    for (const std::string& sentence : answer_sentences(table))
      CHECK(sentence.find("Not measured") == std::string::npos);
    for (std::size_t r = 0; r < table.rows.size(); ++r) measure(table.rows[r], r);
    for (const std::string& sentence : answer_sentences(table)) {
      INFO(sentence);
      CHECK(sentence.find("Not measured") == std::string::npos);
      CHECK(sentence.find("As predicted") == std::string::npos);
    }
  }
}

TEST_CASE("A row that was not measured beside drawn runs that were", "[data_parallel]") {
  // Naive and GPipe on 2 GPUs with two micro-batches, a character a millisecond.
  ScenarioTable table;
  table.scenario.answer = "options_by_microbatches";
  const auto add = [&](const char* schedule, const RunResult& drawn, bool measured) {
    ScenarioRow row;
    row.predicted = evaluated(drawn);
    row.predicted.result.spec.schedule = schedule;
    row.spec = row.predicted.result.spec;
    if (measured) row.measured = row.predicted;
    if (measured) row.measured->result.measured = true;
    table.rows.push_back(std::move(row));
  };
  add("naive", drawn_run(2, {{0, "aa....AA..........o"}, {1, "..aaAA............."}}), true);
  add("gpipe", drawn_run(2, {{0, "aabb....BBBAAAo"}, {0, "..>>..........."}, {1, "...aabbBBBAAA.o"}}), true);
  add("option-c", drawn_run(2, {{0, "aabb.......BBBAAAo"}, {1, "...aabb...BBBAAA.o"}}), false);
  const std::vector<std::string> sentences = answer_sentences(table);
  CHECK(holds(sentences, "gpipe, 2 layers of 4, batch 4 on 2 GPUs (measured): 2 micro-batches 15.00 ms."));
  CHECK(holds(sentences, "Fastest of all: gpipe with 2, 15.00 ms (measured)."));
  CHECK(holds(sentences, "Not measured: row 3. As predicted, with the rows that they are compared with:"));
  CHECK(holds(sentences, "option-c, 2 layers of 4, batch 4 on 2 GPUs (predicted): 2 micro-batches 18.00 ms."));
}
