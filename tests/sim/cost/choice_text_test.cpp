// Kernels of a shape as a short text.
#include "sim/cost/choice_text.hpp"

#include <random>

#include "tests/support/catch.hpp"

namespace pdl {
namespace {

using Indices = KernelIndices;

TEST_CASE("what is as before or again is a sign", "[choice_text]") {
  CHECK(choice_text({17, 17, 17, 4}, {}) == "AAR*BAAE");
  CHECK(choice_text({17, 17, 9, 4}, {17, 17, 17, 4}) == "=*AAAJ=");
  CHECK(read_choice_text("AAR*BAAE", 4, 20, {}) == Indices{17, 17, 17, 4});
  CHECK(read_choice_text("=*AAAJ=", 4, 20, {17, 17, 17, 4}) == Indices{17, 17, 9, 4});
  CHECK(read_choice_text("AARAARAARAAE", 4, 20, {}) == Indices{17, 17, 17, 4});  // as older files have it
  CHECK(choice_text({std::nullopt, std::nullopt, 4}, {}) == "---*AAAE");
  CHECK(read_choice_text("---*AAAE", 3, 20, {}) == Indices{std::nullopt, std::nullopt, 4});
  CHECK(choice_text({17, 17}, {17}) == "AAR*A");  // the shape before has other rows
}

TEST_CASE("any list survives", "[choice_text]") {
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t count = 1 + random() % 200;
    Indices before(count), indices(count);
    const auto draw = [&]() -> std::optional<std::size_t> {
      const std::size_t drawn = random() % 4;
      return drawn < 3 ? std::optional(drawn) : std::nullopt;
    };
    for (auto& index : before) index = draw();
    for (auto& index : indices) index = draw();
    if (trial % 3 == 0) indices = before;
    if (trial % 5 == 0) before.clear();
    CHECK(read_choice_text(choice_text(indices, before), count, 3, before) == indices);
  }
}

TEST_CASE("what is no such text is refused", "[choice_text]") {
  for (const char* text : {"", "AA", "AAAA", "AA!", "AAD", "AAA", "AAA*", "AAA*!", "AAA*B*A", "AAA*C", "*A", "=*B",
                           "AAAAAA=", "AAAAAAAAAAAA"})
    CHECK_FALSE(read_choice_text(text, 3, 3, {}));
}

}  // namespace
}  // namespace pdl
