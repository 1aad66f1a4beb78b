#include "sim/study/sweep_scaling.hpp"

#include <algorithm>
#include <map>

#include "sim/io/error.hpp"
#include "sim/io/words.hpp"
#include "sim/run/speedup.hpp"
#include "sim/spec/settings.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kLargestNumber = 1'000'000'000;
constexpr const char* kCostsHaveNoRows =
    "synthetic costs are those of a stage and micro-batch, however many samples and layers it has: more GPUs do not "
    "make them shorter, so that this speed-up says nothing of sharing the held batch (--scaling weak: the batch grows "
    "with the GPUs, which is what such costs mean)";

std::int64_t whole_of(const SweepRow& row, const std::string& name) {
  const SettingValue* value = find_setting(row.given, name);
  return value ? parse_whole(value->place, value->value, 1, kLargestNumber) : 1;
}

/// As fill_in_gpus (sim/spec/defaults.hpp) has it.
std::int64_t gpus_of(const SweepRow& row) {
  if (find_setting(row.given, "gpus")) return whole_of(row, "gpus");
  return std::min(kLargestNumber, whole_of(row, "pp") * whole_of(row, "dp"));
}

bool varies(const Sweep& sweep, const std::string& name) {
  return std::find(sweep.varying.begin(), sweep.varying.end(), name) != sweep.varying.end();
}

/// gpus = pp x dp: two words are free and the third follows. Rows that scale differ in the GPUs and in the one that
/// follows: in the replicas if both vary, else in the one that does.
std::string word_that_follows(const Sweep& sweep) {
  const auto given = [&](const char* name) {
    return std::any_of(sweep.rows.begin(), sweep.rows.end(),
                       [&](const SweepRow& row) { return find_setting(row.given, name) != nullptr; });
  };
  if (given("gpus") && !(given("pp") && given("dp"))) return "";
  return varies(sweep, "dp") ? "dp" : varies(sweep, "pp") ? "pp" : "";
}

/// The words but for the GPUs and what follows from them.
std::string key_of(const SweepRow& row, const std::string& follows) {
  std::string key;
  for (const SettingValue& setting : row.given) {
    if (setting.name != "gpus" && setting.name != follows) key += setting.name + "=" + setting.value + "\n";
  }
  return key;
}

/// In the place that all_settings() has for it.
void set_batch(SweepRow& row, std::int64_t batch) {
  const SettingValue value{"batch", std::to_string(batch),
                           find_setting(row.given, "batch") ? find_setting(row.given, "batch")->place : "--batch"};
  const auto place_of = [](const std::string& name) { return find_row(name) - all_settings().data(); };
  std::vector<SettingValue> given = row.given.list();
  std::erase_if(given, [](const SettingValue& setting) { return setting.name == "batch"; });
  const auto after = std::find_if(given.begin(), given.end(),
                                  [&](const SettingValue& s) { return place_of(s.name) > place_of("batch"); });
  given.insert(after, value);
  row.given = RowSettings(given);
}

/// Rows with the same text do the same work: settings that were given, samples of a step (of weak scaling: they grow
/// with the GPUs), and, of synthetic costs, micro-batches: there a micro-batch is the unit of work, however many
/// samples it has.
std::string work_of(const Sweep& sweep, const SweepRow& row) {
  std::string work = std::to_string(row.series);
  const auto add = [&](const char* name) {
    const SettingValue* setting = find_setting(row.settings, name);
    work += std::string(" ") + name + " " + (setting ? setting->value : "");
  };
  if (*sweep.scaling == Scaling::strong) add("batch");
  if (find_setting(row.settings, "tf")) add("microbatches");
  return work;
}

void grow_batch(SweepRow& row, std::int64_t fewest) {
  const SettingValue* given = find_setting(row.given, "batch");
  const std::int64_t batch = given ? parse_whole(given->place, given->value, 1, kLargestNumber) : RunSpec().batch;
  const std::int64_t gpus = gpus_of(row);
  if (batch * gpus % fewest != 0) {
    throw InputError("--scaling",
                     "weak with batch " + std::to_string(batch) + " on " + std::to_string(fewest) + " GPUs, the fewest",
                     "a batch that they divide");
  }
  if (batch * gpus / fewest > kLargestNumber) {
    throw InputError(
        "--scaling",
        "weak with batch " + std::to_string(batch * gpus / fewest) + " on " + std::to_string(gpus) + " GPUs",
        "at most " + std::to_string(kLargestNumber));
  }
  set_batch(row, batch * gpus / fewest);
}

}  // namespace

void begin_scaling(const std::optional<Scaling>& asked, Sweep& sweep) {
  const bool several = std::any_of(sweep.rows.begin(), sweep.rows.end(),
                                   [&](const SweepRow& row) { return gpus_of(row) != gpus_of(sweep.rows.front()); });
  if (asked && !several)
    throw InputError("--scaling", to_string(*asked) + " with one number of GPUs", "a list of them: --gpus 1,2,4");
  if (!several) return;
  sweep.scaling = asked.value_or(Scaling::strong);
  const std::string follows = word_that_follows(sweep);
  std::map<std::string, std::size_t> series;
  std::int64_t fewest = kLargestNumber;
  for (SweepRow& row : sweep.rows) {
    row.series = series.try_emplace(key_of(row, follows), series.size()).first->second;
    fewest = std::min(fewest, gpus_of(row));
  }
  if (*sweep.scaling == Scaling::strong) return;
  for (SweepRow& row : sweep.rows) grow_batch(row, fewest);
}

void compare_with_fewest_gpus(Sweep& sweep) {
  if (!sweep.scaling) return;
  std::map<std::string, std::size_t> fewest, members;  // work -> row, number of rows
  for (std::size_t r = 0; r < sweep.rows.size(); ++r) {
    if (!sweep.rows[r].result) continue;
    const std::string work = work_of(sweep, sweep.rows[r]);
    ++members[work];
    const auto [known, added] = fewest.try_emplace(work, r);
    if (gpus_of(sweep.rows[r]) < gpus_of(sweep.rows[known->second])) known->second = r;
  }
  for (SweepRow& row : sweep.rows) {
    if (!row.result) continue;
    const std::string work = work_of(sweep, row);
    if (members.at(work) == 1 && gpus_of(row) > 1) continue;
    const std::size_t base_row = fewest.at(work);
    const auto time_of = [&](const SweepRow& of) {
      return TimeOnGpus{
          *sweep.scaling == Scaling::strong ? of.result->step_time_ms : 1 / of.result->throughput_samples_per_s,
          gpus_of(of)};
    };
    const Speedup gain = speedup_against(time_of(sweep.rows[base_row]), time_of(row));
    row.scaling = {base_row, gain.speedup, gain.efficiency};
    if (*sweep.scaling == Scaling::strong && find_setting(row.given, "tf"))
      row.result->warnings.push_back(kCostsHaveNoRows);
  }
}

std::string to_string(Scaling scaling) {
  return scaling == Scaling::strong ? "strong" : "weak";
}

Scaling parse_scaling(const std::string& place, const std::string& word) {
  if (word != "strong" && word != "weak") throw InputError(place, word, "strong or weak");
  return word == "strong" ? Scaling::strong : Scaling::weak;
}

}  // namespace pdl
