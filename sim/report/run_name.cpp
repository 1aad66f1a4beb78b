#include "sim/report/run_name.hpp"

#include <algorithm>
#include <filesystem>

namespace pdl {
namespace {

/// "mlp16x4096", or the stem of the model file with its number of layers: "bert-small_12layers".
std::string model_of_name(const RunSpec& spec) {
  if (spec.model_name == "mlp") return "mlp" + std::to_string(spec.depth) + "x" + std::to_string(spec.dim);
  std::string stem = std::filesystem::path(spec.model_name).stem().string();
  for (char& c : stem) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!plain) c = '-';
  }
  return stem + "_" + std::to_string(spec.depth) + "layers";
}

}  // namespace

std::string run_name(const RunSpec& spec) {
  std::string name = to_string(spec.strategy);
  if (spec.strategy == Strategy::pp) name += "-" + std::filesystem::path(spec.schedule).stem().string();
  name += "_gpus" + std::to_string(spec.gpus) + "_" + model_of_name(spec) + "_batch" + std::to_string(spec.batch) + "_mb" +
          std::to_string(spec.microbatches) + "_" + to_string(spec.dtype) + "_" + to_string(spec.optimizer) + "_" +
          to_string(spec.transport) + "_" + to_string(spec.workers);
  const auto usual = spec.transport == Transport::copy ? PointToPoint::eager : PointToPoint::rendezvous;
  if (spec.p2p != usual) name += "_" + to_string(spec.p2p);
  return name;
}

bool same_run(const RunSpec& a, const RunSpec& b) {
  const auto left = to_settings(a), right = to_settings(b);
  return std::equal(
      left.begin(), left.end(), right.begin(), right.end(),
      [](const SettingValue& x, const SettingValue& y) { return x.name == y.name && x.value == y.value; });
}

}  // namespace pdl
