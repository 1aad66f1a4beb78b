#include "runtime/model/autocast.hpp"

#include <ATen/autocast_mode.h>

namespace pdl {

c10::ScalarType half_type(Dtype dtype) {
  return dtype == Dtype::amp_fp16 ? at::kHalf : at::kBFloat16;
}

c10::ScalarType number_type(Dtype dtype, std::int64_t number_bytes) {
  return number_bytes == kBytesPerNumber ? at::kFloat : half_type(dtype);
}

// The order of calls is that of torch/amp/autocast_mode.py (PyTorch 2.11), __enter__ and __exit__.

Autocast::Autocast(Dtype dtype, c10::DeviceType device) : active_(is_amp(dtype)), device_(device) {
  if (!active_) return;
  enabled_ = at::autocast::is_autocast_enabled(device_);
  cache_ = at::autocast::is_autocast_cache_enabled();
  dtype_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, half_type(dtype));
  at::autocast::increment_nesting();
  at::autocast::set_autocast_cache_enabled(true);
}

Autocast::~Autocast() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_);
  at::autocast::set_autocast_dtype(device_, dtype_);
  at::autocast::set_autocast_cache_enabled(cache_);
}

Dtype Autocast::current(c10::DeviceType device) {
  if (!at::autocast::is_autocast_enabled(device)) return Dtype::fp32;
  return at::autocast::get_autocast_dtype(device) == at::kHalf ? Dtype::amp_fp16 : Dtype::amp_bf16;
}

}  // namespace pdl
