#include "sim/io/large_array.hpp"

#include <cstdint>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace pdl {

void advise_large_pages([[maybe_unused]] void* begin, [[maybe_unused]] std::size_t bytes) {
#ifdef __linux__
  constexpr std::uintptr_t kLargePage = 2 << 20;
  const auto at = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (at + kLargePage - 1) / kLargePage * kLargePage,
                       last = (at + bytes) / kLargePage * kLargePage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

}  // namespace pdl
