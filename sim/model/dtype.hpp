// The data types that a model is trained in, and what they mean for a number's size.
//
//   is_amp(Dtype::amp_bf16)            true: autocast; parameters, gradients and optimizer state stay fp32
//
// Units: bytes.
#pragma once

#include <cstdint>
#include <string>

namespace pdl {

/// tf32: fp32 in memory, products of tensor cores with ten bits of mantissa. amp_*: torch.autocast.
enum class Dtype : std::uint8_t { fp32, tf32, amp_fp16, amp_bf16 };

/// Of parameters, gradients and optimizer state: fp32 in every data type.
inline constexpr std::int64_t kBytesPerNumber = 4;

/// Mixed precision by autocast: amp-fp16, amp-bf16.
inline bool is_amp(Dtype dtype) {
  return dtype == Dtype::amp_fp16 || dtype == Dtype::amp_bf16;
}

/// "fp32", "tf32", "amp-fp16", "amp-bf16"
std::string to_string(Dtype dtype);

}  // namespace pdl
