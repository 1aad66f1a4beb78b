#include "sim/spec/setting_words.hpp"

#include "sim/spec/schedule.hpp"

namespace pdl {
namespace {

std::string schedule_names() {
  std::string names;
  for (const Schedule& schedule : schedules()) names += (names.empty() ? "" : ", ") + std::string(schedule.name);
  return names;
}

const std::array<SettingInfo, 35> kSettings = {{
    {"model", "mlp|FILE.json", "the model: a stack of Linear+ReLU blocks, or a file with a list of layers"},
    {"depth", "L", "number of layers (default 8)"},
    {"dim", "D", "width of every layer (default 8192)"},
    {"batch", "B", "samples of a step (of each round with --accum), over all GPUs (default 2048)"},
    {"microbatches", "M", "slices of the batch, of a replica's part of it (default 8 for a pipeline over several GPUs, else 1)"},
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
    {"transport", "copy|nccl|gloo", "how stages exchange activations, and ddp's replicas their gradients (default copy; ddp: nccl, on CPU gloo)"},
    {"p2p", "eager|rendezvous", "whether a send waits for its receive (default: as the transport does)"},
    {"workers", "process|thread|one", "a process a GPU, a thread a GPU, or one thread for all (default thread; ddp: process; mp, and one GPU with amp: one)"},
    {"accum", "K", "rounds of the batch whose gradients are added up before the optimizer's step (default 1)"},
    {"no-sync", "0|1", "exchange gradients in the last round of a step only (default 0: in every round)", true},
    {"bucket-mb", "MIB", "ddp: size at which a bucket of gradients is full, MiB (default 25)"},
    {"first-bucket-mb", "MIB", "ddp: the same of the first bucket, MiB (default 1)"},
    {"bucket-views", "0|1", "ddp: gradients are views of the buckets, nothing is copied back (default 0)", true},
    {"delay-ms", "MS", "the host sleeps before every backward (default 0)"},
    {"straggler", "RANK:MS", "the host of this GPU sleeps at the start of every step"},
    {"loss-scale", "X", "amp-fp16: the scale that GradScaler starts with (default 65536)"},
    {"seed", "N", "fixes the parameters and the data of a measured run; predictions do not depend on it (default 0)"},
    {"repeat", "N",
     "which of several measured runs with equal settings this is; predictions do not depend on it (default 1)"},
    {"hosts", "H", "hosts that the GPUs are spread over evenly (default 1)"},
    {"network-gb-per-s", "GB", "bandwidth of a host's network each way, 1e9 bytes a second (default 50)"},
    {"network-latency-us", "US", "latency of the network (default 5)"},
    {"tf", "MS", "synthetic cost: forward of a stage and micro-batch, milliseconds"},
    {"tb", "MS", "synthetic cost: whole backward, or the input gradient alone if --tw is given"},
    {"tw", "MS", "synthetic cost: weight gradient"},
    {"tcomm", "MS", "synthetic cost: one transfer between stages, one exchange of all parameters or gradients (default 0)"},
}};

}  // namespace

std::span<const SettingInfo> setting_infos() { return kSettings; }

std::string to_string(Strategy value) { return setting_words::text_of(setting_words::kStrategies, value); }
std::string to_string(Dtype value) { return setting_words::text_of(setting_words::kDtypes, value); }
std::string to_string(Optimizer value) { return setting_words::text_of(setting_words::kOptimizers, value); }
std::string to_string(Transport value) { return setting_words::text_of(setting_words::kTransports, value); }
std::string to_string(PointToPoint value) { return setting_words::text_of(setting_words::kPointToPoint, value); }
std::string to_string(Workers value) { return setting_words::text_of(setting_words::kWorkers, value); }

namespace setting_words {

void refuse_word(const std::string& place, const std::string& found, std::span<const std::string> known) {
  const std::string nearest = nearest_word(found, known);
  throw InputError(place, found.empty() ? "nothing" : found,
                   list_words(known) + (nearest.empty() ? "" : " (did you mean " + nearest + "?)"));
}

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

void only_with(const Given& given, const char* name, bool fits, const std::string& with) {
  const SettingValue* s = find(given, name);
  if (!s || fits) return;
  throw WithoutMeaning(s->place, std::string(name) + " " + s->value + " with " + with, "no " + std::string(name) + ": it has no meaning there", name);
}

}  // namespace setting_words
}  // namespace pdl
