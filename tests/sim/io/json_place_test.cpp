#include "sim/io/json_place.hpp"

#include "sim/io/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace pdl;

namespace {

/// The document of a text, or the message without the path of the file.
std::string read(const std::string& text, const std::vector<std::string>& kept = {}) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.json", text);
  try {
    return read_json_file(path, kept).dump();
  } catch (const InputError& error) {
    return std::string(error.what()).substr(path.size());
  }
}

}  // namespace

TEST_CASE("documents come as they are") {
  const std::string text = R"({"a":[1,-2,2.5,"x\"",null,true,{"b":[[],{}]}],"c":{"d":18446744073709551615}})";
  CHECK(read(text) == text);
  CHECK(read(" [ ] ") == "[]");
  CHECK(read("3") == "3");
}

TEST_CASE("only some keys of the outermost object") {
  const std::string text = R"({"a":{"c":1},"b":[{"a":2},[3]],"c":4,"d":{"x":{"y":[]}}})";
  CHECK(read(text, {"a", "c"}) == R"({"a":{"c":1},"c":4})");
  CHECK(read(text, {"b"}) == R"({"b":[{"a":2},[3]]})");
  CHECK(read(text, {"none"}) == "{}");
  CHECK_THAT(read(text.substr(0, text.size() - 3), {"a"}), ContainsSubstring("not whole JSON"));
}

TEST_CASE("what is no whole document is refused") {
  CHECK_THAT(read(""), ContainsSubstring("found a file that is not whole JSON (line 1, column 1"));
  CHECK_THAT(read("{\"a\": 1,\n \"b\": }"), ContainsSubstring("line 2, column 7"));
  CHECK_THAT(read("{\"a\": 1} x"), ContainsSubstring("not whole JSON"));
  CHECK_THAT(read("{\"a\": NaN}"), ContainsSubstring("not whole JSON"));
  CHECK_THAT(read("{\"a\": 1e999}"), ContainsSubstring("not whole JSON"));
  CHECK_THAT(read("{\"a\": \"\xff\"}"), ContainsSubstring("not whole JSON"));
  CHECK(read(R"({"a": {"b": 1, "b": 1}})") ==
        ": found the key \"b\" twice in one object (line 1, column 16), expected each key once");
  CHECK_THAT(read("{\"a\": 1,\n\n  \"a\"  : 1}"), ContainsSubstring("twice in one object (line 3, column 3)"));
}

TEST_CASE("nested too deep") {
  CHECK(read(std::string(100, '[') + std::string(100, ']')).size() == 200);
  CHECK_THAT(read("\n" + std::string(101, '[')), ContainsSubstring("deeper than 100 (line 2, column 101)"));
  CHECK_THAT(read(std::string(101, '[') + std::string(101, ']')), ContainsSubstring("nested deeper than 100"));
  CHECK_THAT(read(std::string(1'000'000, '[')), ContainsSubstring("nested deeper than 100"));
  CHECK_THAT(read("{\"a\":" + std::string(1'000'000, '['), {"b"}), ContainsSubstring("nested deeper than 100"));
}

TEST_CASE("a list of many objects is read in a time that grows with its length") {
  std::string text = "[";
  for (int i = 0; i < 200'000; ++i) text += "{\"a\":1},";
  CHECK(read(text + "0]").size() == text.size() + 2);
}

TEST_CASE("a value is named by its place") {
  const nlohmann::json document = {{"gpus", {{{"layers", 1}}, {{"layers", "x"}}}}};
  const JsonPlace root(document, "a.json");
  CHECK(root.at("gpus").at(0).at("layers").whole(1, 100) == 1);
  CHECK_THROWS_WITH(root.at("gpus").at(1).at("layers").whole(1, 100),
                    "a.json: gpus[1].layers: found \"x\", expected a whole number from 1 to 100");
  CHECK_THROWS_WITH(root.at("gpu"), "a.json: found no key \"gpu\", expected one");
  CHECK_THROWS_WITH(root.at("gpus").at(0).at("layers").text(),
                    "a.json: gpus[0].layers: found 1, expected text in quotes");
  CHECK_THROWS_WITH(root.at("gpus").object(), "a.json: gpus: found a list of 2, expected an object");
}

TEST_CASE("an unknown key with a NUL character does not cut off the message that quotes it") {
  const nlohmann::json document = nlohmann::json::parse(R"({"x\u0000y": 1})");
  const std::vector<std::string> known = {"a"};
  CHECK_THROWS_WITH(JsonPlace(document, "a.json").object_of(known),
                    "a.json: found an unknown key \"x\\x00y\", expected a");
}
