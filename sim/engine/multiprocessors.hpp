// The multiprocessors of one GPU: which thread blocks are on them, and what waits for a place.
//
//   132 multiprocessors; a kernel of 128 blocks, 1 ms alone, two of which fit on one; a collective of 24 blocks:
//
//     128 multiprocessors  [kernel A: one block each]
//     24                         wanted, 4 are free..[== collective: runs until all its GPUs are done ==]
//     88                                             [kernel B: one each, 1 ms]
//     20                                             [kernel B: two each, 2 ms                          ]
//
// Grids get places in the order in which they come, all blocks of one before the next one's (as the hardware hands out
// grids of equal priority). The blocks of a kernel go breadth-first over the multiprocessors that are free, up to
// blocks_per_multiprocessor on each, and those on one share its throughput: n take n times as long as one alone, as
// where arithmetic is the limit. A block keeps its place until it has ended, also when other multiprocessors become
// free. So a kernel that just fitted takes twice as long beside a collective, however soon that ends, if its
// multiprocessors have room for a second block. Blocks for which there is no room wait for the collective, or for the
// first ones to end: those of one multiprocessor end together, so their places are filled together, one multiprocessor
// after another, and a few blocks that are left take as long as a full wave.
// A collective has a multiprocessor for each block, waits until that many are free, and keeps them until it is told to
// have ended. A multiprocessor holds blocks of one grid at a time.
//
// Measured on 4 x H200 (samples "overlap" of data/h200x4), layers beside all-reduces of 4, 25 and 128 MiB: 367 us alone
// becomes 692, 703 and 698; 91 us becomes 155, 161 and 163 (both 128 blocks). Waiting for a
// place would make that 410 beside the shortest. 256 blocks, of which 216 have room: 1.354 ms alone becomes 2.62 to
// 2.69 in 18 of 48 calls beside the shortest, as where the other 40 do not get the places of the collective. 128 blocks
// that alone leave much of a multiprocessor unused lose less: 352 us becomes 475, 481 and 488, this rule says twice as
// long.
//
// Times are nanoseconds. Not modelled: priorities of streams, blocks of two kernels on one multiprocessor, kernels
// whose blocks lose less than that by being several (those that memory bounds: element by element, sums; up to some 20
// us a layer), multiprocessors that drift apart over many waves.
#pragma once

#include <cstdint>
#include <vector>

namespace pdl {

class Multiprocessors {
 public:
  /// A kernel alone on the GPU takes time_ns, whatever its blocks. `id`: what took_place() and ended() say of it.
  struct Grid {
    std::uint32_t id = 0;
    std::int64_t blocks = 0;                     // 0: not known; it runs beside everything
    std::int64_t blocks_per_multiprocessor = 1;  // resident at once, of a kernel; 0: not known, taken as 1
    std::int64_t time_ns = 0;
    bool stays = false;  // a collective: its blocks stay until remove()
  };

  explicit Multiprocessors(std::int64_t count) : count_(count), free_(count) {}

  void add(const Grid& grid, std::int64_t now_ns);

  /// A grid that stays has ended.
  void remove(std::uint32_t id, std::int64_t now_ns);

  /// Ends the blocks whose time has come.
  void advance(std::int64_t now_ns);

  /// Since the last call: grids that stay and have all their places; grids that have ended. Until the next call.
  const std::vector<std::uint32_t>& took_place() { return report(took_place_, reported_places_); }
  const std::vector<std::uint32_t>& ended() { return report(ended_, reported_ended_); }
  /// Since the last call: times at which blocks will end, for advance(). Until the next call.
  const std::vector<std::int64_t>& ends_ns() { return report(ends_ns_, reported_ends_ns_); }

 private:
  struct Waiting {
    Grid grid;
    std::int64_t left = 0;  // blocks without a place
    std::int64_t running = 0;
    std::int64_t block_ns = 0;         // of a block that has a multiprocessor for itself
    std::int64_t rest_ns = 0;          // so that blocks one after another add up to the time of the kernel
    std::int64_t multiprocessors = 0;  // held, of a grid that stays
  };
  /// Blocks of a kernel that end at one time, with all of the multiprocessors that they are on.
  struct Wave {
    std::int64_t end_ns = 0;
    std::uint32_t id = 0;
    std::int64_t blocks = 0;
    std::int64_t multiprocessors = 0;
  };

  using Grids = std::vector<Waiting>;  // a handful
  /// Both keep their memory: a GPU reports at every event.
  template <typename T>
  static const std::vector<T>& report(std::vector<T>& found, std::vector<T>& reported) {
    reported.swap(found);
    found.clear();
    return reported;
  }

  Grids::iterator position(std::uint32_t id);
  void hand_out(std::int64_t now_ns);
  void place_collective(Waiting& waiting);
  /// On multiprocessors that are empty: breadth-first.
  void spread(Waiting& waiting, std::int64_t now_ns);
  /// On multiprocessors whose blocks, of the same kernel, have just ended: as many on each as fit.
  void refill(Waiting& waiting, std::int64_t multiprocessors, std::int64_t now_ns);
  void start(Waiting& waiting, std::int64_t multiprocessors, std::int64_t on_each, std::int64_t now_ns);

  std::int64_t count_;
  std::int64_t free_;
  Grids grids_;  // that have not ended, in the order in which they came
  std::vector<Wave> waves_;
  std::vector<std::uint32_t> took_place_, ended_, reported_places_, reported_ended_;
  std::vector<std::int64_t> ends_ns_, reported_ends_ns_;
};

}  // namespace pdl
