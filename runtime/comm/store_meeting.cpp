#include "runtime/comm/store_meeting.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "runtime/comm/error_message.hpp"
#include "sim/io/error.hpp"

namespace pdl {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBeat{1000};
constexpr int kLongestSilence = 15;  // beats
constexpr milliseconds kStoreTimeout{10'000};
// The others have all they need by then; what is left is that their last message is answered.
constexpr milliseconds kPartingTimeout{5'000};

std::vector<std::uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

[[noreturn]] void end_process(const std::string& reason) {
  std::fprintf(stderr, "pdl-run: %s\n", reason.c_str());
  std::fflush(stderr);
  std::_Exit(kExitCannotRun);
}

}  // namespace

StoreMeeting::StoreMeeting(c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::Store> watching, int rank,
                           int size, bool holds_store)
    : store_(std::move(store)), watching_(std::move(watching)), rank_(rank), size_(size), holds_store_(holds_store) {
  watching_->setTimeout(kStoreTimeout);
  for (int r = 0; r < size_; ++r) heartbeat_keys_.push_back("heartbeat/" + std::to_string(r));
  last_seen_.resize(heartbeat_keys_.size());
  beats_without_change_.resize(heartbeat_keys_.size());
  watching_->set(heartbeat_keys_[static_cast<std::size_t>(rank_)], bytes_of("0"));
  barrier();  // everybody has a heartbeat
  thread_ = std::thread([this] { watch(); });
}

StoreMeeting::~StoreMeeting() {
  stop_watching();
}

void StoreMeeting::barrier() {
  const auto key = [](std::int64_t round) { return "barrier/" + std::to_string(round); };
  if (store_->add(key(round_), 1) == size_) {
    if (round_ > 0) {
      store_->deleteKey(key(round_ - 1));
      store_->deleteKey(key(round_ - 1) + "/open");
    }
    store_->set(key(round_) + "/open", bytes_of("1"));
  } else {
    store_->wait({key(round_) + "/open"});
  }
  ++round_;
}

void StoreMeeting::finish() {
  store_->add("leaving", 1);
  while (!all_leaving()) std::this_thread::sleep_for(milliseconds(5));
  stop_watching();
  store_->add("gone", 1);
  const auto until = std::chrono::steady_clock::now() + kPartingTimeout;
  while (holds_store_ && store_->add("gone", 0) < size_ && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(5));
  }
}

bool StoreMeeting::all_leaving() {
  if (all_leaving_) return true;
  try {
    if (watching_->add("leaving", 0) == size_) all_leaving_ = true;
  } catch (const std::exception&) {
    // The thread that watches says so.
  }
  return all_leaving_;
}

void StoreMeeting::watch() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    lock.unlock();
    look_at_others();
    lock.lock();
    stop_.wait_for(lock, kBeat, [&] { return stopped_; });
  }
}

void StoreMeeting::look_at_others() {
  std::vector<std::vector<std::uint8_t>> seen;
  try {
    watching_->set(heartbeat_keys_[static_cast<std::size_t>(rank_)], bytes_of(std::to_string(++own_beats_)));
    seen = watching_->multiGet(heartbeat_keys_);
  } catch (const std::exception& error) {
    if (all_leaving_) return;
    end_process("worker " + std::to_string(rank_) +
                ": the store of the workers does not answer, the process that holds it " +
                (holds_store_ ? "is this one" : "(worker 0, or the launcher) has died or its host is out of reach") +
                ": " + message_of(error));
  }
  for (std::size_t r = 0; r < seen.size(); ++r) {
    beats_without_change_[r] = seen[r] == last_seen_[r] ? beats_without_change_[r] + 1 : 0;
    if (beats_without_change_[r] < kLongestSilence || static_cast<int>(r) == rank_ || all_leaving()) continue;
    end_process("worker " + std::to_string(r) + " has died, or its host is out of reach: silent for " +
                std::to_string(kLongestSilence) + " s");
  }
  last_seen_ = std::move(seen);
}

void StoreMeeting::stop_watching() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace pdl
