#include "sim/spec/run_spec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "sim/io/error.hpp"
#include "sim/io/words.hpp"
#include "sim/spec/data_parallel_words.hpp"
#include "sim/spec/schedule.hpp"
#include "sim/spec/setting_words.hpp"

namespace pdl {

using namespace setting_words;

namespace {

constexpr std::int64_t kLargestBatch = 1'000'000'000;
/// Stages x micro-batches: four tasks each at some 90 bytes are 7 GB.
constexpr double kMostCells = 2e7;
/// Makespans and byte counts stay below this, so that no 64-bit integer overflows.
constexpr double kLargestTotal = 4e18;

double read_cost(const std::string& place, const std::string& text) {
  const double ms = parse_number(place, text, 0, kLargestSyntheticCostMs);
  if (ms > 0 && ms < 1e-6) throw InputError(place, text, "0, or at least 0.000001 (one nanosecond)");
  return ms;
}

/// "1", or a value a stage: "1,1,2,1", or "1/1/2/1", which a sweep can tell from a list of its own values.
std::vector<double> read_costs(const SettingValue& s) {
  const bool commas = s.value.find(',') != std::string::npos, slashes = s.value.find('/') != std::string::npos;
  if (commas && slashes)
    throw InputError(s.place, s.value, "the times of the stages with commas between them, or with slashes");
  std::vector<double> costs;
  for (const std::string& value : split_at(s.value, slashes ? '/' : ',')) costs.push_back(read_cost(s.place, value));
  return costs;
}

double sum_of(const std::vector<double>& costs) {
  return std::accumulate(costs.begin(), costs.end(), 0.0);
}

double largest_of(const std::vector<double>& costs) {
  return *std::max_element(costs.begin(), costs.end());
}

std::optional<SyntheticCosts> read_synthetic(const Given& given) {
  const SettingValue* tf = find(given, "tf");
  const SettingValue* tb = find(given, "tb");
  const SettingValue* tw = find(given, "tw");
  const SettingValue* tcomm = find(given, "tcomm");
  if (!tf && !tb && !tw && !tcomm) return std::nullopt;
  if (!tf || !tb) {
    throw InputError(place_of(given, kSyntheticCostSettings), std::string("no ") + (tf ? "tb" : "tf"),
                     "tf and tb together: synthetic costs");
  }
  SyntheticCosts costs{read_costs(*tf), read_costs(*tb), std::nullopt, 0};
  if (tw) costs.tw_ms = read_costs(*tw);
  if (tcomm) costs.tcomm_ms = read_cost(tcomm->place, tcomm->value);
  if (sum_of(costs.tf_ms) + sum_of(costs.tb_ms) + (costs.tw_ms ? sum_of(*costs.tw_ms) : 0) <= 0) {
    throw InputError(tf->place, "tf, tb and tw all 0", "a step that computes something");
  }
  return costs;
}

/// A list of times has one for every stage.
void check_stage_costs(const Given& given, const RunSpec& spec) {
  if (!spec.synthetic) return;
  const auto check = [&](const char* name, const std::vector<double>& costs) {
    const auto count = static_cast<std::int64_t>(costs.size());
    if (count == 1 || count == stage_count(spec)) return;
    throw InputError(place_of(given, {name}),
                     std::to_string(count) + " times for " + std::to_string(stage_count(spec)) +
                         (stage_count(spec) == 1 ? " stage" : " stages"),
                     "one for all stages, or one for each");
  };
  check("tf", spec.synthetic->tf_ms);
  check("tb", spec.synthetic->tb_ms);
  if (spec.synthetic->tw_ms) check("tw", *spec.synthetic->tw_ms);
}

/// Before anything is made of that size.
void check_cells(const Given& given, const RunSpec& spec) {
  double cells = static_cast<double>(stage_count(spec)) * static_cast<double>(spec.microbatches);
  cells *= static_cast<double>(replica_count(spec)) * static_cast<double>(spec.accum);
  if (cells <= kMostCells) return;
  throw InputError(place_of(given, {"microbatches", "accum", "chunks", "gpus", "dp", "pp", "schedule"}),
                   to_text(cells) + " stages x micro-batches x rounds", "at most " + to_text(kMostCells));
}

void read_model(const Given& given, RunSpec& spec) {
  read_whole(given, "depth", spec.depth, kMillion);
  read_whole(given, "dim", spec.dim, kMillion);
  const SettingValue* model = find(given, "model");
  if (model) spec.model_name = model->value;
  if (spec.model_name == "mlp") {
    // Textbook costs are those of a stage: the depth does not matter, there must only be a layer for every stage.
    if (spec.synthetic && !find(given, "depth")) spec.depth = std::max(spec.depth, stage_count(spec));
    if (static_cast<double>(spec.depth) * static_cast<double>(spec.dim) * static_cast<double>(spec.dim) >
        kMostParameters) {
      throw InputError(place_of(given, {"dim", "depth", "gpus", "pp", "chunks"}),
                       std::to_string(spec.depth) + " layers of width " + std::to_string(spec.dim),
                       "a model of fewer than 2.5e17 parameters");
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
  spec.dim = input_numbers(spec.model);
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
      throw InputError(s->place, s->value + " beside the schedule " + spec.schedule,
                       std::to_string(of_file) + ", as in the schedule");
    }
    into = of_file;
  };
  std::int64_t workers = pipeline_workers(spec);
  const SettingValue* s = find(given, "pp") ? find(given, "pp") : find(given, "gpus");
  if (s && workers != shape.workers) {
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
    const Schedule* meant = schedule_meant_by(spec.schedule);
    refuse_word({"schedule", spec.schedule, place_of(given, {"schedule"})}, names,
                meant ? meant->name : std::string_view());
  }
  if (!chunks) spec.chunks = known->default_chunks;
  if (spec.chunks < known->least_chunks || spec.chunks > known->most_chunks) {
    throw InputError(place_of(given, {"chunks", "schedule"}),
                     std::to_string(spec.chunks) + " with schedule " + spec.schedule,
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

/// A batch is cut for workers of a pipeline to take turns. Where nothing takes turns a cut only makes products smaller:
/// whole, or in as few micro-batches as the schedule can do with (dualpipe-v on one GPU: 2).
std::int64_t default_microbatches(const RunSpec& spec) {
  constexpr std::int64_t kOfPipeline = 8;
  if (spec.strategy == Strategy::pp && pipeline_workers(spec) > 1) return kOfPipeline;
  const Schedule* known = named_schedule(spec);
  return known && known->refusal(shape_of(spec, 1)) ? stage_count(spec) : 1;
}

void read_strategy(const Given& given, RunSpec& spec) {
  const SettingValue* strategy = find(given, "strategy");
  const SettingValue* schedule = find(given, "schedule");
  if (strategy) {
    spec.strategy = parse_word(kStrategies, *strategy);
  } else {
    spec.strategy =
        schedule || find(given, "pp") || find(given, "dp") || spec.gpus > 1 ? Strategy::pp : Strategy::single;
  }
  for (const char* name : {"pp", "dp"}) {
    const SettingValue* s = find(given, name);
    if (!s || spec.strategy == Strategy::pp) continue;
    const std::string found = std::string(name) + " " + s->value + " with strategy " + to_string(spec.strategy);
    const std::string expected = "strategy pp (dp and ddp: a replica a GPU, --gpus says how many)";
    if (find(given, "gpus")) throw WithoutMeaning(s->place, found, expected, name);
    throw InputError(s->place, found, expected);
  }
  spec.schedule = default_schedule(given, spec.strategy);
  read_schedule(given, spec);
  if (!find(given, "microbatches") && !spec.schedule_file) spec.microbatches = default_microbatches(spec);
  if (schedule && spec.strategy != Strategy::pp && schedule->value != "naive") {
    throw WithoutMeaning(schedule->place, schedule->value + " with strategy " + to_string(spec.strategy),
                         "strategy pp, which has schedules", "schedule");
  }
  if (spec.strategy == Strategy::single && spec.gpus > 1) {
    throw InputError(place_of(given, {"strategy"}), "single with " + std::to_string(spec.gpus) + " GPUs",
                     "gpus 1, or strategy mp, pp, dp or ddp");
  }
}

/// Checks of the schedule that need the model and the numbers: a layer for every stage, the rule for micro-batches.
void check_shape(const Given& given, const RunSpec& spec) {
  const auto layers = static_cast<std::int64_t>(spec.model.layers.size());
  if (layers < stage_count(spec)) {
    const bool chunked = spec.chunks > 1 && find(given, "chunks");
    throw InputError(place_of(given, {chunked ? "chunks" : "pp", "pp", "gpus", "schedule", "depth", "model"}),
                     std::to_string(stage_count(spec)) + (stage_count(spec) == 1 ? " stage for " : " stages for ") +
                         std::to_string(layers) + (layers == 1 ? " layer" : " layers"),
                     "at least one layer for every stage");
  }
  const Schedule* known = named_schedule(spec);
  const auto refusal = known ? known->refusal(shape_of(spec, spec.microbatches)) : std::nullopt;
  if (!refusal) return;
  throw InputError(place_of(given, {"microbatches", "schedule"}), refusal->found + " with schedule " + spec.schedule,
                   refusal->expected);
}

void read_overlap(const Given& given, RunSpec& spec) {
  const SettingValue* s = find(given, "overlap-steps");
  if (!s) return;
  spec.overlap_steps = parse_whole(s->place, s->value, 0, 1) == 1;
  if (*spec.overlap_steps && spec.workers == Workers::one) {
    throw InputError(s->place, "steps that overlap with one thread for all GPUs", "workers thread or process");
  }
  only_with(given, "overlap-steps", !is_data_parallel(spec), "strategy " + to_string(spec.strategy));
}

void read_recompute(const Given& given, RunSpec& spec) {
  const SettingValue* s = find(given, "recompute");
  if (!s) return;
  spec.recompute = parse_whole(s->place, s->value, 0, 1) == 1;
  if (!spec.recompute) return;
  only_with(given, "recompute", !is_data_parallel(spec), "strategy " + to_string(spec.strategy));
  if (spec.workers == Workers::one) {
    throw InputError(s->place, "recomputation with one thread for all GPUs", "workers thread or process");
  }
  const Schedule* known = named_schedule(spec);
  if (spec.schedule_file) {
    throw InputError(s->place, "recomputation with the schedule file " + spec.schedule,
                     "a named schedule: orders of files keep their activations");
  }
  const bool fits = known && !known->splits_backward && known->placement == Placement::loop;
  if (!fits || (pipeline_workers(spec) == 1 && spec.chunks > 1)) {
    throw InputError(
        s->place, "recomputation with schedule " + spec.schedule,
        "one with whole backwards and no two neighbouring stages on one GPU: naive, gpipe, 1f1b, option-c, "
        "interleaved, looped-bfs");
  }
}

void read_transport(const Given& given, RunSpec& spec) {
  spec.transport = spec.strategy == Strategy::ddp ? Transport::nccl : Transport::copy;
  const SettingValue* s = find(given, "transport");
  if (!s) return;
  spec.transport = parse_word(kTransports, *s);
  spec.transport_given = true;
  const bool copies_only = spec.workers == Workers::one || spec.strategy == Strategy::dp;
  if (copies_only && spec.transport != Transport::copy) {
    throw InputError(s->place,
                     s->value + (spec.strategy == Strategy::dp ? " with strategy dp" : " with one thread for all GPUs"),
                     "copy");
  }
  if (spec.strategy == Strategy::ddp && spec.transport == Transport::copy) {
    throw InputError(s->place, "copy with strategy ddp",
                     "nccl, or gloo on CPU: gradients are exchanged by collectives");
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
                       spec.strategy == Strategy::ddp ? "process: DDP has a process a GPU"
                                                      : "thread: DataParallel has a thread a GPU");
    }
    if (spec.dp > 1 && spec.workers == Workers::one) {
      throw InputError(s->place, "one thread for " + std::to_string(spec.dp) + " replicas",
                       "workers thread or process");
    }
    if (spec.strategy == Strategy::mp && spec.workers != Workers::one) {
      throw InputError(s->place, s->value + " with strategy mp",
                       "one: mp is one program for all GPUs (a worker a GPU: strategy pp, schedule naive)");
    }
  }
  read_transport(given, spec);
  if (spec.workers == Workers::process && spec.transport == Transport::copy && spec.gpus > 1) {
    throw InputError(place_of(given, {"transport", "workers"}), "copy between processes",
                     "transport nccl (on CPU gloo), or --workers thread");
  }
  const Schedule* known = named_schedule(spec);
  if (spec.workers == Workers::one && !(known && known->same_on_every_worker)) {
    throw InputError(
        place_of(given, {"schedule", "workers"}), spec.schedule + " with one thread for all GPUs",
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

/// Autocast belongs to LibTorch's autograd. A pipeline with a worker a GPU does without it: it has its own products in
/// place, of one number format (runtime/model/pipeline_stage.hpp).
void check_precision(const Given& given, const RunSpec& spec) {
  if (!is_amp(spec.dtype) || is_data_parallel(spec) || spec.workers == Workers::one) return;
  throw InputError(place_of(given, {"dtype"}), to_string(spec.dtype) + " for a pipeline with a worker a GPU",
                   "fp32 or tf32, or a program of autograd (--workers one, --strategy ddp, dp or mp)");
}

/// Bytes of all activations of a step, had it them all at once.
void check_activations(const Given& given, const RunSpec& spec) {
  double width = static_cast<double>(input_numbers(spec.model));
  for (const Layer& layer : spec.model.layers) width += static_cast<double>(output_numbers(layer));
  const double bytes = 4 * width * static_cast<double>(spec.batch) * static_cast<double>(spec.accum);
  if (bytes <= kLargestTotal) return;
  throw InputError(place_of(given, {"batch", "accum", "model", "dim", "depth"}),
                   to_text(bytes) + " bytes of activations in a step", "at most " + to_text(kLargestTotal));
}

void check_totals(const Given& given, RunSpec& spec) {
  if (!find(given, "batch") && spec.synthetic) {
    const std::int64_t slices = spec.microbatches * replica_count(spec);
    spec.batch = (spec.batch + slices - 1) / slices * slices;
  }
  const double tasks = static_cast<double>(stage_count(spec) * spec.accum) * static_cast<double>(spec.microbatches);
  if (spec.synthetic) {
    const SyntheticCosts& costs = *spec.synthetic;
    const double ms = largest_of(costs.tf_ms) + largest_of(costs.tb_ms) + (costs.tw_ms ? largest_of(*costs.tw_ms) : 0) +
                      2 * costs.tcomm_ms;
    if (tasks * ms * 1e6 > kLargestTotal) {
      throw InputError(place_of(given, {"tf"}), to_text(tasks * ms) + " ms of work in all", "at most 4e12 ms");
    }
  }
}

}  // namespace

bool is_synthetic_cost(const std::string& setting) {
  return std::find(kSyntheticCostSettings.begin(), kSyntheticCostSettings.end(), setting) !=
         kSyntheticCostSettings.end();
}

RunSpec parse_run_spec(std::span<const SettingValue> values) {
  return parse_run_spec(values, nullptr);
}

RunSpec parse_run_spec(std::span<const SettingValue> values, std::shared_ptr<const ScheduleFile> schedule_file) {
  const Given given = collect(values);
  RunSpec spec;
  spec.schedule_file = std::move(schedule_file);
  spec.synthetic = read_synthetic(given);
  read_gpus(given, spec);
  read_whole(given, "batch", spec.batch, kLargestBatch);
  read_whole(given, "microbatches", spec.microbatches, kMillion);
  read_whole(given, "accum", spec.accum, kMostRounds);
  read_strategy(given, spec);
  check_cells(given, spec);
  read_model(given, spec);
  check_shape(given, spec);
  check_stage_costs(given, spec);
  read_precision(given, spec);
  if (const SettingValue* s = find(given, "optimizer")) spec.optimizer = parse_word(kOptimizers, *s);
  read_workers(given, spec);
  check_precision(given, spec);
  read_exchange(given, spec);
  read_sleeps(given, spec);
  if (const SettingValue* s = find(given, "seed")) spec.seed = parse_whole(s->place, s->value, 0, INT64_MAX);
  read_whole(given, "repeat", spec.repeat, kMillion);
  read_network(given, spec);
  read_recompute(given, spec);
  read_overlap(given, spec);
  check_totals(given, spec);
  check_activations(given, spec);
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
  return {static_cast<std::int32_t>(pipeline_workers(spec)), static_cast<std::int32_t>(spec.chunks),
          static_cast<std::int32_t>(microbatches)};
}

std::int64_t stage_count(const RunSpec& spec) {
  return pipeline_workers(spec) * spec.chunks;
}

bool is_data_parallel(const RunSpec& spec) {
  return spec.strategy == Strategy::dp || spec.strategy == Strategy::ddp;
}

const SettingValue* find_setting(std::span<const SettingValue> values, const std::string& name) {
  const auto found = std::find_if(values.begin(), values.end(), [&](const SettingValue& s) { return s.name == name; });
  return found == values.end() ? nullptr : &*found;
}

RunSpec on_cpu(RunSpec spec) {
  if (spec.strategy == Strategy::ddp && !spec.transport_given) spec.transport = Transport::gloo;
  return spec;
}

std::int64_t replica_count(const RunSpec& spec) {
  return is_data_parallel(spec) ? spec.gpus : spec.dp;
}

bool exchanges_in_round(const RunSpec& spec, std::int64_t round) {
  return !spec.no_sync || round + 1 == spec.accum;
}

std::int64_t pipeline_workers(const RunSpec& spec) {
  return spec.gpus / replica_count(spec);
}

}  // namespace pdl
