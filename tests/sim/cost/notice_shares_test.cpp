#include "sim/cost/notice_shares.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/small_graph.hpp"

using namespace pdl;

namespace {

/// Two GPUs; works 0 (90 ms) on both, 1 (10 ms) on GPU 0, 2 (2 ms) twice on GPU 1.
TaskGraph graph() {
  return small_graph(3, 2, {{0, 0}, {0, 1}, {1, 0}, {2, 1}, {2, 1}});
}

std::vector<TaskCost> costs() {
  return {device_only(90'000'000), device_only(10'000'000), device_only(2'000'000)};
}

}  // namespace

TEST_CASE("the share of a notice is that of the GPU where most of the work rests on it") {
  Notices notices;
  notices.say("about the step as a whole");
  notices.begin_work(1);
  notices.extrapolated("dim", 200, 50, 100);
  notices.begin_work(2);
  notices.extrapolated("dim", 400, 50, 100);
  notices.say("of the last work");
  notices.end_works();
  notices.say_host_substitute("p", "host calls", "others", 9'400'000);
  const auto shares = notice_shares(notices.list(), graph(), costs());
  REQUIRE(notices.texts() == std::vector<std::string>{"extrapolated: dim 400 beyond 50..100 measured",
                                                      "about the step as a whole", "of the last work",
                                                      "not in profile p: host calls; others used instead"});
  CHECK(*shares[0] == Approx(0.10));  // GPU 0: 10 of 100 ms; GPU 1: 4 of 94
  CHECK_FALSE(shares[1]);
  CHECK(*shares[2] == Approx(4.0 / 94));
  CHECK(*shares[3] == Approx(0.10));  // GPU 1: 9.4 of 94 ms
}

TEST_CASE("a price that is kept has its notices said again of each work that has it") {
  Notices kept;
  kept.extrapolated("rows", 7, 10, 20);
  kept.extrapolated("rows", 6, 10, 20);
  kept.say_substitute("layers", "p", "a", "b");
  Notices notices;
  notices.begin_work(0);
  notices.say("before");
  notices.say_again(kept);
  notices.begin_work(2);
  notices.extrapolated("rows", 5, 10, 20);
  notices.say_substitute("layers", "p", "c", "d");
  notices.say_again(kept);
  const std::vector<Notice> list = notices.list();
  REQUIRE(list.size() == 3);
  CHECK(list[0].text == "extrapolated: rows 5 beyond 10..20 measured");
  CHECK(list[0].works == std::vector<WorkOfNotice>{{0, kWholeWork}, {2, kWholeWork}});
  CHECK(list[1].text == "before");
  CHECK(list[1].works == std::vector<WorkOfNotice>{{0, kWholeWork}});
  CHECK(list[2].text == "not in profile p: a and 1 more of this kind; b used instead");
}

TEST_CASE("what is about a layer of a work counts for its part of it") {
  Notices of_layer;
  of_layer.extrapolated("rows", 7, 10, 20);
  Notices notices;
  notices.begin_work(0);
  notices.say_again(of_layer, 9'000'000);
  notices.say_again(of_layer, 18'000'000);
  notices.begin_work(1);
  notices.say_again(of_layer, 1'000'000);
  notices.end_works();
  // GPU 0: 27 of 90 and 1 of 10 ms, 0.28 of its time; GPU 1: 27 of 94 ms.
  CHECK(*notice_shares(notices.list(), graph(), costs())[0] == Approx(27.0 / 94));
}

TEST_CASE("of substitutes of one kind the first is said, with the number of the others") {
  Notices notices;
  notices.begin_work(0);
  notices.say_substitute("transfers", "p", "0 -> 1", "the median");
  notices.say_substitute("transfers", "p", "0 -> 1", "the median");
  CHECK(notices.texts().front() == "not in profile p: 0 -> 1; the median used instead");
  notices.say_substitute("transfers", "p", "1 -> 2", "the median");
  notices.say_substitute("transfers", "p", "2 -> 3", "the median");
  notices.say_substitute("loss", "p", "loss", "another");
  CHECK(notices.texts() ==
        std::vector<std::string>{"not in profile p: 0 -> 1 and 2 more of this kind; the median used instead",
                                 "not in profile p: loss; another used instead"});
}
