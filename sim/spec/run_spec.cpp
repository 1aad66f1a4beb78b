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

const std::array<SettingInfo, 33> kSettings = {{
    {"model", "mlp|FILE.json", "the model: a stack of Linear+ReLU blocks, or a file with a list of layers"},
    {"depth", "L", "number of layers (default 8)"},
    {"dim", "D", "width of every layer (default 8192)"},
    {"batch", "B", "samples of a step (of each round with --accum), over all GPUs (default 2048)"},
    {"microbatches", "M", "slices of the batch, of a replica's part of it (default 8; dp and ddp: 1)"},
    {"gpus", "N", "number of GPUs (default 1)"},
    {"pp", "P", "GPUs of one pipeline (default: gpus / dp)"},
    {"dp", "R", "replicas of the pipeline, whose gradients are averaged (default: gpus / pp)"},
    {"strategy", "single|mp|pp|dp|ddp",
     "one GPU, naive layer split in one program, pipeline, nn.DataParallel, or DistributedDataParallel (default: single, or pp)"},
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
    {"accum", "K", "rounds of the batch whose gradients are added up before the optimizer's step (default 1)"},
    {"no-sync", "0|1", "exchange gradients in the last round of a step only (default 0: in every round)", true},
    {"bucket-mb", "MIB", "ddp: size at which a bucket of gradients is full, MiB (default 25)"},
    {"first-bucket-mb", "MIB", "ddp: the same of the first bucket, MiB (default 1)"},
    {"bucket-views", "0|1", "ddp: gradients are views of the buckets, nothing is copied (default 0)", true},
    {"delay-ms", "MS", "the host sleeps before every backward (default 0)"},
    {"straggler", "RANK:MS", "the host of this GPU sleeps at the start of every step"},
    {"loss-scale", "X", "amp-fp16: the scale that GradScaler starts with (default 65536)"},
    {"hosts", "H", "hosts that the GPUs are spread over evenly (default 1)"},
    {"network-gb-per-s", "GB", "bandwidth of a host's network each way, 1e9 bytes a second (default 50)"},
    {"network-latency-us", "US", "latency of the network (default 5)"},
    {"tf", "MS", "synthetic cost: forward of a stage and micro-batch, milliseconds"},
    {"tb", "MS", "synthetic cost: whole backward, or the input gradient alone if --tw is given"},
    {"tw", "MS", "synthetic cost: weight gradient"},
    {"tcomm", "MS", "synthetic cost: one transfer between stages, one exchange of all parameters or gradients (default 0)"},
}};

template <typename Enum>
struct Word {
  Enum value;
  const char* text;
};
template <typename Enum>
Word(Enum, const char*) -> Word<Enum>;  // clang 14 does not make this guide by itself
constexpr std::array kStrategies = {Word{Strategy::single, "single"}, Word{Strategy::mp, "mp"}, Word{Strategy::pp, "pp"},
                                   Word{Strategy::dp, "dp"}, Word{Strategy::ddp, "ddp"}};
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
  double cells = static_cast<double>(stage_count(spec)) * static_cast<double>(spec.microbatches);
  cells *= static_cast<double>(replica_count(spec)) * static_cast<double>(spec.accum);
  if (cells <= kMostCells) return;
  for (const char* name : {"microbatches", "accum", "chunks", "gpus", "dp", "pp", "schedule"}) {
    const SettingValue* s = find(given, name);
    if (s) throw InputError(s->place, to_text(cells) + " stages x micro-batches x rounds", "at most " + to_text(kMostCells));
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
  std::int64_t workers = pipeline_workers(spec);
  const bool named = find(given, "gpus") || find(given, "pp");
  const SettingValue* s = find(given, "pp") ? find(given, "pp") : find(given, "gpus");
  if (named && workers != shape.workers) {
    throw InputError(s->place, s->value + " beside the schedule " + spec.schedule,
                     std::to_string(shape.workers) + (spec.dp > 1 ? " GPUs a replica" : "") + ", as in the schedule");
  }
  spec.gpus = shape.workers * spec.dp;
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

/// gpus = pp x dp: two of them give the third.
void read_gpus(const Given& given, RunSpec& spec) {
  const SettingValue* gpus = find(given, "gpus");
  const SettingValue* pp = find(given, "pp");
  const SettingValue* dp = find(given, "dp");
  std::int64_t workers = 1;
  read_whole(given, "gpus", spec.gpus, kMillion);
  read_whole(given, "pp", workers, kMillion);
  read_whole(given, "dp", spec.dp, kMillion);
  if (!gpus) spec.gpus = workers * spec.dp;
  if (spec.gpus > kMillion) throw InputError((pp ? pp : dp)->place, std::to_string(spec.gpus) + " GPUs in all", "at most 1000000");
  if (gpus && pp && !dp && spec.gpus % workers == 0) spec.dp = spec.gpus / workers;
  const bool fits = spec.gpus % spec.dp == 0 && (!pp || workers * spec.dp == spec.gpus);
  if (!fits) {
    throw InputError((pp ? pp : dp)->place, "pp " + (pp ? pp->value : "of any size") + " x dp " + std::to_string(spec.dp) + " for " + std::to_string(spec.gpus) + " GPUs",
                     "a product that is the number of GPUs");
  }
}

void read_strategy(const Given& given, RunSpec& spec) {
  const SettingValue* strategy = find(given, "strategy");
  const SettingValue* schedule = find(given, "schedule");
  if (strategy) {
    spec.strategy = parse_word(kStrategies, *strategy);
  } else {
    spec.strategy = schedule || find(given, "pp") || find(given, "dp") || spec.gpus > 1 ? Strategy::pp : Strategy::single;
  }
  for (const char* name : {"pp", "dp"}) {
    const SettingValue* s = find(given, name);
    if (s && spec.strategy != Strategy::pp) {
      throw InputError(s->place, std::string(name) + " " + s->value + " with strategy " + to_string(spec.strategy),
                       "strategy pp (dp and ddp: a replica a GPU, --gpus says how many)");
    }
  }
  // A replica takes its part of the batch whole.
  if (is_data_parallel(spec) && !find(given, "microbatches")) spec.microbatches = 1;
  spec.schedule = default_schedule(given, spec.strategy);
  read_schedule(given, spec);
  if (schedule && spec.strategy != Strategy::pp && schedule->value != "naive") {
    throw InputError(schedule->place, schedule->value + " with strategy " + to_string(spec.strategy),
                     "strategy pp, which has schedules");
  }
  if (spec.strategy == Strategy::single && spec.gpus > 1) {
    throw InputError(strategy->place, "single with " + std::to_string(spec.gpus) + " GPUs", "gpus 1, or strategy mp, pp, dp or ddp");
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
  if (!fits || (pipeline_workers(spec) == 1 && spec.chunks > 1)) {
    throw InputError(s->place, "recomputation with schedule " + spec.schedule,
                     "one with whole backwards and no two neighbouring stages on one GPU: naive, gpipe, 1f1b, option-c, "
                     "interleaved, looped-bfs");
  }
}

void read_transport(const Given& given, RunSpec& spec) {
  spec.transport = spec.strategy == Strategy::ddp ? Transport::nccl : Transport::copy;
  const SettingValue* s = find(given, "transport");
  if (!s) return;
  spec.transport = parse_word(kTransports, *s);
  const bool copies_only = spec.workers == Workers::one || spec.strategy == Strategy::dp;
  if (copies_only && spec.transport != Transport::copy) {
    throw InputError(s->place, s->value + (spec.strategy == Strategy::dp ? " with strategy dp" : " with one thread for all GPUs"), "copy");
  }
  if (spec.strategy == Strategy::ddp && spec.transport == Transport::copy) {
    throw InputError(s->place, "copy with strategy ddp", "nccl, or gloo on CPU: gradients are exchanged by collectives");
  }
}

/// The programs of LibTorch's autograd: mp and the one-GPU program under autocast.
Workers default_workers(const RunSpec& spec) {
  if (spec.strategy == Strategy::ddp) return Workers::process;
  if (spec.strategy == Strategy::mp || (spec.strategy == Strategy::single && is_amp(spec.dtype))) return Workers::one;
  return Workers::thread;
}

void read_workers(const Given& given, RunSpec& spec) {
  spec.workers = default_workers(spec);
  if (const SettingValue* s = find(given, "workers")) {
    spec.workers = parse_word(kWorkers, *s);
    if (is_data_parallel(spec) && spec.workers != default_workers(spec)) {
      throw InputError(s->place, s->value + " with strategy " + to_string(spec.strategy),
                       spec.strategy == Strategy::ddp ? "process: DDP has a process a GPU" : "thread: DataParallel has a thread a GPU");
    }
    if (spec.dp > 1 && spec.workers == Workers::one) {
      throw InputError(s->place, "one thread for " + std::to_string(spec.dp) + " replicas", "workers thread or process");
    }
    if (spec.strategy == Strategy::mp && spec.workers != Workers::one) {
      throw InputError(s->place, s->value + " with strategy mp",
                       "one: mp is one program for all GPUs (a worker a GPU: strategy pp, schedule naive)");
    }
  }
  read_transport(given, spec);
  const Schedule* known = named_schedule(spec);
  if (spec.workers == Workers::one && !(known && known->same_on_every_worker)) {
    const SettingValue* schedule = find(given, "schedule");
    throw InputError(schedule->place, schedule->value + " with one thread for all GPUs",
                     "naive, gpipe or option-c: one thread gives every GPU the same order (or workers thread or process)");
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

/// Throws if the word is given and `fits` is false.
void only_with(const Given& given, const char* name, bool fits, const std::string& with) {
  const SettingValue* s = find(given, name);
  if (s && !fits) throw InputError(s->place, std::string(name) + " " + s->value + " with " + with, "no " + std::string(name) + ": it has no meaning there");
}

std::int64_t parse_mib(const SettingValue& s) {
  constexpr double kBytesPerMib = 1 << 20;
  const double mib = parse_number(s.place, s.value, 0, 1e9);
  if (mib * kBytesPerMib < 1) throw InputError(s.place, s.value, "a size above 0, in MiB");
  return static_cast<std::int64_t>(mib * kBytesPerMib);
}

void read_exchange(const Given& given, RunSpec& spec) {
  const std::string strategy = "strategy " + to_string(spec.strategy);
  const bool ddp = spec.strategy == Strategy::ddp;
  for (const char* name : {"bucket-mb", "first-bucket-mb", "bucket-views"}) only_with(given, name, ddp, strategy);
  if (const SettingValue* s = find(given, "bucket-mb")) spec.bucket_bytes = parse_mib(*s);
  if (const SettingValue* s = find(given, "first-bucket-mb")) spec.first_bucket_bytes = parse_mib(*s);
  if (const SettingValue* s = find(given, "bucket-views")) spec.bucket_views = parse_whole(s->place, s->value, 0, 1) == 1;
  if (const SettingValue* s = find(given, "no-sync")) {
    spec.no_sync = parse_whole(s->place, s->value, 0, 1) == 1;
    if (spec.no_sync) only_with(given, "no-sync", ddp || spec.strategy == Strategy::pp, strategy);
  }
}

void read_sleeps(const Given& given, RunSpec& spec) {
  constexpr double kLongestSleepMs = 3'600'000;
  if (const SettingValue* s = find(given, "delay-ms")) spec.delay_ms = parse_number(s->place, s->value, 0, kLongestSleepMs);
  const SettingValue* s = find(given, "straggler");
  if (!s) return;
  const std::size_t colon = s->value.find(':');
  if (colon == std::string::npos) throw InputError(s->place, s->value, "RANK:MS, such as 0:20");
  const std::string rank = s->value.substr(0, colon);
  spec.straggler = Straggler{parse_whole(s->place, rank, 0, kMillion), parse_number(s->place, s->value.substr(colon + 1), 0, kLongestSleepMs)};
  const std::int64_t hosts = spec.workers == Workers::one ? 1 : spec.gpus;
  if (spec.straggler->rank >= hosts) {
    throw InputError(s->place, "rank " + rank, hosts == 1 ? "0: there is one host thread" : "0 to " + std::to_string(hosts - 1) + ", a GPU of the run");
  }
}

void read_network(const Given& given, RunSpec& spec) {
  read_whole(given, "hosts", spec.hosts, kMillion);
  if (spec.gpus % spec.hosts != 0) {
    const SettingValue* s = find(given, "hosts");
    throw InputError(s->place, std::to_string(spec.gpus) + " GPUs on " + s->value + " hosts", "as many GPUs on every host");
  }
  if (spec.hosts > 1 && spec.strategy != Strategy::ddp) {
    throw InputError(find(given, "hosts")->place, std::to_string(spec.hosts) + " hosts with strategy " + to_string(spec.strategy), "strategy ddp");
  }
  for (const char* name : {"network-gb-per-s", "network-latency-us"}) only_with(given, name, spec.hosts > 1, "one host");
  if (const SettingValue* s = find(given, "network-gb-per-s")) {
    spec.network_gb_per_s = parse_number(s->place, s->value, 0, 1e9);
    if (spec.network_gb_per_s == 0) throw InputError(s->place, s->value, "a bandwidth above 0");
  }
  if (const SettingValue* s = find(given, "network-latency-us")) spec.network_latency_us = parse_number(s->place, s->value, 0, 1e9);
}

void read_precision(const Given& given, RunSpec& spec) {
  if (const SettingValue* s = find(given, "dtype")) spec.dtype = parse_word(kDtypes, *s);
  only_with(given, "loss-scale", spec.dtype == Dtype::amp_fp16, "dtype " + to_string(spec.dtype));
  const SettingValue* s = find(given, "loss-scale");
  if (s) spec.loss_scale = parse_number(s->place, s->value, 1, 1e30);
}

/// Every replica has samples; all of a pipeline's replicas the same number.
void check_replicas(const Given& given, const RunSpec& spec) {
  const std::int64_t replicas = replica_count(spec);
  const SettingValue* s = find(given, "batch") ? find(given, "batch") : find(given, "gpus") ? find(given, "gpus") : find(given, "dp");
  if (replicas == 1) return;
  if (is_data_parallel(spec) && spec.microbatches > 1 && spec.batch % replicas != 0) {
    throw InputError(s ? s->place : "batch", std::to_string(spec.batch) + " samples for " + std::to_string(replicas) + " replicas that cut them into micro-batches",
                     "a batch that is a multiple of it");
  }
  if (spec.strategy == Strategy::dp) return;
  if (spec.batch < replicas) {
    throw InputError(s ? s->place : "batch", std::to_string(spec.batch) + " samples for " + std::to_string(replicas) + " replicas",
                     "at least one sample for every replica");
  }
  if (spec.strategy == Strategy::pp && spec.batch % replicas != 0) {
    throw InputError(s ? s->place : "batch", std::to_string(spec.batch) + " samples for " + std::to_string(replicas) + " replicas of a pipeline",
                     "a batch that is a multiple of it");
  }
}

void check_totals(const Given& given, RunSpec& spec) {
  if (!find(given, "batch") && spec.synthetic) {
    const std::int64_t slices = spec.microbatches * replica_count(spec);
    spec.batch = (spec.batch + slices - 1) / slices * slices;
  }
  const double tasks = static_cast<double>(stage_count(spec) * spec.accum) * static_cast<double>(spec.microbatches);
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
  read_gpus(given, spec);
  read_whole(given, "batch", spec.batch, kLargestBatch);
  read_whole(given, "microbatches", spec.microbatches, kMillion);
  read_whole(given, "accum", spec.accum, kMillion);
  read_strategy(given, spec);
  check_cells(given, spec);
  read_model(given, spec);
  check_shape(given, spec);
  read_precision(given, spec);
  if (const SettingValue* s = find(given, "optimizer")) spec.optimizer = parse_word(kOptimizers, *s);
  read_workers(given, spec);
  read_exchange(given, spec);
  read_sleeps(given, spec);
  read_network(given, spec);
  read_recompute(given, spec);
  read_overlap(given, spec);
  check_totals(given, spec);
  check_replicas(given, spec);
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
  return {static_cast<std::int32_t>(pipeline_workers(spec)), static_cast<std::int32_t>(spec.chunks), static_cast<std::int32_t>(microbatches)};
}

std::int64_t stage_count(const RunSpec& spec) { return pipeline_workers(spec) * spec.chunks; }

bool is_data_parallel(const RunSpec& spec) { return spec.strategy == Strategy::dp || spec.strategy == Strategy::ddp; }

bool is_amp(Dtype dtype) { return dtype == Dtype::amp_fp16 || dtype == Dtype::amp_bf16; }

std::int64_t replica_count(const RunSpec& spec) { return is_data_parallel(spec) ? spec.gpus : spec.dp; }

std::int64_t pipeline_workers(const RunSpec& spec) { return spec.gpus / replica_count(spec); }

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
  if (spec.dp > 1) {
    add("pp", std::to_string(pipeline_workers(spec)));
    add("dp", std::to_string(spec.dp));
  }
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
  const RunSpec usual;
  constexpr double kBytesPerMib = 1 << 20;
  if (spec.accum > 1) add("accum", std::to_string(spec.accum));
  if (spec.no_sync) add("no-sync", "1");
  if (spec.bucket_bytes != usual.bucket_bytes) add("bucket-mb", to_text(static_cast<double>(spec.bucket_bytes) / kBytesPerMib));
  if (spec.first_bucket_bytes != usual.first_bucket_bytes) add("first-bucket-mb", to_text(static_cast<double>(spec.first_bucket_bytes) / kBytesPerMib));
  if (spec.bucket_views) add("bucket-views", "1");
  if (spec.delay_ms > 0) add("delay-ms", to_text(spec.delay_ms));
  if (spec.straggler) add("straggler", std::to_string(spec.straggler->rank) + ":" + to_text(spec.straggler->ms));
  if (spec.loss_scale != usual.loss_scale) add("loss-scale", to_text(spec.loss_scale));
  if (spec.hosts > 1) {
    add("hosts", std::to_string(spec.hosts));
    add("network-gb-per-s", to_text(spec.network_gb_per_s));
    add("network-latency-us", to_text(spec.network_latency_us));
  }
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
  text += ", batch " + std::to_string(spec.batch);
  if (spec.accum > 1) text += " x " + std::to_string(spec.accum) + " rounds" + (spec.no_sync ? " (no_sync)" : "");
  if (!is_data_parallel(spec)) text += " in " + std::to_string(spec.microbatches) + " micro-batch" + (spec.microbatches == 1 ? "" : "es");
  if (is_data_parallel(spec) && spec.microbatches > 1) text += " in " + std::to_string(spec.microbatches) + " micro-batches";
  text += ", " + to_string(spec.dtype) + ", " + to_string(spec.optimizer) + "; " +
          to_string(spec.strategy);
  if (spec.strategy == Strategy::pp) text += " " + spec.schedule;
  if (spec.chunks > 1) text += ", " + std::to_string(spec.chunks) + " chunks a GPU,";
  if (spec.recompute) text += ", recomputed,";
  if (spec.dp > 1) text += ", " + std::to_string(spec.dp) + " replicas of " + std::to_string(pipeline_workers(spec)) + ",";
  text += " on " + std::to_string(spec.gpus) + (spec.gpus == 1 ? " GPU" : " GPUs");
  if (spec.hosts > 1) text += " of " + std::to_string(spec.hosts) + " hosts";
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
