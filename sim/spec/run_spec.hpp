// What to train and how: the words that pdl-sim, pdl-run and scenario files share.
//
//   const std::vector<SettingValue> words = {{"gpus", "5", "--gpus"}, {"schedule", "gpipe", "--schedule"}};
//   RunSpec spec = parse_run_spec(words);
//   to_settings(spec)  // every word with its value, defaults filled in; parsed again they are the same spec
//
// A spec holds no costs and no hardware. Times given by the user (--tf ...) are milliseconds here and in the spec,
// integer nanoseconds from the plan on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/spec/model.hpp"
#include "sim/spec/schedule_csv.hpp"

namespace pdl {

enum class Strategy { single, mp, pp };
enum class Dtype { fp32, tf32, amp_fp16, amp_bf16 };
enum class Optimizer { sgd, adam };
/// How stages exchange activations: peer copies by the copy engine, NCCL send/recv, Gloo send/recv (CPU).
enum class Transport { copy, nccl, gloo };
/// eager: a send completes without its receive. rendezvous: both sides are occupied from the later of the two on.
enum class PointToPoint { eager, rendezvous };
/// A process a GPU, a thread a GPU, or one thread that issues for all GPUs (the programs of the course, LibTorch's
/// autograd).
enum class Workers { process, thread, one };

/// Textbook costs, milliseconds per stage and micro-batch. `tb` is the whole backward unless `tw` is given; then tb is
/// the input gradient and tw the weight gradient.
struct SyntheticCosts {
  double tf_ms = 1.0;
  double tb_ms = 2.0;
  std::optional<double> tw_ms;
  double tcomm_ms = 0.0;
};

struct RunSpec {
  std::string model_name = "mlp";  // "mlp", or the path of a model file
  Model model;                     // resolved from model_name, depth, dim
  std::int64_t depth = 8;
  std::int64_t dim = 8192;
  std::int64_t batch = 2048;  // global: samples per optimizer step
  std::int64_t microbatches = 8;
  std::int64_t gpus = 1;
  Strategy strategy = Strategy::single;
  std::string schedule = "naive";  // a name of the table in sim/spec/schedule.hpp, "auto", or the path of a CSV file
  /// The order of a CSV file, or the one that was found for "auto"; null for a name of the table, and for "auto" before
  /// the search (sim/search/auto_schedule.hpp).
  std::shared_ptr<const ScheduleFile> schedule_file;
  std::int64_t chunks = 1;  // stages of a GPU
  /// A stage keeps only its input and runs its forward again before its backward (GPipe, arXiv:1811.06965, section 2.3).
  bool recompute = false;
  /// No barrier between steps: a step is the time of the worker that is at it longest. Default: as the schedule has it.
  std::optional<bool> overlap_steps;
  Dtype dtype = Dtype::fp32;
  Optimizer optimizer = Optimizer::sgd;
  Transport transport = Transport::copy;
  PointToPoint p2p = PointToPoint::eager;
  Workers workers = Workers::thread;
  std::optional<SyntheticCosts> synthetic;
};

/// One word of the user: `--gpus 5`, or "gpus": 5 in a scenario. `place` is what an error message names.
struct SettingValue {
  std::string name;   // "gpus", without dashes
  std::string value;  // "5"
  std::string place;  // "--gpus", or "scenarios/a.json: configurations[2].gpus"
};

/// The words there are, for command lines and help.
struct SettingInfo {
  std::string name;
  std::string value_name;  // "N", "mlp|FILE.json"
  std::string help;
  bool is_switch = false;  // alone it means 1
};
std::span<const SettingInfo> setting_infos();

/// Checks each word and all of them together. Throws InputError naming the place: unknown word (with the nearest known
/// one), not a number, out of range, given twice, words that contradict (--strategy mp with --schedule gpipe; more
/// stages than layers; --schedule with one GPU is fine).
RunSpec parse_run_spec(std::span<const SettingValue> values);
/// The same for a run whose schedule file is at hand already (it is stored in the run's JSON), whatever its path names.
RunSpec parse_run_spec(std::span<const SettingValue> values, std::shared_ptr<const ScheduleFile> schedule_file);

/// "auto": the order is searched for (sim/search/auto_schedule.hpp).
inline constexpr const char* kAutoSchedule = "auto";

/// The entry of the table, or nullptr for a file or a searched order.
const Schedule* named_schedule(const RunSpec& spec);

/// What overlap_steps says, else Schedule::steps_overlap of the schedule.
bool steps_overlap(const RunSpec& spec);

/// With so many micro-batches (torch.chunk may make fewer than were asked for).
ScheduleShape shape_of(const RunSpec& spec, std::int64_t microbatches);

/// stages = gpus x chunks
std::int64_t stage_count(const RunSpec& spec);

/// Every setting of the spec, in the order of setting_infos(). Synthetic costs only where they were given.
std::vector<SettingValue> to_settings(const RunSpec& spec);

/// One line for people: "mlp 20 x 8192, batch 2048 in 8 micro-batches, fp32, sgd; pp gpipe on 5 GPUs, copy".
std::string describe(const RunSpec& spec);

std::string to_string(Strategy);
std::string to_string(Dtype);
std::string to_string(Optimizer);
std::string to_string(Transport);
std::string to_string(PointToPoint);
std::string to_string(Workers);

}  // namespace pdl
