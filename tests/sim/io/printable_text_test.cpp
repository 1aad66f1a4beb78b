#include "sim/io/printable_text.hpp"

#include "sim/report/document.hpp"
#include "sim/report/wrap.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

TEST_CASE("what moves a terminal is shown as text") {
  CHECK(printable("card \x1b[31m") == "card \\x1b[31m");
  CHECK(printable("a\nb\tc\rd") == "a\\nb\\tc\\rd");
  CHECK(printable(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(printable("\x7f\x08\x07") == "\\x7f\\x08\\x07");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\\xc2\\x9b31m");  // U+009B: CSI in one character
  CHECK(printable("\xe2\x80\xae"
                  "gpj") == "\\xe2\\x80\\xaegpj");  // U+202E: right to left
  CHECK(printable("\xff.json") == "\\xff.json");
  CHECK(printable("\xc0\x8a") == "\\xc0\\x8a");           // a line end, longer than it need be
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // a surrogate
  CHECK(printable("ab\xe2\x82") == "ab\\xe2\\x82");       // cut off
}

TEST_CASE("all other text is shown as it is") {
  for (const char* text : {"", "NVIDIA H100 80GB HBM3",
                           "Gr\xc3\xb6\xc3\x9f"
                           "e",
                           "\xe4\xb8\xad\xe6\x96\x87", "\xf0\x9f\x98\x80", "~ \\ \" '"}) {
    CHECK(printable(text) == text);
    CHECK(is_utf8(text));
  }
  for (const char* text : {"\xff", "\xc0\x80", "\xed\xbf\xbf", "\xf4\x90\x80\x80", "\x80", "a\xc3"})
    CHECK_FALSE(is_utf8(text));
}

TEST_CASE("tables and wrapped lines have no control characters of their texts") {
  const std::string name = "h\x1b[2J\nFastest";
  Document document;
  document.add(Table{
      .name = "t", .columns = {{"profile", "profile", "", "", Align::left}, {"card", "GPU"}}, .rows = {{name, "1"}}});
  CHECK(to_terminal(document, {}) == "profile            GPU\n----------------------\nh\\x1b[2J\\nFastest    1\n");
  CHECK_THAT(to_markdown(document), ContainsSubstring("| h\\x1b[2J\\nFastest | 1 |"));
  CHECK(wrap("profile " + name, 80) == "profile h\\x1b[2J Fastest\n");
}
