// Every row of the table of settings does what the parts of the program that read it count on. A setting that is added
// is added to kSamples below: a value that is not its default, beside what gives it a meaning.
//
//   {"bucket-mb", "100", "--strategy ddp --gpus 2"}
#include "sim/spec/settings.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/io/error.hpp"
#include "sim/io/words.hpp"
#include "sim/run/run_json.hpp"
#include "sim/run/run_name.hpp"
#include "sim/run/setting_json.hpp"
#include "sim/study/sweep_values.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace pdl;

namespace {

struct Sample {
  std::string name, value;
  std::string beside;  // what it has a meaning with
};

std::vector<Sample> samples(const std::string& model_file) {
  const std::string ddp = "--strategy ddp --gpus 4", pipeline = "--gpus 2 --depth 24", cluster = ddp + " --hosts 2",
                    costs = pipeline + " --tf 1 --tb 2", gpt = "--model gpt2", llama = "--model llama-7b";
  return {
      {"model", model_file, ""},
      {"depth", "12", ""},
      {"dim", "64", ""},
      {"layers", "3", gpt},
      {"hidden", "1536", gpt},
      {"heads", "6", gpt},
      {"kv-heads", "8", llama},
      {"inner", "1000", gpt},
      {"sequence", "512", gpt},
      {"vocabulary", "640", llama},
      {"dropout-percent", "10", gpt},
      {"tied", "1", llama},
      {"batch", "96", ""},
      {"microbatches", "3", pipeline},
      {"gpus", "3", "--depth 24 --strategy pp"},
      {"pp", "2", "--depth 24 --dp 2"},
      {"dp", "3", "--depth 24 --pp 2 --batch 96"},
      {"strategy", "mp", "--gpus 2 --microbatches 1"},
      {"schedule", "gpipe", pipeline},
      {"split", "10,14", pipeline},
      {"chunks", "3", pipeline + " --schedule interleaved"},
      {"recompute", "1", pipeline},
      {"overlap-steps", "1", pipeline},
      {"dtype", "tf32", ""},
      {"optimizer", "adam", ""},
      {"transport", "nccl", pipeline},
      {"p2p", "rendezvous", costs},
      {"workers", "process", pipeline + " --transport nccl"},
      {"program", "pytorch", ""},
      {"accum", "3", ""},
      {"no-sync", "1", ddp},
      {"bucket-mb", "100.5", ddp},
      {"first-bucket-mb", "0.5", ddp},
      {"bucket-views", "1", ddp},
      {"scale-grads", "1", "--program pytorch --gpus 2"},
      {"delay-ms", "2.5", ""},
      {"straggler", "1:20.5", ddp},
      {"loss-scale", "1024", "--dtype amp-fp16"},
      {"seed", "9223372036854775807", ""},
      {"learning-rate", "0.5", ""},
      {"repeat", "2", ""},
      {"hosts", "2", ddp},
      {"network-gb-per-s", "25.5", cluster},
      {"network-latency-us", "10", cluster},
      {"tf", "3,4.5", pipeline + " --tb 2"},
      {"tb", "3,4.5", pipeline + " --tf 1"},
      {"tw", "0.125", costs},
      {"tcomm", "6", costs},
  };
}

std::vector<SettingValue> words_of(const Sample& sample) {
  std::vector<SettingValue> words = setting_values(sample.beside);
  words.push_back({sample.name, sample.value, "--" + sample.name});
  return words;
}

/// With the default, or where tf and tb stand only together, another value.
RunSpec without(const Sample& sample) {
  std::vector<SettingValue> words = setting_values(sample.beside);
  if (sample.name == "tf" || sample.name == "tb") words.push_back({sample.name, "1", "--" + sample.name});
  return parse_run_spec(words);
}

std::string value_of(const std::vector<SettingValue>& settings, const std::string& name) {
  const SettingValue* setting = find_setting(settings, name);
  return setting ? setting->value : "not written";
}

/// Every row in which a spec may have no such setting, has one.
RunSpec spec_with_all() {
  RunSpec spec;
  spec.hosts = 2;
  spec.synthetic = SyntheticCosts();
  return spec;
}

void check_samples(void (*check)(const SettingRow&, const Sample&)) {
  const TemporaryFolder folder;
  const std::string file = folder.write("one.json", R"({"layers": [{"kind": "linear_relu", "in": 12, "out": 20}]})");
  std::set<std::string> sampled;
  for (const Sample& sample : samples(file)) {
    INFO(sample.beside << " --" << sample.name << " " << sample.value);
    const SettingRow* setting = find_row(sample.name);
    REQUIRE(setting);
    check(*setting, sample);
    sampled.insert(sample.name);
  }
  for (const SettingRow& setting : all_settings()) {
    INFO("a setting without a sample: " << setting.name);
    CHECK(sampled.contains(setting.name));
  }
}

}  // namespace

TEST_CASE("every setting has a name of its own, help, a reader and a writer") {
  std::set<std::string> names;
  for (const SettingRow& setting : all_settings()) {
    INFO(setting.name);
    CHECK(names.insert(setting.name).second);
    CHECK(find_row(setting.name) == &setting);
    CHECK_FALSE(setting.value_name.empty());
    CHECK_FALSE(setting.help.empty());
    CHECK(setting.read);
    CHECK(setting.write);
    CHECK((setting.written_if_usual || !setting.usual.empty()));
    CHECK_THAT(help_of(setting), ContainsSubstring(setting.help));
    if (setting.usual_in_help) CHECK_THAT(help_of(setting), ContainsSubstring(setting.usual));
  }
  CHECK(find_row("gups") == nullptr);
  CHECK_FALSE(is_synthetic_cost("gups"));
}

TEST_CASE("a default is what a spec has where nothing is said, and in its range") {
  int numbers = 0;
  for (const SettingRow& setting : all_settings()) {
    if (setting.usual.empty()) continue;
    INFO(setting.name);
    RunSpec spec = spec_with_all();
    CHECK(setting.write(spec) == setting.usual);
    setting.read({setting.name, setting.usual, setting.name}, setting.range, spec);
    CHECK(setting.write(spec) == setting.usual);
    if (!is_number(setting)) continue;
    ++numbers;
    const double usual = std::stod(setting.usual);
    CHECK((usual >= setting.range.least && usual <= setting.range.largest));
  }
  CHECK(numbers >= 13);
}

TEST_CASE("a setting takes both ends of its range, and nothing beyond them") {
  for (const SettingRow& setting : all_settings()) {
    if (!is_number(setting)) continue;
    INFO(setting.name);
    const bool whole = setting.values == Values::whole || setting.name == "seed" || setting.name == "repeat";
    const auto text = [&](double number) {
      return whole ? std::to_string(static_cast<std::int64_t>(number)) : to_text(number);
    };
    const bool endless = std::isinf(setting.range.largest);
    RunSpec spec;
    const auto read = [&](const std::string& value) {
      setting.read({setting.name, value, "place"}, setting.range, spec);
    };
    if (setting.range.above_least) CHECK_THROWS_WITH(read(text(setting.range.least)), ContainsSubstring(" above 0"));
    if (!setting.range.above_least) CHECK_NOTHROW(read(text(setting.range.least)));
    CHECK_NOTHROW(read(endless ? "9223372036854775807" : text(setting.range.largest)));
    for (const std::string& beyond : {text(setting.range.least - 1), std::string("many"),
                                      endless ? "9223372036854775808" : text(setting.range.largest * 1.5)}) {
      CHECK_THROWS_WITH(read(beyond), ContainsSubstring("place: found " + beyond + ", expected a"));
    }
  }
}

TEST_CASE("what a setting's writer writes, its reader takes back") {
  check_samples([](const SettingRow& setting, const Sample& sample) {
    const RunSpec once = parse_run_spec(words_of(sample));
    const std::vector<SettingValue> written = to_settings(once);
    CHECK(value_of(written, setting.name) == sample.value);
    CHECK(value_of(to_settings(without(sample)), setting.name) != sample.value);
    RunSpec again = once;
    setting.read({setting.name, *setting.write(once), setting.name}, setting.range, again);
    CHECK(setting.write(again) == sample.value);
    CHECK(once.given.contains(setting.name));
  });
}

TEST_CASE("every setting is in the JSON of a run, and reads back from it") {
  check_samples([](const SettingRow& setting, const Sample& sample) {
    RunResult run = drawn_run(1, {{0, "aA"}});
    run.spec = parse_run_spec(words_of(sample));
    run.spec.model = mlp(1, 8);  // the layers of the drawn run
    const nlohmann::json config = to_json(run)["config"];
    REQUIRE(config.contains(setting.name));
    const nlohmann::json& value = config[setting.name];
    CHECK(value.is_array() == (sample.value.find(',') != std::string::npos));
    if (is_number(setting) && !value.is_array()) CHECK(value.is_number());
    CHECK(read_setting(setting.name, JsonPlace(value, "run.json")).value == sample.value);
  });
}

TEST_CASE("every setting tells measured runs apart, by their file name too") {
  // A measured run has no synthetic costs and is on the network of its hosts; pp follows from gpus and dp.
  const std::set<std::string> in_no_name = {"pp", "network-gb-per-s", "network-latency-us", "tf", "tb", "tw", "tcomm"};
  for (const SettingRow& setting : all_settings()) {
    INFO(setting.name);
    CHECK((setting.in_run_name == nullptr) == in_no_name.contains(setting.name));
  }
  check_samples([](const SettingRow& setting, const Sample& sample) {
    const RunSpec with = parse_run_spec(words_of(sample)), other = without(sample);
    CHECK_FALSE(same_run(with, other));
    if (setting.in_run_name) CHECK(run_name(with) != run_name(other));
  });
}

TEST_CASE("a sweep may vary every setting") {
  check_samples([](const SettingRow& setting, const Sample& sample) {
    const std::map<std::string, std::string> other_words = {
        {"model", "mlp"},        {"strategy", "pp"},    {"schedule", "1f1b"}, {"dtype", "fp32"},
        {"optimizer", "sgd"},    {"transport", "copy"}, {"p2p", "eager"},     {"workers", "thread"},
        {"straggler", "0:20.5"}, {"program", "pdl"},    {"hidden", "256"}};  // 4 is less than a head
    const std::string other = setting.values == Values::on_off     ? "0"
                              : other_words.contains(setting.name) ? other_words.at(setting.name)
                                                                   : "4";
    std::string value = sample.value;
    std::replace(value.begin(), value.end(), ',', '/');  // of stages: a comma is between values
    std::vector<SettingValue> words = setting_values(sample.beside);
    words.push_back({setting.name, value + "," + other, "--" + setting.name});
    const Combinations combinations = combine_settings(words);
    CHECK(combinations.varying == std::vector<std::string>{setting.name});
    REQUIRE(combinations.rows.size() == 2);
    CHECK(value_of(combinations.rows[0].list(), setting.name) == value);
    CHECK(value_of(combinations.rows[1].list(), setting.name) == other);
  });
}

TEST_CASE("settings whose values are whole numbers or costs take ranges in a sweep") {
  for (const SettingRow& setting : all_settings()) {
    INFO(setting.name);
    const std::size_t values = expand_setting({setting.name, "2:8:x2", setting.name}).size();
    CHECK(values == (setting.values == Values::whole || is_synthetic_cost(setting) ? 3 : 1));
  }
}
