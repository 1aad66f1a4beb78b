#include "sim/io/words.hpp"

#include "sim/io/error.hpp"
#include "sim/spec/settings.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

TEST_CASE("the nearest word is that of a slip of the finger") {
  const auto nearest = [](const std::string& word, const std::vector<std::string>& known) {
    return nearest_word(word, known);
  };
  CHECK(nearest("gups", {"depth", "gpus"}) == "gpus");  // two neighbours exchanged
  CHECK(nearest("gpu", {"depth", "gpus"}) == "gpus");   // one left out
  CHECK(nearest("sdg", {"sgd", "adam"}) == "sgd");
  CHECK(nearest("GPipe", {"1f1b", "gpipe"}) == "gpipe");
  CHECK(nearest("microbathes", {"microbatches"}) == "microbatches");
  CHECK(nearest("--gups", {"--gpus"}) == "--gpus");
  // A letter of two, or three of four, may be any other word.
  CHECK(nearest("tp", {"mp", "pp", "dp", "ddp"}).empty());
  CHECK(nearest("--tp", {"--pp", "--dp", "--tf"}).empty());
  CHECK(nearest("fsdp", {"dp", "ddp"}).empty());
  CHECK(nearest("bf16", {"fp32", "tf32", "amp-bf16"}).empty());
  CHECK(nearest("", {"a", "ab"}).empty());
  CHECK(nearest("anything", {}).empty());
  // Of equals the first; of unequals the nearer one.
  CHECK(nearest("zb-h3", {"zb-h1", "zb-h2"}) == "zb-h1");
  CHECK(nearest("dualpipe-", {"dualpipe-vv", "dualpipe-v"}) == "dualpipe-v");
}

TEST_CASE("words that begin as one does: with all of it, else with its first part") {
  using Names = std::vector<std::string>;
  const Names flags = {"--sequence", "--seed", "--batch", "--bucket-mb", "--bucket-views"};
  const auto alike = [&](const std::string& word) { return words_that_begin_as(word, flags); };
  CHECK(alike("--seq") == Names{"--sequence"});
  CHECK(alike("--Seq_Len") == Names{"--sequence"});
  CHECK(alike("--batch-size") == Names{"--batch"});
  CHECK(alike("--bucket") == Names{"--bucket-mb", "--bucket-views"});
  CHECK(alike("--bucket-v") == Names{"--bucket-views"});
  CHECK(alike("--se").empty());  // two letters begin too many
  CHECK(alike("--sequences").empty());
  CHECK(alike("--").empty());
}

TEST_CASE("each word of an enumeration is refused with a hint only where it is a slip of one of them") {
  const auto message = [](const std::string& flags) {
    try {
      spec(flags);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(message("--strategy tp") ==
        "--strategy: found tp, expected single, mp, pp, dp or ddp (tensor parallelism is not modelled yet)");
  CHECK(message("--strategy fsdp") ==
        "--strategy: found fsdp, expected single, mp, pp, dp or ddp (fully sharded data parallelism is not modelled "
        "yet)");
  CHECK(message("--dtype bf16") ==
        "--dtype: found bf16, expected fp32, tf32, amp-fp16 or amp-bf16 (bf16 weights are not modelled; amp-bf16 is "
        "autocast)");
  CHECK_THAT(message("--dtype fp16"), ContainsSubstring("(fp16 weights are not modelled; amp-fp16 is autocast)"));
  CHECK_THAT(message("--schedule dualpipe --gpus 2"), ContainsSubstring("dualpipe-v keeps one"));
  CHECK(message("--strategy xyz") == "--strategy: found xyz, expected single, mp, pp, dp or ddp");
  CHECK(message("--transport tcp --gpus 2") == "--transport: found tcp, expected copy, nccl or gloo");
  CHECK_THAT(message("--strategy sinlge"), ContainsSubstring("(did you mean single?)"));
  CHECK_THAT(message("--dtype amp-bf61"), ContainsSubstring("(did you mean amp-bf16?)"));
  CHECK_THAT(message("--optimizer adma"), ContainsSubstring("(did you mean adam?)"));
  CHECK_THAT(message("--transport NCCL --gpus 2"), ContainsSubstring("(did you mean nccl?)"));
  CHECK_THAT(message("--workers threads --gpus 2"), ContainsSubstring("(did you mean thread?)"));
  CHECK_THAT(message("--tensor-parallel 2"),
             ContainsSubstring("found an unknown setting tensor-parallel, expected one of model,"));
  // What is said not to be modelled is indeed no word of any of these settings.
  for (const SettingRow& setting : all_settings()) {
    for (const char* word : {"tp", "fsdp", "bf16", "fp16", "fp8", "dualpipe"}) {
      if (!not_modelled(setting.name, word).empty())
        CHECK_THAT(message("--" + setting.name + " " + word), ContainsSubstring(not_modelled(setting.name, word)));
    }
  }
}

TEST_CASE("the times of stages: one for all, or one for each") {
  const auto refused = [](const std::string& flags, const std::string& message) {
    INFO(flags);
    CHECK_THROWS_AS(spec(flags), InputError);
    CHECK_THROWS_WITH(spec(flags), ContainsSubstring(message));
  };
  const std::vector<double> three = {1, 2.5, 1e-6};
  CHECK(spec("--gpus 3 --tf 1,2.5,0.000001 --tb 2").synthetic->tf_ms == three);
  CHECK(spec("--gpus 3 --tf 1/2.5/0.000001 --tb 2").synthetic->tf_ms == three);
  CHECK(spec("--gpus 6 --dp 2 --tf 1 --tb 1,2.5,1e-06").synthetic->tb_ms == three);  // of one replica
  CHECK(spec("--gpus 1 --schedule interleaved --chunks 3 --tf 1 --tb 1 --tw 1,2.5,1e-06").synthetic->tw_ms == three);
  CHECK_NOTHROW(spec("--gpus 2 --tf 0,1 --tb 0"));
  refused("--gpus 3 --tf 1,2 --tb 2", "--tf: found 2 times for 3 stages, expected one for all stages, or one for each");
  refused("--gpus 2 --schedule interleaved --tf 1 --tb 1,2", "--tb: found 2 times for 4 stages");
  refused("--gpus 2 --tf 1 --tb 1 --tw 1,2,3", "--tw: found 3 times for 2 stages");
  refused("--tf 1 --tb 1,2", "--tb: found 2 times for 1 stage,");
  refused("--strategy ddp --gpus 2 --tf 1,1 --tb 2", "--tf: found 2 times for 1 stage,");
  refused("--gpus 3 --tf 1,2/3 --tb 2", "--tf: found 1,2/3");
  refused("--gpus 3 --tf 1,,3 --tb 2", "--tf: found nothing");
  refused("--gpus 3 --tf 1,2, --tb 2", "--tf: found nothing");
  refused("--gpus 2 --tf 1,x --tb 2", "--tf: found x");
  refused("--gpus 2 --tf 1,-1 --tb 2", "--tf: found -1");
  refused("--gpus 2 --tf 1,1e-9 --tb 2", "nanosecond");
  refused("--gpus 2 --tf 0,0 --tb 0", "--tf");
  refused("--gpus 2 --tf 1 --tb 2 --tcomm 1,2", "--tcomm: found 1,2");
}
