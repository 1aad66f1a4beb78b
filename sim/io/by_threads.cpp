#include "sim/io/by_threads.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace pdl {

void by_threads(std::size_t count, std::int64_t threads, const std::function<void(std::size_t)>& work,
                const std::function<void()>& after_own) {
  std::vector<std::exception_ptr> errors(count);
  std::atomic<std::size_t> next = 0;
  const auto take_turns = [&](bool is_caller) {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
      if (is_caller && after_own) after_own();
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::int64_t t = 1; t < std::min(threads, static_cast<std::int64_t>(count)); ++t)
      others.emplace_back(take_turns, false);
    take_turns(true);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace pdl
