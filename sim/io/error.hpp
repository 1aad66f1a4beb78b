// The two ways a run can be refused, and the exit code of each.
//
//   throw InputError("--gpus", "0", "a whole number from 1 to 1000000");
//   -> "--gpus: found 0, expected a whole number from 1 to 1000000"        exit code 2
//   throw CannotRun("deadlock: ...");                                       exit code 3
//
// Anything else that escapes is a bug of this program: exit code 1.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace pdl {

/// The user's input is wrong. The message names the place (flag, file, line or JSON path), what was found, what was
/// expected.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
  InputError(std::string_view place, std::string_view found, std::string_view expected)
      : std::runtime_error(std::string(place) + ": found " + std::string(found) + ", expected " +
                           std::string(expected)) {}
};

/// A file that was taken by its head and is broken below: unlike a row of a table that is refused, nothing can go on.
struct BrokenFile : InputError {
  explicit BrokenFile(const InputError& error) : InputError(error) {}
};

/// A word that has no meaning beside the others (buckets without ddp, a network on one host): without it the rest may
/// stand.
struct WithoutMeaning : InputError {
  WithoutMeaning(std::string_view place, std::string_view found, std::string_view expected, std::string_view word)
      : InputError(place, found, expected), name(word) {}
  std::string name;  // "bucket-mb"
};

/// The input is well formed but the plan cannot run: a deadlock, not enough memory, a dead worker. Named in the
/// message.
struct CannotRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr int kExitFine = 0;
inline constexpr int kExitBug = 1;
inline constexpr int kExitInput = 2;
inline constexpr int kExitCannotRun = 3;

}  // namespace pdl
