// Any bytes as a name that is shown: on a terminal, in JSON, in CSV, on a page.
#include "sim/io/json_place.hpp"
#include "sim/io/json_text.hpp"
#include "sim/io/letters.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/io/words.hpp"
#include "sim/report/document.hpp"
#include "sim/report/html.hpp"
#include "tests/fuzz/fuzzing.hpp"

using namespace pdl;

namespace {

void check_printable(const std::string& text) {
  const std::string shown = printable(text);
  require(is_utf8(shown), "what is shown is UTF-8");
  for (const char c : shown) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "nothing moves the cursor");
}

void check_json(const std::string& text) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  json["name"] = text;
  const nlohmann::json again = parse_json(json_text(json), "text.json");
  if (is_utf8(text)) require(again.at("name").get<std::string>() == text, "a name in JSON is read back");
}

/// Heads of tables and lines that are shown as they are (a chart) are words of the program.
void check_document(const std::string& text) {
  Document document{.title = text, .blocks = {}};
  document.add(Heading{text});
  document.add(Paragraph{text, 2});
  document.add(QuestionAnswer{"Q1", text, text});
  document.add(Table{.name = "names",
                     .title = text,
                     .columns = {{"name", "name"}, {"n", "n"}},
                     .rows = {{text, {"1", 1.0}}, {"-", text}}});
  document.add(Warning{text, text});
  const std::string terminal = to_terminal(document, {.width = 40}), page = to_html(document);
  require(is_utf8(terminal) && is_utf8(page) && is_utf8(to_markdown(document)), "views are UTF-8");
  to_csv(document);
  parse_json(json_text(to_json(document)), "document.json");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = text_of(data, size);
  check_printable(text);
  check_json(text);
  check_document(text);
  if (text.size() >= kLetters) {
    const auto index = index_of_letters(text, 0);
    if (index != kMostIndices) require(letters_of(index) == text.substr(0, kLetters), "letters of their index");
  }
  return 0;
}
