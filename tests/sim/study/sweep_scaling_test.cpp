// Which rows of a sweep are compared with which, where the GPUs vary; what stands where there is nothing to compare
// with.
#include "sim/io/error.hpp"
#include "sim/report/sweep_document.hpp"
#include "sim/study/sweep.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

std::string shown(const Sweep& sweep, std::size_t width) {
  return to_terminal(sweep_document(sweep), {.width = width, .all_warnings = true});
}

/// Pipelines of 2: a step of one replica has no exchange of gradients, of more it has. "words" as on the command line.
Sweep scaling(const std::string& words, std::optional<Scaling> asked = std::nullopt) {
  std::istringstream in("tf 4 tb 8 tcomm 8 dim 64 batch 64 " + words);
  std::vector<SettingValue> all;
  for (std::string name, value; in >> name >> value;) all.push_back({name, value, "--" + name});
  SweepOptions options;
  options.scaling = asked;
  return run_sweep(all, nullptr, options);
}

/// "2: 1.00, 4: 0.90": GPUs and speed-up of the rows that can run.
std::string speedups(const Sweep& sweep) {
  std::string text;
  for (const SweepRow& row : sweep.rows) {
    if (!row.result) continue;
    std::string gpus;
    for (const SettingValue& setting : row.settings) gpus = setting.name == "gpus" ? setting.value : gpus;
    char number[32] = "-";
    if (row.scaling) std::snprintf(number, sizeof number, "%.4f", row.scaling->speedup);
    text += (text.empty() ? "" : ", ") + gpus + ": " + number;
  }
  return text;
}

}  // namespace

TEST_CASE("replicas that follow from the GPUs do not part the rows: the same plans have the same speed-up") {
  const std::string plain = speedups(scaling("strategy pp pp 2 gpus 2,4,8"));
  CHECK(plain.starts_with("2: 1.0000, 4: 0."));
  CHECK(speedups(scaling("strategy pp pp 2 dp 1,2,4 gpus 2,4,8")) == plain);
  CHECK(speedups(scaling("pp 2 dp 1,2,4")) == plain);
  const std::string weak = speedups(scaling("strategy pp pp 4 gpus 4,8", Scaling::weak));
  CHECK(weak.starts_with("4: 1.0000, 8: 1."));
  CHECK(speedups(scaling("strategy pp pp 4 dp 1,2 gpus 4,8", Scaling::weak)) == weak);
  CHECK(speedups(scaling("pp 4 dp 1,2", Scaling::weak)) == weak);
}

TEST_CASE("longer pipelines follow from the GPUs where the replicas are held, where both vary, replicas follow") {
  const std::string plain = speedups(scaling("schedule 1f1b gpus 2,4"));
  CHECK(speedups(scaling("schedule 1f1b pp 2,4 dp 1 gpus 2,4")) == plain);
  CHECK(speedups(scaling("schedule 1f1b pp 2,4")) == plain);
  const Sweep both = scaling("pp 2,4 dp 1,2");  // 2 -> 4 of pp 2, 4 -> 8 of pp 4
  REQUIRE(both.rows.size() == 4);
  CHECK(both.rows[1].scaling->base_row == 0);
  CHECK(both.rows[3].scaling->base_row == 2);
  // Pipelines of 4 and of 2 x 2 are on as many GPUs: neither is the other's base.
  CHECK(scaling("pp 2 dp 1,2 gpus 4,8").rows.size() == 4);
}

TEST_CASE("one GPU is its own base, and several that have nothing to be compared with have no speed-up") {
  CHECK(speedups(scaling("strategy single,ddp gpus 1,2 microbatches 1")) == "1: 1.0000, 1: 1.0000, 2: 0.6000");
  const Sweep sweep = scaling("strategy ddp,dp gpus 2,128");  // ddp on 128 GPUs lacks samples
  const std::string text = shown(sweep, 1000);
  CHECK_THAT(text, ContainsSubstring("        -           -"));
  CHECK_THAT(text, ContainsSubstring("-: there is no other row with otherwise equal settings"));
  const nlohmann::ordered_json alone = sweep_json(sweep)["rows"][0];
  for (const char* key : {"speedup", "efficiency", "speedup_against_row"}) {
    REQUIRE(alone.contains(key));
    CHECK(alone[key].is_null());
  }
  CHECK(shown(scaling("strategy ddp gpus 1,2"), 1000).find("-: there is no other row") == std::string::npos);
}

TEST_CASE("a micro-batch is the unit of work of synthetic costs: rows with more of them do other work") {
  CHECK(speedups(scaling("schedule gpipe depth 4 gpus 1,2,4 microbatches 8")).starts_with("1: 1.0000, 2: "));
  const Sweep sweep = scaling("schedule gpipe depth 4 gpus 1,2,4");
  CHECK(sweep.rows[0].scaling->speedup == 1);
  CHECK(sweep.rows[1].scaling->base_row == 1);
  CHECK(sweep.rows[2].scaling->base_row == 1);
}

TEST_CASE("costs of a micro-batch do not shrink with its share of a held batch: it is said") {
  const std::string said = "more GPUs do not make them shorter";
  const Sweep strong = scaling("strategy ddp gpus 1,2");
  CHECK_THAT(shown(strong, 1000),
             ContainsSubstring("warning (rows 1, 2): synthetic costs are those of a stage and micro-batch"));
  CHECK_THAT(sweep_json(strong)["rows"][1]["warnings"].dump(), ContainsSubstring(said));
  CHECK(shown(scaling("strategy ddp gpus 1,2", Scaling::weak), 1000).find(said) == std::string::npos);
  CHECK(shown(scaling("strategy ddp gpus 2"), 1000).find(said) == std::string::npos);
}
