// What a user must know about a prediction, said once: sizes beyond what was measured, substitutes, what is missing.
//
//   notices.extrapolated("dim", 16384, "16384", 1024, 8192);
//   notices.extrapolated("dim", 9000, "9000", 1024, 8192);
//   notices.texts()   // {"extrapolated: dim 16384 beyond 1024..8192 measured"}
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace pdl {

class Notices {
 public:
  /// Of each `what` and side the value farthest from what was measured is kept. `text`: the value as it is shown.
  void extrapolated(const std::string& what, double value, const std::string& text, std::int64_t least,
                    std::int64_t largest);
  void extrapolated(const std::string& what, std::int64_t value, std::int64_t least, std::int64_t largest) {
    extrapolated(what, static_cast<double>(value), std::to_string(value), least, largest);
  }

  /// Said once however often it is given.
  void say(const std::string& text);
  void say_substitute(const std::string& profile, const std::string& wanted, const std::string& used) {
    say("not in profile " + profile + ": " + wanted + "; " + used + " used instead");
  }

  /// Of each `what` the text of the largest size is kept.
  void say_of_largest(const std::string& what, std::int64_t size, const std::string& text);

  /// Extrapolations by name, the texts of largest sizes by name, then the others in the order in which they were first
  /// said.
  std::vector<std::string> texts() const;

 private:
  struct Farthest {
    double ratio = 0;  // to the end of the range that it is beyond
    std::string text;
  };
  std::map<std::pair<std::string, bool>, Farthest> beyond_;              // by what, and whether above
  std::map<std::string, std::pair<std::int64_t, std::string>> largest_;  // by what: size, text
  std::vector<std::string> said_;
};

}  // namespace pdl
