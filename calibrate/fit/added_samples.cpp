#include "calibrate/fit/added_samples.hpp"

#include "sim/io/error.hpp"

namespace pdl {
namespace {

using nlohmann::json;

std::string value_text(const json& environment, const char* key) {
  return environment.contains(key) ? environment.at(key).dump() : "nothing";
}

}  // namespace

void check_same_card(const json& of_file, const json& now, const std::string& place) {
  for (const char* key : {"device", "card", "multiprocessors", "cuda", "nccl", "torch"}) {
    if (value_text(of_file, key) == value_text(now, key)) continue;
    throw InputError(place + ": environment." + key, value_text(of_file, key),
                     value_text(now, key) +
                         ", as on this host: what is added must be of the same GPU and the same library versions");
  }
}

Samples with_added(Samples of_file, const Samples& added) {
  if (added.samples.empty()) return of_file;
  json about = json::object();
  for (const char* key : {"date", "count", "command", "probe_seconds", "resumed"}) {
    if (added.environment.contains(key)) about[key] = added.environment.at(key);
  }
  of_file.environment["added"].push_back(std::move(about));
  of_file.samples.insert(of_file.samples.end(), added.samples.begin(), added.samples.end());
  return of_file;
}

}  // namespace pdl
