#include "sim/course/series.hpp"

#include <algorithm>

#include "sim/course/scaling_words.hpp"

namespace pdl {
namespace {

constexpr std::ptrdiff_t kFewestMeasured = 2;

std::ptrdiff_t measured_count(const Rows& rows) {
  return std::count_if(rows.begin(), rows.end(), [](const ScenarioRow* row) { return row->measured.has_value(); });
}

/// Measured if two rows are, or the only one is.
Series of_one_kind(const ScenarioTable& table, Rows rows) {
  const bool measured = measured_count(rows) >= std::min(kFewestMeasured, std::ssize(rows));
  if (measured) std::erase_if(rows, [](const ScenarioRow* row) { return !row->measured; });
  return {&table, std::move(rows), measured ? Side::measured : Side::predicted};
}

/// More measured rows than the other; of predictions none is better.
bool is_better(const Series& own, const Series& other) {
  if (own.side != Side::measured) return false;
  return other.side != Side::measured || own.rows.size() > other.rows.size();
}

}  // namespace

std::vector<Series> series_over(const Tables& tables, const std::vector<std::string>& varied) {
  std::vector<Series> all;
  for (const ScenarioTable& table : tables) {
    for (const Rows& rows : rows_alike(table, varied)) {
      const Series own = of_one_kind(table, rows);
      const auto known = std::find_if(all.begin(), all.end(), [&](const Series& series) {
        return are_alike(*series.rows.front(), *rows.front(), varied);
      });
      if (known == all.end()) {
        all.push_back(own);
      } else if (is_better(own, *known)) {
        *known = own;
      }
    }
  }
  return all;
}

Series series_of_all(const Tables& tables) {
  Series best{nullptr, {}, Side::predicted};
  for (const ScenarioTable& table : tables) {
    Rows rows;
    for (const ScenarioRow& row : table.rows) rows.push_back(&row);
    const Series own = of_one_kind(table, rows);
    if (!best.table || is_better(own, best)) best = own;
  }
  return best;
}

double step_ms(const Series& series, const ScenarioRow& row) {
  return step_ms(row, series.side);
}
const EvaluatedRun& run_of(const Series& series, const ScenarioRow& row) {
  return of(row, series.side);
}

std::string source_of(const Series& series) {
  const bool host_bound =
      std::any_of(series.rows.begin(), series.rows.end(), [](auto* row) { return is_host_bound(*row); });
  return name(series.side) + (series.table->of_further_machine ? " on " + series.table->profile_name : "") +
         (host_bound ? ", host-bound" : "");
}

}  // namespace pdl
