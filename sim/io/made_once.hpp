// A value that is made when it is first asked for, and then stays. Any number of threads may ask.
//
//   MadeOnce<ProductModel> model;
//   model.get([&] { return read_model(text); })     // made by the first caller, the same for all
//
// What making it throws goes to the caller; the next one tries again.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

namespace pdl {

template <typename Value>
class MadeOnce {
 public:
  template <typename Make>
  Value& get(const Make& make) {
    if (made_.load(std::memory_order_acquire)) return *value_;
    const std::lock_guard lock(making_);
    if (!value_) value_.emplace(make());
    made_.store(true, std::memory_order_release);
    return *value_;
  }

 private:
  std::mutex making_;
  std::atomic<bool> made_ = false;
  std::optional<Value> value_;
};

}  // namespace pdl
