// The answers to all questions of the sheets, as the program gives them from the bundled data: a golden file that can
// be read, a line a question.
#include <filesystem>
#include <map>

#include "sim/course/questions.hpp"
#include "sim/report/scenario_columns.hpp"
#include "sim/study/scenario.hpp"
#include "tests/support/process.hpp"

using namespace pdl;

namespace {

/// Up to the first ". " that begins another sentence.
std::string first_sentence(const std::string& text) {
  for (std::size_t at = text.find(". "); at != std::string::npos; at = text.find(". ", at + 1)) {
    if (at + 2 < text.size() && std::isupper(static_cast<unsigned char>(text[at + 2]))) return text.substr(0, at + 1);
  }
  return text;
}

bool has_digit(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

struct Given {
  std::string command, text;
};

/// By the identifier of the question.
std::map<std::string, Given> answers_of_the_program() {
  const TemporaryFolder folder;
  std::map<std::string, Given> answers;
  for (const std::string& path : scenario_files(PDL_SOURCE_DIR "/scenarios")) {
    if (load_scenario(path, scenario_names()).answer.empty()) continue;
    const std::string command = "scenario " + std::filesystem::path(path).stem().string();
    const Process run = run_program("pdl-sim", command + " --json -", folder);
    INFO(command << "\n" << run.err);
    REQUIRE(run.exit_code == 0);
    const nlohmann::json document = nlohmann::json::parse(run.out);
    for (const nlohmann::json& answer : document["answers"]) {
      CHECK(!answers.contains(answer["id"]));
      answers[answer["id"]] = {command, answer["answer"]};
    }
  }
  return answers;
}

}  // namespace

TEST_CASE("every question of the sheets: the command that answers it, and the first sentence of the answer") {
  const std::map<std::string, Given> answers = answers_of_the_program();
  std::string table;
  for (const Question& question : questions()) {
    INFO(question.id);
    const auto found = answers.find(question.id);
    CHECK(found != answers.end());
    if (found == answers.end()) continue;
    CHECK(has_digit(found->second.text));
    table += std::string(question.id) + " | pdl-sim " + found->second.command + " | " + question.wording + "\n    " +
             first_sentence(found->second.text) + "\n";
  }
  check_golden("course_answers.txt", table);
}
