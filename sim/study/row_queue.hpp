// Rows of a sweep that are still to be predicted, handed out to threads and ranks as these ask for more.
//
//   RowQueue queue({0, 1, 2, 4});
//   queue.take(3)     // 0, 1, 2
//   queue.take(3)     // 4
//   queue.take(3)     // none: there are no more
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace pdl {

class RowQueue {
 public:
  explicit RowQueue(std::vector<std::size_t> rows) : rows_(std::move(rows)) {}

  /// At most so many; none if there are no more, or if it was stopped.
  std::vector<std::size_t> take(std::size_t most) {
    const std::lock_guard lock(mutex_);
    const auto begin = rows_.begin() + static_cast<std::ptrdiff_t>(taken_);
    const std::size_t count = std::min(most, rows_.size() - taken_);
    taken_ += count;
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }

  std::size_t left() {
    const std::lock_guard lock(mutex_);
    return rows_.size() - taken_;
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    taken_ = rows_.size();
  }

 private:
  std::mutex mutex_;
  std::vector<std::size_t> rows_;
  std::size_t taken_ = 0;
};

}  // namespace pdl
