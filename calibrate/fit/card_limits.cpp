#include "calibrate/fit/card_limits.hpp"

#include <vector>

namespace pdl {
namespace {

struct Row {
  const char* name;  // part of the name that the driver reports
  double fp32, tf32, fp16, bf16;
  double memory_bytes_per_s;
  double link_bytes_per_s;
};

// Longer names first: "GH200" contains "H200".
const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"GH200", 66.9e12, 494.7e12, 989.4e12, 989.4e12, 4.9e12, 450e9},
      {"H200", 66.9e12, 494.7e12, 989.4e12, 989.4e12, 4.8e12, 450e9},
      {"H100", 66.9e12, 494.7e12, 989.4e12, 989.4e12, 3.35e12, 450e9},
      {"A100", 19.5e12, 156e12, 312e12, 312e12, 2.039e12, 300e9},
      {"V100", 15.7e12, 0, 125e12, 0, 0.9e12, 150e9},
      {"T4", 8.1e12, 0, 65e12, 0, 0.32e12, 16e9},
  };
  return all;
}

/// For cards that nothing is known of: some times what the fastest of 2026 reach (B300: 80e12 in fp32, 2.5e15 in fp16;
/// MI355X:
/// 157e12 and 2.5e15; 8 TB/s; 900 GB/s).
CardLimits beyond_any_card() {
  return {"any GPU",
          {{Dtype::fp32, 5e14}, {Dtype::tf32, 1e16}, {Dtype::amp_fp16, 1e16}, {Dtype::amp_bf16, 1e16}},
          4e13,
          4e12,
          /*known=*/false};
}

/// The name as a word of its own: "Tesla T4" and "A100-SXM4-80GB", not "RT4000".
bool contains_word(const std::string& text, const std::string& word) {
  const auto is_letter = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_letter(text[at - 1])) && (end == text.size() || !is_letter(text[end]))) return true;
  }
  return false;
}

}  // namespace

std::optional<CardLimits> limits_of(const Environment& environment) {
  for (const Row& row : rows()) {
    if (!contains_word(environment.card, row.name)) continue;
    CardLimits limits{row.name, {{Dtype::fp32, row.fp32}}, row.memory_bytes_per_s, row.link_bytes_per_s};
    if (row.tf32 > 0) limits.flops_per_s[Dtype::tf32] = row.tf32;
    if (row.fp16 > 0) limits.flops_per_s[Dtype::amp_fp16] = row.fp16;
    if (row.bf16 > 0) limits.flops_per_s[Dtype::amp_bf16] = row.bf16;
    return limits;
  }
  CardLimits limits{environment.card.empty() ? "this GPU" : environment.card, environment.peak_flops_per_s, 0, 0};
  if (limits.flops_per_s.empty() && environment.device == "cuda") return beyond_any_card();
  return limits.flops_per_s.empty() ? std::nullopt : std::optional(limits);
}

}  // namespace pdl
