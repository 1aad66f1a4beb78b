// Mixed precision as torch.autocast does it: inside the scope of an Autocast, matrix products run in half precision and
// losses in fp32; every parameter is cast once and the cast is kept until the end of the scope.
//
//   {
//     const Autocast autocast(spec.dtype, device.type());    // nothing unless the dtype is amp-fp16 or amp-bf16
//     loss = microbatch_loss(stage.forward(x), target, batch);
//   }
//   loss.backward();                                          // outside, as PyTorch says
//
// Of this thread alone: a thread that takes over a part of the forward opens its own (autograd's threads need none).
// Not here: the scaling of losses (runtime/model/grad_scaler.hpp); stages of pipelines, which do the same by hand
// (runtime/model/pipeline_stage.hpp).
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

#include "sim/spec/run_spec.hpp"

namespace pdl {

/// Of an AMP dtype: what its products are in.
c10::ScalarType half_type(Dtype dtype);

/// Of numbers of so many bytes, as sim/model has them: fp32, or half_type(dtype).
c10::ScalarType number_type(Dtype dtype, std::int64_t number_bytes);

class Autocast {
 public:
  Autocast(Dtype dtype, c10::DeviceType device);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  /// That of the scope that this thread is in; fp32 outside of all.
  static Dtype current(c10::DeviceType device);

 private:
  bool active_;
  c10::DeviceType device_;
  // What was set before.
  bool enabled_ = false;
  bool cache_ = false;
  c10::ScalarType dtype_ = c10::ScalarType::Float;
};

}  // namespace pdl
