// What LibTorch has allocated on the CPU, counted as the allocator of a GPU would.
//
//   const CountedMemory memory;          // counts while it lives
//   const at::Tensor three = at::empty({3});
//   memory.bytes() == 512
//
// Not here: what is allocated by other means than c10's allocator.
#pragma once

#include <c10/core/Allocator.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>

#include "sim/report/allocated_tensors.hpp"

namespace pdl {

class CountedMemory : public c10::Allocator {
 public:
  CountedMemory() : usual_(c10::GetAllocator(at::kCPU)) { c10::SetAllocator(at::kCPU, this); }
  ~CountedMemory() override { c10::SetAllocator(at::kCPU, usual_); }

  std::int64_t bytes() const {
    const std::lock_guard lock(count_->mutex);
    return count_->now;
  }

  /// The most there were since begin_peak().
  std::int64_t peak_bytes() const {
    const std::lock_guard lock(count_->mutex);
    return count_->peak;
  }

  void begin_peak() {
    const std::lock_guard lock(count_->mutex);
    count_->peak = count_->now;
  }

  c10::DataPtr allocate(std::size_t size) override {
    auto* block = new Block{usual_->allocate(size), allocated_bytes(static_cast<std::int64_t>(size)), count_};
    const std::lock_guard lock(count_->mutex);
    count_->now += block->bytes;
    count_->peak = std::max(count_->peak, count_->now);
    return {block->data.get(), block, &give_back, at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* into, const void* from, std::size_t size) const override { default_copy_data(into, from, size); }

 private:
  struct Count {
    std::mutex mutex;
    std::int64_t now = 0, peak = 0;
  };
  struct Block {
    c10::DataPtr data;
    std::int64_t bytes;
    std::shared_ptr<Count> count;
  };
  static void give_back(void* pointer) {
    const std::unique_ptr<Block> block(static_cast<Block*>(pointer));
    const std::lock_guard lock(block->count->mutex);
    block->count->now -= block->bytes;
  }

  c10::Allocator* usual_;
  std::shared_ptr<Count> count_ = std::make_shared<Count>();
};

}  // namespace pdl
