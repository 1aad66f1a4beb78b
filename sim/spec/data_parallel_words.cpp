#include "sim/spec/data_parallel_words.hpp"

#include "sim/spec/mesh.hpp"

namespace pdl::setting_words {
namespace {

std::int64_t parse_mib(const SettingValue& s) {
  constexpr double kBytesPerMib = 1 << 20;
  const double mib = parse_number(s.place, s.value, 0, 1e9);
  if (mib * kBytesPerMib < 1) throw InputError(s.place, s.value, "a size above 0, in MiB");
  return static_cast<std::int64_t>(mib * kBytesPerMib);
}

}  // namespace

void read_gpus(const Given& given, RunSpec& spec) {
  const SettingValue* gpus = find(given, "gpus");
  const SettingValue* pp = find(given, "pp");
  const SettingValue* dp = find(given, "dp");
  std::int64_t workers = 1;
  read_whole(given, "gpus", spec.gpus, kMillion);
  read_whole(given, "pp", workers, kMillion);
  read_whole(given, "dp", spec.dp, kMillion);
  if (!gpus) spec.gpus = workers * spec.dp;
  if (spec.gpus > kMillion)
    throw InputError(place_of(given, {"pp", "dp"}), std::to_string(spec.gpus) + " GPUs in all", "at most 1000000");
  if (gpus && pp && !dp && spec.gpus % workers == 0) spec.dp = spec.gpus / workers;
  const bool fits = spec.gpus % spec.dp == 0 && (!pp || workers * spec.dp == spec.gpus);
  if (!fits) {
    throw InputError(place_of(given, {"pp", "dp", "gpus"}),
                     "pp " + (pp ? pp->value : "of any size") + " x dp " + std::to_string(spec.dp) + " for " +
                         std::to_string(spec.gpus) + " GPUs",
                     "a product that is the number of GPUs");
  }
}

void read_exchange(const Given& given, RunSpec& spec) {
  const std::string strategy = "strategy " + to_string(spec.strategy);
  const bool ddp = spec.strategy == Strategy::ddp;
  for (const char* name : {"bucket-mb", "first-bucket-mb", "bucket-views"}) only_with(given, name, ddp, strategy);
  if (const SettingValue* s = find(given, "bucket-mb")) spec.bucket_bytes = parse_mib(*s);
  if (const SettingValue* s = find(given, "first-bucket-mb")) spec.first_bucket_bytes = parse_mib(*s);
  if (const SettingValue* s = find(given, "bucket-views"))
    spec.bucket_views = parse_whole(s->place, s->value, 0, 1) == 1;
  if (const SettingValue* s = find(given, "no-sync")) {
    spec.no_sync = parse_whole(s->place, s->value, 0, 1) == 1;
    if (spec.no_sync) only_with(given, "no-sync", ddp || spec.strategy == Strategy::pp, strategy);
  }
}

void read_sleeps(const Given& given, RunSpec& spec) {
  constexpr double kLongestSleepMs = 3'600'000;
  if (const SettingValue* s = find(given, "delay-ms"))
    spec.delay_ms = parse_number(s->place, s->value, 0, kLongestSleepMs);
  const SettingValue* s = find(given, "straggler");
  if (!s) return;
  const std::size_t colon = s->value.find(':');
  if (colon == std::string::npos) throw InputError(s->place, s->value, "RANK:MS, such as 0:20");
  const std::string rank = s->value.substr(0, colon);
  spec.straggler = Straggler{parse_whole(s->place, rank, 0, kMillion),
                             parse_number(s->place, s->value.substr(colon + 1), 0, kLongestSleepMs)};
  const std::int64_t hosts = spec.workers == Workers::one ? 1 : spec.gpus;
  if (spec.straggler->rank >= hosts) {
    throw InputError(
        s->place, "rank " + rank,
        hosts == 1 ? "0: there is one host thread" : "0 to " + std::to_string(hosts - 1) + ", a GPU of the run");
  }
}

void read_network(const Given& given, RunSpec& spec) {
  read_whole(given, "hosts", spec.hosts, kMillion);
  spec.hosts_given = find(given, "hosts") != nullptr;
  spec.network_given = find(given, "network-gb-per-s") || find(given, "network-latency-us");
  if (spec.gpus % spec.hosts != 0) {
    throw InputError(place_of(given, {"hosts"}),
                     std::to_string(spec.gpus) + " GPUs on " + std::to_string(spec.hosts) + " hosts",
                     "as many GPUs on every host");
  }
  if (spec.hosts > 1 && spec.strategy != Strategy::ddp) {
    throw InputError(place_of(given, {"hosts"}),
                     std::to_string(spec.hosts) + " hosts with strategy " + to_string(spec.strategy), "strategy ddp");
  }
  if (spec.hosts > 1 && spec.synthetic) {
    throw InputError(place_of(given, {"hosts"}), std::to_string(spec.hosts) + " hosts with synthetic costs",
                     "one host: an exchange takes tcomm, wherever the GPUs are");
  }
  for (const char* name : {"network-gb-per-s", "network-latency-us"}) {
    only_with(given, name, !spec.synthetic, "synthetic costs");
    only_with(given, name, spec.hosts > 1, "one host");
  }
  if (const SettingValue* s = find(given, "network-gb-per-s")) {
    spec.network_gb_per_s = parse_number(s->place, s->value, 0, 1e9);
    if (spec.network_gb_per_s == 0) throw InputError(s->place, s->value, "a bandwidth above 0");
  }
  if (const SettingValue* s = find(given, "network-latency-us"))
    spec.network_latency_us = parse_number(s->place, s->value, 0, 1e9);
}

void read_precision(const Given& given, RunSpec& spec) {
  if (const SettingValue* s = find(given, "dtype")) spec.dtype = parse_word(kDtypes, *s);
  only_with(given, "loss-scale", spec.dtype == Dtype::amp_fp16, "dtype " + to_string(spec.dtype));
  const SettingValue* s = find(given, "loss-scale");
  if (s) spec.loss_scale = parse_number(s->place, s->value, 1, 1e30);
}

void check_replicas(const Given& given, const RunSpec& spec) {
  const std::int64_t replicas = replica_count(spec);
  if (replicas == 1) return;
  const std::string place = place_of(given, {"batch", "gpus", "dp"});
  if (is_data_parallel(spec) && spec.microbatches > 1 && spec.batch % replicas != 0) {
    throw InputError(place,
                     std::to_string(spec.batch) + " samples for " + std::to_string(replicas) +
                         " replicas that cut them into micro-batches",
                     "a batch that is a multiple of it");
  }
  if (spec.strategy == Strategy::dp) return;
  if (spec.batch < replicas) {
    throw InputError(place, std::to_string(spec.batch) + " samples for " + std::to_string(replicas) + " replicas",
                     "at least one sample for every replica");
  }
  if (spec.strategy == Strategy::pp && spec.batch % replicas != 0) {
    throw InputError(
        place, std::to_string(spec.batch) + " samples for " + std::to_string(replicas) + " replicas of a pipeline",
        "a batch that is a multiple of it");
  }
}

}  // namespace pdl::setting_words
