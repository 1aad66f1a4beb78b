#include "sim/io/letters.hpp"

#include "tests/support/catch.hpp"

namespace pdl {
namespace {

TEST_CASE("indices as three letters, and back", "[letters]") {
  CHECK(letters_of(0) == "AAA");
  CHECK(letters_of(17) == "AAR");
  CHECK(letters_of(63) == "AA/");
  CHECK(letters_of(64) == "ABA");
  CHECK(letters_of(kMostIndices - 1) == "///");
  CHECK(letters_of(std::nullopt) == "---");
  CHECK(index_of_letters("AAR---", 0) == 17);
  CHECK_FALSE(index_of_letters("AAR---", 3));
  for (const std::size_t index : {std::size_t{0}, std::size_t{4095}, std::size_t{4096}, kMostIndices - 1})
    CHECK(index_of_letters(letters_of(index), 0) == index);
}

TEST_CASE("what are no letters is beyond every list", "[letters]") {
  CHECK(index_of_letters("A!A", 0) == kMostIndices);
  CHECK(index_of_letters("--A", 0) == kMostIndices);
}

}  // namespace
}  // namespace pdl
