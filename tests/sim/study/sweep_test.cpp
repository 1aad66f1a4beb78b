#include "sim/study/sweep.hpp"
#include "sim/io/words.hpp"
#include "sim/study/sweep_values.hpp"

#include "sim/io/error.hpp"
#include "sim/report/sweep_document.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

std::string shown(const Sweep& sweep, std::size_t width) {
  return to_terminal(sweep_document(sweep), {.width = width, .all_warnings = true});
}

std::string values(const std::string& name, const std::string& text) {
  std::string all;
  for (const SettingValue& value : expand_setting({name, text, "--" + name}))
    all += (all.empty() ? "" : " ") + value.value;
  return all;
}

using Words = std::vector<SettingValue>;

/// words("gpus 2,4 schedule gpipe")
Words words(const std::string& text) {
  std::istringstream in(text);
  Words all;
  for (std::string name, value; in >> name >> value;) all.push_back({name, value, "--" + name});
  return all;
}

/// Textbook costs: a GPU's forward 1 ms, its backward 2 ms.
Sweep textbook(const std::string& text, const SweepOptions& options = {}) {
  return run_sweep(words("tf 1 tb 2 " + text), nullptr, options);
}

}  // namespace

TEST_CASE("lists and ranges") {
  CHECK(values("gpus", "4") == "4");
  CHECK(values("gpus", "4,8") == "4 8");
  CHECK(values("gpus", "2:5") == "2 3 4 5");
  CHECK(values("gpus", "2:8:2") == "2 4 6 8");
  CHECK(values("gpus", "2:7:2") == "2 4 6");
  CHECK(values("gpus", "3:3") == "3");
  CHECK(values("dim", "1024:8192:x2") == "1024 2048 4096 8192");
  CHECK(values("dim", "64,1024:2048:x2") == "64 1024 2048");
  CHECK(values("tf", "0.1:0.5:0.1") == "0.1 0.2 0.3 0.4 0.5");
  CHECK(values("tf", "0.5:4:x2") == "0.5 1 2 4");
  CHECK(values("schedule", "gpipe,a:b.csv") == "gpipe a:b.csv");
}

TEST_CASE("times of stages: slashes between them, commas between the values of a sweep") {
  CHECK(values("tf", "1/1/2,2/2/1") == "1/1/2 2/2/1");
  CHECK(values("tf", "0.5:1:0.5,3/4") == "0.5 1 3/4");
  const Sweep sweep = run_sweep(words("gpus 3 microbatches 6 tf 1/1/2,2/1/1 tb 2,3"), nullptr, {});
  REQUIRE(sweep.rows.size() == 4);
  for (const SweepRow& row : sweep.rows) CHECK(row.result.has_value());
  CHECK_THAT(sweep_csv(sweep), ContainsSubstring("\n6,3,1/1/2,2,"));
  CHECK(sweep_json(sweep)["rows"][0]["config"]["tf"] == std::vector<int>{1, 1, 2});
  CHECK(sweep_json(sweep)["rows"][1]["config"]["tb"] == 3);
  // As many times as stages in the row, or the row is refused.
  const Sweep gpus = run_sweep(words("gpus 2,3 tf 1/1/2 tb 2"), nullptr, {});
  CHECK_THAT(gpus.rows[0].refusal, ContainsSubstring("--tf: found 3 times for 2 stages"));
  CHECK(gpus.rows[1].result.has_value());
  CHECK_THROWS_WITH(expand_setting({"tf", "1,1,2,1", "--tf"}),
                    ContainsSubstring("--tf: found 1 twice") && ContainsSubstring("have slashes: 1/1/2/1"));
  CHECK_THROWS_WITH(expand_setting({"tf", "1/2,1.0/2", "--tf"}),
                    ContainsSubstring("--tf: found 1.0/2 beside 1/2, the same"));
  CHECK_THROWS_WITH(expand_setting({"tf", "1:2/3", "--tf"}), ContainsSubstring("--tf: found 2/3"));
  CHECK_THROWS_WITH(run_sweep(words("gpus 2 tf 1/x tb 1"), nullptr, {}), ContainsSubstring("--tf: found x"));
}

TEST_CASE("textbook rows whose GPUs have more stages say that these are more work") {
  const Sweep sweep = textbook("schedule 1f1b,interleaved microbatches 8 gpus 4");
  CHECK(sweep.rows[0].result->warnings.empty());
  REQUIRE(sweep.rows[1].result->warnings.size() == 1);
  CHECK_THAT(sweep.rows[1].result->warnings[0], ContainsSubstring("a GPU with 2 stages has 2 times the work"));
  CHECK(textbook("schedule zb-v,interleaved microbatches 8 gpus 4").rows[1].result->warnings.empty());
}

TEST_CASE("lists and ranges that are none") {
  const auto refused = [](const std::string& name, const std::string& text, const std::string& message) {
    CHECK_THROWS_WITH(expand_setting({name, text, "--" + name}), ContainsSubstring(message));
  };
  refused("gpus", "", "--gpus: found nothing");
  refused("gpus", "2,", "--gpus: found 2,, expected values between the commas");
  refused("gpus", "2,4,2", "--gpus: found 2 twice");
  refused("gpus", "2:4,3", "--gpus: found 3 twice");
  refused("gpus", "2,02", "--gpus: found 02 beside 2, the same");
  refused("bucket-mb", "25,25.0", "--bucket-mb: found 25.0 beside 25, the same");
  refused("delay-ms", "0,0.0", "--delay-ms: found 0.0 beside 0, the same");
  refused("straggler", "0:20,0:20.0", "--straggler: found 0:20.0 beside 0:20, the same");
  refused("loss-scale", "1024,1e3,1.024e3", "--loss-scale: found 1.024e3 beside 1024, the same");
  refused("tf", "1:3,2.0", "--tf: found 2.0 beside 2, the same");
  refused("gpus", "8:2", "a range from less to more");
  refused("gpus", "2:", "--gpus: found ");
  refused("gpus", "0:3", "--gpus: found 0");
  refused("gpus", "2:8:0", "--gpus: found 0");
  refused("gpus", "2:8:x1", "--gpus: found 1");
  refused("gpus", "2:8:2:2", "FROM:TO:xFACTOR");
  refused("gpus", "1:1000000000", "at most 1000000 values");
  refused("tf", "0:1:0", "a step above 0");
  refused("tf", "0:1:x2", "a start above 0");
}

TEST_CASE("amounts of memory") {
  CHECK(parse_bytes("--memory", "40GiB") == 40LL << 30);
  CHECK(parse_bytes("--memory", "512 MiB") == 512LL << 20);
  CHECK(parse_bytes("--memory", "80GB") == 80'000'000'000);
  CHECK(parse_bytes("--memory", "1.5kB") == 1500);
  CHECK(parse_bytes("--memory", "7B") == 7);
  CHECK(parse_bytes("--memory", "80e9") == 80'000'000'000);
  for (const char* wrong : {"", "GiB", "-1GiB", "0", "40GiBs", "1e30TiB"}) {
    CHECK_THROWS_WITH(parse_bytes("--memory", wrong), ContainsSubstring("--memory: found "));
  }
}

TEST_CASE("every combination, the first word of the help varies slowest") {
  const Sweep sweep = textbook("schedule gpipe,1f1b microbatches 4,8 gpus 4");
  CHECK(sweep.varying == std::vector<std::string>{"microbatches", "schedule"});
  REQUIRE(sweep.rows.size() == 4);
  // (M + P - 1) (F + B) = 21, 33
  for (const std::size_t r : {0, 1}) CHECK(sweep.rows[r].result->step_time_ms == 21);
  for (const std::size_t r : {2, 3}) CHECK(sweep.rows[r].result->step_time_ms == 33);
  CHECK(sweep.rows[0].result->live_activations == 4);
  CHECK(sweep.rows[2].result->live_activations == 8);
  CHECK(sweep.rows[3].result->live_activations == 4);
  CHECK(sweep.fastest() == 0);       // the first of equals
  CHECK(sweep.least_memory() == 3);  // 1F1B with the smaller slices
}

TEST_CASE("rows whose steps differ in samples are compared by samples a second, not by step time") {
  const Sweep batches = textbook("batch 64,256 microbatches 4 gpus 4");
  CHECK_FALSE(batches.same_samples());
  CHECK(batches.fastest() == 1);  // the same step, four times the samples
  const std::string text = shown(batches, 120);
  CHECK_THAT(text, ContainsSubstring("throughput"));
  CHECK_THAT(text, ContainsSubstring("Most samples/s: batch 256"));
  // The winner has the same step as the other, or a longer one: it is not the fastest.
  CHECK_THAT(text, ContainsSubstring("  most samples/s  "));
  CHECK_THAT(text, !ContainsSubstring("fastest"));
  const Sweep rounds = textbook("accum 1,4 batch 64 microbatches 4 gpus 4");
  CHECK_FALSE(rounds.same_samples());
  CHECK_THAT(shown(rounds, 120), !ContainsSubstring("Fastest"));
  CHECK(textbook("schedule gpipe,1f1b batch 64 microbatches 4 gpus 4").same_samples());
}

TEST_CASE("rows whose samples differ in length are compared by tokens a second") {
  // A textbook step takes 3 ms, whatever the sequence: twice the tokens in it.
  const Sweep lengths = textbook("model gpt2 layers 2 sequence 8,16 batch 4");
  CHECK(lengths.same_samples());
  CHECK(lengths.comparison() == Comparison::tokens_per_s);
  CHECK(lengths.fastest() == 1);
  CHECK(lengths.rows[1].result->throughput_tokens_per_s == 16 * lengths.rows[1].result->throughput_samples_per_s);
  const std::string text = shown(lengths, 120);
  CHECK_THAT(text, ContainsSubstring("(tokens/s)") && ContainsSubstring("  most tokens/s  "));
  CHECK_THAT(text, ContainsSubstring("\nMost tokens/s: sequence 16, 21333 tokens/s; least memory: sequence 8, "));
  CHECK_THAT(text, !ContainsSubstring("fastest") && !ContainsSubstring("Fastest"));
  CHECK(textbook("model gpt2 layers 2 sequence 8,16 batch 4,8").comparison() == Comparison::tokens_per_s);
  CHECK(textbook("model gpt2 layers 2 sequence 8 batch 4,8").comparison() == Comparison::samples_per_s);
  CHECK(textbook("model gpt2 layers 2 sequence 8 batch 4 accum 2").comparison() == Comparison::step_time);
}

TEST_CASE("of different models none is the fastest") {
  const auto verdict = [](const std::string& varying) {
    return "\nNo row is the fastest: rows that differ in " + varying +
           " train different models, and a step of each is other work.\n";
  };
  CHECK_THAT(shown(textbook("depth 4,8 dim 64 batch 64"), 300), ContainsSubstring(verdict("depth")));
  const std::string text = shown(textbook("model gpt2,gpt layers 2,3 sequence 8,16 batch 4"), 300);
  CHECK_THAT(text, ContainsSubstring(verdict("model or layers")));
  CHECK_THAT(text, !ContainsSubstring("  fastest") && !ContainsSubstring("most tokens/s"));
}

TEST_CASE("tokens a second and MFU are at the end of CSV and JSON, of models that take tokens alone") {
  Sweep sweep = textbook("model gpt2 layers 2 sequence 8,2000 batch 4");
  sweep.rows[0].result->mfu = 0.25;
  const std::string csv = sweep_csv(sweep);
  CHECK_THAT(csv, ContainsSubstring(",half_width_90_percent,probed,throughput_tokens_per_s,mfu\n"));
  CHECK_THAT(csv, ContainsSubstring(",1,,,,10666.666666666666,0.25\n"));
  CHECK_THAT(csv, EndsWith("has as many positions)\",,,,\n"));  // refused
  const nlohmann::ordered_json row = sweep_json(sweep)["rows"][0];
  CHECK(row["throughput_tokens_per_s"] == *sweep.rows[0].result->throughput_tokens_per_s);
  CHECK(row.rbegin().key() == "mfu");
  CHECK_THAT(shown(sweep, 200), ContainsSubstring("MFU (%)") && ContainsSubstring(" 25.0 "));
  const Sweep mlp = textbook("batch 64,256 dim 64");
  CHECK_THAT(sweep_csv(mlp), ContainsSubstring(",probed\n"));
  CHECK_THAT(shown(mlp, 200), !ContainsSubstring("tokens/s") && !ContainsSubstring("MFU"));
  CHECK(sweep_json(mlp)["rows"][0].rbegin().key() == "warnings");
}

TEST_CASE("what cannot run is a row with its reason") {
  const Sweep sweep = textbook("schedule interleaved,1f1b microbatches 9 gpus 4");
  REQUIRE(sweep.rows.size() == 2);
  CHECK_FALSE(sweep.rows[0].result);
  CHECK(sweep.rows[0].exit_code == kExitInput);
  CHECK_THAT(sweep.rows[0].refusal, ContainsSubstring("9 micro-batches on 4 GPUs, 2 groups with schedule interleaved"));
  CHECK(sweep.fastest() == 1);
  const std::string text = shown(sweep, 100);
  CHECK_THAT(text, ContainsSubstring("  refused  "));
  CHECK_THAT(text, ContainsSubstring("row 1: --microbatches: found 9 micro-batches"));
  CHECK_THAT(sweep_csv(sweep), ContainsSubstring("0,\"--microbatches: found 9 micro-batches"));
  CHECK(sweep_json(sweep)["rows"][0]["refused"]["exit_code"] == 2);
}

TEST_CASE("rows whose steps overlap are said to") {
  const Sweep sweep = textbook("schedule zb-h1,zb-h2 gpus 4 tw 1");
  CHECK_FALSE(sweep.rows[0].result->steps_overlap);
  CHECK(sweep.rows[1].result->steps_overlap);
  CHECK_THAT(shown(sweep, 200), ContainsSubstring("row 2: steps overlap, without a barrier at the optimizer"));
  CHECK_FALSE(textbook("schedule zb-h2 overlap-steps 0 gpus 4 tw 1").rows[0].result->steps_overlap);
}

TEST_CASE("every word whose value differs has a column, given or not") {
  const Sweep sweep = textbook("strategy single,ddp,mp gpus 1 dim 64 depth 4 batch 256");
  const std::string text = shown(sweep, 300);
  CHECK_THAT(text, ContainsSubstring("  strategy  transport  p2p         workers  step time (ms)"));
  CHECK_THAT(text, ContainsSubstring("  single    copy       eager       thread "));
  CHECK_THAT(text, ContainsSubstring("  ddp       nccl       rendezvous  process"));
  CHECK_THAT(text, ContainsSubstring("  mp        copy       eager       one    "));
  CHECK_THAT(sweep_csv(sweep),
             ContainsSubstring("depth,dim,batch,gpus,strategy,tf,tb,transport,p2p,workers,step_time_ms"));
  CHECK_THAT(sweep_csv(sweep), ContainsSubstring("4,64,256,1,ddp,1,2,nccl,rendezvous,process,"));
  // Micro-batches that follow from the GPUs.
  CHECK_THAT(shown(textbook("gpus 1,2 depth 4 schedule gpipe"), 300),
             ContainsSubstring("  microbatches  gpus  step time"));
  // Replicas follow from the GPUs; one pipeline has one.
  CHECK_THAT(shown(textbook("pp 2 gpus 2,4 dim 64 batch 256"), 300), ContainsSubstring("  gpus  dp  step time"));
  CHECK_THAT(shown(textbook("pp 2 gpus 2,4 dim 64 batch 256"), 300), ContainsSubstring("     2   1 "));
  // What all have alike has none.
  CHECK_THAT(shown(textbook("gpus 4 schedule gpipe,1f1b"), 300), ContainsSubstring("  schedule  step time"));
}

TEST_CASE("a schedule is that of pipelines, whatever was given beside other strategies") {
  const Sweep sweep = textbook("strategy ddp,mp,pp gpus 2 batch 64 microbatches 1 schedule naive,gpipe");
  REQUIRE(sweep.rows.size() == 4);  // ddp and mp once each
  const std::string csv = sweep_csv(sweep);
  CHECK_THAT(csv, ContainsSubstring("\n64,1,2,ddp,-,1,2,") && ContainsSubstring("\n64,1,2,mp,-,1,2,") &&
                      ContainsSubstring("\n64,1,2,pp,naive,1,2,"));
  CHECK_THAT(shown(sweep, 300), ContainsSubstring("  ddp       -              -  nccl "));
  CHECK_FALSE(sweep_json(sweep)["rows"][0]["config"].contains("schedule"));
  CHECK(sweep_json(sweep)["rows"][3]["config"]["schedule"] == "gpipe");
  CHECK_THAT(shown(textbook("strategy mp gpus 2,4 schedule naive"), 300), !ContainsSubstring("naive"));
}

TEST_CASE("the verdict says how many rows it is not about") {
  const auto verdict = [](const Sweep& sweep) {
    std::string last;
    for (const Block& block : sweep_document(sweep).blocks) {
      if (const auto* paragraph = std::get_if<Paragraph>(&block)) last = paragraph->text;
    }
    return last;
  };
  CHECK(verdict(textbook("schedule interleaved,1f1b,gpipe microbatches 11 gpus 4"))
            .starts_with("Of 3 rows, 1 could not be predicted (why: row 1 above); the verdict is about the other 2. "
                         "Fastest: schedule 1f1b, "));
  CHECK(verdict(textbook("schedule 1f1b,gpipe gpus 4")).starts_with("Fastest: "));
  SweepOptions options;
  const std::string settings =
      "gpus 2 depth 4 dim 64 batch 256 microbatches 4 schedule gpipe,1f1b,interleaved chunks 1,5";
  options.memory_limit_bytes =
      textbook("gpus 2 depth 4 dim 64 batch 256 microbatches 4 schedule gpipe").rows[0].result->peak_memory_bytes - 1;
  CHECK_THAT(verdict(textbook(settings, options)),
             ContainsSubstring("could not be predicted (why: row ") && ContainsSubstring(" above), ") &&
                 ContainsSubstring(" more memory than allowed; the verdict is about the other "));
}

TEST_CASE("a word is left out of the rows in which it has no meaning, and refused where it has none in any") {
  const Sweep buckets = textbook("strategy ddp,dp gpus 2 batch 64 bucket-mb 1,25");
  REQUIRE(buckets.rows.size() == 3);  // dp has no buckets: one row
  for (const SweepRow& row : buckets.rows) CHECK(row.result);
  CHECK_THAT(shown(buckets, 300), ContainsSubstring("  dp        copy       eager       thread           -"));
  CHECK(textbook("strategy ddp,pp gpus 2 batch 64 schedule gpipe,1f1b").rows.size() == 3);
  CHECK(textbook("dtype fp32,amp-fp16 loss-scale 1024 gpus 2 strategy ddp").rows[0].result);
  CHECK_THROWS_WITH(textbook("strategy dp gpus 2 bucket-mb 1,25"),
                    ContainsSubstring("--bucket-mb: found bucket-mb 1 with strategy dp"));
  CHECK_THROWS_WITH(textbook("dtype fp32,tf32 loss-scale 1024"),
                    ContainsSubstring("--loss-scale: found loss-scale 1024 with dtype fp32"));
  // Without "gpus" pp and dp say how many there are.
  CHECK_FALSE(textbook("strategy pp,ddp pp 2 dp 2").rows[1].result);
  CHECK(textbook("strategy pp,ddp pp 2 dp 2 gpus 4").rows[1].result);
}

TEST_CASE("one host and two stand in one table, the network beside the second") {
  std::vector<std::string> networks;
  const Combinations combinations = combine_settings(words("strategy ddp gpus 4 hosts 1,2 network-gb-per-s 25,50"));
  for (const RowSettings& row : combinations.rows) {
    for (const SettingValue& setting : row) {
      if (setting.name == "hosts") networks.push_back(setting.value);
      if (setting.name == "network-gb-per-s") networks.back() += " with " + setting.value;
    }
  }
  CHECK(networks == std::vector<std::string>{"1", "2 with 25", "2 with 50"});
  CHECK_THROWS_WITH(combine_settings(words("strategy ddp gpus 4 network-gb-per-s 25,50")),
                    ContainsSubstring("with one host"));
  CHECK_THROWS_WITH(combine_settings(words("tf 1 tb 2 strategy ddp gpus 4 network-gb-per-s 25,50")),
                    ContainsSubstring("with synthetic costs"));
}

TEST_CASE("values that no configuration could have are refused") {
  CHECK_THROWS_WITH(textbook("schedule gpip,1f1b gpus 4"), ContainsSubstring("did you mean gpipe?"));
  CHECK_THROWS_WITH(textbook("gpus 0,2"), ContainsSubstring("--gpus: found 0"));
  CHECK_THROWS_WITH(textbook("dtype fp32,fp31"), ContainsSubstring("--dtype: found fp31"));
  CHECK_THROWS_WITH(textbook("gpus 1:1001 microbatches 1:1000"), ContainsSubstring("at most 1000000"));
  // Chunks that a schedule does not take are a row.
  CHECK(textbook("schedule 1f1b,interleaved chunks 2,4 gpus 2").rows.size() == 4);
}

TEST_CASE("more memory than the limit is shown and cannot win") {
  const std::string settings = "gpus 2 depth 4 dim 64 batch 256 microbatches 4 schedule gpipe,1f1b";
  const Sweep all = textbook(settings);
  const std::int64_t gpipe = all.rows[0].result->peak_memory_bytes, one_f_one_b = all.rows[1].result->peak_memory_bytes;
  REQUIRE(one_f_one_b < gpipe);
  CHECK(all.fastest() == 0);
  SweepOptions options;
  options.memory_limit_bytes = gpipe - 1;
  CHECK(textbook(settings, options).fastest() == 1);
  CHECK_THAT(shown(textbook(settings, options), 100), ContainsSubstring("above 0."));
  options.memory_limit_bytes = gpipe;
  CHECK(textbook(settings, options).fastest() == 0);
  options.memory_limit_bytes = one_f_one_b - 1;
  CHECK_FALSE(textbook(settings, options).fastest());
}

TEST_CASE("out of the card's memory: a row that cannot run") {
  const CostProfile profile = tiny_profile();
  const Sweep sweep = run_sweep(words("gpus 2 depth 8 dim 64,8192 batch 256 microbatches 4"), &profile, {});
  CHECK(sweep.rows[0].result);
  CHECK(sweep.rows[1].exit_code == kExitCannotRun);
  CHECK_THAT(sweep.rows[1].refusal, ContainsSubstring("out of memory: GPU "));
}

TEST_CASE("a number of threads changes nothing") {
  const CostProfile profile = tiny_profile();
  const Words settings =
      words("gpus 1:4 depth 8 dim 64 batch 256 microbatches 1:8 schedule gpipe,1f1b,zb-v,interleaved");
  const std::string one = sweep_json(run_sweep(settings, &profile, {})).dump();
  for (const std::int64_t threads : {2, 7, 200}) {
    SweepOptions options;
    options.threads = threads;
    std::size_t last = 0;
    options.progress = [&](std::size_t done, std::size_t of) {
      CHECK(done > last);
      CHECK(done <= of);
      last = done;
    };
    CHECK(sweep_json(run_sweep(settings, &profile, options)).dump() == one);
  }
}

TEST_CASE("the table and the sentence that names the winners") {
  const Sweep sweep = textbook("gpus 4 depth 4 dim 64 batch 256 schedule naive,gpipe,1f1b");
  const Document document = sweep_document(sweep);
  const Table* table = nullptr;
  std::vector<std::string> paragraphs;
  std::vector<ChartFigure> charts;
  for (const Block& block : document.blocks) {
    if (const auto* of = std::get_if<Table>(&block)) table = of;
    if (const auto* of = std::get_if<Paragraph>(&block)) paragraphs.push_back(of->text);
    if (const auto* of = std::get_if<ChartFigure>(&block)) charts.push_back(*of);
  }
  REQUIRE(table);
  Table shown_part = *table;  // the columns that every sweep has
  shown_part.columns.erase(shown_part.columns.begin() + 5, shown_part.columns.end());
  for (auto& row : shown_part.rows) row.erase(row.begin() + 5, row.end());
  CHECK(to_terminal(shown_part, 80) ==
        "row  verdict       schedule  step time (ms)  ideal step time (ms)\n"
        "-----------------------------------------------------------------\n"
        "  1  least memory  naive             96.000                96.000\n"
        "  2  fastest       gpipe             33.000                33.000\n"
        "  3                1f1b              33.000                33.000\n");
  CHECK(paragraphs.back() ==
        "Fastest: schedule gpipe, 33.000 ms a step, as much as the next (schedule 1f1b, 33.000 ms) and 65.6 % less "
        "than the slowest (schedule naive); least memory: schedule naive, 0.15 MiB of peak memory, 48.3 % less than "
        "the fastest.");
  REQUIRE(charts.size() == 1);
  CHECK(charts[0].x_labels == std::vector<std::string>{"naive", "gpipe", "1f1b"});
  CHECK(charts[0].x_title == "schedule");
  CHECK(charts[0].series[0].y == std::vector<double>{96, 33, 33});
  CHECK(document.title == "sweep: model mlp, depth 4, dim 64");
}

TEST_CASE("hardly less memory is no verdict") {
  // Two of equal memory, of which one is the fastest.
  const Document document = sweep_document(textbook("gpus 2 depth 2 microbatches 1 schedule gpipe,1f1b"));
  for (const Block& block : document.blocks) {
    const auto* table = std::get_if<Table>(&block);
    if (!table) continue;
    CHECK(table->rows[0][1].text == "fastest");
    CHECK(table->rows[1][1].text == "");
  }
}

TEST_CASE("a sweep over GPUs has a chart of the speed-up beside the ideal one") {
  const Document document = sweep_document(textbook("strategy ddp gpus 1,2,4 batch 64"));
  const auto* chart = std::get_if<ChartFigure>(&document.blocks[document.blocks.size() - 2]);
  REQUIRE(chart);
  REQUIRE(chart->series.size() == 2);
  CHECK(chart->series[0].x == std::vector<double>{1, 2, 4});
  CHECK(chart->series[1].y == std::vector<double>{1, 2, 4});
  CHECK(chart->series[1].reference);
}

namespace {

/// Steps of 9, 12 and 15 ms with half widths of so many per cent.
Sweep with_bars(double first, double second, double third) {
  Sweep sweep = run_sweep(words("gpus 2 schedule gpipe microbatches 2 tf 1 tb 2,3,4"), nullptr, {});
  const double percents[] = {first, second, third};
  for (std::size_t r = 0; r < 3; ++r) sweep.rows[r].result->error_bar = ErrorBar{percents[r], 0.2, {}};
  return sweep;
}

using Rows = std::vector<std::size_t>;

}  // namespace

TEST_CASE("rows that the error bars do not tell from the fastest are a tie") {
  REQUIRE(with_bars(1, 1, 1).rows[1].result->step_time_ms == 12);
  REQUIRE(with_bars(1, 1, 1).rows[2].result->step_time_ms == 15);
  // 3 ms apart: sqrt((20 % of 9)^2 + (20 % of 12)^2) = 3.0 exactly, which still tells them apart
  CHECK(with_bars(19.9, 19.9, 1).tied_with_fastest().empty());
  CHECK(with_bars(20.1, 20.1, 1).tied_with_fastest() == Rows{1});
  CHECK(with_bars(70, 1, 1).tied_with_fastest() == Rows{1, 2});
  const std::string told = shown(with_bars(1, 1, 1), 400), tie = shown(with_bars(20.1, 20.1, 1), 400),
                    all = shown(with_bars(70, 1, 1), 400);
  CHECK_THAT(told, ContainsSubstring("1  fastest") && !ContainsSubstring("tie"));
  CHECK_THAT(told, ContainsSubstring("± (%)") && ContainsSubstring("±: 90 % of measured step times lie within"));
  CHECK_THAT(tie, ContainsSubstring("1  tie ") && ContainsSubstring("2  tie ") && !ContainsSubstring("3  tie"));
  CHECK_THAT(tie, ContainsSubstring("tie: within the error bars of tb 3; least memory"));
  CHECK_THAT(all, ContainsSubstring("tie: within the error bars of tb 3, and of 1 row more; least memory"));
}

TEST_CASE("the files of a sweep have the error bars") {
  const Sweep sweep = with_bars(20.1, 20.1, 1);
  const auto json = sweep_json(sweep);
  CHECK(json["fastest"] == 0);
  CHECK(json["tied_with_fastest"] == Rows{1});
  CHECK(json["rows"][1]["step_time_ms"]["half_width_90"].get<double>() == Approx(2.412));
  CHECK(json["rows"][2]["half_width_90_percent"] == 1);
  CHECK(json["rows"][2]["probed"] == false);
  CHECK_THAT(sweep_csv(sweep),
             ContainsSubstring("refused,half_width_90_percent,probed\n") && ContainsSubstring(",1,,20.1,0\n"));
}

TEST_CASE("a row without an error bar is tied with nothing") {
  Sweep sweep = with_bars(70, 70, 70);
  sweep.rows[1].result->error_bar.reset();
  CHECK(sweep.tied_with_fastest() == Rows{2});
  sweep.rows[0].result->error_bar.reset();
  CHECK(sweep.tied_with_fastest().empty());
  CHECK_THAT(shown(textbook("gpus 2 microbatches 2,4"), 400), !ContainsSubstring("±"));
  CHECK_FALSE(sweep_json(sweep)["rows"][0].contains("probed"));
}

TEST_CASE("rows that were kept are refused once a file that they were predicted from says something else") {
  const TemporaryFolder folder;
  const auto model_of = [&](int width) {
    const std::string layer = R"({"kind": "linear_relu", "in": 64, "out": )" + std::to_string(width) + "}";
    return folder.write("model.json", R"({"layers": [)" + layer + "]}");
  };
  SweepOptions keeping;
  keeping.resume = folder / "rows.jsonl";
  const std::string asked = "model " + model_of(64) + " gpus 1 batch 8,16";
  CHECK(textbook(asked, keeping).rows.size() == 2);
  CHECK(textbook(asked, keeping).rows.size() == 2);  // all kept
  model_of(32);
  CHECK_THROWS_WITH(textbook(asked, keeping),
                    ContainsSubstring("rows of the sweep") && ContainsSubstring("model.json"));
}
