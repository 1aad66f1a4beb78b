// Which rows a library is asked for, where its answers change in steps.
#include "calibrate/probe/rows_in_steps.hpp"

#include <random>
#include <set>
#include <string>

#include "tests/support/catch.hpp"

namespace pdl {
namespace {

/// What each row gets, and how many were asked.
std::pair<std::string, std::size_t> answers(const std::string& truth) {
  std::set<std::size_t> asked;
  const std::vector<std::size_t> of = rows_in_steps(truth.size(), [&](std::size_t a, std::size_t b) {
    asked.insert({a, b});
    return truth[a] == truth[b];
  });
  std::string all;
  for (std::size_t row = 0; row < truth.size(); ++row) {
    if (of[row] == row) asked.insert(row);
    all += truth[of[row]];
  }
  return {all, asked.size()};
}

TEST_CASE("no row, one and two are asked themselves", "[rows_in_steps]") {
  CHECK(answers("").first.empty());
  CHECK(answers("a") == std::pair(std::string("a"), std::size_t{1}));
  CHECK(answers("ab") == std::pair(std::string("ab"), std::size_t{2}));
  CHECK(answers("aba") == std::pair(std::string("aba"), std::size_t{3}));
}

TEST_CASE("rows between two of the same answer are not asked", "[rows_in_steps]") {
  const auto [all, asked] = answers(std::string(300, 'a'));
  CHECK(all == std::string(300, 'a'));
  CHECK(asked < 100);
}

TEST_CASE("every change is found to the row, where steps are not narrower than the first rows", "[rows_in_steps]") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::string truth;
    while (truth.size() < 320) truth += std::string(9 + random() % 60, static_cast<char>('a' + random() % 20));
    const auto [all, asked] = answers(truth);
    CHECK(all == truth);
    CHECK(asked < truth.size() / 2);
  }
}

TEST_CASE("where every row has another answer each is asked", "[rows_in_steps]") {
  std::string truth;
  for (int row = 0; row < 100; ++row) truth += static_cast<char>(' ' + row % 90);
  CHECK(answers(truth) == std::pair(truth, truth.size()));
}

}  // namespace
}  // namespace pdl
