#include "calibrate/probe/rows_in_steps.hpp"

#include <algorithm>

namespace pdl {
namespace {

class Steps {
 public:
  Steps(std::size_t count, const std::function<bool(std::size_t, std::size_t)>& same) : same_(same) {
    for (std::size_t row = 0; row < count; ++row) answer_of_.push_back(row);
  }

  /// Between two rows.
  void fill(std::size_t below, std::size_t above) {
    if (above - below <= 1) return;
    if (same_(below, above)) {
      for (std::size_t row = below + 1; row < above; ++row) answer_of_[row] = below;
      return;
    }
    const std::size_t middle = (below + above) / 2;
    fill(below, middle);
    fill(middle, above);
  }

  const std::vector<std::size_t>& answer_of() const { return answer_of_; }

 private:
  const std::function<bool(std::size_t, std::size_t)>& same_;
  std::vector<std::size_t> answer_of_;
};

}  // namespace

std::vector<std::size_t> rows_in_steps(std::size_t count, const std::function<bool(std::size_t, std::size_t)>& same) {
  constexpr std::size_t kFurthest = 8;
  constexpr std::size_t kPart = 16;
  Steps steps(count, same);
  for (std::size_t row = 0; row + 1 < count;) {
    const std::size_t next = std::min(count - 1, row + std::clamp<std::size_t>(row / kPart, 1, kFurthest));
    steps.fill(row, next);
    row = next;
  }
  return steps.answer_of();
}

}  // namespace pdl
