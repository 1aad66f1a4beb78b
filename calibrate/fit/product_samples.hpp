// Measured matrix products, as the probe writes them: which kernels the library has for a lattice of sizes, and how
// long products of some sizes took.
//
//   "products": {"library": "cuBLAS 13.1.0.3", "asked_by": "stream capture",
//     "kernels": [{"name": "sm80_xmma_gemm_..._tilesize128x128x8_...", "splits": 1, "cluster": [1, 1], "resident": 2,
//                  "blocks": 264, "adds_parts": false}, ...],
//     "answers": [{"implementation": "autograd", "operation": "forward", "dtype": "fp32", "ways": 1, "rows": [8, ...],
//                  "shapes": [{"in": 512, "out": 512, "kernels": "AAAAABAAB"}, ...]}, ...],
//     "timings": [{"implementation": "autograd", "operation": "forward", "dtype": "fp32",
//                  "sizes": [[1100, 3584, 3584, 17, 504, 699.1, 698.8], ...]}, ...]}
//                  rows, in, out, kernel, blocks, times
//
// The kernels of a shape are a text (sim/cost/choice_text.hpp); "---": no answer. A product of a pipeline in fp32 has
// several ways to be run (runtime/model/matrix_products.hpp): for each row as many kernels as there are `ways`. A
// timing is of one of them. Units: microseconds.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/product_model.hpp"

namespace pdl {

class JsonPlace;

/// What a capture says of a product's kernels: of the one that multiplies, and what follows it.
struct SeenKernel {
  std::string name;
  std::int64_t splits = 1;                    // blocks in the third direction of the grid
  std::int64_t cluster_x = 1, cluster_y = 1;  // blocks placed together, in the directions of the grid
  std::int64_t resident = 1;                  // blocks a multiprocessor holds at once
  std::int64_t blocks = 0;  // the most of a launch that were seen; of kernels whose blocks work through all
  bool adds_parts = false;  // another kernel adds what the splits give
  auto operator<=>(const SeenKernel&) const = default;
};

/// The library's answers for products of one kind.
struct ProductAnswers {
  ProductKind kind;
  std::int64_t ways = 1;
  std::vector<std::int64_t> rows;
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes;     // (in, out)
  std::vector<std::vector<std::optional<std::size_t>>> kernels;  // by shape: rows x ways, index into `kernels`
};

struct ProductTiming {
  ProductKind kind;
  ProductSize size;
  std::size_t kernel = 0;
  std::int64_t blocks = 0;  // of this launch
  std::vector<double> values_us;
};

struct ProductSamples {
  std::string library;
  std::string asked_by;
  std::vector<SeenKernel> kernels;
  std::vector<ProductAnswers> answers;
  std::vector<ProductTiming> timings;
  bool empty() const { return timings.empty(); }
};

/// Adds those of another part, of the same library, to `all`.
void append(ProductSamples& all, const ProductSamples& more);

nlohmann::ordered_json to_json(const ProductSamples& products);

/// Throws InputError with the place: unknown or missing keys, kernels that are not in the list, times that are not
/// positive.
ProductSamples product_samples_from_json(const JsonPlace& place);

}  // namespace pdl
