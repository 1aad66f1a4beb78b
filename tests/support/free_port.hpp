// A port of this host that nobody listens on at this moment.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/catch.hpp"

namespace pdl {

inline int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(socket >= 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  REQUIRE(bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  socklen_t length = sizeof address;
  REQUIRE(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  close(socket);
  return ntohs(address.sin_port);
}

}  // namespace pdl
