#include "sim/report/scenario_document.hpp"

#include "sim/report/scenario_columns.hpp"
#include "sim/report/scenario_figures.hpp"
#include "tests/support/exercise_machine.hpp"
#include "tests/support/golden.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kGib = 1LL << 30;

ExerciseMachine& measured(ExerciseMachine& machine) {
  for (const auto& [gpus, ms] : {std::pair{"1", 13.0}, {"2", 15.0}})
    machine.measure(std::string("--strategy ddp --batch 64 --gpus ") + gpus, ms, {}, {},
                    std::vector<std::int64_t>(static_cast<std::size_t>(gpus[0] - '0'), 3 * kGib));
  return machine;
}

Tables scaling(const ExerciseMachine& machine, const std::string& columns) {
  return machine.tables("strong_scaling", R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2, 4]})", columns);
}

std::string text(const Tables& tables, std::size_t width = 1000) {
  return to_terminal(scenario_document({tables}), {.width = width, .all_warnings = true});
}

const Table& table_of(const Document& document, std::size_t number) {
  for (const Block& block : document.blocks) {
    const auto* table = std::get_if<Table>(&block);
    if (table && number-- == 0) return *table;
  }
  throw std::out_of_range("no such table");
}

}  // namespace

TEST_CASE("an exercise: answers first, then the table, predicted beside measured, and a table of GPUs",
          "[data_parallel]") {
  ExerciseMachine machine;
  check_golden("scenario_document.txt",
               text(scaling(measured(machine), R"("gpus", "step_time_ms", "speedup", "efficiency", "utilisation",
                                                  "busy", "peak_memory_gib")"),
                    80));
}

TEST_CASE("few columns: a row a GPU in one table", "[data_parallel]") {
  const Document document = scenario_document({scaling(ExerciseMachine(), R"("gpus", "step_time_ms", "busy")")});
  const Table& table = table_of(document, 0);
  CHECK(table.columns.size() == 5);
  CHECK(table.rows.size() == 1 + 2 + 4);
  CHECK_THROWS(table_of(document, 1));
}

TEST_CASE("a number is of the measured run where the row has one, else of the prediction", "[data_parallel]") {
  ExerciseMachine machine;
  const Document document = scenario_document({scaling(measured(machine), R"("gpus", "step_time_ms", "speedup")")});
  const Table& table = table_of(document, 0);
  REQUIRE(table.rows.size() == 3);
  CHECK(table.rows[1][3].text == "15.00");
  CHECK(table.rows[1][4].text == "-6.7");  // 14 predicted
  CHECK(table.rows[1][5].text == "0.87");  // 13 / 15
  CHECK(table.rows[2][3].text == "-");
  CHECK(table.rows[2][5].text == "0.86 p");  // 12 / 14, predicted
  CHECK(table.rows[2][5].number == Approx(12.0 / 14));
  CHECK_THAT(table.columns[0].meaning, ContainsSubstring("p marks the predicted ones"));
  // Where nothing was measured all is predicted, and nothing is marked.
  const Table predicted =
      table_of(scenario_document({scaling(ExerciseMachine(), R"("gpus", "step_time_ms", "speedup")")}), 0);
  CHECK(predicted.rows[2].back().text == "0.86");
  CHECK(predicted.columns[0].meaning.empty());
}

TEST_CASE("settings that every row has are said above the table, of one row they are columns", "[data_parallel]") {
  const ExerciseMachine machine;
  CHECK_THAT(text(scaling(machine, R"("strategy", "dim", "gpus", "step_time_ms")")),
             ContainsSubstring("all rows: depth 4, dim 8192, batch 64, strategy ddp"));
  const Document document = scenario_document({scaling(machine, R"("strategy", "dim", "gpus", "step_time_ms")")});
  CHECK(table_of(document, 0).columns[1].title == "GPUs");
  const Document one = scenario_document({machine.tables("strong_scaling", R"("strategy": "ddp", "batch": 64)",
                                                         R"({"gpus": 2})", R"("strategy", "dim", "gpus")")});
  CHECK(table_of(one, 0).columns[1].title == "strategy");
}

TEST_CASE("settings and counts are numbers, bytes too, and words are words") {
  const ExerciseMachine machine;
  const Tables tables = machine.tables("more_gpus", R"("schedule": "gpipe", "microbatches": 4)",
                                       R"([{"gpus": 2, "batch": 2048}, {"gpus": 4, "batch": 4096}])",
                                       R"("gpus", "batch", "parameters", "transfers_forward",
                                          "transfer_bytes_forward", "layers")");
  const Table table = table_of(scenario_document({tables}), 0);
  const auto column = [&](const std::string& key) {
    const auto found = std::find_if(table.columns.begin(), table.columns.end(), [&](auto& c) { return c.key == key; });
    return static_cast<std::size_t>(found - table.columns.begin());
  };
  CHECK(table.rows[1].at(column("gpus")).number == 4);
  CHECK(table.rows[1].at(column("batch")).number == 4096);
  CHECK(table.rows[1].at(column("transfers_forward")).number == 12);  // 4 micro-batches over 3 boundaries
  const TableCell& bytes = table.rows[1].at(column("transfer_bytes_forward"));
  CHECK(bytes.number == 3.0 * 4096 * 8192 * 4);
  CHECK(bytes.text == "402.7");
  CHECK(table.columns.at(column("transfer_bytes_forward")).unit == "MB");
  CHECK_FALSE(table.rows[1].at(column("layers")).number.has_value());
}

TEST_CASE("only pipelines have a schedule to show, and layers are those of each GPU", "[data_parallel]") {
  const ExerciseMachine machine;
  const Tables tables = machine.tables("more_gpus", R"("batch": 256)",
                                       R"([{"strategy": "mp", "gpus": 2, "tcomm": 0},
                                           {"schedule": ["gpipe", "zb-v"], "gpus": 2, "microbatches": 4}])",
                                       R"("schedule", "layers")");
  const Table table = table_of(scenario_document({tables}), 0);
  CHECK(table.rows[0][1].text == "-");
  CHECK(table.rows[1][1].text == "gpipe");
  CHECK(table.rows[1][2].text == "0-1 | 2-3");
  CHECK(table.rows[2][2].text == "0, 3 | 1, 2");  // v: the last stage is on GPU 0
}

TEST_CASE("a further machine's table has the rows that the first has not measured", "[data_parallel]") {
  ExerciseMachine machine, other;
  for (const char* gpus : {"1", "2", "4"}) other.measure(std::string("--strategy ddp --batch 64 --gpus ") + gpus, 7);
  const std::string columns = R"("gpus", "step_time_ms")";
  Tables tables = {scaling(measured(machine), columns).front(), measured_rows(scaling(other, columns).front())};
  tables[1].of_further_machine = true;
  const Document document = scenario_document({tables});
  CHECK(table_of(document, 0).rows.size() == 3);
  REQUIRE(table_of(document, 1).rows.size() == 1);
  CHECK(table_of(document, 1).rows[0][1].text == "4");
  CHECK(table_of(document, 1).rows[0][0].number == 3);  // the third row of the first table
  CHECK(table_of(document, 0).name == "x");
  CHECK(table_of(document, 1).name == "x_2");
}

TEST_CASE("a book has a heading an exercise, and warnings that name it", "[data_parallel]") {
  const ExerciseMachine machine;
  const Tables tables = host_bound(scaling(machine, R"("gpus", "step_time_ms")"));
  const std::string book = to_terminal(scenario_document({tables, tables}), {.width = 80});
  CHECK_THAT(book, ContainsSubstring("Exercises\n=========\n"));
  CHECK_THAT(book, ContainsSubstring("warning (x rows 1, 2, 3): bound by the host"));
  CHECK_THAT(text(tables), ContainsSubstring("warning (rows 1, 2, 3): bound by the host"));
}

TEST_CASE("shares of a recorded step that was unlike the others are warned of", "[data_parallel]") {
  const ExerciseMachine machine;
  machine.measure("--strategy ddp --batch 64 --gpus 2", 15, {{"recording", {{"overhead_fraction", 0.2}}}});
  CHECK_THAT(
      text(scaling(machine, R"("gpus", "step_time_ms", "busy")")),
      ContainsSubstring("warning (row 2): the recorded step, of which the shares of the step are, took up to +20 %"));
  CHECK_THAT(text(scaling(machine, R"("gpus", "step_time_ms")")), !ContainsSubstring("recorded step"));
}

TEST_CASE("on a CPU every step is said to be host-bound", "[data_parallel]") {
  Tables tables = scaling(ExerciseMachine(), R"("gpus", "step_time_ms")");
  CHECK_THAT(text(tables), !ContainsSubstring("On a CPU"));
  for (ScenarioRow& row : tables.front().rows) {
    row.predicted.result.spec.synthetic.reset();
    row.predicted.result.environment = {
        {"profile", {{"name", "here"}, {"card", "A CPU"}, {"count", 1}, {"device", "cpu"}}}};
  }
  CHECK_THAT(text(tables), ContainsSubstring("On a CPU the host computes itself: every step is host-bound"));
}

TEST_CASE("a chart of an exercise has a line a series, of what its rows vary", "[data_parallel]") {
  ExerciseMachine machine;
  const std::vector<ChartFigure> figures = scenario_figures(scaling(measured(machine), R"("gpus")"));
  REQUIRE(figures.size() == 1);
  CHECK(figures[0].x_title == "GPUs");
  CHECK(figures[0].y_title == "speed-up");
  REQUIRE(figures[0].series.size() == 1);
  CHECK(figures[0].series[0].name == "measured");
  CHECK(figures[0].series[0].x == std::vector<double>{1, 2});
  CHECK(figures[0].series[0].y == std::vector<double>{1, 13.0 / 15});
  CHECK(scenario_figures(
            ExerciseMachine().tables("imbalance", R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2]})"))
            .empty());
}

TEST_CASE("the error bar of a prediction stands beside its step time", "[data_parallel]") {
  ExerciseMachine machine;
  Tables tables = scaling(measured(machine), R"("gpus", "step_time_ms", "speedup")");
  for (ScenarioRow& row : tables.front().rows) row.predicted.result.error_bar.reset();
  CHECK_THAT(text(tables), !ContainsSubstring("±"));
  tables.front().rows[1].predicted.result.error_bar = ErrorBar{2.5, 0.2, {}};
  const Document document = scenario_document({tables});
  const Table& table = table_of(document, 0);
  CHECK(table.columns[3].key == "half_width_90_percent");
  CHECK(table.columns[3].title == "±");
  CHECK(table.rows[0][3].text == "-");
  CHECK(table.rows[1][2].text == "14.00");
  CHECK(table.rows[1][3].text == "2.50");
  CHECK(table.rows[1][4].text == "15.00");  // measured, as before
}

namespace {

constexpr const char* kSchedules = R"({"schedule": ["naive", "gpipe", "1f1b"], "recompute": [0, 1]})";
constexpr const char* kOfSchedules = R"("gpus": 2, "batch": 64, "microbatches": 4)";
constexpr const char* kColumnsOfSchedules = R"("schedule", "layers", "step_time_ms", "bubble")";

/// GPipe measured by both programs, 1F1B by PyTorch.
ExerciseMachine& measured_by_both(ExerciseMachine& machine) {
  machine.measure("--gpus 2 --batch 64 --microbatches 4 --schedule gpipe", 90);
  machine.measure("--gpus 2 --batch 64 --microbatches 4 --schedule gpipe --program pytorch", 125);
  machine.measure("--gpus 2 --batch 64 --microbatches 4 --schedule 1f1b --program pytorch", 120);
  return machine;
}

}  // namespace

TEST_CASE("rows that both programs have: predicted and measured of each, and why a program has none") {
  ExerciseMachine machine;
  const Tables tables = measured_by_both(machine).tables("more_gpus", kOfSchedules, kSchedules, kColumnsOfSchedules);
  check_golden("scenario_two_programs.txt", text(tables, 120));
  const auto json = to_json(scenario_document({tables}))["tables"][0]["rows"];
  REQUIRE(json.size() == 6);
  CHECK(json[2]["schedule"] == "gpipe");
  CHECK(json[2]["measured_step_time_ms"] == 90);
  CHECK(json[2]["pytorch_measured_step_time_ms"] == 125);
  CHECK(json[2]["pytorch_predicted_step_time_ms"] == 124);
  CHECK(json[4]["measured_step_time_ms"].is_null());
  CHECK(json[4]["pytorch_measured_step_time_ms"] == 120);
  CHECK(json[0]["pytorch_predicted_step_time_ms"].is_null());  // PyTorch has no such schedule
}

TEST_CASE("programs that are predicted alike have one column of it", "[data_parallel]") {
  ExerciseMachine machine;
  measured(machine).measure("--strategy ddp --batch 64 --gpus 2 --program pytorch", 14.5);
  const Document document = scenario_document({scaling(machine, R"("gpus", "step_time_ms")")});
  std::string keys;
  for (const TableColumn& column : table_of(document, 0).columns) keys += column.key + " ";
  CHECK(keys ==
        "row gpus predicted_step_time_ms measured_step_time_ms step_time_ms_error_percent "
        "pytorch_measured_step_time_ms pytorch_step_time_ms_error_percent ");
}

TEST_CASE("a scenario by PyTorch's program: rows that it has not are in the table, and why is below it") {
  ExerciseMachine machine;
  const Tables tables =
      measured_by_both(machine).tables_by_pytorch("more_gpus", kOfSchedules, kSchedules, kColumnsOfSchedules);
  check_golden("scenario_by_pytorch.txt", text(tables, 120));
  CHECK(tables.front().rows.size() == 2);
  CHECK(tables.front().scenario.left_out.size() == 4);
  const auto json = to_json(scenario_document({tables}))["tables"][0]["rows"];
  CHECK(json[0]["predicted_step_time_ms"].is_null());
  CHECK(json[0]["pdl_predicted_step_time_ms"] == 160);  // pdl-run has the row that PyTorch has not
}
