#include "sim/cost/card_limits.hpp"

#include <vector>

namespace pdl {
namespace {

struct CardRow {
  const char* name;  // part of the name that the driver reports
  double fp32, tf32, fp16, bf16;
  double memory_bytes_per_s;
  double link_bytes_per_s;
  bool alike_on_pcie = false;  // PCIe cards of the name reach as many FLOP/s
};

// Longer names first: "GH200" contains "H200".
const std::vector<CardRow>& card_rows() {
  static const std::vector<CardRow> all = {
      {"GH200", 66.9e12, 494.7e12, 989.4e12, 989.4e12, 4.9e12, 450e9},
      {"H200", 66.9e12, 494.7e12, 989.4e12, 989.4e12, 4.8e12, 450e9},
      {"H100", 66.9e12, 494.7e12, 989.4e12, 989.4e12, 3.35e12, 450e9},
      {"A100", 19.5e12, 156e12, 312e12, 312e12, 2.039e12, 300e9, true},
      {"V100", 15.7e12, 0, 125e12, 0, 0.9e12, 150e9},
      {"T4", 8.1e12, 0, 65e12, 0, 0.32e12, 16e9, true},
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

const CardRow* row_of_card(const std::string& card) {
  for (const CardRow& row : card_rows()) {
    if (contains_word(card, row.name)) return &row;
  }
  return nullptr;
}

double flops_per_s(const CardRow& row, Dtype dtype) {
  switch (dtype) {
    case Dtype::fp32: return row.fp32;
    case Dtype::tf32: return row.tf32;
    case Dtype::amp_fp16: return row.fp16;
    case Dtype::amp_bf16: return row.bf16;
  }
  return 0;
}

}  // namespace

std::optional<double> dense_peak(const std::string& card, Dtype dtype) {
  const CardRow* row = row_of_card(card);
  if (!row || contains_word(card, "MIG")) return std::nullopt;
  const bool slower = contains_word(card, "PCIe") || contains_word(card, "PCIE") || contains_word(card, "NVL");
  if (slower && !row->alike_on_pcie) return std::nullopt;
  const double peak = flops_per_s(*row, dtype);
  return peak > 0 ? std::optional(peak) : std::nullopt;
}

std::optional<CardLimits> limits_of(const Environment& environment) {
  if (const CardRow* row = row_of_card(environment.card)) {
    CardLimits limits{row->name, {}, row->memory_bytes_per_s, row->link_bytes_per_s};
    for (const Dtype dtype : kAllDtypes) {
      if (const double peak = flops_per_s(*row, dtype); peak > 0) limits.flops_per_s[dtype] = peak;
    }
    return limits;
  }
  CardLimits limits{environment.card.empty() ? "this GPU" : environment.card, environment.peak_flops_per_s, 0, 0};
  if (limits.flops_per_s.empty() && environment.device == "cuda") return beyond_any_card();
  return limits.flops_per_s.empty() ? std::nullopt : std::optional(limits);
}

}  // namespace pdl
