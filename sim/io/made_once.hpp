// A value that is made when it is first asked for, and then stays. Any number of threads may ask.
//
//   MadeOnce<ProductModel> model;
//   model.get([&] { return read_model(text); })     // made by the first caller, the same for all
//
// What making it throws goes to the caller; the next one tries again.
#pragma once

#include <mutex>
#include <optional>

namespace pdl {

template <typename Value>
class MadeOnce {
 public:
  template <typename Make>
  Value& get(const Make& make) {
    std::call_once(made_, [&] { value_.emplace(make()); });
    return *value_;
  }

 private:
  std::once_flag made_;
  std::optional<Value> value_;
};

}  // namespace pdl
