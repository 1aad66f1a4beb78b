// What LibTorch has allocated on the CPU, counted as the allocator of a GPU would.
//
//   const CountedMemory memory;          // counts while it lives
//   const at::Tensor three = at::empty({3});
//   memory.bytes() == 512
//
// What oneDNN takes is not counted once it is given back: copies of its operands in the layout that its kernels like,
// on some processors (AMX with bf16) and not on others. It takes them by raw_allocate, which calls allocate: only
// raw_deallocate tells them from tensors, so the peak is reckoned afterwards, without them. A GPU has nothing of the
// kind here: the workspace of its matrix products is a thing of its own (sim/memory/memory.hpp).
// Not here: what is allocated by other means than c10's allocator; two counts at once.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "sim/memory/allocated_tensors.hpp"

namespace pdl {

class CountedMemory : public c10::Allocator {
 public:
  CountedMemory() {
    ledger().begin();
    c10::SetAllocator(at::kCPU, this);
  }
  ~CountedMemory() override { c10::SetAllocator(at::kCPU, c10::GetDefaultCPUAllocator()); }

  std::int64_t bytes() const { return ledger().total_and_peak(0).total; }

  /// The most there were since begin_peak().
  std::int64_t peak_bytes() const { return ledger().total_and_peak(peak_from_).peak; }

  void begin_peak() { peak_from_ = ledger().changes(); }

  /// Blocks of the usual allocator, so that each may be given back after this object is gone, or have been there before
  /// it.
  c10::DataPtr allocate(std::size_t size) override {
    void* const data = c10::GetDefaultCPUAllocator()->raw_allocate(size);
    ledger().add(data, allocated_bytes(static_cast<std::int64_t>(size)));
    return {data, data, &give_back_tensor, at::kCPU};  // context and data are one pointer: raw_allocate asks for it
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back_raw; }
  void copy_data(void* into, const void* from, std::size_t size) const override { default_copy_data(into, from, size); }

 private:
  struct Amounts {
    std::int64_t total, peak;
  };

  /// Every allocation and every return, in order.
  class Ledger {
   public:
    void begin() {
      const std::lock_guard lock(mutex_);
      changes_.clear();
      live_.clear();
    }
    void add(void* data, std::int64_t bytes) {
      const std::lock_guard lock(mutex_);
      if (data) live_[data] = changes_.size();
      changes_.push_back(bytes);
    }
    void take_back(void* data, bool as_if_it_had_not_been) {
      const std::lock_guard lock(mutex_);
      const auto found = live_.find(data);
      if (found == live_.end()) return;
      std::int64_t& allocation = changes_[found->second];
      live_.erase(found);
      if (as_if_it_had_not_been) {
        allocation = 0;
      } else {
        changes_.push_back(-std::int64_t{allocation});
      }
    }
    std::size_t changes() const {
      const std::lock_guard lock(mutex_);
      return changes_.size();
    }
    /// Of all changes; the peak is the largest total before the change `from` and after each from there on.
    Amounts total_and_peak(std::size_t from) const {
      const std::lock_guard lock(mutex_);
      const auto begin = changes_.begin() + static_cast<std::ptrdiff_t>(from);
      std::int64_t total = std::accumulate(changes_.begin(), begin, std::int64_t{0}), peak = total;
      for (auto change = begin; change != changes_.end(); ++change) peak = std::max(peak, total += *change);
      return {total, peak};
    }

   private:
    mutable std::mutex mutex_;
    std::vector<std::int64_t> changes_;
    std::unordered_map<void*, std::size_t> live_;  // data to its allocation
  };

  /// One for all: what gives a block back is a plain function, which knows the block alone.
  static Ledger& ledger() {
    static Ledger& one = *new Ledger;  // tensors of other statics are given back after it would be gone
    return one;
  }
  static void give_back_tensor(void* data) {
    ledger().take_back(data, false);
    c10::GetDefaultCPUAllocator()->raw_deallocate(data);
  }
  static void give_back_raw(void* data) {
    ledger().take_back(data, true);
    c10::GetDefaultCPUAllocator()->raw_deallocate(data);
  }

  std::size_t peak_from_ = 0;
};

}  // namespace pdl
