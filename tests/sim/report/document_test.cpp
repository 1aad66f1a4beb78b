#include "sim/report/document.hpp"

#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

Table two_rows() {
  return {.name = "runs",
          .columns = {{"row", "row"},
                      {"step_time_ms", "step time", "ms", "from before the forward to after the optimizer"},
                      {"layers", "layers", "", "", Align::left}},
          .rows = {{{"1", 1}, {"12.50", 12.5}, "4 (0-3)"}, {{"10", 10}, "-", "a, \"b\" | c"}}};
}

}  // namespace

TEST_CASE("a table of a document: in one line, in two, in parts") {
  CHECK(to_terminal(two_rows(), 60) ==
        "row  step time (ms)  layers\n"
        "-------------------------------\n"
        "  1           12.50  4 (0-3)\n"
        " 10               -  a, \"b\" | c\n");
  CHECK(to_terminal(two_rows(), 28) ==
        "     step time\n"
        "row       (ms)  layers\n"
        "--------------------------\n"
        "  1      12.50  4 (0-3)\n"
        " 10          -  a, \"b\" | c\n");
  CHECK(to_terminal(two_rows(), 20) ==
        "     step time\n"
        "row       (ms)\n"
        "--------------\n"
        "  1      12.50\n"
        " 10          -\n"
        "\n"
        "row  layers\n"
        "---------------\n"
        "  1  4 (0-3)\n"
        " 10  a, \"b\" | c\n");
}

TEST_CASE("a table that fits no terminal has each of its columns all the same") {
  const std::string text = to_terminal(two_rows(), 1);
  for (const char* word : {"step time", "(ms)", "layers", "12.50", "4 (0-3)"}) {
    CAPTURE(word);
    CHECK(text.find(word) != std::string::npos);
  }
}

TEST_CASE("cells of sentences are broken into lines where that makes the table fit") {
  const Table table{.name = "t",
                    .columns = {{"name", "name", "", "", Align::left},
                                {"what", "what it is", "", "", Align::left, true},
                                {"why", "why", "", "", Align::left, true}},
                    .rows = {{"gpipe", "all forwards, then all backwards", "simple"}, {"1f1b", "in turn", "-"}}};
  CHECK(to_terminal(table, 50) ==
        "name   what it is                        why\n"
        "-----------------------------------------------\n"
        "gpipe  all forwards, then all backwards  simple\n"
        "1f1b   in turn                           -\n");
  CHECK(to_terminal(table, 34) ==
        "name   what it is          why\n"
        "---------------------------------\n"
        "gpipe  all forwards, then  simple\n"
        "       all backwards\n"
        "1f1b   in turn             -\n");
}

TEST_CASE("a minor warning is shown with all warnings only") {
  Document document;
  document.add(Warning{.text = "hardly anything", .minor = true});
  document.add(Warning{.text = "much"});
  CHECK(to_terminal(document, {}) == "warning: much\n");
  CHECK(to_terminal(document, {.all_warnings = true}) == "warning: hardly anything\nwarning: much\n");
}

TEST_CASE("of more rows than a terminal shows those that are worst are shown, the worst first") {
  Table table{.name = "t", .columns = {{"n", "n"}, {"e", "error", "%"}}, .rows = {}, .most_terminal_rows = 2};
  for (const auto& [n, error] : {std::pair{1.0, 2.0}, {2.0, -9.0}, {3.0, 0.5}, {4.0, 3.0}})
    table.rows.push_back({{std::to_string(static_cast<int>(n)), n}, {std::to_string(static_cast<int>(error)), error}});
  const std::string head = "n  error (%)\n------------\n", rest = "... 2 rows are not shown (--csv has all) ...\n";
  CHECK(to_terminal(table, 80) == head + "1          2\n" + rest + "4          3\n");
  table.worst_by = 1;
  CHECK(to_terminal(table, 80) == head + "2         -9\n4          3\n" + rest);
  table.most_terminal_rows = 4;
  CHECK(to_terminal(table, 80) == head + "1          2\n2         -9\n3          0\n4          3\n");
}

TEST_CASE("UTF-8 takes a column a character") {
  const Table table{.name = "t", .columns = {{"a", "Größe"}, {"b", "b"}}, .rows = {{"1", "2"}}};
  CHECK(to_terminal(table, 80) ==
        "Größe  b\n"
        "--------\n"
        "    1  2\n");
}

TEST_CASE("the blocks of a document on a terminal: legend once, then three warnings of four") {
  Document document{.title = "d",
                    .blocks = {Heading{"Part", 2}, Paragraph{"one"}, Paragraph{"two"}, two_rows(), two_rows(),
                               QuestionAnswer{"HW1.2 Q1", "Is it linear?", "No: 1.8 times on 2 GPUs (measured)."},
                               Preformatted{"F0 B0\n", true}}};
  for (const char* text : {"first", "second", "third", "fourth"}) document.add(Warning{text, "row 1"});
  const std::string table =
      "row  step time (ms)  layers\n"
      "-------------------------------\n"
      "  1           12.50  4 (0-3)\n"
      " 10               -  a, \"b\" | c\n";
  const std::string begin = "Part\n----\n\none\ntwo\n\n" + table + "\n" + table +
                            "\nHW1.2 Q1: Is it linear? No: 1.8 times on 2 GPUs (measured).\n\nF0 B0\n\n"
                            "step time: from before the forward to after the optimizer\n\n"
                            "warning (row 1): first\nwarning (row 1): second\nwarning (row 1): third\n";
  CHECK(to_terminal(document, {.width = 80}) == begin + "and 1 more warning (--warnings shows all)\n");
  CHECK(to_terminal(document, {.width = 80, .all_warnings = true}) == begin + "warning (row 1): fourth\n");
}

TEST_CASE("Markdown has the same words, without what only a terminal needs") {
  const Document document{.title = "d",
                          .blocks = {Heading{"Part", 3}, two_rows(), Preformatted{"F0\n", true}, Preformatted{"B0\n"},
                                     Warning{"doubtful", "row 1"}}};
  CHECK(to_markdown(document) ==
        "### Part\n\n"
        "| row | step time (ms) | layers |\n"
        "|---:|---:|:---|\n"
        "| 1 | 12.50 | 4 (0-3) |\n"
        "| 10 | - | a, \"b\" \\| c |\n\n"
        "```\nB0\n```\n\n"
        "* step time: from before the forward to after the optimizer\n\n"
        "> Warning (row 1): doubtful\n");
}

TEST_CASE("Markdown has its legend and its warnings at its end, each once") {
  const Document document{.title = "d",
                          .blocks = {two_rows(), Warning{"doubtful", "x row 1"}, Heading{"Part"}, two_rows(),
                                     Warning{"doubtful", "y row 2"}, Warning{"of all"}, Paragraph{"last"}}};
  const std::string text = to_markdown(document);
  CHECK_THAT(text, Catch::Matchers::EndsWith("last\n\n* step time: from before the forward to after the optimizer\n\n"
                                             "> Warning (x row 1; y row 2): doubtful\n\n> Warning: of all\n"));
  CHECK(text.find("* step time") == text.rfind("* step time"));
}

TEST_CASE("CSV and JSON have numbers in full and nothing where there is nothing") {
  const Document document{.title = "d",
                          .blocks = {two_rows(), Paragraph{"costs"}, QuestionAnswer{"Q1", "Why?", "So."},
                                     Table{.name = "u", .columns = {{"x", "x"}}, .rows = {{{"0.33", 1.0 / 3}}}}}};
  CHECK(to_csv(document) ==
        "row,step_time_ms,layers\n"
        "1,12.5,4 (0-3)\n"
        "10,,\"a, \"\"b\"\" | c\"\n"
        "\n"
        "x\n"
        "0.3333333333333333\n");
  const auto json = to_json(document);
  CHECK(json["tables"][0]["rows"][0]["row"] == 1);
  CHECK(json["tables"][0]["rows"][1]["step_time_ms"].is_null());
  CHECK(json["tables"][1]["rows"][0]["x"] == 1.0 / 3);
  CHECK(json["answers"][0] == nlohmann::ordered_json{{"id", "Q1"}, {"question", "Why?"}, {"answer", "So."}});
  CHECK(json["notes"][0] == "costs");
  CHECK(json["warnings"].empty());
}
