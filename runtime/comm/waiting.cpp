#include "runtime/comm/waiting.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "sim/spec/error.hpp"

namespace pdl {
namespace {

using std::chrono::milliseconds;

struct Registry {
  std::mutex mutex;
  std::list<std::function<std::string()>> waits;
  std::string program = "pdl-run";
  std::atomic<std::int64_t> limit_ms{600'000};
  std::atomic<std::uint64_t> moves{0};  // begins, renewals and ends so far
  std::atomic<pid_t> watched{0};  // the process that has the thread that watches: a child by fork() has not
};

/// Never destroyed: the thread that watches outlives main().
Registry& registry() {
  static Registry& registry = *new Registry;
  return registry;
}

[[noreturn]] void give_up(std::int64_t limit_ms) {
  std::string text = registry().program + ": nothing has moved for ";
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", static_cast<double>(limit_ms) / 1e3);
  text += std::string(seconds) + " s (--wait-limit):\n";
  for (const std::function<std::string()>& describe : registry().waits) text += "  " + describe() + "\n";
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  std::_Exit(kExitCannotRun);
}

/// Counts its own ticks, not the clock: while the process is stopped, this thread is too.
void watch() {
  std::uint64_t seen = 0;
  milliseconds silent{0};
  while (true) {
    const std::int64_t limit_ms = registry().limit_ms.load();
    const milliseconds tick{std::clamp<std::int64_t>(limit_ms / 20, 1, 500)};
    std::this_thread::sleep_for(tick);
    const std::uint64_t moves = registry().moves.load(std::memory_order_relaxed);
    silent = moves == seen ? silent + tick : milliseconds{0};
    seen = moves;
    if (silent.count() < limit_ms) continue;
    const std::lock_guard lock(registry().mutex);
    if (!registry().waits.empty() && registry().moves.load() == seen) give_up(limit_ms);
    silent = milliseconds{0};
  }
}

}  // namespace

void limit_waiting(const std::string& program, milliseconds limit) {
  const std::lock_guard lock(registry().mutex);
  registry().program = program;
  registry().limit_ms.store(limit.count());
}

Waiting::Waiting(std::function<std::string()> describe) {
  Registry& all = registry();
  if (all.watched.exchange(getpid()) != getpid()) std::thread(watch).detach();
  const std::lock_guard lock(all.mutex);
  place_ = all.waits.insert(all.waits.end(), std::move(describe));
  renew();
}

Waiting::Waiting(std::string what) : Waiting(std::function<std::string()>([what = std::move(what)] { return what; })) {}

Waiting::~Waiting() {
  const std::lock_guard lock(registry().mutex);
  registry().waits.erase(place_);
  renew();
}

void Waiting::renew() { registry().moves.fetch_add(1, std::memory_order_relaxed); }

}  // namespace pdl
