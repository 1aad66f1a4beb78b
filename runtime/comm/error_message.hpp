// What an exception says, for users: LibTorch's errors append the stack where they were thrown, which is of use in a
// bug of this program only.
//
//   throw PeerLost("worker 1 lost the others: " + message_of(error));
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace pdl {

inline std::string message_of(const std::exception& error) {
  const auto* of_libtorch = dynamic_cast<const c10::Error*>(&error);
  return of_libtorch ? of_libtorch->what_without_backtrace() : error.what();
}

}  // namespace pdl
