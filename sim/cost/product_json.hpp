// The model of products in a profile's file: its key "products".
//
//   "products": {"library": "cuBLAS 13.1.0", "asked_by": "stream capture", "card": "NVIDIA H200",
//     "multiprocessors": 132, "memory_bytes_per_ns": 3900,
//     "kernels": [{"name": "sm80_xmma_gemm_...", "tile": [128, 128], "resident": 2, "splits_depth": true, "probes": 62,
//                  "parameters": [4.2, 0.2, 0.3, 81.7, 82.6, 52.3, 35.0, 3.7], "grids": [[1, 1, 0]]}, ...],
//     "clocks": [{"dtype": "tf32", "flops": [1e9, ...], "log_factor": [0.03, ...]}, ...],
//     "splits": [[17, 1], ...],                      a kernel and its splits, by which choices name them
//     "choices": [{"implementation": "autograd", "operation": "forward", "dtype": "fp32", "rows": [8, ...],
//                  "shapes": [[512, 512, "AAA*BAAB"], ...]}, ...]}
//
// Choices of a shape: a text (sim/cost/choice_text.hpp). Parameters: microseconds (sim/cost/product_model.hpp). Kernels
// that differ in their grids alone are one entry, and count as so many.
#pragma once

#include <nlohmann/json.hpp>

#include "sim/cost/product_model.hpp"

namespace pdl {

class JsonPlace;

/// "implementation", "operation" and "dtype" of an object. read throws InputError for a word that is none.
void write_product_kind(const ProductKind& kind, nlohmann::ordered_json& object);
ProductKind read_product_kind(const JsonPlace& object);

nlohmann::ordered_json to_json(const ProductModel& model);

/// Throws InputError with the place in the file: unknown or missing keys, choices of kernels that there are not.
ProductModel product_model_from_json(const JsonPlace& place);

}  // namespace pdl
