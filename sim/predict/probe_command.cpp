// What pdl-calibrate has to be told to probe the shapes of a run: samples_beside() and probe_command() of predict.hpp.
#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "sim/io/shell_word.hpp"
#include "sim/predict/predict.hpp"

namespace pdl {
namespace {

namespace fs = std::filesystem;

bool is_said(const RunSpec& spec, const std::string& name) {
  constexpr std::array kAlways = {"batch", "gpus"};
  constexpr std::array kOfModel = {"depth", "dim"};  // a model file has its own
  if (spec.given.contains(name)) return true;
  return std::find(kAlways.begin(), kAlways.end(), name) != kAlways.end() ||
         (spec.model_name == "mlp" && std::find(kOfModel.begin(), kOfModel.end(), name) != kOfModel.end());
}

}  // namespace

std::string samples_beside(const std::optional<std::string>& profile, const CostProfile& costs) {
  std::error_code ignored;
  const auto beside = [&](const fs::path& folder) {
    const fs::path samples = folder / "samples.json";
    return fs::is_regular_file(samples, ignored) ? samples.string() : std::string();
  };
  const std::string name = profile.value_or(costs.name);
  for (const std::string& folder : profile_folders()) {
    if (name.find('/') == std::string::npos && fs::is_regular_file(fs::path(folder) / name / "profile.json", ignored))
      return beside(fs::path(folder) / name);
  }
  if (!profile) return "";
  return beside(fs::is_directory(*profile, ignored) ? fs::path(*profile) : fs::path(*profile).parent_path());
}

std::string probe_command(RunSpec asked, const std::vector<std::int64_t>& split, const std::string& samples,
                          const Environment& machine) {
  if (asked.split.is_auto) asked.split = {split, false};
  const bool on_cpu = machine.device == "cpu";
  const bool too_many = !on_cpu && machine.count > 0 && asked.gpus > machine.count;
  std::string command = "pdl-calibrate";
  if (!samples.empty()) command += " --from " + shell_word(samples);
  for (const SettingValue& setting : to_settings(asked)) {
    if (!is_said(asked, setting.name)) continue;
    const bool is_plans = setting.name == "gpus" && too_many;
    if (is_plans) command += " --gpus " + std::to_string(machine.count);
    command += (is_plans ? " --plan-gpus " : " --" + setting.name + " ") + shell_word(setting.value);
  }
  return command + (on_cpu ? " --device cpu" : "") + " --samples samples.json --out profile.json";
}

}  // namespace pdl
