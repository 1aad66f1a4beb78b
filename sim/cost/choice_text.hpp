// The kernels of a shape by rows, as a short text of profiles and samples: most are those of the shape before it, or of
// the rows before.
//
//   choice_text({17, 17, 17, 4}, {})               // "AAR*BAAE"     17, and 2 more times; 4
//   choice_text({17, 17, 9, 4}, {17, 17, 17, 4})   // "=*AAJ="       as before, once more; 9; as before
//
// Three letters an index (sim/io/letters.hpp), "=" for that of the shape before; "*" and a letter: again, 1 (A) to 64
// more times.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pdl {

/// Nothing: the library has no kernel, or does not say which.
using KernelIndices = std::vector<std::optional<std::size_t>>;

/// `before`: of the shape before it; if it has not as many rows, there is none.
std::string choice_text(const KernelIndices& indices, const KernelIndices& before);

/// Nothing if it is no such text of `count` indices below `limit`.
std::optional<KernelIndices> read_choice_text(std::string_view text, std::size_t count, std::size_t limit,
                                              const KernelIndices& before);

}  // namespace pdl
