#include "sim/engine/multiprocessors.hpp"

#include <algorithm>

namespace pdl {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Of a kernel alone on so many multiprocessors, in times of a block that has one for itself. Where all blocks have
/// room: those of the fullest multiprocessor. Else full waves, then what is left, as refill() places it.
std::int64_t length_alone(std::int64_t blocks, std::int64_t at_once, std::int64_t multiprocessors) {
  const std::int64_t room = multiprocessors * at_once;
  if (blocks <= room) return std::max<std::int64_t>(divide_up(blocks, multiprocessors), 1);
  const std::int64_t full_waves = (blocks - 1) / room;
  return full_waves * at_once + std::min(blocks - full_waves * room, at_once);
}

}  // namespace

Multiprocessors::Grids::iterator Multiprocessors::position(std::uint32_t id) {
  return std::find_if(grids_.begin(), grids_.end(), [&](const Waiting& waiting) { return waiting.grid.id == id; });
}

void Multiprocessors::add(const Grid& grid, std::int64_t now_ns) {
  Waiting waiting{.grid = grid, .left = grid.blocks};
  if (grid.stays) waiting.left = std::min(grid.blocks, count_);
  waiting.grid.blocks_per_multiprocessor = std::max<std::int64_t>(grid.blocks_per_multiprocessor, 1);
  const std::int64_t length = length_alone(grid.blocks, waiting.grid.blocks_per_multiprocessor, count_);
  waiting.block_ns = grid.time_ns / length;
  waiting.rest_ns = grid.time_ns % length;
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
    if (grid.left > 0) refill(grid, wave.multiprocessors, now_ns);
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
    if (grid.grid.stays) {
      place_collective(grid);
    } else {
      spread(grid, now_ns);
    }
    if (grid.left > 0) return;
  }
}

void Multiprocessors::place_collective(Waiting& waiting) {
  const std::int64_t multiprocessors = std::min(free_, waiting.left);
  free_ -= multiprocessors;
  waiting.left -= multiprocessors;
  waiting.multiprocessors += multiprocessors;
  if (waiting.left == 0) took_place_.push_back(waiting.grid.id);
}

void Multiprocessors::spread(Waiting& waiting, std::int64_t now_ns) {
  const std::int64_t room = free_ * waiting.grid.blocks_per_multiprocessor;
  const std::int64_t blocks = std::min(waiting.left, room);
  const std::int64_t multiprocessors = std::min(free_, blocks);
  const std::int64_t on_each = blocks / multiprocessors, with_one_more = blocks % multiprocessors;
  waiting.left -= blocks;
  start(waiting, multiprocessors - with_one_more, on_each, now_ns);
  if (with_one_more > 0) start(waiting, with_one_more, on_each + 1, now_ns);
}

void Multiprocessors::refill(Waiting& waiting, std::int64_t multiprocessors, std::int64_t now_ns) {
  const std::int64_t at_once = waiting.grid.blocks_per_multiprocessor;
  const std::int64_t blocks = std::min(waiting.left, multiprocessors * at_once);
  waiting.left -= blocks;
  if (blocks >= at_once) start(waiting, blocks / at_once, at_once, now_ns);
  if (blocks % at_once > 0) start(waiting, 1, blocks % at_once, now_ns);
}

void Multiprocessors::start(Waiting& waiting, std::int64_t multiprocessors, std::int64_t on_each, std::int64_t now_ns) {
  const std::int64_t blocks = multiprocessors * on_each;
  const std::int64_t end_ns = now_ns + waiting.block_ns * on_each + (waiting.left == 0 ? waiting.rest_ns : 0);
  free_ -= multiprocessors;
  waiting.running += blocks;
  waves_.push_back({end_ns, waiting.grid.id, blocks, multiprocessors});
  ends_ns_.push_back(end_ns);
}

}  // namespace pdl
