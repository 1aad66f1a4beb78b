// What to train and how: the words that pdl-sim, pdl-run and scenario files share.
//
//   const std::vector<SettingValue> words = {{"gpus", "5", "--gpus"}, {"schedule", "gpipe", "--schedule"}};
//   RunSpec spec = parse_run_spec(words);
//   to_settings(spec)  // every word with its value, defaults filled in; parsed again they are the same spec
//
// Which settings there are, their texts and ranges: sim/spec/settings.hpp.
// A spec holds no costs and no hardware. Times given by the user (--tf ...) are milliseconds here and in the spec,
// integer nanoseconds from the plan on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "sim/model/dtype.hpp"
#include "sim/model/model.hpp"
#include "sim/spec/schedule_csv.hpp"

namespace pdl {

/// single: one GPU. mp: naive layer split, one program. pp: a pipeline, or several replicas of one. dp:
/// nn.DataParallel, one process for all GPUs. ddp: DistributedDataParallel, a process a GPU.
enum class Strategy { single, mp, pp, dp, ddp };
/// As torch.optim has them, foreach; adamw_fused: AdamW(fused=True). AdamW's weight decay is PyTorch's, .01.
enum class Optimizer { sgd, adam, adamw, adamw_fused };
/// What activations travel by between stages (peer copies by the copy engine, NCCL send/recv, Gloo send/recv on CPU),
/// and gradients between replicas (all-reduces of NCCL or Gloo; of pipelines that copy: NCCL's, on CPU Gloo's).
/// DataParallel's parameters and gradients go by NCCL's broadcast and reduce; its word is copy.
enum class Transport { copy, nccl, gloo };
/// eager: a send completes without its receive. rendezvous: both sides are occupied from the later of the two on.
enum class PointToPoint { eager, rendezvous };
/// A process a GPU, a thread a GPU, or one thread that issues for all GPUs (the programs of the course, LibTorch's
/// autograd).
enum class Workers { process, thread, one };
/// Whose program of the step: pdl-run's own, or what PyTorch does for a Python script with the same settings. They
/// differ in pipelines with a worker a GPU (sim/plan/pytorch_pipeline_step.hpp).
enum class ProgramOf { pdl, pytorch };

/// Textbook costs, milliseconds for one micro-batch on one stage: one value for all stages of a replica, or one for
/// each, first stage first. A GPU with several chunks has as many stages, each of that time. `tb` is the whole backward
/// unless `tw` is given; then tb is the input gradient and tw the weight gradient.
struct SyntheticCosts {
  std::vector<double> tf_ms = {1.0};
  std::vector<double> tb_ms = {2.0};
  std::optional<std::vector<double>> tw_ms;
  /// One message between two GPUs. A link carries the messages of one GPU to another one after the other; it occupies
  /// no GPU.
  double tcomm_ms = 0.0;
  bool operator==(const SyntheticCosts&) const = default;
};

inline constexpr double kLargestSyntheticCostMs = 1e9;

/// The value of a stage, from 0: one of a list of one is that of every stage.
inline double of_stage(const std::vector<double>& by_stage, std::size_t stage) {
  return by_stage.size() == 1 ? by_stage.front() : by_stage.at(stage);
}

/// A worker whose host sleeps at the start of every step.
struct Straggler {
  std::int64_t rank = 0;
  double ms = 0;
  bool operator==(const Straggler&) const = default;
};

/// What was said of a transformer, beside or in place of what its name says (sim/spec/presets.hpp).
struct TransformerSettings {
  std::optional<std::int64_t> layers, hidden, heads, kv_heads, inner, sequence, vocabulary, dropout_percent;
  std::optional<bool> tied;  // the head has the embedding's weight
  bool operator==(const TransformerSettings&) const = default;
};

/// Layers of each stage of a replica, as they were said: of blocks alone, or of all layers (sim/spec/stage_layers.hpp);
/// none: as even as can be. `is_auto`: by cost, found before the plan is made (sim/predict/auto_split.hpp), after which
/// `layers` is set, of all layers.
struct Split {
  std::vector<std::int64_t> layers;
  bool is_auto = false;
  bool operator==(const Split&) const = default;
};

struct RunSpec {
  std::string model_name = "mlp";  // "mlp", the name of a transformer, or the path of a model file
  Model model;                     // resolved from model_name, depth, dim, transformer
  TransformerSettings transformer;
  Split split;
  /// The head would have the embedding's weight if there were one stage: torch.distributed.pipelining shares no
  /// parameters between stages, so that it has one of its own.
  bool head_untied = false;
  std::vector<std::string> model_warnings;  // what the file of the model asks for and is not modelled
  std::int64_t depth = 8;
  std::int64_t dim = 8192;
  std::int64_t batch = 2048;      // global: samples of one accumulation round, over all GPUs
  std::int64_t microbatches = 1;  // 8 by default where a pipeline has several workers
  std::int64_t gpus = 1;
  std::int64_t dp = 1;  // pp: replicas of the pipeline, of gpus / dp workers each
  Strategy strategy = Strategy::single;
  std::string schedule = "naive";  // a name of the table in sim/spec/schedule.hpp, "auto", or the path of a CSV file
  /// The order of a CSV file, or the one that was found for "auto"; null for a name of the table, and for "auto" before
  /// the search (sim/predict/auto_schedule.hpp).
  std::shared_ptr<const ScheduleFile> schedule_file;
  std::int64_t chunks = 1;  // stages of a GPU
  /// A stage keeps only its input and runs its forward again before its backward (GPipe, arXiv:1811.06965, section
  /// 2.3).
  bool recompute = false;
  /// No barrier between steps: a step is the time of the worker that is at it longest. Default: as the schedule has it.
  std::optional<bool> overlap_steps;
  Dtype dtype = Dtype::fp32;
  Optimizer optimizer = Optimizer::sgd;
  Transport transport = Transport::copy;
  PointToPoint p2p = PointToPoint::eager;
  Workers workers = Workers::thread;
  ProgramOf program = ProgramOf::pdl;
  std::int64_t accum =
      1;  // rounds whose gradients are added up before the optimizer's step; each loss is divided by it
  /// Gradients are exchanged in the last round of a step only (DDP's no_sync()), not in every round.
  bool no_sync = false;
  /// DDP: a bucket is full at so many bytes; the first one to be full sooner (PyTorch: 25 MiB, 1 MiB).
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
  std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
  bool bucket_views = false;  // DDP: gradients are views of the buckets: no copies back (gradient_as_bucket_view)
  /// PyTorch's pipelines: gradients are divided by the micro-batches at the end of a step (PyTorch's default), not the
  /// losses.
  bool scale_grads = false;
  double delay_ms = 0;  // the host sleeps before every backward
  std::optional<Straggler> straggler;
  double loss_scale = 65536;  // amp-fp16: where GradScaler starts
  /// Of a measurement; a prediction is the same for every value.
  std::int64_t seed = 0;        // fixes parameters and data
  double learning_rate = 0.01;  // of SGD and of Adam, whose other numbers are those of PyTorch
  std::int64_t repeat = 1;      // which of several measurements with equal settings
  /// Equal shares of the GPUs, joined by a network of so many bytes per second a host and such a latency.
  std::int64_t hosts = 1;
  double network_gb_per_s = 400;  // 8 ports of 400 Gb/s, one a GPU: DGX H100 and H200, AWS p5, Azure ND H100 v5
  double network_latency_us = 0;  // beyond what NCCL's tuning.cc has for a message between hosts, 2.7 to 14 us
  std::optional<SyntheticCosts> synthetic;
  /// Names of the settings that were given: what they are is not for the simulator to choose.
  std::set<std::string> given;
  bool operator==(const RunSpec&) const = default;
};

/// One word of the user: `--gpus 5`, or "gpus": 5 in a scenario. `place` is what an error message names.
struct SettingValue {
  std::string name;   // "gpus", without dashes
  std::string value;  // "5"
  std::string place;  // "--gpus", or "scenarios/a.json: configurations[2].gpus"
};

/// nullptr if it is not there.
const SettingValue* find_setting(std::span<const SettingValue> values, const std::string& name);

/// What the field knows by this value of a setting and this simulator does not: not_modelled("strategy", "tp") is
/// "tensor parallelism is not modelled yet". Empty: nothing is known of it.
std::string not_modelled(const std::string& setting, const std::string& word);

/// Checks each word and all of them together. Throws InputError naming the place: unknown word (with the nearest known
/// one), not a number, out of range, given twice, words that contradict (--strategy mp with --schedule gpipe; more
/// stages than layers; --schedule with one GPU is fine); WithoutMeaning where leaving one word out would do.
RunSpec parse_run_spec(std::span<const SettingValue> values);
/// The same for a run whose schedule file is at hand already (it is stored in the run's JSON), whatever its path names.
RunSpec parse_run_spec(std::span<const SettingValue> values, std::shared_ptr<const ScheduleFile> schedule_file);

/// "auto": the order is searched for (sim/predict/auto_schedule.hpp).
inline constexpr const char* kAutoSchedule = "auto";

/// The model is a file: neither mlp nor a name of the table (sim/spec/presets.hpp).
bool has_model_file(const RunSpec& spec);

/// "auto": layers are split by what they cost, found by pdl-sim (sim/predict/auto_split.hpp).
inline constexpr const char* kAutoSplit = "auto";

/// The entry of the table, or nullptr for a file or a searched order.
const Schedule* named_schedule(const RunSpec& spec);

/// What overlap_steps says, else Schedule::steps_overlap of the schedule.
bool steps_overlap(const RunSpec& spec);

/// True if replicas average their gradients at the end of this round of accumulation, from 0.
bool exchanges_in_round(const RunSpec& spec, std::int64_t round);

/// Of the messages between stages: copies are eager, NCCL's and Gloo's wait for each other.
PointToPoint point_to_point_of(Transport transport);

/// As it runs on CPU where nothing was said of the transport: DDP's gradients, and the messages of PyTorch's pipelines,
/// by Gloo, since NCCL needs GPUs.
RunSpec on_cpu(RunSpec spec);

/// Every setting of the spec, in the order of all_settings(). Synthetic costs only where they were given.
std::vector<SettingValue> to_settings(const RunSpec& spec);

/// One line for people: "mlp 20 x 8192, batch 2048 in 8 micro-batches, fp32, sgd; pp gpipe on 5 GPUs, copy".
std::string describe(const RunSpec& spec);

/// What of it is the model: "mlp 20 x 8192", "gpt2 (12 blocks, hidden 768, 12 heads, sequence 1024)".
std::string describe_model(const RunSpec& spec);

/// "8,8,7,7"; "auto" before its numbers were found; empty: none was said.
std::string to_string(const Split& split);

std::string to_string(Strategy);
std::string to_string(Optimizer);
std::string to_string(Transport);
std::string to_string(PointToPoint);
std::string to_string(Workers);
std::string to_string(ProgramOf);

}  // namespace pdl
