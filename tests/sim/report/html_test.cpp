#include "sim/report/html.hpp"

#include "sim/report/web_files.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/drawn_run.hpp"

using namespace pdl;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

/// The page without library, script and style, which are the same on every page.
std::string own_part(const Document& document) {
  std::string page = to_html(document);
  for (const std::string_view file :
       {web_files::echarts_min_js, web_files::echarts_txt, web_files::page_js, web_files::page_css}) {
    const std::size_t at = page.find(file);
    if (at != std::string::npos) page.erase(at, file.size());
  }
  return page;
}

bool has_library(const Document& document) {
  return to_html(document).find(web_files::echarts_min_js) != std::string::npos;
}

}  // namespace

TEST_CASE("a page: title, paragraph, table with exact numbers") {
  const Document document{
      .title = "sweep",
      .blocks = {Paragraph{"costs: a < b"},
                 Table{.name = "rows",
                       .title = "Rows",
                       .columns = {{"row", "row"},
                                   {"time_ms", "time", "ms", "of a step"},
                                   {"word", "word", "", "", Align::left}},
                       .rows = {{{"1", 1}, {"12.50", 12.5}, "<b>"}, {{"2", 2}, {"0.33", 1.0 / 3}, "-"}}}}};
  const std::string page = own_part(document);
  CHECK(count_of(page, "<h1>sweep</h1>") == 1);
  CHECK(count_of(page, "<p>costs: a &lt; b</p>") == 1);
  CHECK(count_of(page, "<caption>Rows</caption>") == 1);
  CHECK(count_of(page, "<th scope=\"row\">1</th><td>12.50</td><td class=\"l\">&lt;b&gt;</td>") == 1);
  CHECK(count_of(page, "<td data-v=\"0.3333333333333333\">0.33</td>") == 1);
  CHECK(count_of(page, "aria-sort=\"none\"") == 3);
  CHECK(count_of(page, "<dt>time</dt><dd>of a step</dd>") == 1);
}

TEST_CASE("a page without figures has no library of figures, and every page has a policy without network") {
  const Document text{.title = "t", .blocks = {Paragraph{"p"}}};
  const Document chart{.title = "t", .blocks = {ChartFigure{.title = "c", .x_title = "GPUs", .y_title = "time (ms)"}}};
  CHECK_FALSE(has_library(text));
  CHECK(has_library(chart));
  CHECK(to_html(chart).find(web_files::echarts_txt) != std::string::npos);
  CHECK(web_files::echarts_txt.find("*/") == std::string_view::npos);
  CHECK(to_html(text).size() < 100'000);
  for (const Document& document : {text, chart}) {
    const std::string page = own_part(document);
    CHECK(count_of(page, "default-src 'none'") == 1);
    CHECK(count_of(page, "http:") + count_of(page, "https:") == 0);
    CHECK(count_of(page, " src=") == 0);
    CHECK(count_of(page, "<link") == 0);
  }
  for (const std::string_view file : {web_files::page_js, web_files::page_css}) {
    CHECK(file.find("http") == std::string_view::npos);
    CHECK(file.find("</script") == std::string_view::npos);
  }
}

TEST_CASE("a name from a file ends nothing on a page: neither an element nor a script") {
  const std::string evil = "</script><script>alert(1)</script>\"'&";
  auto run = std::make_shared<RunResult>(drawn_run(1, {{0, "aA"}}));
  const Document document{
      .title = evil,
      .blocks = {Heading{evil}, Paragraph{evil}, Preformatted{evil}, QuestionAnswer{evil, evil, evil},
                 Warning{evil, evil},
                 Table{.name = evil, .title = evil, .columns = {{evil, evil, evil, evil}}, .rows = {{evil}}},
                 TimelineFigure{evil, {run}},
                 ChartFigure{.title = evil,
                             .x_title = evil,
                             .y_title = evil,
                             .x_labels = {evil},
                             .series = {{evil, {0}, {1}, {evil}}}}}};
  const std::string page = own_part(document);
  CHECK(count_of(page, "alert(1)") > 15);
  CHECK(count_of(page, "<script>alert") == 0);
  // The library, the page's own script, and the data of two figures.
  CHECK(count_of(page, "<script") == 4);
  CHECK(count_of(page, "</script>") == 4);
}

TEST_CASE("the number of spans of a timeline is on its figure") {
  const auto run = std::make_shared<RunResult>(drawn_run(2, {{0, "aabb..BB"}, {0, "..>....."}, {1, "...abBB."}}));
  const std::string page = own_part({.title = "run", .blocks = {TimelineFigure{"Step", {run}}}});
  CHECK(count_of(page, "data-spans=\"7\" data-merged=\"0\"") == 1);
  CHECK(count_of(page, "2 GPUs, 7 tasks; the step takes 8.000 ms (predicted).") == 1);
}

TEST_CASE("answers are a list with places, and contents begin with four headings") {
  Document document{.title = "book",
                    .blocks = {Heading{"One", 1}, QuestionAnswer{"HW1.2 Q1", "Is it linear?", "No."},
                               QuestionAnswer{"HW1.2 Q2", "Why?", "So."}, Heading{"Two", 1}, Heading{"Three", 2}}};
  CHECK(count_of(own_part(document), "<nav") == 0);
  document.add(Heading{"One", 3});
  const std::string page = own_part(document);
  CHECK(count_of(page, "<dl class=\"answers\">") == 1);
  CHECK(count_of(page, "<div id=\"hw1-2-q1\"><dt><a href=\"#hw1-2-q1\">HW1.2 Q1</a> Is it linear?</dt>") == 1);
  CHECK(count_of(page, "<li class=\"level1\"><a href=\"#one\">One</a></li>") == 1);
  CHECK(count_of(page, "<li class=\"level3\"><a href=\"#one-2\">One</a></li>") == 1);
}

TEST_CASE("three warnings are open, the others folded, and each part has its own") {
  Document document{.title = "t", .blocks = {Heading{"One", 1}}};
  for (const char* text : {"first", "second", "third", "fourth"}) document.add(Warning{text, "row 1"});
  document.add(Heading{"Two", 2});
  document.add(Warning{"fifth"});
  const std::string page = own_part(document);
  CHECK(count_of(page, "<section class=\"warnings\"") == 2);
  CHECK(count_of(page, "<summary>1 more</summary>\n<ul>\n<li><b>row 1:</b> fourth</li>") == 1);
  CHECK(count_of(page, "<li>fifth</li>") == 1);
  CHECK(count_of(page, "href=\"#warnings\">5 warnings</a>") == 1);
}

TEST_CASE("a chart of letters for the terminal is not on the page, other lines are") {
  const std::string page =
      own_part({.title = "t", .blocks = {Preformatted{"F0 > B0\n", true}, Preformatted{"F1 > B1\n"}}});
  CHECK(count_of(page, "F0") == 0);
  CHECK(count_of(page, "F1 &gt; B1\n</pre>") == 1);
}

TEST_CASE("charts that follow each other are one group, and the title is said once") {
  const ChartFigure chart{.title = "c", .x_title = "GPUs", .y_title = "time (ms)"};
  const std::string page = own_part(
      {.title = "book", .blocks = {Heading{"book", 1}, Paragraph{"book"}, chart, chart, Paragraph{"p"}, chart}});
  CHECK(count_of(page, "<div class=\"charts\">") == 2);
  CHECK(count_of(page, "</figure>\n</div>\n<p>p</p>") == 1);
  CHECK(count_of(page, ">book<") == 2);  // <title> and <h1>
}
