#include "sim/spec/run_spec.hpp"
#include "sim/spec/schedule.hpp"

#include "sim/io/error.hpp"
#include "sim/spec/settings.hpp"
#include "sim/spec/split.hpp"
#include "tests/sim/spec/surviving_settings.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace pdl;

TEST_CASE("slices are torch.chunk's and add up") {
  CHECK(torch_chunk(10, 4) == std::vector<std::int64_t>{3, 3, 3, 1});
  CHECK(torch_chunk(9, 4) == std::vector<std::int64_t>{3, 3, 3});
  CHECK(torch_chunk(5, 8) == std::vector<std::int64_t>{1, 1, 1, 1, 1});
  CHECK(torch_chunk(17, 8) == std::vector<std::int64_t>{3, 3, 3, 3, 3, 2});
  CHECK(torch_chunk(1, 1) == std::vector<std::int64_t>{1});
}

TEST_CASE("layers that do not divide are spread, none is dropped") {
  CHECK(spread(30, 4) == std::vector<std::int64_t>{8, 8, 7, 7});
  CHECK(spread(40, 16) == std::vector<std::int64_t>{3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2});
  CHECK(spread(7, 7) == std::vector<std::int64_t>(7, 1));
}

TEST_CASE("defaults are the contract's") {
  const RunSpec s = spec("");
  CHECK(s.dim == 8192);
  CHECK(s.batch == 2048);
  CHECK(s.microbatches == 1);
  CHECK(s.dtype == Dtype::fp32);
  CHECK(s.optimizer == Optimizer::sgd);
  CHECK(s.strategy == Strategy::single);
  CHECK(spec("--gpus 4").strategy == Strategy::pp);
  CHECK(spec("--gpus 1 --schedule gpipe").strategy == Strategy::pp);
  CHECK(spec("--gpus 2 --strategy mp").workers == Workers::one);
  CHECK(spec("--gpus 2 --workers one").schedule == "gpipe");
  CHECK(spec("--gpus 2 --schedule gpipe --transport nccl").p2p == PointToPoint::rendezvous);
}

TEST_CASE("by default a batch is cut where a pipeline has several workers, and nowhere else") {
  const auto microbatches = [](const std::string& flags) { return spec("--depth 16 " + flags).microbatches; };
  for (const char* several : {"--gpus 2", "--gpus 4 --schedule gpipe", "--gpus 4 --schedule naive --workers one",
                              "--gpus 4 --dp 2", "--pp 2 --dp 2", "--gpus 2 --schedule auto"}) {
    INFO(several);
    CHECK(microbatches(several) == 8);
    CHECK(microbatches(std::string(several) + " --microbatches 2") == 2);
  }
  for (const char* none :
       {"", "--gpus 1 --schedule gpipe", "--gpus 1 --schedule auto", "--gpus 4 --strategy mp",
        "--gpus 4 --strategy ddp", "--gpus 4 --strategy dp", "--gpus 4 --dp 4", "--pp 1 --dp 4", "--dtype amp-fp16"}) {
    INFO(none);
    CHECK(microbatches(none) == 1);
    CHECK(microbatches(std::string(none) + " --microbatches 2") == 2);
  }
}

TEST_CASE("every schedule runs on one GPU with its default: whole, or in as few micro-batches as it can do with") {
  for (const Schedule& schedule : schedules()) {
    INFO(schedule.name);
    const RunSpec one = spec("--gpus 1 --schedule " + std::string(schedule.name));
    CHECK(one.microbatches == (std::string(schedule.name) == "dualpipe-v" ? 2 : 1));
  }
}

TEST_CASE("a spec reads back from its own settings") {
  for (const char* flags :
       {"", "--gpus 4 --depth 30 --schedule gpipe --microbatches 3", "--gpus 2 --strategy mp --dtype tf32",
        "--gpus 8 --tf 0.1 --tb 0.2 --tw 0.30000000000000004 --tcomm 0 --p2p rendezvous",
        "--gpus 2 --schedule zb-v --tf 0.1,1,2,3 --tb 0.2 --tw 4,3,2,1e-05 --tcomm 0",
        "--gpus 3 --schedule 1f1b --transport gloo --workers process --optimizer adam",
        "--gpus 2 --schedule zb-h2 --overlap-steps 0"}) {
    check_that_settings_survive(flags);
  }
}

TEST_CASE("every word there is, given differently from its default, is among the settings") {
  const TemporaryFolder folder;
  const std::string model = folder.write(
      "two.json",
      R"({"layers": [{"kind": "linear_relu", "in": 12, "out": 20}, {"kind": "linear_relu", "in": 20, "out": 6}]})");
  std::set<std::string> given;
  for (const std::string& flags : std::vector<std::string>{
           "--model " + model +
               " --batch 96 --optimizer adam --dtype tf32 --accum 3 --seed 7 --repeat 2 --learning-rate 0.5",
           "--gpus 4 --pp 2 --dp 2 --depth 12 --dim 64 --batch 96 --microbatches 4 --schedule interleaved --chunks 3 "
           "--recompute 1 "
           "--overlap-steps 1 --transport nccl --workers process --no-sync 1 --accum 2",
           "--strategy ddp --gpus 8 --hosts 2 --network-gb-per-s 25 --network-latency-us 10 --accum 8 --no-sync 1 "
           "--bucket-mb 100 "
           "--first-bucket-mb 0.5 --bucket-views 1 --delay-ms 2.5 --straggler 3:20.5 --dtype amp-fp16 --loss-scale "
           "1024",
           "--gpus 2 --schedule gpipe --program pytorch --scale-grads 1",
           "--model gpt2 --layers 4 --hidden 96 --heads 6 --inner 200 --sequence 64 --vocabulary 640 "
           "--dropout-percent 10 --tied 0 --gpus 2 --split 3,3",
           "--model llama-7b --kv-heads 8 --gpus 2 --split auto",
           "--gpus 2 --schedule gpipe --p2p rendezvous --tf 3 --tb 4 --tw 5 --tcomm 6"}) {
    check_that_settings_survive(flags);
    const std::map<std::string, std::string> usual = settings_of(spec(""));
    for (const auto& [name, value] : words_of(flags)) {
      INFO(name);
      CHECK((!usual.contains(name) || usual.at(name) != value));
      given.insert(name);
    }
  }
  for (const SettingRow& setting : all_settings()) {
    INFO("a word that this test does not give: " << setting.name);
    CHECK(given.contains(setting.name));
  }
}

TEST_CASE("PyTorch's names of schedules are refused with the name here") {
  for (const auto& [word, name] : {std::pair{"interleaved-1f1b", "interleaved"},
                                   {"Interleaved1F1B", "interleaved"},
                                   {"ScheduleInterleaved1F1B", "interleaved"},
                                   {"GPipe", "gpipe"},
                                   {"ScheduleGPipe", "gpipe"},
                                   {"1F1B", "1f1b"},
                                   {"Schedule1F1B", "1f1b"},
                                   {"schedule_1f1b", "1f1b"},
                                   {"ZBVZeroBubble", "zb-v"},
                                   {"ScheduleZBVZeroBubble", "zb-v"},
                                   {"zbv", "zb-v"},
                                   {"InterleavedZeroBubble", "interleaved-zb"},
                                   {"interleaved_zero_bubble", "interleaved-zb"},
                                   {"LoopedBFS", "looped-bfs"},
                                   {"ScheduleLoopedBFS", "looped-bfs"},
                                   {"DualPipeV", "dualpipe-v"},
                                   {"ScheduleDualPipeV", "dualpipe-v"}}) {
    INFO(word);
    CHECK_THROWS_WITH(spec("--gpus 4 --schedule " + std::string(word)),
                      ContainsSubstring("(did you mean " + std::string(name) + "?)"));
  }
  CHECK_THROWS_WITH(spec("--gpus 4 --schedule Schedule"), !ContainsSubstring("did you mean"));
}

TEST_CASE("nonsense is refused by name") {
  const auto refused = [](const std::string& flags, const std::string& message) {
    INFO(flags);
    CHECK_THROWS_AS(spec(flags), InputError);
    CHECK_THROWS_WITH(spec(flags), ContainsSubstring(message));
  };
  refused("--gpus 0", "--gpus: found 0, expected a whole number from 1");
  refused("--gpus -1", "--gpus: found -1");
  refused("--gpus 2.5", "--gpus: found 2.5");
  refused("--gpus 0x10", "--gpus: found 0x10");
  refused("--gpus 99999999999999999999", "--gpus");
  refused("--microbatches 0", "--microbatches: found 0");
  refused("--batch 0", "--batch: found 0");
  refused("--seed -1", "--seed: found -1");
  refused("--repeat 0", "--repeat: found 0");
  refused("--depth 3 --gpus 4", "--gpus: found 4 stages for 3 layers, expected at least one layer for every stage");
  refused("--gpus 2 --gpus 3", "given twice");
  refused("--gups 2", "gpus");
  refused("--schedule 1f2b", "did you mean 1f1b?");
  refused("--accum 10001", "--accum: found 10001, expected a whole number from 1 to 10000");
  refused("--strategy mp --schedule gpipe --gpus 2", "--schedule: found gpipe with strategy mp");
  refused("--strategy single --gpus 2", "--strategy: found single with 2 GPUs");
  refused("--strategy mp --gpus 2 --workers thread", "--workers: found thread with strategy mp");
  refused("--gpus 2 --workers one --transport nccl", "--transport: found nccl with one thread");
  refused("--gpus 2 --workers one --schedule 1f1b", "--schedule: found 1f1b with one thread");
  refused("--gpus 10000 --microbatches 10000 --tf 1 --tb 1", "--microbatches");
  refused("--gpus 2 --p2p rendezvous", "--p2p: found rendezvous with transport copy");
  refused("--tf 1", "--tf: found no tb");
  refused("--tcomm 1", "--tcomm: found no tf");
  refused("--tf nan --tb 1", "--tf: found nan");
  refused("--tf 1e-9 --tb 1", "nanosecond");
  refused("--tf -1 --tb 1", "--tf: found -1");
  refused("--tf 0 --tb 0", "--tf");
  refused("--tf 1e9 --tb 1e9 --gpus 1000 --microbatches 10000", "--tf");
  refused("--gpus 1000000 --microbatches 1000000 --tf 1 --tb 1", "--microbatches");
  refused("--model nowhere.json",
          "nowhere.json: found no such file, expected a model file, or the name of a model: mlp, gpt2, ");
  refused("--strategy ddp --gpus 4 --hosts 2 --tf 1 --tb 2", "--hosts: found 2 hosts with synthetic costs");
  refused("--strategy ddp --gpus 4 --network-gb-per-s 50 --tf 1 --tb 2",
          "--network-gb-per-s: found network-gb-per-s 50 with synthetic costs");
  refused("--strategy ddp --gpus 4 --network-latency-us 5 --tf 1 --tb 2",
          "--network-latency-us: found network-latency-us 5 with synthetic costs");
}

TEST_CASE("a value with a NUL character, which JSON can write, does not cut off the message that quotes it",
          "[run_spec]") {
  const std::string path("\0/a.csv", 7);
  const std::vector<SettingValue> words = {{"schedule", path, "s.json: configurations[0].schedule"}};
  CHECK_THROWS_WITH(parse_run_spec(words),
                    "s.json: configurations[0].schedule: found \\x00/a.csv, expected a value without "
                    "a character \\0");
}

TEST_CASE("what the programs of a run refuse on any device is refused here: a prediction of it is of nothing") {
  const auto refused = [](const std::string& flags, const std::string& message) {
    INFO(flags);
    CHECK_THROWS_AS(spec(flags), InputError);
    CHECK_THROWS_WITH(spec(flags), ContainsSubstring(message));
  };
  for (const char* dtype : {"amp-fp16", "amp-bf16"}) {
    const std::string with = std::string(" --dtype ") + dtype,
                      message = "--dtype: found " + std::string(dtype) + " for a pipeline with a worker a GPU";
    for (const char* flags : {"--gpus 2", "--schedule zb-h1 --gpus 4", "--gpus 4 --pp 2 --dp 2", "--strategy pp",
                              "--gpus 2 --transport nccl --workers process", "--strategy single --workers thread"}) {
      if (std::string(dtype) == "amp-fp16") refused(flags + with, message);  // its GradScaler asks all workers
      if (std::string(dtype) == "amp-bf16") CHECK_NOTHROW(spec(flags + with));
    }
    for (const char* flags :
         {"", "--strategy single", "--strategy mp --gpus 2", "--gpus 2 --workers one",
          "--schedule option-c --gpus 2 --workers one", "--strategy ddp --gpus 2", "--strategy dp --gpus 2"}) {
      INFO(flags << with);
      CHECK_NOTHROW(spec(flags + with));
    }
  }
  refused("--gpus 2 --workers process", "--workers: found copy between processes");
  refused("--gpus 2 --workers process --transport copy", "--transport: found copy between processes");
  CHECK_NOTHROW(spec("--workers process"));  // one GPU moves nothing
  CHECK_NOTHROW(spec("--gpus 2 --workers process --transport gloo"));
}

TEST_CASE("a word that means nothing beside the others is named, so that it can be left out") {
  for (const auto& [flags, name] : std::vector<std::pair<std::string, std::string>>{
           {"--strategy dp --gpus 2 --bucket-mb 1", "bucket-mb"},
           {"--strategy ddp --gpus 2 --network-gb-per-s 1", "network-gb-per-s"},
           {"--loss-scale 1024", "loss-scale"},
           {"--strategy ddp --gpus 2 --schedule gpipe", "schedule"},
           {"--strategy ddp --gpus 2 --pp 2", "pp"}}) {
    INFO(flags);
    std::string found = "not refused";
    try {
      spec(flags);
    } catch (const WithoutMeaning& refusal) {
      found = refusal.name;
    }
    CHECK(found == name);
  }
}

TEST_CASE("the help names the defaults that the words have") {
  const auto help = [](const std::string& name) { return help_of(*find_row(name)); };
  for (const char* flags : {"--gpus 2", "--strategy ddp --gpus 2", "--program pytorch --gpus 2"}) {
    const RunSpec usual = spec(flags);
    const std::string of = usual.program == ProgramOf::pytorch ? "program pytorch: "
                           : usual.strategy == Strategy::ddp   ? "ddp: "
                                                               : "default ";
    CHECK_THAT(help("transport"), ContainsSubstring(of + to_string(usual.transport)));
    CHECK_THAT(help("workers"), ContainsSubstring(of + to_string(usual.workers)));
  }
  CHECK(to_string(spec("--strategy mp --gpus 2").workers) == "one");
  CHECK(to_string(spec("--dtype amp-bf16").workers) == "one");
  CHECK(to_string(spec("--program pytorch --gpus 1").workers) == "one");
  CHECK_THAT(help("workers"), ContainsSubstring("mp, and one GPU with amp: one"));
}

TEST_CASE("textbook costs need no depth: there is a layer for every stage") {
  CHECK(spec("--gpus 64 --microbatches 4 --tf 1 --tb 2").depth == 64);
  CHECK_THROWS_AS(spec("--gpus 64 --depth 8 --tf 1 --tb 2"), InputError);
}
