#include "sim/engine/multiprocessors.hpp"

#include <algorithm>
#include <utility>

namespace pdl {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

Multiprocessors::Grids::iterator Multiprocessors::position(std::uint32_t id) {
  return std::find_if(grids_.begin(), grids_.end(), [&](const Waiting& waiting) { return waiting.grid.id == id; });
}

void Multiprocessors::add(const Grid& grid, std::int64_t now_ns) {
  Waiting waiting{.grid = grid, .left = grid.blocks};
  if (grid.stays) waiting.left = std::min(grid.blocks, count_);
  const std::int64_t at_once = count_ * std::max<std::int64_t>(grid.blocks_per_multiprocessor, 1);
  const std::int64_t waves = std::max<std::int64_t>(divide_up(grid.blocks, at_once), 1);
  waiting.wave_ns = grid.time_ns / waves;
  waiting.rest_ns = grid.time_ns % waves;
  grids_.push_back(waiting);
  if (waiting.left == 0) {  // needs no place
    if (grid.stays) took_place_.push_back(grid.id);
    if (grid.stays) return;
    grids_.back().running = 1;
    waves_.push_back({now_ns + grid.time_ns, grid.id, 1, 0});
    ends_ns_.push_back(now_ns + grid.time_ns);
    return;
  }
  hand_out(now_ns);
}

void Multiprocessors::remove(std::uint32_t id, std::int64_t now_ns) {
  const auto found = position(id);
  free_ += found->multiprocessors;
  grids_.erase(found);
  hand_out(now_ns);
}

void Multiprocessors::advance(std::int64_t now_ns) {
  for (std::size_t w = 0; w < waves_.size();) {
    if (waves_[w].end_ns > now_ns) {
      ++w;
      continue;
    }
    const Wave wave = waves_[w];
    waves_.erase(waves_.begin() + static_cast<std::ptrdiff_t>(w));
    free_ += wave.multiprocessors;
    Waiting& grid = *position(wave.id);
    grid.running -= wave.blocks;
    if (grid.running > 0 || grid.left > 0) continue;
    ended_.push_back(wave.id);
    grids_.erase(position(wave.id));
  }
  hand_out(now_ns);
}

void Multiprocessors::hand_out(std::int64_t now_ns) {
  for (Waiting& grid : grids_) {
    if (free_ == 0) return;
    if (grid.left == 0) continue;
    const std::int64_t per_multiprocessor = std::max<std::int64_t>(grid.grid.blocks_per_multiprocessor, 1);
    place(grid, std::min(free_, divide_up(grid.left, per_multiprocessor)), now_ns);
    if (grid.left > 0) return;
  }
}

void Multiprocessors::place(Waiting& waiting, std::int64_t multiprocessors, std::int64_t now_ns) {
  const std::int64_t per_multiprocessor = std::max<std::int64_t>(waiting.grid.blocks_per_multiprocessor, 1);
  const std::int64_t blocks = std::min(waiting.left, multiprocessors * per_multiprocessor);
  free_ -= multiprocessors;
  waiting.left -= blocks;
  if (waiting.grid.stays) {
    waiting.multiprocessors += multiprocessors;
    if (waiting.left == 0) took_place_.push_back(waiting.grid.id);
    return;
  }
  waiting.running += blocks;
  const std::int64_t end_ns = now_ns + waiting.wave_ns + (waiting.left == 0 ? waiting.rest_ns : 0);
  waves_.push_back({end_ns, waiting.grid.id, blocks, multiprocessors});
  ends_ns_.push_back(end_ns);
}

std::vector<std::uint32_t> Multiprocessors::took_place() { return std::exchange(took_place_, {}); }
std::vector<std::uint32_t> Multiprocessors::ended() { return std::exchange(ended_, {}); }
std::vector<std::int64_t> Multiprocessors::ends_ns() { return std::exchange(ends_ns_, {}); }

}  // namespace pdl
