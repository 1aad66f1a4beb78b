// The data types that a model is trained in, and what they mean for a number's size.
//
//   is_amp(Dtype::amp_bf16)            true: autocast; parameters, gradients and optimizer state stay fp32
//   find_dtype("amp-bf16")             Dtype::amp_bf16; no value for a word that is none
//
// Units: bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace pdl {

/// tf32: fp32 in memory, products of tensor cores with ten bits of mantissa. amp_*: torch.autocast. Their order is that
/// of their words: measurements in files are sorted by it.
enum class Dtype : std::uint8_t { amp_bf16, amp_fp16, fp32, tf32 };
/// As they are listed for people.
inline constexpr std::array kAllDtypes = {Dtype::fp32, Dtype::tf32, Dtype::amp_fp16, Dtype::amp_bf16};

/// Of parameters, gradients and optimizer state: fp32 in every data type.
inline constexpr std::int64_t kBytesPerNumber = 4;

/// Mixed precision by autocast: amp-fp16, amp-bf16.
inline bool is_amp(Dtype dtype) {
  return dtype == Dtype::amp_fp16 || dtype == Dtype::amp_bf16;
}

/// "fp32", "tf32", "amp-fp16", "amp-bf16"
std::string to_string(Dtype dtype);

/// The data type of that word.
inline std::optional<Dtype> find_dtype(const std::string& word) {
  const auto* found =
      std::find_if(kAllDtypes.begin(), kAllDtypes.end(), [&](Dtype dtype) { return to_string(dtype) == word; });
  return found == kAllDtypes.end() ? std::nullopt : std::optional(*found);
}

}  // namespace pdl
