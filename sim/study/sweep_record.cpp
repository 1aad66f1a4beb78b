#include "sim/study/sweep_record.hpp"

#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/spec/settings.hpp"

namespace pdl {
namespace {

constexpr double kLargest = 1e300;
constexpr std::int64_t kMost = INT64_MAX;

void write_result(const SweepResult& result, nlohmann::json& json) {
  json["step_time_ms"] = result.step_time_ms;
  if (result.error_bar) {
    json["half_width_percent"] = result.error_bar->half_width_percent;
    json["unprobed_share"] = result.error_bar->unprobed_share;
  }
  json["throughput_samples_per_s"] = result.throughput_samples_per_s;
  if (result.throughput_tokens_per_s) json["throughput_tokens_per_s"] = *result.throughput_tokens_per_s;
  if (result.mfu) json["mfu"] = *result.mfu;
  json["bubble_fraction"] = result.bubble_fraction;
  json["idle_fraction"] = result.idle_fraction;
  json["has_bubble"] = result.has_bubble;
  json["exposed_communication_fraction"] = result.exposed_communication_fraction;
  if (result.bound_ms) json["bound_ms"] = *result.bound_ms;
  json["peak_memory_bytes"] = result.peak_memory_bytes;
  json["live_activations"] = result.live_activations;
  json["live_activation_bytes"] = result.live_activation_bytes;
  json["steps_overlap"] = result.steps_overlap;
  if (!result.warnings.empty()) json["warnings"] = result.warnings;
  if (!result.warning_shares.empty()) json["warning_shares"] = result.warning_shares;
}

SweepResult read_result(const JsonPlace& place) {
  const auto number = [&](const char* key) { return place.at(key).number(-kLargest, kLargest); };
  SweepResult result;
  result.step_time_ms = number("step_time_ms");
  if (place.has("half_width_percent")) {
    result.error_bar = ErrorBar{};
    result.error_bar->half_width_percent = number("half_width_percent");
    result.error_bar->unprobed_share = number("unprobed_share");
  }
  result.throughput_samples_per_s = number("throughput_samples_per_s");
  if (place.has("throughput_tokens_per_s")) result.throughput_tokens_per_s = number("throughput_tokens_per_s");
  if (place.has("mfu")) result.mfu = number("mfu");
  result.bubble_fraction = number("bubble_fraction");
  result.idle_fraction = number("idle_fraction");
  result.has_bubble = place.at("has_bubble").boolean();
  result.exposed_communication_fraction = number("exposed_communication_fraction");
  if (place.has("bound_ms")) result.bound_ms = number("bound_ms");
  result.peak_memory_bytes = place.at("peak_memory_bytes").whole(0, kMost);
  result.live_activations = static_cast<std::int32_t>(place.at("live_activations").whole(0, INT32_MAX));
  result.live_activation_bytes = place.at("live_activation_bytes").whole(0, kMost);
  result.steps_overlap = place.at("steps_overlap").boolean();
  if (place.has("warnings")) {
    const JsonPlace warnings = place.at("warnings");
    warnings.array();
    for (std::size_t i = 0; i < warnings.size(); ++i) result.warnings.push_back(warnings.at(i).text());
  }
  if (place.has("warning_shares")) {
    const JsonPlace shares = place.at("warning_shares");
    for (const auto& [text, share] : shares.object().json().items())
      result.warning_shares[text] = shares.at(text).number(0, 1);
  }
  return result;
}

}  // namespace

std::string to_line(const SweepRecord& record) {
  nlohmann::json json = {{"row", record.row}};
  if (!record.source.empty()) json["source"] = record.source;
  json["settings"] = nlohmann::json::object();
  for (const SettingValue& setting : record.settings) json["settings"][setting.name] = setting.value;
  if (record.result) {
    write_result(*record.result, json);
  } else {
    json["refused"] = record.refusal;
    json["exit_code"] = record.exit_code;
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

SweepRecord parse_record(const std::string& line, const std::string& place, std::size_t rows) {
  const nlohmann::json document = parse_json(line, place);
  const JsonPlace root(document, place);
  SweepRecord record;
  record.row = static_cast<std::size_t>(root.at("row").whole(0, static_cast<std::int64_t>(rows) - 1));
  if (root.has("source")) record.source = root.at("source").text();
  const JsonPlace settings = root.at("settings");
  settings.object();
  std::vector<SettingValue> values;
  for (const SettingRow& setting : all_settings()) {
    if (settings.has(setting.name)) values.push_back({setting.name, settings.at(setting.name).text(), setting.name});
  }
  record.settings = RowSettings(values);
  if (values.size() != settings.size()) settings.refuse("settings of this version of the program");
  if (root.has("refused")) {
    record.refusal = root.at("refused").text();
    record.exit_code = static_cast<int>(root.at("exit_code").whole(kExitInput, kExitCannotRun));
  } else {
    record.result = read_result(root);
  }
  return record;
}

}  // namespace pdl
