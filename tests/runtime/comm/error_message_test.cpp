#include "runtime/comm/error_message.hpp"

#include <stdexcept>

#include "tests/support/catch.hpp"

using namespace pdl;

TEST_CASE("The message of an error of LibTorch is without its stack", "[runtime][data_parallel]") {
  try {
    TORCH_CHECK(false, "wait timeout after 25000ms");
  } catch (const std::exception& error) {
    CHECK_THAT(error.what(), ContainsSubstring("Exception raised from"));
    CHECK(message_of(error) == "wait timeout after 25000ms");
  }
  CHECK(message_of(std::runtime_error("as it is")) == "as it is");
}
