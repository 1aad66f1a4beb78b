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

std::string schedule_names() {
  std::string names;
  for (const Schedule& schedule : schedules()) names += (names.empty() ? "" : ", ") + std::string(schedule.name);
  return names;
}

const std::array<SettingInfo, 20> kSettings = {{
    {"model", "mlp|FILE.json", "the model: a stack of Linear+ReLU blocks, or a file with a list of layers"},
    {"depth", "L", "number of layers (default 8)"},
    {"dim", "D", "width of every layer (default 8192)"},
    {"batch", "B", "samples per optimizer step, over all GPUs (default 2048)"},
    {"microbatches", "M", "slices of the batch (default 8)"},
    {"gpus", "N", "number of GPUs (default 1)"},
    {"strategy", "single|mp|pp", "one GPU, naive layer split in one program, or pipeline (default: single, or pp)"},
    {"schedule", "NAME|auto|FILE.csv",
     "order of a pipeline: " + schedule_names() + ", auto (searched), or a file in PyTorch's format; implies --strategy pp "
     "(default 1f1b; with --workers one gpipe)"},
    {"chunks", "V", "stages of a GPU, for schedules that interleave them (default: 2 for those, else 1)"},
    {"recompute", "0|1", "keep only the input of a stage, run its forward again before its backward (default 0)", true},
    {"overlap-steps", "0|1", "no barrier between steps: a step is the time of the GPU at it longest (default: zb-h2 1, else 0)", true},
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

/// Before anything is made of that size.
void check_cells(const Given& given, const RunSpec& spec) {
  const double cells = static_cast<double>(stage_count(spec)) * static_cast<double>(spec.microbatches);
  if (cells <= kMostCells) return;
  for (const char* name : {"microbatches", "chunks", "gpus", "schedule"}) {
    const SettingValue* s = find(given, name);
    if (s) throw InputError(s->place, to_text(cells) + " stages x micro-batches", "at most " + to_text(kMostCells));
  }
}

void read_model(const Given& given, RunSpec& spec) {
  read_whole(given, "depth", spec.depth, kMillion);
  read_whole(given, "dim", spec.dim, kMillion);
  const SettingValue* model = find(given, "model");
  if (model) spec.model_name = model->value;
  if (spec.model_name == "mlp") {
    // Textbook costs are per GPU: the depth does not matter, there must only be a layer for every stage.
    if (spec.synthetic && !find(given, "depth")) spec.depth = std::max(spec.depth, stage_count(spec));
    if (static_cast<double>(spec.depth) * static_cast<double>(spec.dim) * static_cast<double>(spec.dim) * 16 >
        kLargestTotal) {
      const SettingValue* s = find(given, "dim") ? find(given, "dim") : find(given, "depth") ? find(given, "depth") : find(given, "gpus");
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

bool is_path(const std::string& schedule) {
  return schedule.ends_with(".csv") || schedule.find('/') != std::string::npos;
}

/// A file fixes GPUs, chunks and micro-batches: what was given beside it must agree.
void take_shape_of_file(const Given& given, RunSpec& spec) {
  const ScheduleShape& shape = spec.schedule_file->order.shape;
  const auto take = [&](const char* name, std::int64_t& into, std::int64_t of_file) {
    const SettingValue* s = find(given, name);
    if (s && into != of_file) {
      throw InputError(s->place, s->value + " beside the schedule " + spec.schedule, std::to_string(of_file) + ", as in the schedule");
    }
    into = of_file;
  };
  take("gpus", spec.gpus, shape.workers);
  take("chunks", spec.chunks, shape.chunks);
  take("microbatches", spec.microbatches, shape.microbatches);
}

void read_schedule(const Given& given, RunSpec& spec) {
  const SettingValue* schedule = find(given, "schedule");
  const SettingValue* chunks = find(given, "chunks");
  if (chunks) spec.chunks = parse_whole(chunks->place, chunks->value, 1, kMillion);
  if (schedule) spec.schedule = schedule->value;
  if (spec.schedule_file || (schedule && is_path(schedule->value))) {
    if (!spec.schedule_file) spec.schedule_file = std::make_shared<ScheduleFile>(load_schedule_csv(schedule->value));
    return take_shape_of_file(given, spec);
  }
  if (spec.schedule == kAutoSchedule) return;
  const Schedule* known = find_schedule(spec.schedule);
  if (!known) {
    std::vector<std::string> names;
    for (const Schedule& s : schedules()) names.emplace_back(s.name);
    names.emplace_back(kAutoSchedule);
    refuse_word(schedule->place, schedule->value, names);
  }
  if (!chunks) spec.chunks = known->default_chunks;
  if (spec.chunks < known->least_chunks || spec.chunks > known->most_chunks) {
    throw InputError(chunks->place, chunks->value + " with schedule " + spec.schedule,
                     known->least_chunks == known->most_chunks ? std::to_string(known->least_chunks)
                                                               : "at most " + std::to_string(known->most_chunks));
  }
}

/// Naive, or 1F1B with a worker a GPU, or GPipe with one thread for all of them.
std::string default_schedule(const Given& given, Strategy strategy) {
  if (strategy != Strategy::pp) return "naive";
  const SettingValue* workers = find(given, "workers");
  return workers && workers->value == "one" ? "gpipe" : "1f1b";
}

void read_strategy(const Given& given, RunSpec& spec) {
  const SettingValue* strategy = find(given, "strategy");
  const SettingValue* schedule = find(given, "schedule");
  if (strategy) {
    spec.strategy = parse_word(kStrategies, *strategy);
  } else {
    spec.strategy = schedule || spec.gpus > 1 ? Strategy::pp : Strategy::single;
  }
  spec.schedule = default_schedule(given, spec.strategy);
  read_schedule(given, spec);
  if (schedule && spec.strategy != Strategy::pp && schedule->value != "naive") {
    throw InputError(schedule->place, schedule->value + " with strategy " + to_string(spec.strategy),
                     "strategy pp, which has schedules");
  }
  if (spec.strategy == Strategy::single && spec.gpus > 1) {
    throw InputError(strategy->place, "single with " + std::to_string(spec.gpus) + " GPUs", "gpus 1, or strategy mp or pp");
  }
}

/// Checks of the schedule that need the model and the numbers: a layer for every stage, the rule for micro-batches.
void check_shape(const Given& given, const RunSpec& spec) {
  const auto layers = static_cast<std::int64_t>(spec.model.layers.size());
  if (layers < stage_count(spec)) {
    const SettingValue* s = find(given, spec.chunks > 1 && find(given, "chunks") ? "chunks" : "gpus");
    if (!s) s = find(given, "schedule");
    throw InputError(s->place, std::to_string(stage_count(spec)) + " stages for " + std::to_string(layers) + " layers",
                     "at least one layer for every stage");
  }
  const Schedule* known = named_schedule(spec);
  if (!known || !known->refuses) return;
  const std::string rule = known->refuses(shape_of(spec, spec.microbatches));
  if (rule.empty()) return;
  const SettingValue* s = find(given, "microbatches") ? find(given, "microbatches") : find(given, "schedule");
  throw InputError(s ? s->place : "microbatches", rule.substr(0, rule.find(": ")) + " with schedule " + spec.schedule,
                   rule.substr(rule.find(": ") + 2));
}

void read_overlap(const Given& given, RunSpec& spec) {
  const SettingValue* s = find(given, "overlap-steps");
  if (!s) return;
  spec.overlap_steps = parse_whole(s->place, s->value, 0, 1) == 1;
  if (*spec.overlap_steps && spec.workers == Workers::one) {
    throw InputError(s->place, "steps that overlap with one thread for all GPUs", "workers thread or process");
  }
}

void read_recompute(const Given& given, RunSpec& spec) {
  const SettingValue* s = find(given, "recompute");
  if (!s) return;
  spec.recompute = parse_whole(s->place, s->value, 0, 1) == 1;
  if (!spec.recompute) return;
  if (spec.workers == Workers::one) {
    throw InputError(s->place, "recomputation with one thread for all GPUs", "workers thread or process");
  }
  const Schedule* known = named_schedule(spec);
  if (spec.schedule_file) {
    throw InputError(s->place, "recomputation with the schedule file " + spec.schedule, "a named schedule: orders of files keep their activations");
  }
  const bool fits = known && !known->splits_backward && known->placement == Placement::loop;
  if (!fits || (spec.gpus == 1 && spec.chunks > 1)) {
    throw InputError(s->place, "recomputation with schedule " + spec.schedule,
                     "one with whole backwards and no two neighbouring stages on one GPU: naive, gpipe, 1f1b, option-c, "
                     "interleaved, looped-bfs");
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
  const Schedule* known = named_schedule(spec);
  if (spec.workers == Workers::one && !(known && known->same_on_every_worker)) {
    const SettingValue* schedule = find(given, "schedule");
    throw InputError(schedule->place, schedule->value + " with one thread for all GPUs",
                     "naive, gpipe or option-c: one thread gives every GPU the same order (or workers thread or process)");
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
  const double tasks = static_cast<double>(stage_count(spec)) * static_cast<double>(spec.microbatches);
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

RunSpec parse_run_spec(std::span<const SettingValue> values) { return parse_run_spec(values, nullptr); }

RunSpec parse_run_spec(std::span<const SettingValue> values, std::shared_ptr<const ScheduleFile> schedule_file) {
  const Given given = collect(values);
  RunSpec spec;
  spec.schedule_file = std::move(schedule_file);
  spec.synthetic = read_synthetic(given);
  read_whole(given, "gpus", spec.gpus, kMillion);
  read_whole(given, "batch", spec.batch, kLargestBatch);
  read_whole(given, "microbatches", spec.microbatches, kMillion);
  read_strategy(given, spec);
  check_cells(given, spec);
  read_model(given, spec);
  check_shape(given, spec);
  if (const SettingValue* s = find(given, "dtype")) spec.dtype = parse_word(kDtypes, *s);
  if (const SettingValue* s = find(given, "optimizer")) spec.optimizer = parse_word(kOptimizers, *s);
  read_workers(given, spec);
  read_recompute(given, spec);
  read_overlap(given, spec);
  check_totals(given, spec);
  return spec;
}

const Schedule* named_schedule(const RunSpec& spec) {
  return spec.schedule_file ? nullptr : find_schedule(spec.schedule);
}

bool steps_overlap(const RunSpec& spec) {
  const Schedule* schedule = named_schedule(spec);
  return spec.overlap_steps.value_or(schedule && schedule->steps_overlap);
}

ScheduleShape shape_of(const RunSpec& spec, std::int64_t microbatches) {
  return {static_cast<std::int32_t>(spec.gpus), static_cast<std::int32_t>(spec.chunks), static_cast<std::int32_t>(microbatches)};
}

std::int64_t stage_count(const RunSpec& spec) { return spec.gpus * spec.chunks; }

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
  if (spec.strategy == Strategy::pp) {
    add("schedule", spec.schedule);
    add("chunks", std::to_string(spec.chunks));
  }
  if (spec.recompute) add("recompute", "1");
  if (spec.overlap_steps || steps_overlap(spec)) add("overlap-steps", steps_overlap(spec) ? "1" : "0");
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
  if (spec.chunks > 1) text += ", " + std::to_string(spec.chunks) + " chunks a GPU,";
  if (spec.recompute) text += ", recomputed,";
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
