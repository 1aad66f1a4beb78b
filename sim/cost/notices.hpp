// What a user must know about a prediction, said once: sizes beyond what was measured, substitutes, what is missing;
// each with the pieces of work whose price rests on it.
//
//   notices.begin_work(3);                                       // what follows is said of plan.graph.works[3]
//   notices.extrapolated("dim", 16384, 1024, 8192);
//   notices.say_substitute("transfers", "h100x4", "transfers copy 3 -> 4", "the median of its 12 pairs");
//   notices.say_substitute("transfers", "h100x4", "transfers copy 4 -> 3", "the median of its 12 pairs");
//   notices.list()   // "extrapolated: dim 16384 beyond 1024..8192 measured"                         work 3
//                    // "not in profile h100x4: transfers copy 3 -> 4 and 1 more of this kind; ..."  work 3
//   notices.say_again(said_of_a_layer, 2e6);                     // is about 2 ms of the work
//
// How much of a step that is: sim/cost/notice_shares.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace pdl {

/// A piece of work, or a part of it, that a notice is about.
struct WorkOfNotice {
  std::size_t work = 0;  // index into TaskGraph::works
  double device_ns = 0;  // of its part; kWholeWork: all of it
  bool operator==(const WorkOfNotice&) const = default;
};
inline constexpr double kWholeWork = std::numeric_limits<double>::infinity();

struct Notice {
  std::string text;
  std::vector<WorkOfNotice> works{};  // ascending, each once
  double host_ns = 0;                 // of calls of a host: what those of the busiest GPU take in a step; else 0
};

class Notices {
 public:
  /// What is said from now on is about this piece of work; before the first such, and after end_works(), about none.
  void begin_work(std::size_t work);
  void end_works();

  /// Of each `what` and side the value farthest from what was measured is kept. `text`: the value as it is shown.
  void extrapolated(const std::string& what, double value, const std::string& text, std::int64_t least,
                    std::int64_t largest);
  void extrapolated(const std::string& what, std::int64_t value, std::int64_t least, std::int64_t largest) {
    extrapolated(what, static_cast<double>(value), std::to_string(value), least, largest);
  }

  /// Said once however often it is given.
  void say(const std::string& text);

  /// Of each `kind` the first is said, with the number of the others.
  void say_substitute(const std::string& kind, const std::string& profile, const std::string& wanted,
                      const std::string& used);
  /// Of calls of a host that take `host_ns` in a step.
  void say_host_substitute(const std::string& profile, const std::string& wanted, const std::string& used,
                           double host_ns);

  /// Of each `what` the text of the largest size is kept.
  void say_of_largest(const std::string& what, std::int64_t size, const std::string& text);

  /// All of it, about the present piece of work or so much of its device time: of prices that are kept and used again.
  /// It must be about no work.
  void say_again(const Notices& kept, double device_ns = kWholeWork);
  bool empty() const { return said_.empty(); }

  /// Extrapolations by name, the texts of largest sizes by name, then the others in the order in which they were first
  /// said.
  std::vector<Notice> list() const;
  std::vector<std::string> texts() const;

 private:
  struct Said {
    Notice notice;
    double size = 0;             // the ratio to the end of the range, or the largest size
    std::set<std::string> like;  // what substitutes of this kind were wanted for
  };
  enum class Group { beyond, largest, other };
  using Key = std::tuple<Group, std::string, bool>;  // by what, and whether above

  /// A new one has an empty text.
  Said& entry(const Key& key, double device_ns = kWholeWork);
  Said& substitute(const std::string& kind, const std::string& profile, const std::string& wanted,
                   const std::string& used);

  std::vector<Said> said_;
  std::map<Key, std::size_t> index_;
  std::size_t work_ = 0;  // that was begun last
  bool in_work_ = false;
};

}  // namespace pdl
