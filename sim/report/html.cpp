#include "sim/report/html.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "sim/report/html_text.hpp"
#include "sim/report/memory_figure.hpp"
#include "sim/report/timeline_figure.hpp"
#include "sim/report/web_files.hpp"
#include "sim/run/waiting_for.hpp"

namespace pdl {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWarningsOpen = 3;
constexpr std::size_t kHeadingsOfContents = 4;
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'";

/// What the text of a cell leaves of its number, for sorting: " data-v=\"0.3333333333333333\"" or nothing.
std::string exact_number(const TableCell& cell) {
  if (!cell.number || !std::isfinite(*cell.number)) return "";
  const std::string number = Json(*cell.number).dump();
  return Json::accept(cell.text) && Json::parse(cell.text) == Json(*cell.number) ? "" : " data-v=\"" + number + "\"";
}

/// Of what is on the page so far.
struct Page {
  std::string body{};
  Anchors ids{};
  std::vector<std::pair<Heading, std::string>> contents{};  // and their places
  std::vector<Warning> warnings{};                          // of this part, not yet shown
  std::vector<std::pair<std::string, std::string>> meanings{};
  std::size_t warning_count = 0;
  std::string warnings_at{};
  std::string open_end{};  // of the list of answers or the group of charts that the body is inside of
  bool figures = false;
};

/// Answers that follow each other are one list, charts one group.
void open_group(Page& page, const std::string& begin, const std::string& end) {
  if (page.open_end == end) return;
  page.body += page.open_end + begin;
  page.open_end = end;
}

void close_group(Page& page) {
  page.body += page.open_end;
  page.open_end.clear();
}

std::string warning_item(const Warning& warning) {
  return "<li>" + (warning.where.empty() ? "" : "<b>" + html_escaped(warning.where) + ":</b> ") +
         html_escaped(warning.text) + "</li>\n";
}

/// The first three; the rest folded.
void show_warnings(Page& page) {
  const std::vector<Warning> warnings = std::move(page.warnings);
  page.warnings.clear();
  if (warnings.empty()) return;
  const std::string id = page.ids.of("warnings");
  if (page.warnings_at.empty()) page.warnings_at = id;
  page.body += "<section class=\"warnings\" id=\"" + id + "\" aria-label=\"Warnings\">\n<h2>" +
               (warnings.size() == 1 ? "Warning" : "Warnings") + "</h2>\n<ul>\n";
  for (std::size_t i = 0; i < warnings.size(); ++i) {
    if (i == kWarningsOpen)
      page.body +=
          "</ul>\n<details><summary>" + std::to_string(warnings.size() - kWarningsOpen) + " more</summary>\n<ul>\n";
    page.body += warning_item(warnings[i]);
  }
  page.body += warnings.size() > kWarningsOpen ? "</ul></details>\n</section>\n" : "</ul>\n</section>\n";
}

void add(Page& page, const Heading& heading) {
  if (heading.level <= 2) show_warnings(page);
  const std::string id = page.ids.of(heading.text), tag = "h" + std::to_string(heading.level + 1);
  page.contents.emplace_back(heading, id);
  page.body += "<" + tag + " id=\"" + id + "\">" + html_escaped(heading.text) + "</" + tag + ">\n";
}

void add(Page& page, const Paragraph& paragraph) {
  page.body += "<p>" + html_escaped(paragraph.text) + "</p>\n";
}

void add(Page& page, const Preformatted& lines) {
  if (lines.terminal_only) return;
  std::string line;
  page.body += "<pre tabindex=\"0\">";
  for (std::istringstream in(lines.text); std::getline(in, line);) page.body += html_escaped(line) + "\n";
  page.body += "</pre>\n";
}

/// A column without a title, of remarks, is not one to sort by.
std::string head_cell(const TableColumn& column) {
  if (column.title.empty())
    return "<th scope=\"col\"><span class=\"unseen\">" + html_escaped(column.key) + "</span></th>";
  const std::string meaning = column.meaning.empty() ? "" : " title=\"" + html_escaped(column.meaning) + "\"";
  const std::string unit =
      column.unit.empty() ? "" : " <span class=\"unit\">(" + html_escaped(column.unit) + ")</span>";
  return std::string("<th scope=\"col\"") + (column.align == Align::left ? " class=\"l\"" : "") +
         " aria-sort=\"none\"><button type=\"button\"" + meaning + ">" + html_escaped(column.title) + unit +
         "</button></th>";
}

std::string body_cell(const TableCell& cell, const TableColumn& column, bool of_key) {
  const std::string attributes = (column.align == Align::left ? " class=\"l\"" : "") + exact_number(cell);
  const std::string tag = of_key ? "th" : "td";
  return "<" + tag + (of_key ? " scope=\"row\"" : "") + attributes + ">" + html_escaped(cell.text) + "</" + tag + ">";
}

void add(Page& page, const Table& table) {
  for (const TableColumn& column : table.columns) {
    const std::pair<std::string, std::string> meaning(column.title, column.meaning);
    if (!column.meaning.empty() &&
        std::find(page.meanings.begin(), page.meanings.end(), meaning) == page.meanings.end())
      page.meanings.push_back(meaning);
  }
  const std::string caption = table.title.empty() ? table.name : table.title;
  page.body += "<div class=\"table\" role=\"region\" tabindex=\"0\" aria-label=\"" + html_escaped(caption) +
               "\"><table id=\"" + page.ids.of("table " + table.name) + "\"><caption" +
               (table.title.empty() ? " class=\"unseen\"" : "") + ">" + html_escaped(caption) +
               "</caption>\n<thead><tr>";
  for (const TableColumn& column : table.columns) page.body += head_cell(column);
  page.body += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    page.body += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c)
      page.body += body_cell(row[c], table.columns[c], c < table.key_columns);
    page.body += "</tr>\n";
  }
  page.body += "</tbody></table></div>\n";
}

void add(Page& page, const QuestionAnswer& answer) {
  open_group(page, "<dl class=\"answers\">\n", "</dl>\n");
  const std::string id = page.ids.of(answer.id);
  page.body += "<div id=\"" + id + "\"><dt><a href=\"#" + id + "\">" + html_escaped(answer.id) + "</a> " +
               html_escaped(answer.question) + "</dt>\n<dd>" + html_escaped(answer.text) + "</dd></div>\n";
}

void add(Page& page, const Warning& warning) {
  page.warnings.push_back(warning);
  ++page.warning_count;
}

/// `kind`: of the figure, for the style. What is said below it is its text for those who cannot see it.
void add_figure(Page& page, const std::string& kind, const std::string& title, const std::string& said,
                const Json& data, const std::string& attributes = "") {
  page.figures = true;
  const std::string id = page.ids.of("figure " + title);
  page.body += "<figure class=\"" + kind + "\" id=\"" + id + "\"" + attributes + ">\n" +
               (title.empty() ? "" : "<h3>" + html_escaped(title) + "</h3>\n") +
               "<div class=\"plot\"></div>\n<noscript><p>This figure needs JavaScript.</p></noscript>\n<figcaption>" +
               html_escaped(said) + "</figcaption>\n<script type=\"application/json\">" + html_json(data) +
               "</script>\n</figure>\n";
}

void add(Page& page, const TimelineFigure& figure) {
  std::vector<TimelineRun> runs;
  for (const auto& run : figure.runs) runs.push_back({run.get(), waited_for(*run)});
  const TimelineData data = timeline_data(runs, {});
  if (data.rows.empty()) return;
  add_figure(page, "timeline", figure.title, timeline_summary(data, runs), timeline_json(data, runs),
             " data-spans=\"" + std::to_string(data.spans) + "\" data-merged=\"" + std::to_string(data.merged) + "\"");
}

const char* word_of(ChartKind kind) {
  switch (kind) {
    case ChartKind::line: return "line";
    case ChartKind::bar: return "bar";
    case ChartKind::stacked_bar: return "stacked_bar";
    case ChartKind::scatter: return "scatter";
    case ChartKind::stacked_area: return "stacked_area";
  }
  return "";
}

Json series_json(const ChartSeries& series) {
  return {{"name", series.name},
          {"x", series.x},
          {"y", series.y},
          {"labels", series.labels},
          {"reference", series.reference}};
}

std::string chart_summary(const ChartFigure& figure) {
  std::string names;
  for (const ChartSeries& series : figure.series)
    names += (names.empty() ? "" : ", ") + (series.name.empty() ? figure.y_title : series.name);
  return figure.y_title + " by " + figure.x_title + (figure.series.size() > 1 ? ": " + names : "") + ".";
}

void add(Page& page, const ChartFigure& figure) {
  Json series = Json::array();
  for (const ChartSeries& one : figure.series) series.push_back(series_json(one));
  open_group(page, "<div class=\"charts\">\n", "</div>\n");
  add_figure(page, "chart", figure.title, chart_summary(figure),
             {{"type", word_of(figure.kind)},
              {"x_title", figure.x_title},
              {"y_title", figure.y_title},
              {"x_labels", figure.x_labels},
              {"x_logarithmic", figure.x_logarithmic},
              {"y_logarithmic", figure.y_logarithmic},
              {"series", series}});
}

void add(Page& page, const MemoryFigures& figures) {
  for (const ChartFigure& figure : memory_figures(*figures.run)) add(page, figure);
}

/// Charts one after another stand side by side, and answers below each other.
bool goes_on_with_group(const Block& block) {
  return std::holds_alternative<QuestionAnswer>(block) || std::holds_alternative<ChartFigure>(block) ||
         std::holds_alternative<MemoryFigures>(block);
}

std::string contents_html(const Page& page) {
  if (page.contents.size() < kHeadingsOfContents) return "";
  std::string out = "<nav class=\"contents\" aria-label=\"Contents\"><details open><summary>Contents</summary>\n<ul>\n";
  for (const auto& [heading, id] : page.contents)
    out += "<li class=\"level" + std::to_string(heading.level) + "\"><a href=\"#" + id + "\">" +
           html_escaped(heading.text) + "</a></li>\n";
  return out + "</ul></details></nav>\n";
}

std::string meanings_html(const Page& page) {
  if (page.meanings.empty()) return "";
  std::string out = "<section class=\"meanings\" id=\"columns\" aria-label=\"Columns\"><h2>Columns</h2>\n<dl>\n";
  for (const auto& [title, meaning] : page.meanings)
    out += "<div><dt>" + html_escaped(title) + "</dt><dd>" + html_escaped(meaning) + "</dd></div>\n";
  return out + "</dl></section>\n";
}

std::string header_html(const Page& page, const std::string& title) {
  const std::string count = std::to_string(page.warning_count);
  const std::string warnings = page.warning_count == 0
                                   ? ""
                                   : "<a class=\"badge\" href=\"#" + page.warnings_at + "\">" + count +
                                         (page.warning_count == 1 ? " warning" : " warnings") + "</a>";
  return "<header><h1>" + html_escaped(title) + "</h1><div class=\"actions\">" + warnings +
         "<button type=\"button\" id=\"theme\" hidden>Dark</button></div></header>\n";
}

/// A page that has the library has its notice and licences too.
std::string scripts_html(const Page& page) {
  std::string out;
  if (page.figures) {
    out += "<script>/*\n" + std::string(web_files::echarts_txt) + "*/\n" + std::string(web_files::echarts_min_js) +
           "</script>\n";
  }
  return out + "<script>" + std::string(web_files::page_js) + "</script>\n";
}

/// The page's head has it already.
bool says_the_title(const Block& block, const std::string& title) {
  if (const auto* heading = std::get_if<Heading>(&block)) return heading->level == 1 && heading->text == title;
  if (const auto* paragraph = std::get_if<Paragraph>(&block)) return paragraph->text == title;
  return false;
}

}  // namespace

std::string to_html(const Document& document) {
  Page page;
  for (const Block& block : document.blocks) {
    if (says_the_title(block, document.title)) continue;
    if (!goes_on_with_group(block)) close_group(page);
    std::visit([&](const auto& one) { add(page, one); }, block);
  }
  close_group(page);
  show_warnings(page);
  const std::string contents = contents_html(page);
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n<meta http-equiv=\"Content-Security-Policy\" "
         "content=\"" +
         std::string(kPolicy) + "\">\n<title>" + html_escaped(document.title) + "</title>\n<style>" +
         std::string(web_files::page_css) + "</style></head>\n<body" + (contents.empty() ? "" : " class=\"book\"") +
         ">\n" + header_html(page, document.title) + contents + "<main>\n" + page.body + meanings_html(page) +
         "</main>\n" + scripts_html(page) + "</body></html>\n";
}

}  // namespace pdl
