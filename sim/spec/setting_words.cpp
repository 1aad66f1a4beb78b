#include "sim/spec/setting_words.hpp"

#include "sim/io/printable_text.hpp"
#include "sim/spec/schedule.hpp"

namespace pdl {
namespace {

std::string schedule_names() {
  std::string names;
  for (const Schedule& schedule : schedules()) names += (names.empty() ? "" : ", ") + std::string(schedule.name);
  return names;
}

const std::array<SettingInfo, 35> kSettings = {{
    {"model", "mlp|FILE.json",
     "the model: a stack of Linear+ReLU blocks (--depth, --dim), or a file of layers (docs/formats-model.md)"},
    {"depth", "L", "number of layers (default 8)"},
    {"dim", "D", "width of every layer (default 8192)"},
    {"batch", "B", "samples of a step (of each round with --accum), over all GPUs (default 2048)"},
    {"microbatches", "M",
     "slices of the batch, of a replica's part of it (default 8 for a pipeline over several GPUs, else 1)"},
    {"gpus", "N", "number of GPUs (default 1)"},
    {"pp", "P", "GPUs of one pipeline (default: gpus / dp)"},
    {"dp", "R", "replicas of the pipeline, whose gradients are averaged (default: gpus / pp)"},
    {"strategy", "single|mp|pp|dp|ddp",
     "one GPU, naive layer split in one program, pipeline, nn.DataParallel, or DistributedDataParallel (default: "
     "single, or pp)"},
    {"schedule", "NAME|auto|FILE.csv",
     "order of a pipeline: " + schedule_names() +
         ", auto (searched), or a file in PyTorch's format; implies --strategy pp "
         "(default 1f1b; with --workers one gpipe)"},
    {"chunks", "V", "stages of a GPU, for schedules that interleave them (default: 2 for those, else 1)"},
    {"recompute", "0|1", "keep only the input of a stage, run its forward again before its backward (default 0)", true},
    {"overlap-steps", "0|1",
     "no barrier between steps: a step is the time of the GPU at it longest (default: zb-h2 1, else 0)", true},
    {"dtype", "fp32|tf32|amp-fp16|amp-bf16", "number format of the matrix products (default fp32)"},
    {"optimizer", "sgd|adam", "optimizer (default sgd)"},
    {"transport", "copy|nccl|gloo",
     "how stages exchange activations, and ddp's replicas their gradients (default copy; ddp: nccl, on CPU gloo)"},
    {"p2p", "eager|rendezvous", "whether a send waits for its receive (default: as the transport does)"},
    {"workers", "process|thread|one",
     "a process a GPU, a thread a GPU, or one thread for all (default thread; ddp: process; mp, and one GPU with amp: "
     "one)"},
    {"accum", "K",
     "rounds of the batch whose gradients are added up before the optimizer's step, at most 10,000 (default 1)"},
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
    {"hosts", "H", "hosts that the GPUs are spread over evenly (default: as the profile was measured, else 1)"},
    {"network-gb-per-s", "GB",
     "bandwidth of a host's network each way, 1e9 bytes a second (default 400: 8 ports of 400 Gb/s)"},
    {"network-latency-us", "US",
     "latency of a message between hosts beyond the 3 to 14 us that NCCL reckons with (default 0)"},
    {"tf", "MS|MS,MS...",
     "synthetic cost, milliseconds: forward of one micro-batch on one stage, of which a GPU has as many as --chunks; a "
     "list has one time a stage (1,1,2,1 or 1/1/2/1)",
     false, true},
    {"tb", "MS|MS,MS...",
     "synthetic cost: the same of the whole backward, or of the input gradient alone if --tw is given", false, true},
    {"tw", "MS|MS,MS...", "synthetic cost: the same of the weight gradient", false, true},
    {"tcomm", "MS",
     "synthetic cost: one message between two GPUs, one after the other on the link from one to the other; one "
     "exchange of all parameters or gradients (default 0)"},
}};

/// Words of the field that a user may well try.
struct NotModelled {
  const char* setting;
  const char* word;
  const char* text;
};
constexpr const char* kTensorParallel = "tensor parallelism is not modelled yet";
constexpr const char* kFullySharded = "fully sharded data parallelism is not modelled yet";
constexpr const char* kSequenceParallel = "sequence and context parallelism are not modelled yet";
constexpr const char* kExpertParallel = "expert parallelism is not modelled yet";
constexpr const char* kAdamW = "AdamW is not modelled yet; adam is torch.optim.Adam, without weight decay";
constexpr std::array kNotModelled = {
    NotModelled{"strategy", "tp", kTensorParallel},
    NotModelled{"strategy", "fsdp", kFullySharded},
    NotModelled{"strategy", "fsdp2", kFullySharded},
    NotModelled{"strategy", "hsdp", kFullySharded},
    NotModelled{"strategy", "zero", kFullySharded},
    NotModelled{"strategy", "cp", kSequenceParallel},
    NotModelled{"strategy", "sp", kSequenceParallel},
    NotModelled{"strategy", "ep", kExpertParallel},
    NotModelled{"dtype", "bf16", "bf16 weights are not modelled; amp-bf16 is autocast"},
    NotModelled{"dtype", "fp16", "fp16 weights are not modelled; amp-fp16 is autocast"},
    NotModelled{"dtype", "fp8", "fp8 is not modelled yet"},
    NotModelled{"dtype", "fp64", "fp64 is not modelled yet"},
    NotModelled{"optimizer", "adamw", kAdamW},
    NotModelled{"transport", "mpi", "MPI's messages are not modelled yet"},
    NotModelled{"schedule", "dualpipe",
                "DualPipe keeps two copies of the parameters, which is not modelled yet; dualpipe-v keeps one"},
};

}  // namespace

std::span<const SettingInfo> setting_infos() {
  return kSettings;
}

std::string not_modelled(const std::string& setting, const std::string& word) {
  const auto known = std::find_if(kNotModelled.begin(), kNotModelled.end(),
                                  [&](const NotModelled& n) { return setting == n.setting && word == n.word; });
  return known == kNotModelled.end() ? "" : known->text;
}

std::string to_string(Strategy value) {
  return setting_words::text_of(setting_words::kStrategies, value);
}
std::string to_string(Dtype value) {
  return setting_words::text_of(setting_words::kDtypes, value);
}
std::string to_string(Optimizer value) {
  return setting_words::text_of(setting_words::kOptimizers, value);
}
std::string to_string(Transport value) {
  return setting_words::text_of(setting_words::kTransports, value);
}
std::string to_string(PointToPoint value) {
  return setting_words::text_of(setting_words::kPointToPoint, value);
}
std::string to_string(Workers value) {
  return setting_words::text_of(setting_words::kWorkers, value);
}

namespace setting_words {

void refuse_word(const SettingValue& setting, std::span<const std::string> known, std::string_view meant) {
  const std::string missing = not_modelled(setting.name, setting.value);
  const std::string nearest = meant.empty() ? nearest_word(setting.value, known) : std::string(meant);
  const std::string hint = !missing.empty() ? missing : !nearest.empty() ? "did you mean " + nearest + "?" : "";
  throw InputError(setting.place, setting.value.empty() ? "nothing" : setting.value,
                   list_words(known) + (hint.empty() ? "" : " (" + hint + ")"));
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
    if (!is_utf8(setting.value)) {
      throw InputError(setting.place, setting.value + ", which is no UTF-8", "a value in UTF-8: JSON is written in it");
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

std::string place_of(const Given& given, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const SettingValue* s = find(given, name)) return s->place;
  }
  return *names.begin();
}

void read_whole(const Given& given, const char* name, std::int64_t& into, std::int64_t largest) {
  if (const SettingValue* s = find(given, name)) into = parse_whole(s->place, s->value, 1, largest);
}

void only_with(const Given& given, const char* name, bool fits, const std::string& with) {
  const SettingValue* s = find(given, name);
  if (!s || fits) return;
  throw WithoutMeaning(s->place, std::string(name) + " " + s->value + " with " + with,
                       "no " + std::string(name) + ": it has no meaning there", name);
}

}  // namespace setting_words
}  // namespace pdl
