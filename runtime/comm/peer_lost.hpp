// A worker can no longer reach another one. The other one's own end is the cause; this is only its consequence.
#pragma once

#include "sim/io/error.hpp"

namespace pdl {

struct PeerLost : CannotRun {
  using CannotRun::CannotRun;
};

/// Exit code of a worker process that ended only because another one did. The process that started the workers reads
/// it; nobody else sees it.
inline constexpr int kExitPeerLost = 4;

}  // namespace pdl
