// Exposed communication is one number, in tables and in sentences; paragraphs say what tells them apart.
#include "sim/course/answers.hpp"
#include "sim/io/number_text.hpp"
#include "sim/predict/predict.hpp"
#include "sim/report/scenario_columns.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// 3 stages, one micro-batch: GPU 0 sends its activations (1 ms), GPU 1 these and its gradients, GPU 2 its gradients.
const std::string kThree = "--schedule naive --gpus 3 --microbatches 1 --tf 1 --tb 2 --tcomm 1 --dim 8 --batch 8";

EvaluatedRun evaluated(const std::string& flags) {
  const RunResult run = predict(spec(flags), nullptr);
  return {run, compute_metrics(run)};
}

}  // namespace

TEST_CASE("the answer says the share of the step that the table says") {
  ScenarioTable table;
  for (const char* flags : {"--strategy single --microbatches 1 --tf 1 --tb 2 --dim 8 --batch 8", kThree.c_str()}) {
    table.rows.push_back({spec(flags), evaluated(flags), std::nullopt});
  }
  const auto columns = scenario_columns();
  const auto column = std::find_if(columns.begin(), columns.end(),
                                   [](const ScenarioColumn& c) { return c.name == "exposed_communication"; });
  const std::string share = fixed(*column->number({table, 1, false}), 1) + " % of the step";
  CHECK(share == "10.3 % of the step");
  for (const char* name : {"strong_scaling", "communication_computation"}) {
    std::string all;
    for (const std::string& sentence : find_answer(name)->sentences(table)) all += sentence + "\n";
    INFO(all);
    CHECK_THAT(all, ContainsSubstring("of which 1.33 ms, " + share + ", are exposed"));
  }
}

TEST_CASE("paragraphs of strong scaling are told apart by what differs") {
  ScenarioTable table;
  for (const char* more : {"", " --accum 4", " --accum 4 --delay-ms 2.5"}) {
    for (const char* gpus : {"--gpus 1", "--gpus 2"}) {
      const std::string flags =
          std::string("--strategy ddp --tf 1 --tb 2 --tcomm 1 --depth 2 --dim 8 --batch 8 ") + gpus + more;
      table.rows.push_back({spec(flags), evaluated(flags), std::nullopt});
    }
  }
  std::string all;
  for (const std::string& sentence : find_answer("strong_scaling")->sentences(table)) all += sentence + "\n";
  INFO(all);
  CHECK_THAT(all, ContainsSubstring("2 layers of 8, batch 8: is it linear?"));
  CHECK_THAT(all, ContainsSubstring("2 layers of 8, batch 8, 4 rounds: is it linear?"));
  CHECK_THAT(all, ContainsSubstring("2 layers of 8, batch 8, 4 rounds, a delay of 2.5 ms: is it linear?"));
}
