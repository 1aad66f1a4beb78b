// What a sweep over GPUs says of scaling: speed-up, efficiency, exposed communication, exactly.
#include "sim/study/sweep.hpp"

#include "sim/io/error.hpp"
#include "sim/report/sweep_document.hpp"
#include "sim/study/sweep_values.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

std::string shown(const Sweep& sweep, std::size_t width) {
  return to_terminal(sweep_document(sweep), {.width = width, .all_warnings = true});
}

std::vector<SettingValue> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<SettingValue> all;
  for (std::string name, value; in >> name >> value;) all.push_back({name, value, "--" + name});
  return all;
}

/// 4 layers: forward 4 ms, backward 8 ms (2 a layer), all gradients exchanged in 8 ms (2 a layer).
Sweep scaling(const std::string& text, std::optional<Scaling> asked = std::nullopt) {
  SweepOptions options;
  options.scaling = asked;
  return run_sweep(words("tf 4 tb 8 tcomm 8 depth 4 dim 8192 " + text), nullptr, options);
}

}  // namespace

TEST_CASE("Strong scaling: the batch is held, each row against the fewest GPUs", "[data_parallel]") {
  const Sweep sweep = scaling("strategy ddp gpus 1,2,4 batch 64");
  CHECK(sweep.scaling == Scaling::strong);
  REQUIRE(sweep.rows.size() == 3);
  // A layer a bucket: F 4, then B3 B2 B1 B0 of 2 ms each; the exchange of layer i runs beside the backward of layer i -
  // 1; the last one, 2 ms, beside nothing.
  CHECK(sweep.rows[0].result->step_time_ms == 12);
  CHECK(sweep.rows[0].scaling->speedup == 1);
  for (const std::size_t r : {1, 2}) {
    const SweepRow& row = sweep.rows[r];
    CHECK(row.result->step_time_ms == Approx(14).epsilon(1e-6));
    CHECK(row.result->exposed_communication_fraction == Approx(2.0 / 14).epsilon(1e-3));
    CHECK(row.scaling->base_row == 0);
    CHECK(row.scaling->speedup == Approx(12.0 / 14));
    CHECK(row.scaling->efficiency == Approx(12.0 / 14 / (r == 1 ? 2 : 4)));
  }
  const std::string text = shown(sweep, 200);
  CHECK_THAT(text, ContainsSubstring("throughput (samples/s)  speed-up  efficiency (%)  exposed communication (%)"));
  CHECK_THAT(text,
             ContainsSubstring(
                 "2          14.000                    4571      0.86            42.9                       14.3"));
  CHECK_THAT(text, ContainsSubstring("Strong scaling: the global batch is held (64 samples) and shared by more GPUs."));
}

TEST_CASE("Weak scaling: the batch of a GPU is held, speed-up is that of the throughput", "[data_parallel]") {
  const Sweep sweep = scaling("strategy ddp gpus 2,4,8 batch 64", Scaling::weak);
  REQUIRE(sweep.rows.size() == 3);
  std::vector<std::string> batches;
  for (const SweepRow& row : sweep.rows) {
    for (const SettingValue& setting : row.settings) {
      if (setting.name == "batch") batches.push_back(setting.value);
    }
  }
  CHECK(batches == std::vector<std::string>{"64", "128", "256"});
  CHECK(sweep.rows[1].scaling->speedup == Approx(2));
  CHECK(sweep.rows[2].scaling->speedup == Approx(4));
  CHECK(sweep.rows[2].scaling->efficiency == Approx(1));
  CHECK(sweep.fastest() == 2);  // the most samples a second; the steps are equally long
  const std::string text = shown(sweep, 200);
  CHECK_THAT(text,
             ContainsSubstring(
                 "Weak scaling: the batch of a GPU is held (32 samples) and the global batch grows with the GPUs."));
  CHECK_THAT(text, ContainsSubstring("  batch  gpus  step time"));
  CHECK_THAT(text, ContainsSubstring("Most samples/s: gpus 8, "));
  CHECK(sweep_json(sweep)["scaling"] == "weak");
  CHECK(sweep_json(sweep)["rows"][1]["speedup"].get<double>() == Approx(2));
  CHECK(sweep_json(sweep)["rows"][1]["speedup_against_row"] == 0);
  CHECK_THAT(sweep_csv(sweep),
             ContainsSubstring(
                 "batch,gpus,strategy,tf,tb,tcomm,step_time_ms,bound_ms,throughput_samples_per_s,speedup,efficiency,"));
}

TEST_CASE("Rows are compared with the fewest GPUs of the same other settings", "[data_parallel]") {
  const Sweep sweep = scaling("strategy ddp gpus 2,1,4 batch 64,128 bucket-views 0,1");
  REQUIRE(sweep.rows.size() == 12);
  for (const SweepRow& row : sweep.rows) {
    const SweepRow& base = sweep.rows[row.scaling->base_row];
    for (std::size_t s = 0; s < row.given.size(); ++s) {
      if (row.given[s].name == "gpus") {
        CHECK(base.given[s].value == "1");
      } else {
        CHECK(base.given[s].value == row.given[s].value);
      }
    }
  }
  CHECK_THAT(shown(sweep, 200),
             ContainsSubstring("the global batch is held and shared by more GPUs"));  // of two batches none is named
}

TEST_CASE("A row that cannot run is no base: the fewest GPUs that can are", "[data_parallel]") {
  const Sweep sweep = scaling("strategy ddp gpus 2,4,128 batch 64");
  CHECK(sweep.rows[2].exit_code == kExitInput);  // fewer samples than GPUs
  CHECK_FALSE(sweep.rows[2].scaling);
  CHECK(sweep.rows[1].scaling->base_row == 0);
  CHECK_THAT(sweep_csv(sweep), ContainsSubstring("64,128,ddp,4,8,8,,,,,,,,,,,,,0,"));
}

TEST_CASE("Scaling is that of GPUs: one number of them has none", "[data_parallel]") {
  CHECK_FALSE(scaling("strategy ddp gpus 2 batch 64,128").scaling);
  CHECK(sweep_json(scaling("strategy ddp gpus 2 batch 64"))["scaling"].is_null());
  CHECK_THROWS_WITH(scaling("strategy ddp gpus 2", Scaling::weak),
                    ContainsSubstring("--scaling: found weak with one number of GPUs"));
  CHECK_THROWS_WITH(scaling("strategy ddp gpus 2,3 batch 63", Scaling::weak),
                    ContainsSubstring("weak with batch 63 on 2 GPUs, the fewest"));
}

TEST_CASE("Words that mean something only beside others may be swept", "[data_parallel]") {
  CHECK(scaling("strategy ddp gpus 2 batch 64 straggler 0:20,1:10 bucket-mb 1,25 no-sync 0,1 accum 2").rows.size() ==
        8);
  CHECK(combine_settings(words("strategy ddp gpus 4 batch 64 hosts 2,4 network-gb-per-s 25,50")).rows.size() == 4);
  CHECK(scaling("gpus 1 batch 64 dtype amp-fp16 loss-scale 1024,65536").rows.size() == 2);
  CHECK_THROWS_WITH(scaling("strategy ddp gpus 2 straggler 0:20,x:1"), ContainsSubstring("--straggler: found x"));
  CHECK_THROWS_WITH(scaling("strategy ddp gpus 2 bucket-mb 0,25"), ContainsSubstring("--bucket-mb: found 0"));
}
