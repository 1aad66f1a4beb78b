#include "sim/run/run_name.hpp"

#include <algorithm>
#include <filesystem>

#include "sim/io/words.hpp"
#include "sim/spec/schedule.hpp"

namespace pdl {
namespace {

/// Only letters, digits, '-' and '_'.
std::string plain_stem(const std::string& path) {
  std::string stem = std::filesystem::path(path).stem().string();
  for (char& c : stem) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!plain) c = '-';
  }
  return stem;
}

/// "mlp16x4096", or the stem of the model file with its number of layers: "bert-small_12layers".
std::string model_of_name(const RunSpec& spec) {
  if (spec.model_name == "mlp") return "mlp" + std::to_string(spec.depth) + "x" + std::to_string(spec.dim);
  return plain_stem(spec.model_name) + "_" + std::to_string(spec.depth) + "layers";
}

/// "pp-1f1b", "pp-interleaved_c4", "pp-mine" for mine.csv, "pp-gpipe-file" for gpipe.csv.
std::string strategy_of_name(const RunSpec& spec) {
  if (spec.strategy != Strategy::pp) return to_string(spec.strategy);
  if (const Schedule* schedule = named_schedule(spec)) {
    const bool usual = spec.chunks == schedule->default_chunks;
    return "pp-" + std::string(schedule->name) + (usual ? "" : "_c" + std::to_string(spec.chunks));
  }
  if (spec.schedule == kAutoSchedule) return "pp-auto" + (spec.chunks > 1 ? "_c" + std::to_string(spec.chunks) : "");
  const std::string stem = plain_stem(spec.schedule);
  return "pp-" + stem + (find_schedule(stem) || stem == kAutoSchedule ? "-file" : "");
}

std::string in_name(double number) {
  std::string text = to_text(number);
  std::replace(text.begin(), text.end(), '.', 'p');
  std::erase(text, '+');
  return text;
}

}  // namespace

std::string run_name(const RunSpec& spec) {
  std::string name = strategy_of_name(spec) + "_gpus" + std::to_string(spec.gpus) + "_" + model_of_name(spec) +
                     "_batch" + std::to_string(spec.batch) + "_mb" + std::to_string(spec.microbatches) + "_" +
                     to_string(spec.dtype) + "_" + to_string(spec.optimizer) + "_" + to_string(spec.transport) + "_" +
                     to_string(spec.workers);
  if (spec.recompute) name += "_recompute";
  if (spec.dp > 1) name += "_dp" + std::to_string(spec.dp);
  if (spec.accum > 1) name += "_accum" + std::to_string(spec.accum);
  if (spec.no_sync) name += "_nosync";
  const RunSpec usual_spec;
  if (spec.bucket_bytes != usual_spec.bucket_bytes) name += "_bucket" + std::to_string(spec.bucket_bytes);
  if (spec.first_bucket_bytes != usual_spec.first_bucket_bytes)
    name += "_first" + std::to_string(spec.first_bucket_bytes);
  if (spec.bucket_views) name += "_views";
  if (spec.delay_ms > 0) name += "_delay" + in_name(spec.delay_ms);
  if (spec.straggler) name += "_straggler" + std::to_string(spec.straggler->rank) + "-" + in_name(spec.straggler->ms);
  if (spec.loss_scale != usual_spec.loss_scale) name += "_scale" + in_name(spec.loss_scale);
  if (spec.seed != usual_spec.seed) name += "_seed" + std::to_string(spec.seed);
  if (spec.repeat != usual_spec.repeat) name += "_repeat" + std::to_string(spec.repeat);
  if (spec.hosts > 1) name += "_hosts" + std::to_string(spec.hosts);
  const Schedule* schedule = named_schedule(spec);
  const bool usually_overlap = schedule && schedule->steps_overlap;
  if (steps_overlap(spec) != usually_overlap) name += usually_overlap ? "_barrier" : "_overlap";
  const auto usual = spec.transport == Transport::copy ? PointToPoint::eager : PointToPoint::rendezvous;
  if (spec.p2p != usual) name += "_" + to_string(spec.p2p);
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
