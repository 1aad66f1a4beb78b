#include "runtime/comm/rank_threads.hpp"

#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/comm/error_message.hpp"
#include "runtime/comm/waiting.hpp"

namespace pdl {

void on_rank_threads(int ranks, const std::string& what, const std::function<void(int rank)>& body) {
  struct Failure {
    std::exception_ptr error;
    std::unique_ptr<Waiting> said;  // for those who wait for this rank
  };
  std::vector<Failure> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::string name = "rank " + std::to_string(rank);
      Failure& failure = failures[static_cast<std::size_t>(rank)];
      try {
        const Waiting waiting(name + ": " + what);
        body(rank);
      } catch (const std::exception& error) {
        failure = {std::current_exception(), std::make_unique<Waiting>(name + " has failed: " + message_of(error))};
      } catch (...) {
        failure = {std::current_exception(), std::make_unique<Waiting>(name + " has failed")};
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Failure& failure : failures) {
    if (failure.error) std::rethrow_exception(failure.error);
  }
}

}  // namespace pdl
