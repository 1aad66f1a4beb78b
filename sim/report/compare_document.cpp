#include "sim/report/compare_document.hpp"

#include <algorithm>
#include <optional>

#include "sim/io/number_text.hpp"
#include "sim/report/explain_document.hpp"
#include "sim/report/warnings.hpp"
#include "sim/run/comparison.hpp"
#include "sim/run/describe_run.hpp"

namespace pdl {
namespace {

TableCell difference_cell(const ComparedQuantity& q) {
  if (!q.a || !q.b) return "-";
  if (*q.a == *q.b) return {"0.0", 0.0};
  if (*q.b == 0) return "-";
  const double difference = 100 * (*q.a - *q.b) / *q.b;
  return {signed_fixed(difference, 1), difference};
}

TableCell quantity_cell(const std::optional<double>& value, int digits) {
  if (!value) return "-";
  return {fixed(*value, digits), *value};
}

/// Where one of the two is no pipeline their idle shares can be compared, their bubbles cannot.
bool both_have_bubbles(const RunResult& a, const RunResult& b) {
  return has_bubble(a.spec) && has_bubble(b.spec);
}

Table table_of_quantities(const std::vector<ComparedQuantity>& rows, const RunResult& a, const RunResult& b) {
  Table table{.name = "runs",
              .columns = {{"quantity", "quantity", "", "", Align::left},
                          {"unit", "unit", "", "", Align::left},
                          {"a", lettered_name(0, a)},
                          {"b", lettered_name(1, b)},
                          {"difference_percent", "A - B", "% of B"}}};
  for (const ComparedQuantity& q : rows) {
    if (q.key == "bubble_fraction" && !both_have_bubbles(a, b)) continue;
    const bool share = q.unit == "fraction";
    const auto cell = [&](std::optional<double> value) {
      return share && value ? quantity_cell(100 * *value, 1) : quantity_cell(value, q.digits);
    };
    table.rows.push_back({q.title, share ? "%" : q.unit, cell(q.a), cell(q.b), difference_cell(q)});
  }
  return table;
}

/// Two rows a GPU.
Table table_of_both(const RunResult& a, const RunMetrics& ma, const RunResult& b, const RunMetrics& mb,
                    std::size_t most_rows) {
  const bool bubble = both_have_bubbles(a, b), mib = memory_in_mib(a) && memory_in_mib(b);
  Table table{.name = "gpus",
              .columns = {{"gpu", "GPU"}, {"run", "run", "", "", Align::left}},
              .key_columns = 2,
              .most_terminal_rows = 2 * most_rows};
  for (TableColumn& column : time_columns(bubble)) table.columns.push_back(std::move(column));
  table.columns.push_back(memory_column(mib));
  const auto add = [&](const char* name, const RunResult& run, const RunMetrics& metrics, std::size_t g) {
    if (g >= metrics.gpus.size()) return;
    std::vector<TableCell> row = {{std::to_string(g), static_cast<double>(g)}, name};
    for (TableCell& cell : time_cells(metrics.gpus[g], bubble)) row.push_back(std::move(cell));
    row.push_back(memory_cell(run, g, mib));
    table.rows.push_back(std::move(row));
  };
  for (std::size_t g = 0; g < std::max(ma.gpus.size(), mb.gpus.size()); ++g) {
    add("A", a, ma, g);
    add("B", b, mb, g);
  }
  return table;
}

/// "The measured step time, 36.700 ms, lies inside the predicted 36.512 +- 0.398 ms (90 % of measured steps do)."
void add_measured_in_prediction(Document& document, const RunResult& a, const RunResult& b) {
  const auto found = measured_in_prediction(a, b);
  if (!found) return;
  document.add(Paragraph{"The measured step time, " + fixed(found->measured_ms, 3) + " ms, lies " +
                         (found->inside ? "inside" : "outside") + " the predicted " + fixed(found->predicted_ms, 3) +
                         " +- " + fixed(found->half_width_ms, 3) + " ms (90 % of measured steps lie within)."});
}

void add_head(Document& document, const char* letter, const ComparedRun& side) {
  document.add(Paragraph{
      std::string(letter) + ": " + side.name + ": " + describe(side.run->spec) + "; " + describe_source(*side.run), 3});
}

}  // namespace

Document compare_document(const ComparedRun& a, const ComparedRun& b, const RunStyle& style) {
  const RunMetrics ma = compute_metrics(*a.run), mb = compute_metrics(*b.run);
  Document document{.title = "A: " + a.name + ", B: " + b.name};
  add_head(document, "A", a);
  add_head(document, "B", b);
  if (differ_in_program_alone(a.run->spec, b.run->spec)) {
    document.add(Paragraph{"The same settings by two programs: A is " + program_name(a.run->spec.program) +
                           "'s, B is " + program_name(b.run->spec.program) + "'s."});
  }
  for (const SettingDifference& d : settings_that_differ(a.run->spec, b.run->spec))
    document.add(Paragraph{"differs: " + d.name + " is " + d.a + " in A, " + d.b + " in B", 2});
  document.add(table_of_quantities(compared_quantities(*a.run, ma, *b.run, mb), *a.run, *b.run));
  add_measured_in_prediction(document, *a.run, *b.run);
  document.add(table_of_both(*a.run, ma, *b.run, mb, style.gantt.most_rows));
  if (style.with_gantt) {
    for (const ComparedRun* side : {&a, &b}) {
      document.add(Preformatted{lettered_name(side == &a ? 0 : 1, *side->run) + "\n" + gantt(*side->run, style.gantt),
                                /*terminal_only=*/true});
    }
  }
  document.add(TimelineFigure{"Timelines of the steps", {a.run, b.run}});
  if (a.explanation && b.explanation)
    document.add(compare_explanations(*a.run, *a.explanation, *b.run, *b.explanation));
  WarningList warnings;
  for (const ComparedRun* side : {&a, &b})
    warnings.add(side == &a ? "A" : "B", side->run->warnings, side->run->warning_shares);
  warnings.add_to(document);
  return document;
}

}  // namespace pdl
