#include "sim/spec/cross_checks.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "sim/io/error.hpp"
#include "sim/io/words.hpp"
#include "sim/model/inner_layers.hpp"
#include "sim/spec/mesh.hpp"
#include "sim/spec/schedule.hpp"
#include "sim/spec/setting_words.hpp"
#include "sim/spec/stage_layers.hpp"

namespace pdl::setting_words {
namespace {

/// Stages x micro-batches: four tasks each at some 90 bytes are 7 GB.
constexpr double kMostCells = 2e7;
/// Makespans in nanoseconds and exchanged bytes stay below this, so that no 64-bit integer overflows.
constexpr double kLargestTotal = 4e18;
/// A GPU may need all activations four times (zero bubble schedules keep gradients and results of each layer), beside
/// the parameters, gradients and optimizer's state of kMostParameters: 4e18 bytes. Their sum fits 64 bits.
constexpr double kMostActivationBytes = 5e17;
constexpr std::int64_t kMostGpus = 1'000'000;

double sum_of(const std::vector<double>& costs) {
  return std::accumulate(costs.begin(), costs.end(), 0.0);
}

double largest_of(const std::vector<double>& costs) {
  return *std::max_element(costs.begin(), costs.end());
}

/// Input and weight gradients apart, of some operations at least.
bool splits_backwards(const RunSpec& spec) {
  if (const Schedule* known = named_schedule(spec)) return known->splits_backward;
  if (!spec.schedule_file) return false;
  const auto& workers = spec.schedule_file->order.workers;
  return std::any_of(workers.begin(), workers.end(), [](const std::vector<Operation>& operations) {
    return std::any_of(operations.begin(), operations.end(),
                       [](const Operation& operation) { return operation.kind == OperationKind::backward_weight; });
  });
}

/// Numbers of a sample that come out of the layer, and out of those that it is made of.
double results_of(const Layer& layer) {
  double numbers = 0;
  for (const InnerLayer& inner : inner_layers(layer))
    numbers += static_cast<double>(inner.rows) * static_cast<double>(output_numbers(inner.layer));
  return numbers;
}

std::string count_of_stages(const RunSpec& spec) {
  return std::to_string(stage_count(spec)) + (stage_count(spec) == 1 ? " stage" : " stages");
}

}  // namespace

void check_costs_are_complete(const Given& given) {
  const bool tf = find(given, "tf"), tb = find(given, "tb");
  if ((tf && tb) || (!tf && !tb && !find(given, "tw") && !find(given, "tcomm"))) return;
  throw InputError(place_of(given, {"tf", "tb", "tw", "tcomm"}), std::string("no ") + (tf ? "tb" : "tf"),
                   "tf and tb together: synthetic costs");
}

void check_costs(const Given& given, const RunSpec& spec) {
  if (!spec.synthetic) return;
  const SyntheticCosts& costs = *spec.synthetic;
  if (sum_of(costs.tf_ms) + sum_of(costs.tb_ms) + (costs.tw_ms ? sum_of(*costs.tw_ms) : 0) > 0) return;
  throw InputError(place_of(given, {"tf"}), "tf, tb and tw all 0", "a step that computes something");
}

void check_number_of_gpus(const Given& given, const RunSpec& spec) {
  if (spec.gpus <= kMostGpus) return;
  throw InputError(place_of(given, {"pp", "dp"}), std::to_string(spec.gpus) + " GPUs in all", "at most 1000000");
}

void check_mesh(const Given& given, const RunSpec& spec, std::int64_t workers) {
  const SettingValue* pp = find(given, "pp");
  if (spec.gpus % spec.dp == 0 && (!pp || workers * spec.dp == spec.gpus)) return;
  throw InputError(place_of(given, {"pp", "dp", "gpus"}),
                   "pp " + (pp ? pp->value : "of any size") + " x dp " + std::to_string(spec.dp) + " for " +
                       std::to_string(spec.gpus) + " GPUs",
                   "a product that is the number of GPUs");
}

void check_schedule_is_known(const Given& given, const RunSpec& spec) {
  if (find_schedule(spec.schedule)) return;
  std::vector<std::string> names;
  for (const Schedule& schedule : schedules()) names.emplace_back(schedule.name);
  names.emplace_back(kAutoSchedule);
  const Schedule* meant = schedule_meant_by(spec.schedule);
  refuse_word({"schedule", spec.schedule, place_of(given, {"schedule"})}, names,
              meant ? meant->name : std::string_view());
}

void check_chunks(const Given& given, const RunSpec& spec) {
  const Schedule& schedule = *find_schedule(spec.schedule);
  if (spec.chunks >= schedule.least_chunks && spec.chunks <= schedule.most_chunks) return;
  throw InputError(place_of(given, {"chunks", "schedule"}),
                   std::to_string(spec.chunks) + " with schedule " + spec.schedule,
                   schedule.least_chunks == schedule.most_chunks ? std::to_string(schedule.least_chunks)
                                                                 : "at most " + std::to_string(schedule.most_chunks));
}

void check_single(const Given& given, const RunSpec& spec) {
  if (spec.strategy != Strategy::single || spec.gpus == 1) return;
  throw InputError(place_of(given, {"strategy"}), "single with " + std::to_string(spec.gpus) + " GPUs",
                   "gpus 1, or strategy mp, pp, dp or ddp");
}

void check_cells(const Given& given, const RunSpec& spec) {
  double cells = static_cast<double>(stage_count(spec)) * static_cast<double>(spec.microbatches);
  cells *= static_cast<double>(replica_count(spec)) * static_cast<double>(spec.accum);
  if (cells <= kMostCells) return;
  throw InputError(place_of(given, {"microbatches", "accum", "chunks", "gpus", "dp", "pp", "schedule"}),
                   to_text(cells) + " stages x micro-batches x gradient accumulation steps",
                   "at most " + to_text(kMostCells));
}

void check_parameters(const Given& given, const RunSpec& spec) {
  const double width = static_cast<double>(spec.dim);
  if (static_cast<double>(spec.depth) * width * width <= kMostParameters) return;
  throw InputError(place_of(given, {"dim", "depth", "gpus", "pp", "chunks"}),
                   std::to_string(spec.depth) + " layers of width " + std::to_string(spec.dim),
                   "a model of fewer than 2.5e17 parameters");
}

void check_transformer(const Given& given, const TransformerSizes& sizes) {
  const auto refusal = refusal_of(sizes);
  if (!refusal) return;
  throw InputError(refusal->fault == TransformerFault::sequence
                       ? place_of(given, {"sequence", "model"})
                       : place_of(given, {"heads", "kv-heads", "hidden", "inner", "layers", "model"}),
                   refusal->found, refusal->expected);
}

void check_tied(const Given& given, const RunSpec& spec) {
  const SettingValue* tied = find(given, "tied");
  if (!tied) return;
  throw InputError(tied->place, "1 with " + count_of_stages(spec),
                   "0: stages share no parameters, so that the head has a weight of its own");
}

void check_model_is_there(const std::string& path) {
  std::error_code error;
  const std::filesystem::path config = std::filesystem::path(path) / "config.json";
  if (std::filesystem::is_regular_file(config, error))
    throw InputError(path, "a folder", "a JSON file, such as its " + config.string());
  if (std::filesystem::exists(path, error)) return;
  std::vector<std::string> names = {"mlp"};
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  const std::string nearest = nearest_word(path, names);
  throw InputError(path, "no such file",
                   "a model file, or the name of a model: " + list_words(names) +
                       (nearest.empty() ? "" : " (did you mean " + nearest + "?)"));
}

void check_layers(const Given& given, const RunSpec& spec) {
  const auto blocks = blocks_of(spec.model);
  const std::int64_t layers = blocks ? blocks->count : std::ssize(spec.model.layers);
  if (layers >= stage_count(spec)) return;
  const bool chunked = spec.chunks > 1 && find(given, "chunks");
  const std::string what = blocks ? "block" : "layer";
  throw InputError(place_of(given, {chunked ? "chunks" : "pp", "pp", "gpus", "schedule", "depth", "layers", "model"}),
                   count_of_stages(spec) + " for " + std::to_string(layers) + " " + what + (layers == 1 ? "" : "s"),
                   "at least one " + what + " for every stage");
}

void check_split(const Given& given, const RunSpec& spec) {
  if (const auto refusal = split_refusal(spec.split, spec.model, stage_count(spec)))
    throw InputError(place_of(given, {"split"}), refusal->found, refusal->expected);
}

void check_microbatches(const Given& given, const RunSpec& spec) {
  const Schedule* known = named_schedule(spec);
  const auto refusal = known ? known->refusal(shape_of(spec, spec.microbatches)) : std::nullopt;
  if (!refusal) return;
  throw InputError(place_of(given, {"microbatches", "schedule"}), refusal->found + " with schedule " + spec.schedule,
                   refusal->expected);
}

void check_stage_costs(const Given& given, const RunSpec& spec) {
  if (!spec.synthetic) return;
  const auto check = [&](const char* name, const std::vector<double>& costs) {
    const auto count = static_cast<std::int64_t>(costs.size());
    if (count == 1 || count == stage_count(spec)) return;
    throw InputError(place_of(given, {name}), std::to_string(count) + " times for " + count_of_stages(spec),
                     "one for all stages, or one for each");
  };
  check("tf", spec.synthetic->tf_ms);
  check("tb", spec.synthetic->tb_ms);
  if (spec.synthetic->tw_ms) check("tw", *spec.synthetic->tw_ms);
}

void check_workers(const Given& given, const RunSpec& spec) {
  const SettingValue* s = find(given, "workers");
  if (!s) return;
  const auto refuse = [&](const std::string& found, const std::string& expected) {
    throw InputError(s->place, found, expected);
  };
  if (spec.strategy == Strategy::ddp && spec.workers != Workers::process)
    refuse(s->value + " with strategy ddp", "process: DDP has a process a GPU");
  if (spec.strategy == Strategy::dp && spec.workers != Workers::thread)
    refuse(s->value + " with strategy dp", "thread: DataParallel has a thread a GPU");
  if (spec.dp > 1 && spec.workers == Workers::one)
    refuse("one thread for " + std::to_string(spec.dp) + " replicas", "workers thread or process");
  if (spec.strategy == Strategy::mp && spec.workers != Workers::one) {
    refuse(s->value + " with strategy mp",
           "one: mp is one program for all GPUs (a worker a GPU: strategy pp, schedule naive)");
  }
}

void check_transport(const Given& given, const RunSpec& spec) {
  const SettingValue* s = find(given, "transport");
  if (!s) return;
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

void check_processes(const Given& given, const RunSpec& spec) {
  if (spec.workers != Workers::process || spec.transport != Transport::copy || spec.gpus == 1) return;
  throw InputError(place_of(given, {"transport", "workers"}), "copy between processes",
                   "transport nccl (on CPU gloo), or --workers thread");
}

void check_one_thread(const Given& given, const RunSpec& spec) {
  const Schedule* known = named_schedule(spec);
  if (spec.workers != Workers::one || (known && known->same_on_every_worker)) return;
  throw InputError(
      place_of(given, {"schedule", "workers"}), spec.schedule + " with one thread for all GPUs",
      "naive, gpipe or option-c: one thread gives every GPU the same schedule (or workers thread or process)");
}

void check_point_to_point(const Given& given, const RunSpec& spec) {
  const PointToPoint usual = point_to_point_of(spec.transport);
  if (spec.p2p == usual || spec.synthetic) return;
  throw InputError(place_of(given, {"p2p"}), to_string(spec.p2p) + " with transport " + to_string(spec.transport),
                   to_string(usual) + " (with synthetic costs, --tf and --tb, either may be chosen)");
}

void check_pytorch_pipeline(const Given& given, const RunSpec& spec) {
  if (!is_pytorch_pipeline(spec)) return;
  const auto refuse = [&](std::initializer_list<const char*> places, const std::string& found,
                          const std::string& expected) {
    throw InputError(place_of(given, places), found + " with program pytorch", expected);
  };
  const Schedule* known = named_schedule(spec);
  if (!spec.schedule_file && (!known || known->pytorch_class.empty())) {
    std::vector<std::string> names;
    for (const Schedule& schedule : schedules()) {
      if (!schedule.pytorch_class.empty()) names.emplace_back(schedule.name);
    }
    refuse({"schedule"}, "schedule " + spec.schedule,
           "one of torch.distributed.pipelining, " + list_words(names) + ", or a file");
  }
  if (known && known->pytorch_class == "1F1B" && spec.microbatches < stage_count(spec)) {
    refuse({"microbatches", "schedule"}, std::to_string(spec.microbatches) + " micro-batches of 1f1b",
           "at least one for each of the " + count_of_stages(spec));
  }
  if (spec.schedule_file && spec.schedule_file->has_transfers)
    refuse({"schedule"}, "a schedule file with messages", "a file of computation alone: PyTorch adds the messages");
  if (spec.workers == Workers::thread) refuse({"workers"}, "workers thread", "process: PyTorch has a process a GPU");
  if (spec.transport == Transport::copy && spec.gpus > 1)
    refuse({"transport"}, "transport copy", "nccl, or gloo on CPU: stages send and receive");
  if (spec.dp > 1 && splits_backwards(spec)) {
    refuse({"schedule", "dp", "pp", "gpus"},
           "schedule " + spec.schedule + " with " + std::to_string(spec.dp) + " replicas",
           "one with whole backwards: DDP does not average what a split one makes by torch.autograd.grad");
  }
}

void check_no_sync(const Given& given, const RunSpec& spec) {
  if (!spec.no_sync || !is_pytorch_pipeline(spec) || spec.dp == 1) return;
  throw InputError(place_of(given, {"no-sync"}), "1 for replicas of a pipeline with program pytorch",
                   "0: its stages average their gradients at the end of every schedule.step()");
}

void check_sleeps(const Given& given, const RunSpec& spec) {
  if (!is_pytorch_pipeline(spec) || (spec.delay_ms == 0 && !spec.straggler)) return;
  throw InputError(place_of(given, {spec.straggler ? "straggler" : "delay-ms"}),
                   "a pipeline of program pytorch with hosts that sleep",
                   "no delay-ms and no straggler, or program pdl");
}

void check_scale_grads(const Given& given, const RunSpec& spec) {
  if (!spec.scale_grads || spec.accum == 1) return;
  throw InputError(place_of(given, {"scale-grads", "accum"}),
                   "gradients scaled in each of " + std::to_string(spec.accum) + " accumulation steps",
                   "accum 1, or scale-grads 0: PyTorch would divide those of earlier steps again");
}

void check_precision(const Given& given, const RunSpec& spec) {
  if (spec.dtype != Dtype::amp_fp16 || is_data_parallel(spec) || spec.workers == Workers::one ||
      is_pytorch_pipeline(spec))
    return;
  throw InputError(place_of(given, {"dtype"}), "amp-fp16 for a pipeline with a worker a GPU",
                   "amp-bf16, which needs no GradScaler that all workers ask, fp32 or tf32; or a program of autograd "
                   "(--program pytorch, --workers one, --strategy ddp, dp or mp)");
}

void check_straggler(const Given& given, const RunSpec& spec) {
  const std::int64_t hosts = spec.workers == Workers::one ? 1 : spec.gpus;
  if (!spec.straggler || spec.straggler->rank < hosts) return;
  const SettingValue& s = *find(given, "straggler");
  throw InputError(
      s.place, "rank " + s.value.substr(0, s.value.find(':')),
      hosts == 1 ? "0: there is one host thread" : "0 to " + std::to_string(hosts - 1) + ", a GPU of the run");
}

void check_hosts(const Given& given, const RunSpec& spec) {
  const auto refuse = [&](const std::string& found, const std::string& expected) {
    throw InputError(place_of(given, {"hosts"}), found, expected);
  };
  const std::string hosts = std::to_string(spec.hosts) + " hosts";
  if (spec.gpus % spec.hosts != 0)
    refuse(std::to_string(spec.gpus) + " GPUs on " + hosts, "as many GPUs on every host");
  if (spec.hosts > 1 && spec.strategy != Strategy::ddp)
    refuse(hosts + " with strategy " + to_string(spec.strategy), "strategy ddp");
  if (spec.hosts > 1 && spec.synthetic)
    refuse(hosts + " with synthetic costs", "one host: an exchange takes tcomm, wherever the GPUs are");
}

void check_recompute(const Given& given, const RunSpec& spec) {
  if (!spec.recompute) return;
  const std::string place = place_of(given, {"recompute"});
  if (is_pytorch_pipeline(spec))
    throw InputError(place, "recomputation with program pytorch", "none: its stages keep their activations");
  if (is_data_parallel(spec)) return;  // that dp has none is said by the row
  if (spec.workers == Workers::one && spec.gpus > 1) {
    throw InputError(place, "recomputation with one thread for " + std::to_string(spec.gpus) + " GPUs",
                     "one GPU, strategy ddp, or workers thread or process");
  }
  if (spec.workers == Workers::one) return;
  if (spec.schedule_file) {
    throw InputError(place, "recomputation with the schedule file " + spec.schedule,
                     "a named schedule: those of files keep their activations");
  }
  const Schedule* known = named_schedule(spec);
  const bool fits = known && !known->splits_backward && known->placement == Placement::loop;
  if (fits && (pipeline_workers(spec) > 1 || spec.chunks == 1)) return;
  throw InputError(place, "recomputation with schedule " + spec.schedule,
                   "one with whole backwards and no two neighbouring stages on one GPU: naive, gpipe, 1f1b, option-c, "
                   "interleaved, looped-bfs");
}

void check_overlap(const Given& given, const RunSpec& spec) {
  if (spec.overlap_steps.value_or(false) && is_pytorch_pipeline(spec)) {
    throw InputError(place_of(given, {"overlap-steps"}), "steps that overlap with program pytorch",
                     "0: its steps are measured with a barrier between them");
  }
  if (!spec.overlap_steps.value_or(false) || spec.workers != Workers::one) return;
  throw InputError(place_of(given, {"overlap-steps"}), "steps that overlap with one thread for all GPUs",
                   "workers thread or process");
}

void check_total_time(const Given& given, const RunSpec& spec) {
  if (!spec.synthetic) return;
  const SyntheticCosts& costs = *spec.synthetic;
  const double tasks = static_cast<double>(stage_count(spec) * spec.accum) * static_cast<double>(spec.microbatches);
  const double ms = largest_of(costs.tf_ms) + largest_of(costs.tb_ms) + (costs.tw_ms ? largest_of(*costs.tw_ms) : 0) +
                    2 * costs.tcomm_ms + spec.delay_ms;
  if (tasks * ms * 1e6 <= kLargestTotal) return;
  throw InputError(place_of(given, {"tf"}), to_text(tasks * ms) + " ms of work in all", "at most 4e12 ms");
}

void check_activations(const Given& given, const RunSpec& spec) {
  double width = static_cast<double>(input_numbers(spec.model)), of_layer = 0;
  const Layer* counted = nullptr;  // equal layers stand one after another
  for (const Layer& layer : spec.model.layers) {
    if (!counted || layer != *counted) of_layer = results_of(layer);
    counted = &layer;
    width += of_layer;
  }
  const double bytes = 4 * width * static_cast<double>(spec.batch) * static_cast<double>(spec.accum);
  if (bytes <= kMostActivationBytes) return;
  throw InputError(place_of(given, {"batch", "accum", "model", "dim", "depth"}),
                   to_text(bytes) + " bytes of activations in a step", "at most " + to_text(kMostActivationBytes));
}

void check_exchanged_bytes(const Given& given, const RunSpec& spec) {
  if (replica_count(spec) == 1) return;
  const double rounds = static_cast<double>(spec.no_sync ? 1 : spec.accum);
  const double bytes = 2 * 4 * static_cast<double>(parameters(spec.model)) * rounds;  // dp: parameters and gradients
  if (bytes <= kLargestTotal) return;
  throw InputError(place_of(given, {"accum", "model", "dim", "depth"}),
                   to_text(bytes) + " bytes that replicas exchange in a step", "at most " + to_text(kLargestTotal));
}

void check_equal_microbatches(const Given& given, const RunSpec& spec) {
  if (!is_pytorch_pipeline(spec) || spec.batch % spec.microbatches == 0) return;
  throw InputError(place_of(given, {"batch", "microbatches", "schedule"}),
                   std::to_string(spec.batch) + " samples in " + std::to_string(spec.microbatches) +
                       " micro-batches with program pytorch",
                   "micro-batches of equal size: PipelineStage takes one shape");
}

void check_replicas(const Given& given, const RunSpec& spec) {
  const std::int64_t replicas = replica_count(spec);
  if (replicas == 1) return;
  const std::string samples = std::to_string(spec.batch) + " samples for " + std::to_string(replicas) + " replicas";
  const auto refuse = [&](const std::string& found, const std::string& expected) {
    throw InputError(place_of(given, {"batch", "gpus", "dp"}), found, expected);
  };
  const bool equal_shares = spec.batch % replicas == 0;
  if (is_data_parallel(spec) && spec.microbatches > 1 && !equal_shares)
    refuse(samples + " that cut them into micro-batches", "a batch that is a multiple of it");
  if (spec.strategy == Strategy::dp) return;
  if (spec.batch < replicas) refuse(samples, "at least one sample for every replica");
  if (spec.strategy == Strategy::pp && !equal_shares)
    refuse(samples + " of a pipeline", "a batch that is a multiple of it");
}

}  // namespace pdl::setting_words
