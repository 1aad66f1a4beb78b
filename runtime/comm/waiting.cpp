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

#include "sim/io/error.hpp"

namespace pdl {

using std::chrono::milliseconds;

struct WaitingRegistry {
  std::mutex mutex;
  std::list<Waiting::Entry> waits;
  std::string program = "pdl-run", advice;
  std::atomic<std::int64_t> limit_ms{600'000};
  std::atomic<std::uint64_t> moves{0};  // begins, renewals and ends so far
  std::atomic<pid_t> watched{0};        // the process that has the thread that watches: a child by fork() has not
};

namespace {

/// Never destroyed: the thread that watches outlives main().
WaitingRegistry& registry() {
  static WaitingRegistry& registry = *new WaitingRegistry;
  return registry;
}

[[noreturn]] void give_up(std::int64_t limit_ms) {
  const WaitingRegistry& all = registry();
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", static_cast<double>(limit_ms) / 1e3);
  std::string text = isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "";  // there may be a progress bar
  text += all.program + ": nothing has moved for " + seconds + " s (--wait-limit):\n";
  for (const auto& wait : all.waits) text += "  " + wait.describe() + "\n";
  if (!all.advice.empty()) text += all.advice + "\n";
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  std::_Exit(kExitCannotRun);
}

bool hangs() {
  const auto& waits = registry().waits;
  return std::any_of(waits.begin(), waits.end(), [](const auto& wait) { return wait.hangs(); });
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
    if (registry().moves.load() == seen && hangs()) give_up(limit_ms);
    silent = milliseconds{0};
  }
}

}  // namespace

void limit_waiting(const std::string& program, milliseconds limit, const std::string& advice) {
  const std::lock_guard lock(registry().mutex);
  registry().program = program;
  registry().advice = advice;
  registry().limit_ms.store(limit.count());
}

Waiting::Waiting(std::function<std::string()> describe, std::function<bool()> hangs) {
  WaitingRegistry& all = registry();
  if (all.watched.exchange(getpid()) != getpid()) std::thread(watch).detach();
  const std::lock_guard lock(all.mutex);
  place_ = all.waits.insert(all.waits.end(), {std::move(describe), std::move(hangs)});
  renew();
}

Waiting::Waiting(std::string what) : Waiting(std::function<std::string()>([what = std::move(what)] { return what; })) {}

Waiting::~Waiting() {
  const std::lock_guard lock(registry().mutex);
  registry().waits.erase(place_);
  renew();
}

void Waiting::renew() {
  registry().moves.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace pdl
