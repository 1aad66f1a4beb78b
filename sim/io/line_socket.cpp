#include "sim/io/line_socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>

#include "sim/io/error.hpp"

namespace pdl {
namespace {

using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses addresses_of(const std::string& host, std::int64_t port, const std::string& place) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = host.empty() ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) throw InputError(place, host + " (" + gai_strerror(error) + ")", "the name or address of a host");
  return {found, freeaddrinfo};
}

bool is_ready(int descriptor, double seconds) {
  pollfd wanted{descriptor, POLLIN, 0};
  int ready = 0;
  do {
    ready = poll(&wanted, 1, static_cast<int>(seconds * 1e3));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

/// Lines are short: none waits for the next one. A host that has gone without a word is noticed.
void set_up(int descriptor) {
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

}  // namespace

LineSocket::~LineSocket() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool LineSocket::write(const std::string& line) {
  const std::string text = line + "\n";
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t sent = send(descriptor_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::optional<std::string> LineSocket::read() {
  std::size_t searched = taken_;
  std::array<char, 1 << 16> part;
  while (true) {
    const std::size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(taken_, end - taken_);
      taken_ = end + 1;
      return line;
    }
    buffer_.erase(0, std::exchange(taken_, 0));
    searched = buffer_.size();
    if (searched > kLongestLine) return std::nullopt;
    const ssize_t came = recv(descriptor_, part.data(), part.size(), 0);
    if (came < 0 && errno == EINTR) continue;
    if (came <= 0) return std::nullopt;
    buffer_.append(part.data(), static_cast<std::size_t>(came));
  }
}

std::optional<std::string> LineSocket::read_within(double seconds) {
  return is_ready(descriptor_, seconds) ? read() : std::nullopt;
}

void LineSocket::shut() {
  shutdown(descriptor_, SHUT_RDWR);
}

LineListener::LineListener(const std::string& address, std::int64_t port, const std::string& place) {
  const Addresses addresses = addresses_of(address, port, place);
  descriptor_ = socket(addresses->ai_family, addresses->ai_socktype | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool bound = descriptor_ >= 0 && bind(descriptor_, addresses->ai_addr, addresses->ai_addrlen) == 0 &&
                     listen(descriptor_, SOMAXCONN) == 0;
  if (bound) return;
  const std::string reason = std::strerror(errno);
  if (descriptor_ >= 0) close(descriptor_);
  throw InputError(place, std::to_string(port) + " (" + reason + ")", "a free port");
}

LineListener::~LineListener() {
  close(descriptor_);
}

std::optional<LineSocket> LineListener::accept(double seconds) {
  if (!is_ready(descriptor_, seconds)) return std::nullopt;
  const int accepted = accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
  if (accepted < 0) return std::nullopt;
  set_up(accepted);
  return LineSocket(accepted);
}

std::optional<LineSocket> connect_to(const std::string& host, std::int64_t port, double seconds,
                                     const std::string& place) {
  constexpr auto kAgain = std::chrono::milliseconds(20);
  const Addresses addresses = addresses_of(host, port, place);
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (true) {
    LineSocket connection(socket(addresses->ai_family, addresses->ai_socktype | SOCK_CLOEXEC, 0));
    const int descriptor = connection.descriptor();
    if (connect(descriptor, addresses->ai_addr, addresses->ai_addrlen) == 0) {
      set_up(descriptor);
      return connection;
    }
    if (Clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(kAgain);
  }
}

}  // namespace pdl
