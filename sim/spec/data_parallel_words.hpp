// The words of a spec that are about replicas: how many, what they exchange, what hosts sleep, networks, precision.
// Internal to sim/spec: parse_run_spec (run_spec.cpp) calls them in the order in which they need each other.
#pragma once

#include "sim/spec/setting_words.hpp"

namespace pdl::setting_words {

/// gpus = pp x dp: two of them give the third. Sets gpus and dp.
void read_gpus(const Given& given, RunSpec& spec);

/// Buckets and no_sync. Needs the strategy.
void read_exchange(const Given& given, RunSpec& spec);

/// delay-ms and straggler. Needs strategy and workers.
void read_sleeps(const Given& given, RunSpec& spec);

/// Hosts and their network. Needs the strategy and synthetic costs.
void read_network(const Given& given, RunSpec& spec);

/// dtype and loss-scale.
void read_precision(const Given& given, RunSpec& spec);

/// Every replica has samples; all of a pipeline's replicas the same number. When everything else is read.
void check_replicas(const Given& given, const RunSpec& spec);

}  // namespace pdl::setting_words
