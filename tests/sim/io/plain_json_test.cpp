#include "sim/io/plain_json.hpp"

#include <random>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

using namespace pdl;

TEST_CASE("plain documents are read as nlohmann's parser reads them") {
  for (const std::string text : {"0", "-0", "-1", "12", "123456789012345678", "-123456789012345678", "0.5", "-1e3",
                                 "1.25E-2", "1e+5", "true", "false", "null", "\"\"", "\"a\\n\\\\\\\"b\\/\"", "[]", "{}",
                                 " [ 1 , [ ] , { \"a\" : { } } ]\n", "{\"b\":1,\"a\":[\"x\",2.5]}"}) {
    CAPTURE(text);
    const auto plain = plain_json(text);
    REQUIRE(plain);
    const nlohmann::json expected = nlohmann::json::parse(text);
    CHECK(*plain == expected);
    CHECK(plain->type() == expected.type());
    CHECK(plain->dump() == expected.dump());
  }
}

TEST_CASE("what is not plain is left to nlohmann's parser") {
  for (const char* text : {"",
                           " ",
                           "[",
                           "[1",
                           "[1,]",
                           "{",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{a:1}",
                           "01",
                           "1.",
                           ".5",
                           "1e",
                           "-",
                           "+1",
                           "nul",
                           "1 2",
                           "[1] x",
                           "\"",
                           "\"a",
                           "\"\\",
                           "\"\\x\"",
                           "\"\t\"",
                           "NaN",
                           "1e999",
                           "1234567890123456789",
                           "\"\\u0041\"",
                           "\"\xc3\xa9\"",
                           "{\"a\":1,\"a\":1}"}) {
    CAPTURE(text);
    CHECK_FALSE(plain_json(text));
  }
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK(plain_json(nested(kDeepestJson)));
  CHECK_FALSE(plain_json(nested(kDeepestJson + 1)));
}

TEST_CASE("random changes of a document: the same document as nlohmann's parser has, or none") {
  const std::string whole =
      R"({"name":"h\"1","points":[{"rows":8,"time":20.672,"count":24},{"rows":-16}],"e":[1e5,true,null]})";
  const std::string letters = "0123456789{}[],:\"\\.-+eEtrufalsn \n\x01\x80";
  std::mt19937_64 random(5);
  int plain_ones = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = whole;
    for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0) {
        text.erase(at, 1);
      } else {
        text[at] = letters[random() % letters.size()];
      }
    }
    const auto plain = plain_json(text);
    const nlohmann::json expected = nlohmann::json::parse(text, nullptr, false);
    CAPTURE(text);
    if (!plain) continue;
    ++plain_ones;
    REQUIRE_FALSE(expected.is_discarded());
    CHECK(plain->dump() == expected.dump());
  }
  CHECK(plain_ones > 1000);
}
