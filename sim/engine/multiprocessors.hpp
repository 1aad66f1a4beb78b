// The multiprocessors of one GPU: which thread blocks are on them, and what waits for a place.
//
//   132 multiprocessors, a kernel of 128 blocks that fills one each, 1.3 ms; a collective of 24 blocks in its middle:
//
//     kernel A     [========128 blocks========]
//     collective        wanted    ....4........[20][===== runs until all its GPUs are done =====]
//     kernel B                                 [======108 blocks======][==20 blocks==]
//
// Grids get places in the order in which they come, all blocks of one before the next one's (as the hardware hands out
// grids of equal priority). A block that has its place keeps it until it has ended: those of a kernel for the time of one
// wave, those of a collective until it is told that the collective has ended. So a kernel that just fitted beside nothing
// takes two waves beside a collective, and a collective waits for a wave to end: both measured (the table in
// docs/accuracy.md). A multiprocessor holds blocks of one grid at a time.
//
// Times are nanoseconds. Not modelled: priorities of streams, blocks of two kernels on one multiprocessor.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace pdl {

class Multiprocessors {
 public:
  /// A kernel alone on the GPU takes time_ns, whatever its blocks. `id`: what took_place() and ended() say of it.
  struct Grid {
    std::uint32_t id = 0;
    std::int64_t blocks = 0;  // 0: not known; it runs beside everything
    std::int64_t blocks_per_multiprocessor = 1;
    std::int64_t time_ns = 0;
    bool stays = false;  // a collective: its blocks stay until remove()
  };

  explicit Multiprocessors(std::int64_t count) : count_(count), free_(count) {}

  void add(const Grid& grid, std::int64_t now_ns);

  /// A grid that stays has ended.
  void remove(std::uint32_t id, std::int64_t now_ns);

  /// Ends the blocks whose time has come.
  void advance(std::int64_t now_ns);

  /// Since the last call: grids that stay and have all their places; grids that have ended.
  std::vector<std::uint32_t> took_place();
  std::vector<std::uint32_t> ended();
  /// Since the last call: times at which blocks will end, for advance().
  std::vector<std::int64_t> ends_ns();

 private:
  struct Waiting {
    Grid grid;
    std::int64_t left = 0;      // blocks without a place
    std::int64_t running = 0;
    std::int64_t wave_ns = 0;   // of one block
    std::int64_t rest_ns = 0;   // so that waves add up to the time of the kernel
    std::int64_t multiprocessors = 0;  // held, of a grid that stays
  };
  struct Wave {
    std::int64_t end_ns = 0;
    std::uint32_t id = 0;
    std::int64_t blocks = 0;
    std::int64_t multiprocessors = 0;
  };

  using Grids = std::deque<Waiting>;
  Grids::iterator position(std::uint32_t id);
  void hand_out(std::int64_t now_ns);
  void place(Waiting& waiting, std::int64_t multiprocessors, std::int64_t now_ns);

  std::int64_t count_;
  std::int64_t free_;
  Grids grids_;  // that have not ended, in the order in which they came
  std::vector<Wave> waves_;
  std::vector<std::uint32_t> took_place_, ended_;
  std::vector<std::int64_t> ends_ns_;
};

}  // namespace pdl
