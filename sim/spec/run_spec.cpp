#include "sim/spec/run_spec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "sim/spec/schedule.hpp"
#include "sim/spec/error.hpp"
#include "sim/spec/words.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kLargestBatch = 1'000'000'000;
constexpr double kLargestCostMs = 1e9;
/// Stages x micro-batches: four tasks each at some 90 bytes are 7 GB.
constexpr double kMostCells = 2e7;
/// Makespans and byte counts stay below this, so that no 64-bit integer overflows.
constexpr double kLargestTotal = 4e18;

const std::array<SettingInfo, 17> kSettings = {{
    {"model", "mlp|FILE.json", "the model: a stack of Linear+ReLU blocks, or a file with a list of layers"},
    {"depth", "L", "number of layers (default 8)"},
    {"dim", "D", "width of every layer (default 8192)"},
    {"batch", "B", "samples per optimizer step, over all GPUs (default 2048)"},
    {"microbatches", "M", "slices of the batch (default 8)"},
    {"gpus", "N", "number of GPUs (default 1)"},
    {"strategy", "single|mp|pp", "one GPU, naive layer split in one program, or pipeline (default: single, or pp)"},
    {"schedule", "naive|gpipe|1f1b", "order of a pipeline; implies --strategy pp (default 1f1b; with --workers one gpipe)"},
    {"dtype", "fp32|tf32|amp-fp16|amp-bf16", "number format of the matrix products (default fp32)"},
    {"optimizer", "sgd|adam", "optimizer (default sgd)"},
    {"transport", "copy|nccl|gloo", "how stages exchange activations (default copy)"},
    {"p2p", "eager|rendezvous", "whether a send waits for its receive (default: as the transport does)"},
    {"workers", "process|thread|one", "a process a GPU, a thread a GPU, or one thread for all (default thread; mp: one)"},
    {"tf", "MS", "synthetic cost: forward of a stage and micro-batch, milliseconds"},
    {"tb", "MS", "synthetic cost: whole backward, or the input gradient alone if --tw is given"},
    {"tw", "MS", "synthetic cost: weight gradient"},
    {"tcomm", "MS", "synthetic cost: one transfer between stages (default 0)"},
}};

template <typename Enum>
struct Word {
  Enum value;
  const char* text;
};
template <typename Enum>
Word(Enum, const char*) -> Word<Enum>;  // clang 14 does not make this guide by itself
constexpr std::array kStrategies = {Word{Strategy::single, "single"}, Word{Strategy::mp, "mp"}, Word{Strategy::pp, "pp"}};
constexpr std::array kDtypes = {Word{Dtype::fp32, "fp32"}, Word{Dtype::tf32, "tf32"}, Word{Dtype::amp_fp16, "amp-fp16"},
                                Word{Dtype::amp_bf16, "amp-bf16"}};
constexpr std::array kOptimizers = {Word{Optimizer::sgd, "sgd"}, Word{Optimizer::adam, "adam"}};
constexpr std::array kTransports = {Word{Transport::copy, "copy"}, Word{Transport::nccl, "nccl"},
                                    Word{Transport::gloo, "gloo"}};
constexpr std::array kPointToPoint = {Word{PointToPoint::eager, "eager"}, Word{PointToPoint::rendezvous, "rendezvous"}};
constexpr std::array kWorkers = {Word{Workers::process, "process"}, Word{Workers::thread, "thread"},
                                 Word{Workers::one, "one"}};

template <typename Enum, std::size_t N>
std::string text_of(const std::array<Word<Enum>, N>& words, Enum value) {
  return std::find_if(words.begin(), words.end(), [&](const auto& word) { return word.value == value; })->text;
}

[[noreturn]] void refuse_word(const std::string& place, const std::string& found, std::span<const std::string> known) {
  const std::string nearest = nearest_word(found, known);
  throw InputError(place, found.empty() ? "nothing" : found,
                   list_words(known) + (nearest.empty() ? "" : " (did you mean " + nearest + "?)"));
}

template <typename Enum, std::size_t N>
Enum parse_word(const std::array<Word<Enum>, N>& words, const SettingValue& setting) {
  std::vector<std::string> known;
  for (const auto& word : words) {
    if (word.text == setting.value) return word.value;
    known.push_back(word.text);
  }
  refuse_word(setting.place, setting.value, known);
}

/// The words given, by name.
using Given = std::map<std::string, SettingValue>;

Given collect(std::span<const SettingValue> values) {
  std::vector<std::string> known;
  for (const SettingInfo& info : kSettings) known.push_back(info.name);
  Given given;
  for (const SettingValue& setting : values) {
    if (std::find(known.begin(), known.end(), setting.name) == known.end()) {
      const std::string nearest = nearest_word(setting.name, known);
      throw InputError(setting.place, "an unknown setting " + setting.name,
                       nearest.empty() ? "one of " + list_words(known) : nearest);
    }
    if (!given.emplace(setting.name, setting).second) {
      throw InputError(setting.place, setting.name + " given twice", "one value");
    }
  }
  return given;
}

const SettingValue* find(const Given& given, const char* name) {
  const auto found = given.find(name);
  return found == given.end() ? nullptr : &found->second;
}

void read_whole(const Given& given, const char* name, std::int64_t& into, std::int64_t largest) {
  if (const SettingValue* s = find(given, name)) into = parse_whole(s->place, s->value, 1, largest);
}

std::optional<SyntheticCosts> read_synthetic(const Given& given) {
  const SettingValue* tf = find(given, "tf");
  const SettingValue* tb = find(given, "tb");
  const SettingValue* tw = find(given, "tw");
  const SettingValue* tcomm = find(given, "tcomm");
  if (!tf && !tb && !tw && !tcomm) return std::nullopt;
  if (!tf || !tb) {
    const SettingValue* first = tf ? tf : tb ? tb : tw ? tw : tcomm;
    throw InputError(first->place, std::string("no ") + (tf ? "tb" : "tf"), "tf and tb together: synthetic costs");
  }
  const auto cost = [](const SettingValue& s) {
    const double ms = parse_number(s.place, s.value, 0, kLargestCostMs);
    if (ms > 0 && ms < 1e-6) throw InputError(s.place, s.value, "0, or at least 0.000001 (one nanosecond)");
    return ms;
  };
  SyntheticCosts costs{cost(*tf), cost(*tb), std::nullopt, 0};
  if (tw) costs.tw_ms = cost(*tw);
  if (tcomm) costs.tcomm_ms = cost(*tcomm);
  if (costs.tf_ms + costs.tb_ms + costs.tw_ms.value_or(0) <= 0) {
    throw InputError(tf->place, "tf, tb and tw all 0", "a step that computes something");
  }
  return costs;
}

void read_model(const Given& given, RunSpec& spec) {
  read_whole(given, "depth", spec.depth, kMillion);
  read_whole(given, "dim", spec.dim, kMillion);
  const SettingValue* model = find(given, "model");
  if (model) spec.model_name = model->value;
  if (spec.model_name == "mlp") {
    // Textbook costs are per stage: the depth does not matter, there must only be a layer for every stage.
    if (spec.synthetic && !find(given, "depth")) spec.depth = std::max(spec.depth, spec.gpus);
    if (static_cast<double>(spec.depth) * static_cast<double>(spec.dim) * static_cast<double>(spec.dim) * 16 >
        kLargestTotal) {
      const SettingValue* s = find(given, "dim") ? find(given, "dim") : find(given, "depth");
      throw InputError(s->place, s->value, "a model of fewer than 2.5e17 parameters");
    }
    spec.model = mlp(spec.depth, spec.dim);
    return;
  }
  for (const char* name : {"depth", "dim"}) {
    if (const SettingValue* s = find(given, name)) {
      throw InputError(s->place, s->value, "no " + std::string(name) + ": the model comes from " + spec.model_name);
    }
  }
  spec.model = load_model(spec.model_name);
  spec.depth = static_cast<std::int64_t>(spec.model.layers.size());
  spec.dim = spec.model.layers.front().in_features;
}

void read_strategy(const Given& given, RunSpec& spec) {
  const SettingValue* strategy = find(given, "strategy");
  const SettingValue* schedule = find(given, "schedule");
  if (strategy) {
    spec.strategy = parse_word(kStrategies, *strategy);
  } else {
    spec.strategy = schedule || spec.gpus > 1 ? Strategy::pp : Strategy::single;
  }
  spec.schedule = spec.strategy == Strategy::pp ? "1f1b" : "naive";
  if (schedule) {
    if (!find_schedule(schedule->value)) {
      std::vector<std::string> known;
      for (const Schedule& s : schedules()) known.emplace_back(s.name);
      refuse_word(schedule->place, schedule->value, known);
    }
    if (spec.strategy != Strategy::pp && schedule->value != "naive") {
      throw InputError(schedule->place, schedule->value + " with strategy " + to_string(spec.strategy),
                       "strategy pp, which has schedules");
    }
    spec.schedule = schedule->value;
  }
  if (spec.strategy == Strategy::single && spec.gpus > 1) {
    throw InputError(strategy->place, "single with " + std::to_string(spec.gpus) + " GPUs", "gpus 1, or strategy mp or pp");
  }
  if (static_cast<std::int64_t>(spec.model.layers.size()) < spec.gpus) {
    const SettingValue* s = find(given, "gpus");
    throw InputError(s->place, std::to_string(spec.gpus) + " stages for " + std::to_string(spec.model.layers.size()) + " layers",
                     "at least one layer for every stage");
  }
}

void read_workers(const Given& given, RunSpec& spec) {
  spec.workers = spec.strategy == Strategy::mp ? Workers::one : Workers::thread;
  if (const SettingValue* s = find(given, "workers")) {
    spec.workers = parse_word(kWorkers, *s);
    if (spec.strategy == Strategy::mp && spec.workers != Workers::one) {
      throw InputError(s->place, s->value + " with strategy mp",
                       "one: mp is one program for all GPUs (a worker a GPU: strategy pp, schedule naive)");
    }
  }
  if (spec.workers == Workers::one && spec.strategy == Strategy::pp && spec.schedule != "naive" && spec.schedule != "gpipe") {
    const SettingValue* schedule = find(given, "schedule");
    if (schedule) {
      throw InputError(schedule->place, schedule->value + " with one thread for all GPUs",
                       "naive or gpipe: one thread gives every GPU the same order (or workers thread or process)");
    }
    spec.schedule = "gpipe";
  }
  if (const SettingValue* s = find(given, "transport")) {
    spec.transport = parse_word(kTransports, *s);
    if (spec.workers == Workers::one && spec.transport != Transport::copy) {
      throw InputError(s->place, s->value + " with one thread for all GPUs", "copy");
    }
  }
  spec.p2p = spec.transport == Transport::copy ? PointToPoint::eager : PointToPoint::rendezvous;
  if (const SettingValue* s = find(given, "p2p")) {
    const PointToPoint wanted = parse_word(kPointToPoint, *s);
    if (wanted != spec.p2p && !spec.synthetic) {
      throw InputError(s->place, s->value + " with transport " + to_string(spec.transport),
                       to_string(spec.p2p) + " (with synthetic costs, --tf and --tb, either may be chosen)");
    }
    spec.p2p = wanted;
  }
}

void check_totals(const Given& given, RunSpec& spec) {
  if (!find(given, "batch") && spec.synthetic) {
    spec.batch = (spec.batch + spec.microbatches - 1) / spec.microbatches * spec.microbatches;
  }
  const double tasks = static_cast<double>(spec.gpus) * static_cast<double>(spec.microbatches);
  const SettingValue* s = find(given, "microbatches") ? find(given, "microbatches") : find(given, "gpus");
  if (tasks > kMostCells) {
    throw InputError(s->place, to_text(tasks) + " stages x micro-batches", "at most " + to_text(kMostCells));
  }
  if (spec.synthetic) {
    const double ms = spec.synthetic->tf_ms + spec.synthetic->tb_ms + spec.synthetic->tw_ms.value_or(0) +
                      2 * spec.synthetic->tcomm_ms;
    if (tasks * ms * 1e6 > kLargestTotal) {
      const SettingValue& tf = *find(given, "tf");
      throw InputError(tf.place, to_text(tasks * ms) + " ms of work in all", "at most 4e12 ms");
    }
  }
}

}  // namespace

std::span<const SettingInfo> setting_infos() { return kSettings; }

RunSpec parse_run_spec(std::span<const SettingValue> values) {
  const Given given = collect(values);
  RunSpec spec;
  spec.synthetic = read_synthetic(given);
  read_whole(given, "gpus", spec.gpus, kMillion);
  read_whole(given, "batch", spec.batch, kLargestBatch);
  read_whole(given, "microbatches", spec.microbatches, kMillion);
  read_model(given, spec);
  read_strategy(given, spec);
  if (const SettingValue* s = find(given, "dtype")) spec.dtype = parse_word(kDtypes, *s);
  if (const SettingValue* s = find(given, "optimizer")) spec.optimizer = parse_word(kOptimizers, *s);
  read_workers(given, spec);
  check_totals(given, spec);
  return spec;
}

std::vector<SettingValue> to_settings(const RunSpec& spec) {
  std::vector<SettingValue> settings;
  const auto add = [&](const char* name, const std::string& value) { settings.push_back({name, value, name}); };
  add("model", spec.model_name);
  if (spec.model_name == "mlp") {
    add("depth", std::to_string(spec.depth));
    add("dim", std::to_string(spec.dim));
  }
  add("batch", std::to_string(spec.batch));
  add("microbatches", std::to_string(spec.microbatches));
  add("gpus", std::to_string(spec.gpus));
  add("strategy", to_string(spec.strategy));
  if (spec.strategy == Strategy::pp) add("schedule", spec.schedule);
  add("dtype", to_string(spec.dtype));
  add("optimizer", to_string(spec.optimizer));
  add("transport", to_string(spec.transport));
  add("p2p", to_string(spec.p2p));
  add("workers", to_string(spec.workers));
  if (spec.synthetic) {
    add("tf", to_text(spec.synthetic->tf_ms));
    add("tb", to_text(spec.synthetic->tb_ms));
    if (spec.synthetic->tw_ms) add("tw", to_text(*spec.synthetic->tw_ms));
    add("tcomm", to_text(spec.synthetic->tcomm_ms));
  }
  return settings;
}

std::string describe(const RunSpec& spec) {
  std::string text = spec.model_name == "mlp"
                         ? "mlp " + std::to_string(spec.depth) + " x " + std::to_string(spec.dim)
                         : spec.model_name + " (" + std::to_string(spec.depth) + " layers)";
  text += ", batch " + std::to_string(spec.batch) + " in " + std::to_string(spec.microbatches) + " micro-batch" +
          (spec.microbatches == 1 ? "" : "es") + ", " + to_string(spec.dtype) + ", " + to_string(spec.optimizer) + "; " +
          to_string(spec.strategy);
  if (spec.strategy == Strategy::pp) text += " " + spec.schedule;
  text += " on " + std::to_string(spec.gpus) + (spec.gpus == 1 ? " GPU" : " GPUs");
  if (spec.gpus > 1) text += ", transport " + to_string(spec.transport) + ", workers " + to_string(spec.workers);
  return text;
}

std::string to_string(Strategy value) { return text_of(kStrategies, value); }
std::string to_string(Dtype value) { return text_of(kDtypes, value); }
std::string to_string(Optimizer value) { return text_of(kOptimizers, value); }
std::string to_string(Transport value) { return text_of(kTransports, value); }
std::string to_string(PointToPoint value) { return text_of(kPointToPoint, value); }
std::string to_string(Workers value) { return text_of(kWorkers, value); }

}  // namespace pdl
