// Many pieces of work by some threads, each piece by whichever thread is free.
//
//   std::vector<double> squares(1000);
//   by_threads(squares.size(), 4, [&](std::size_t i) { squares[i] = i * i; });
//
// The caller is one of the threads. All pieces are done, also where some throw: then the first of them in their order
// throws its error here, so that the result is the same for any number of threads. Not here: pieces that wait for each
// other, results in order while the work goes on (sim/study/row_queue.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace pdl {

/// `work` of 0, 1, ... count - 1. `after_own` (may be empty): called by the caller's thread after each of its pieces.
void by_threads(std::size_t count, std::int64_t threads, const std::function<void(std::size_t)>& work,
                const std::function<void()>& after_own = {});

}  // namespace pdl
