// Textbook costs: sim/cost/price.hpp, price_synthetic.
#include <cmath>

#include "sim/cost/kernel_list.hpp"
#include "sim/cost/price.hpp"
#include "sim/spec/error.hpp"
#include "sim/spec/words.hpp"

namespace pdl {
namespace {

std::int64_t synthetic_ns(double ms, double share) {
  const double ns = ms * 1e6 / share;
  if (!(ns >= 0) || ns > kLongestStep_ns) {
    throw InputError("synthetic costs", to_text(ms) + " ms", "a time from 0 to 4e12 ms");
  }
  return std::llround(ns);
}

std::int64_t part_of(std::int64_t ns, double share) { return std::llround(static_cast<double>(ns) * share); }

}  // namespace

std::vector<TaskCost> price_synthetic(const Plan& plan, const SyntheticCosts& costs) {
  const double stages = static_cast<double>(plan.stages.size());
  const auto layers = static_cast<double>(plan.spec.model.layers.size());
  // The parts of a backward add up to it, to the nanosecond.
  const auto of_layers = [&](const Work& work, std::int64_t ns) {
    return part_of(ns, (work.first_layer + work.layer_count) / layers) - part_of(ns, work.first_layer / layers);
  };
  const double all_bytes = static_cast<double>(parameters(plan.spec.model) * kBytesPerNumber);
  const bool data_parallel = is_data_parallel(plan.spec);
  const double workers = static_cast<double>(plan.graph.workers);
  const double share = workers > 0 && stages > workers ? stages / workers : 1;
  const std::int64_t forward_ns = synthetic_ns(costs.tf_ms, share);
  const std::int64_t backward_ns = synthetic_ns(costs.tb_ms, share);
  const std::int64_t weight_ns = costs.tw_ms ? synthetic_ns(*costs.tw_ms, share) : backward_ns / 2;
  const std::int64_t input_ns = costs.tw_ms ? backward_ns : backward_ns - weight_ns;
  const std::int64_t transfer_ns = synthetic_ns(costs.tcomm_ms, 1);
  std::vector<TaskCost> priced;
  for (const Work& work : plan.graph.works) {
    switch (work.kind) {
      case TaskKind::forward:
      case TaskKind::recompute:
        priced.push_back(device_only(forward_ns));
        break;
      case TaskKind::backward:
        priced.push_back(device_only(data_parallel ? of_layers(work, input_ns + weight_ns) : input_ns + weight_ns));
        break;
      case TaskKind::backward_input:
        priced.push_back(device_only(input_ns));
        break;
      case TaskKind::backward_weight:
        priced.push_back(device_only(weight_ns));
        break;
      case TaskKind::optimizer:
      case TaskKind::loss:
      case TaskKind::scatter:
      case TaskKind::gather:
      case TaskKind::bucket_copy_in:
      case TaskKind::bucket_copy_out:
        priced.push_back(device_only(0));
        break;
      case TaskKind::sleep:
        priced.push_back({0, work.sleep_ns, 0, work.sleep_ns});
        break;
      case TaskKind::all_reduce:
      case TaskKind::broadcast:
      case TaskKind::reduce:
        priced.push_back(device_only(part_of(transfer_ns, static_cast<double>(work.bytes) / all_bytes)));
        break;
      case TaskKind::send_forward:
      case TaskKind::send_backward:
      case TaskKind::receive_forward:
      case TaskKind::receive_backward:
        priced.push_back(device_only(transfer_ns));
        break;
    }
  }
  return priced;
}

}  // namespace pdl
