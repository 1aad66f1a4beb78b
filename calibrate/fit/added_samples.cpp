#include "calibrate/fit/added_samples.hpp"

#include <algorithm>
#include <vector>

#include "sim/io/error.hpp"

namespace pdl {
namespace {

using nlohmann::json;

std::string value_text(const json& environment, const char* key) {
  return environment.contains(key) ? environment.at(key).dump() : "nothing";
}

/// A host time of Python.
bool is_of_python(const Sample& sample) {
  return sample.key.probe == Probe::host && sample.key.name.starts_with("python_");
}

}  // namespace

void check_same_card(const json& of_file, const json& now, const std::string& place, bool same_versions) {
  std::vector<const char*> keys = {"device", "card", "multiprocessors"};
  if (same_versions) keys.insert(keys.end(), {"cuda", "nccl", "torch"});
  for (const char* key : keys) {
    if (value_text(of_file, key) == value_text(now, key)) continue;
    throw InputError(place + ": environment." + key, value_text(of_file, key),
                     value_text(now, key) + ", as on this host: what is added must be of the same GPU" +
                         (same_versions ? " and the same library versions" : ""));
  }
}

Samples with_added(Samples of_file, const Samples& added) {
  if (added.samples.empty()) return of_file;
  json about = json::object();
  for (const char* key : {"date", "count", "command", "probe_seconds", "resumed", "python"}) {
    if (added.environment.contains(key)) about[key] = added.environment.at(key);
  }
  of_file.environment["added"].push_back(std::move(about));
  const bool has_python = std::any_of(added.samples.begin(), added.samples.end(), is_of_python);
  if (has_python) std::erase_if(of_file.samples, is_of_python);  // measured anew
  of_file.samples.insert(of_file.samples.end(), added.samples.begin(), added.samples.end());
  return of_file;
}

}  // namespace pdl
