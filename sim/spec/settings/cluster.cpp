// The hosts of the GPUs, and the network between them.
#include "sim/io/error.hpp"
#include "sim/io/words.hpp"
#include "sim/spec/settings/rows.hpp"

namespace pdl::setting_rows {
namespace {

std::optional<std::string> of_several_hosts(const RunSpec& spec, const std::string& text) {
  return spec.hosts > 1 ? std::optional(text) : std::nullopt;
}

std::optional<NoMeaning> without_network(const SettingValue& value, const RunSpec& spec) {
  if (spec.synthetic) return no_meaning_with(value, "synthetic costs");
  return spec.hosts > 1 ? std::nullopt : std::optional(no_meaning_with(value, "one host"));
}

Needs needs_two_hosts(const SettingValue&) {
  return {{"strategy", "ddp"}, {"gpus", "2"}, {"hosts", "2"}};
}

}  // namespace

std::vector<SettingRow> cluster() {
  return {
      {.name = "hosts",
       .value_name = "H",
       .help = "hosts that the GPUs are spread over evenly",
       .usual_words = "default: as the profile was measured, else 1",
       .values = Values::whole,
       .range = {1, kMillion},
       .turn = Turn::hosts,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { spec.hosts = whole_of(value, range); },
       .write = [](const RunSpec& spec) { return of_several_hosts(spec, std::to_string(spec.hosts)); },
       .meaningful = "more than 1: strategy ddp",
       .in_run_name = [](const RunSpec& spec) { return spec.hosts > 1 ? "_hosts" + std::to_string(spec.hosts) : ""; },
       .needs = [](const SettingValue& value) -> Needs {
         return {{"strategy", "ddp"}, {"gpus", value.value}, {"batch", value.value}};
       },
       .beside_synthetic_costs = false},
      {.name = "network-gb-per-s",
       .value_name = "GB",
       .help = "bandwidth of a host's network each way, 1e9 bytes a second",
       .usual = "400",
       .usual_words = "default 400: 8 ports of 400 Gb/s",
       .values = Values::number,
       .range = {.least = 0, .largest = 1e9, .above_least = true},
       .turn = Turn::network,
       .read =
           [](const SettingValue& value, const Range& range, RunSpec& spec) {
             spec.network_gb_per_s = number_of(value, range);
             if (spec.network_gb_per_s == 0) throw InputError(value.place, value.value, "a bandwidth above 0");
           },
       .write = [](const RunSpec& spec) { return of_several_hosts(spec, to_text(spec.network_gb_per_s)); },
       .meaningful = "several hosts",
       .no_meaning = without_network,
       .asked = Turn::network,
       .needs = needs_two_hosts,
       .beside_synthetic_costs = false},
      {.name = "network-latency-us",
       .value_name = "US",
       .help = "latency of a message between hosts beyond the 3 to 14 us that NCCL assumes",
       .usual = "0",
       .values = Values::number,
       .range = {0, 1e9},
       .turn = Turn::network,
       .read = [](const SettingValue& value, const Range& range,
                  RunSpec& spec) { spec.network_latency_us = number_of(value, range); },
       .write = [](const RunSpec& spec) { return of_several_hosts(spec, to_text(spec.network_latency_us)); },
       .meaningful = "several hosts",
       .no_meaning = without_network,
       .asked = Turn::network,
       .needs = needs_two_hosts,
       .beside_synthetic_costs = false},
  };
}

}  // namespace pdl::setting_rows
