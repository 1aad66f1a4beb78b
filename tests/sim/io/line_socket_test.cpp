#include "sim/io/line_socket.hpp"

#include <thread>

#include "sim/io/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/free_port.hpp"

namespace pdl {
namespace {

TEST_CASE("lines come as they were sent, until the other end goes", "[line_socket]") {
  const std::int64_t port = free_port();
  LineListener listener("127.0.0.1", port, "MASTER_PORT");
  std::optional<LineSocket> one = connect_to("127.0.0.1", port, 1, "MASTER_ADDR");
  std::optional<LineSocket> other = listener.accept(1);
  REQUIRE((one && other));
  const std::string longer(1 << 20, 'x');
  std::jthread writer([&] {
    for (const std::string& line : {std::string("a"), std::string(), longer, std::string("b")}) one->write(line);
    one.reset();
  });
  CHECK(other->read_within(1) == "a");
  CHECK(other->read() == "");
  CHECK((other->read() == longer));
  CHECK(other->read() == "b");
  CHECK_FALSE(other->read());
}

TEST_CASE("nobody there is told in time, a port that is taken and a host that is none are refused", "[line_socket]") {
  const std::int64_t port = free_port();
  CHECK_FALSE(connect_to("127.0.0.1", port, 0.05, "MASTER_ADDR"));
  LineListener listener("127.0.0.1", port, "MASTER_PORT");
  CHECK_FALSE(listener.accept(0.05));
  CHECK_THROWS_WITH(LineListener("127.0.0.1", port, "MASTER_PORT"), ContainsSubstring("MASTER_PORT: found "));
  CHECK_THROWS_WITH(connect_to("no.such.host.invalid", port, 0.05, "MASTER_ADDR"),
                    ContainsSubstring("MASTER_ADDR: found no.such.host.invalid ("));
}

}  // namespace
}  // namespace pdl
