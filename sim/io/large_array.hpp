// Arrays of millions of elements: in large pages where the system has them, which saves it most of the work of handing
// out memory (4 million tasks: 80,000 pages of 4 KiB, or 160 of 2 MiB).
//
//   std::vector<Task> tasks;
//   reserve_large(tasks, 4'000'000);
//
// What an array holds, and how, is the same with and without.
#pragma once

#include <cstddef>
#include <vector>

namespace pdl {

/// Asks for large pages for what lies wholly inside; nothing happens where there are none.
void advise_large_pages(void* begin, std::size_t bytes);

template <typename T>
void reserve_large(std::vector<T>& array, std::size_t count) {
  array.reserve(count);
  advise_large_pages(array.data(), array.capacity() * sizeof(T));
}

}  // namespace pdl
