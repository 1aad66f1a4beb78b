#include "runtime/comm/same_settings.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/comm/rendezvous.hpp"
#include "sim/io/error.hpp"

namespace pdl {
namespace {

using Settings = std::vector<SettingValue>;

std::string value_of(const Settings& settings, const std::string& name) {
  const SettingValue* found = find_setting(settings, name);
  return found ? found->value : "its default";
}

/// "worker 3", "workers 0, 2"
std::string workers_text(const std::vector<std::size_t>& workers) {
  std::string text = workers.size() == 1 ? "worker" : "workers";
  for (std::size_t i = 0; i < workers.size(); ++i) text += (i == 0 ? " " : ", ") + std::to_string(workers[i]);
  return text;
}

void refuse_if_different(const std::string& name, const std::vector<Settings>& of_workers) {
  std::vector<std::string> values;  // in the order of the workers
  std::map<std::string, std::vector<std::size_t>> workers;
  for (std::size_t w = 0; w < of_workers.size(); ++w) {
    const std::string value = value_of(of_workers[w], name);
    if (!workers.contains(value)) values.push_back(value);
    workers[value].push_back(w);
  }
  if (values.size() == 1) return;
  std::string found;
  for (const std::string& value : values)
    found += (found.empty() ? "" : " and ") + value + " in " + workers_text(workers[value]);
  throw InputError("--" + name, found, "the same in all workers");
}

std::string pack(const Settings& settings) {
  nlohmann::json json = nlohmann::json::array();
  for (const SettingValue& setting : settings) json.push_back({setting.name, setting.value});
  return json.dump();
}

Settings unpack(const std::string& text) {
  Settings settings;
  for (const auto& setting : nlohmann::json::parse(text)) settings.push_back({setting[0], setting[1], ""});
  return settings;
}

}  // namespace

void refuse_different_settings(const std::vector<Settings>& of_workers) {
  for (const Settings& settings : of_workers) {
    for (const SettingValue& setting : settings) refuse_if_different(setting.name, of_workers);
  }
}

void check_same_settings(Rendezvous& rendezvous, const Settings& own) {
  std::vector<Settings> of_workers;
  for (const std::string& text : rendezvous.share("settings", pack(own))) of_workers.push_back(unpack(text));
  refuse_together(rendezvous, [&] { refuse_different_settings(of_workers); });
}

void refuse_together(Rendezvous& rendezvous, const std::function<void()>& check) {
  try {
    check();
  } catch (const InputError&) {
    rendezvous.finish();
    throw;
  }
}

}  // namespace pdl
