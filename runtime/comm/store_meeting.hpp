// Workers on several hosts: how they wait for each other and notice that one is gone, by a key-value store alone.
//
//   StoreMeeting meeting(store, another_connection, rank, size);
//   meeting.barrier();
//   meeting.finish();          // all are done; nothing of the store is used afterwards
//
// Every worker counts up a number of its own once a second. A worker whose number has stood still for 15 s, or a store
// that no longer answers, ends this process: exit code 3, and standard error says who is gone. A barrier costs some 100
// us.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace pdl {

class StoreMeeting {
 public:
  /// `watching`: a connection of its own to the same store, because a connection that waits does nothing else.
  /// `holds_store`: the store ends with this process.
  StoreMeeting(c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::Store> watching, int rank, int size,
               bool holds_store);
  ~StoreMeeting();
  StoreMeeting(const StoreMeeting&) = delete;
  StoreMeeting& operator=(const StoreMeeting&) = delete;

  void barrier();
  void finish();

  /// True once every worker has come to finish().
  bool all_leaving();

 private:
  void watch();
  void look_at_others();
  void stop_watching();

  c10::intrusive_ptr<c10d::Store> store_, watching_;
  int rank_, size_;
  bool holds_store_;
  std::int64_t round_ = 0;
  std::atomic<bool> all_leaving_ = false;

  // Of the thread that watches.
  std::vector<std::string> heartbeat_keys_;
  std::vector<std::vector<std::uint8_t>> last_seen_;
  std::vector<int> beats_without_change_;
  std::int64_t own_beats_ = 0;

  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace pdl
