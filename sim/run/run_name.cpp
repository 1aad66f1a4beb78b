#include "sim/run/run_name.hpp"

#include <algorithm>

#include "sim/spec/settings.hpp"

namespace pdl {
std::string run_name(const RunSpec& spec) {
  std::string name;
  for (const NamePlace place : {NamePlace::strategy, NamePlace::gpus, NamePlace::model, NamePlace::execution,
                                NamePlace::recompute, NamePlace::further, NamePlace::last}) {
    for (const SettingRow& setting : all_settings()) {
      if (setting.in_run_name && setting.name_place == place) name += setting.in_run_name(spec);
    }
  }
  return name;
}

bool same_run(const RunSpec& a, const RunSpec& b) {
  const bool files = a.schedule_file && b.schedule_file;
  const bool searched = a.schedule == kAutoSchedule && b.schedule == kAutoSchedule;
  if (files && a.schedule_file->order != b.schedule_file->order) return false;
  if (!files && !searched && (a.schedule_file || b.schedule_file)) return false;
  if (steps_overlap(a) != steps_overlap(b)) return false;
  const auto settings = [](const RunSpec& spec) {
    std::vector<SettingValue> all = to_settings(spec);
    std::erase_if(all, [](const SettingValue& setting) { return setting.name == "overlap-steps"; });
    return all;
  };
  const auto left = settings(a), right = settings(b);
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [&](const SettingValue& x, const SettingValue& y) {
                      return x.name == y.name && (x.value == y.value || (files && x.name == "schedule"));
                    });
}

}  // namespace pdl
