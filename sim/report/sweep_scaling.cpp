#include "sim/report/sweep_scaling.hpp"

#include <algorithm>
#include <map>

#include "sim/spec/error.hpp"
#include "sim/spec/words.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kLargestNumber = 1'000'000'000;

const SettingValue* find(const SweepRow& row, const std::string& name) {
  const auto found = std::find_if(row.given.begin(), row.given.end(), [&](const SettingValue& s) { return s.name == name; });
  return found == row.given.end() ? nullptr : &*found;
}

std::int64_t gpus_of(const SweepRow& row) {
  const SettingValue& gpus = *find(row, "gpus");
  return parse_whole(gpus.place, gpus.value, 1, kLargestNumber);
}

/// The words but for the GPUs.
std::string key_of(const SweepRow& row) {
  std::string key;
  for (const SettingValue& setting : row.given) {
    if (setting.name != "gpus") key += setting.name + "=" + setting.value + "\n";
  }
  return key;
}

/// In the place that setting_infos() has for it.
void set_batch(SweepRow& row, std::int64_t batch) {
  const SettingValue value{"batch", std::to_string(batch), find(row, "batch") ? find(row, "batch")->place : "--batch"};
  const auto place_of = [](const std::string& name) {
    const auto infos = setting_infos();
    return std::find_if(infos.begin(), infos.end(), [&](const SettingInfo& info) { return info.name == name; }) - infos.begin();
  };
  std::erase_if(row.given, [](const SettingValue& setting) { return setting.name == "batch"; });
  const auto after = std::find_if(row.given.begin(), row.given.end(), [&](const SettingValue& s) { return place_of(s.name) > place_of("batch"); });
  row.given.insert(after, value);
}

void grow_batch(SweepRow& row, std::int64_t fewest) {
  const SettingValue* given = find(row, "batch");
  const std::int64_t batch = given ? parse_whole(given->place, given->value, 1, kLargestNumber) : RunSpec().batch;
  const std::int64_t gpus = gpus_of(row);
  if (batch * gpus % fewest != 0) {
    throw InputError("--scaling", "weak with batch " + std::to_string(batch) + " on " + std::to_string(fewest) + " GPUs, the fewest",
                     "a batch that they divide");
  }
  if (batch * gpus / fewest > kLargestNumber) {
    throw InputError("--scaling", "weak with batch " + std::to_string(batch * gpus / fewest) + " on " + std::to_string(gpus) + " GPUs",
                     "at most " + std::to_string(kLargestNumber));
  }
  set_batch(row, batch * gpus / fewest);
}

}  // namespace

void begin_scaling(const std::optional<Scaling>& asked, Sweep& sweep) {
  const bool varies = std::find(sweep.varying.begin(), sweep.varying.end(), "gpus") != sweep.varying.end();
  if (asked && !varies) throw InputError("--scaling", to_string(*asked) + " with one number of GPUs", "a list of them: --gpus 1,2,4");
  if (!varies) return;
  sweep.scaling = asked.value_or(Scaling::strong);
  std::map<std::string, std::size_t> series;
  std::int64_t fewest = kLargestNumber;
  for (SweepRow& row : sweep.rows) {
    row.series = series.try_emplace(key_of(row), series.size()).first->second;
    fewest = std::min(fewest, gpus_of(row));
  }
  if (*sweep.scaling == Scaling::strong) return;
  for (SweepRow& row : sweep.rows) grow_batch(row, fewest);
}

void compare_with_fewest_gpus(Sweep& sweep) {
  if (!sweep.scaling) return;
  std::map<std::size_t, std::size_t> fewest;  // series -> row
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    if (!sweep.rows[r].result) continue;
    const auto [known, added] = fewest.try_emplace(sweep.rows[r].series, r);
    if (gpus_of(sweep.rows[r]) < gpus_of(sweep.rows[known->second])) known->second = r;
  }
  for (SweepRow& row : sweep.rows) {
    if (!row.result) continue;
    const std::size_t base_row = fewest.at(row.series);
    const SweepResult &base = *sweep.rows[base_row].result, &own = *row.result;
    const double more = static_cast<double>(gpus_of(row)) / static_cast<double>(gpus_of(sweep.rows[base_row]));
    const double speedup = *sweep.scaling == Scaling::strong ? base.step_time_ms / own.step_time_ms
                                                             : own.throughput_samples_per_s / base.throughput_samples_per_s;
    row.scaling = {base_row, speedup, speedup / more};
  }
}

std::string to_string(Scaling scaling) { return scaling == Scaling::strong ? "strong" : "weak"; }

}  // namespace pdl
