#include "sim/memory/allocated_tensors.hpp"

namespace pdl {

std::int64_t allocated_bytes(std::int64_t bytes) {
  constexpr std::int64_t kMiB = 1024 * 1024;
  if (bytes == 0) return 0;
  const std::int64_t rounded = (bytes + 511) / 512 * 512;
  if (rounded < 10 * kMiB) return rounded;
  const std::int64_t block = (rounded + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
  return block - rounded > kMiB ? rounded : block;
}

std::int64_t tensor_bytes(std::int64_t numbers) {
  return allocated_bytes(numbers * kBytesPerNumber);
}

std::int64_t tensor_bytes(const std::vector<TensorSize>& tensors) {
  std::int64_t bytes = 0;
  for (const TensorSize& tensor : tensors) bytes += allocated_bytes(tensor.bytes());
  return bytes;
}

const Layer& layer_of(const Plan& plan, std::int64_t index) {
  return plan.spec.model.layers[static_cast<std::size_t>(index)];
}

std::int64_t parameter_bytes(const Plan& plan, const Stage& stage, std::int64_t copies) {
  std::int64_t bytes = 0;
  for (std::int32_t l = stage.first_layer; l < stage.first_layer + stage.layer_count; ++l) {
    for (const ParameterTensor& tensor : parameter_tensors(layer_of(plan, l)))
      bytes += copies * tensor_bytes(tensor.numbers());
  }
  return bytes;
}

std::int64_t optimizer_bytes(const Plan& plan, const Stage& stage) {
  if (plan.spec.optimizer == Optimizer::sgd) return 0;
  const bool fused = plan.parallel.program == Program::pipeline || plan.spec.optimizer == Optimizer::adamw_fused;
  const std::int64_t counted =
      fused ? parameter_tensor_count(plan.spec.model, stage.first_layer, stage.layer_count) : 0;
  return parameter_bytes(plan, stage, 2) + counted * tensor_bytes(1);
}

bool takes_roots(Optimizer optimizer) {
  return optimizer == Optimizer::adam || optimizer == Optimizer::adamw;
}

std::int64_t data_bytes(const Plan& plan, std::size_t stage) {
  const bool on_first_gpu = plan.parallel.program == Program::data_parallel;
  if (on_first_gpu && stage > 0) return 0;
  const std::int64_t rows =
      on_first_gpu ? plan.spec.batch : plan.replica_rows[static_cast<std::size_t>(plan.stages[stage].replica)];
  std::int64_t bytes = 0;
  const std::int64_t number_bytes = activation_number_bytes(plan.spec.model, plan.spec.dtype).front();
  if (is_first_stage(plan.stages, stage))
    bytes += allocated_bytes(rows * input_numbers(plan.spec.model) * number_bytes);
  if (is_last_stage(plan.stages, stage)) bytes += allocated_bytes(rows * target_bytes(plan.spec.model));
  return bytes;
}

}  // namespace pdl
