// Collectives of any number of GPUs and hosts from those that were measured.
#include "sim/cost/collective_time.hpp"

#include <cmath>

#include "sim/spec/error.hpp"
#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kMB = 1'000'000;

/// Latency 10 us and 10 us a megabyte, on 4 GPUs.
CostProfile profile(const std::string& operation) {
  ProfileBuilder builder;
  MeasuredKey key;
  key.probe = Probe::collective;
  key.operation = operation;
  key.transport = "nccl";
  key.ranks = 4;
  ProfileBuilder::Points points = {{1, 10}};
  for (std::int64_t bytes = kMB; bytes <= 1024 * kMB; bytes *= 2) points.push_back({bytes, 10 + 10.0 * static_cast<double>(bytes) / kMB});
  for (CurvePoint& point : builder.add(key, points).points) point.kernels = {{"ring", point.time_ns, 24, 1, 1}};
  return builder.done();
}

struct Asked {
  std::string operation = "all_reduce";
  CostProfile known = profile(operation);
  Notices notices = {};

  CollectiveTime time(std::int64_t ranks, std::int64_t bytes, std::int64_t hosts = 1, double gb_per_s = 50, double latency_us = 5) {
    CollectiveTimes times(known, notices);
    return times.at({operation, "nccl", ranks, bytes, hosts, gb_per_s * 1e9, latency_us * 1e3});
  }

  double us(std::int64_t ranks, std::int64_t bytes, std::int64_t hosts = 1, double gb_per_s = 50, double latency_us = 5) {
    return time(ranks, bytes, hosts, gb_per_s, latency_us).device_ns / 1e3;
  }
};

}  // namespace

TEST_CASE("groups that were measured are their curve, without a word") {
  Asked asked;
  CHECK(asked.us(4, 64 * kMB) == Approx(650));
  CHECK(asked.notices.texts().empty());
  CHECK(asked.us(1, 64 * kMB) == 0);
}

TEST_CASE("other groups by the byte counts of ring and tree, and it is said") {
  Asked asked;
  // Ring of 8: bytes 2 x 7/8 against 2 x 3/4, steps 14 against 6. Small: a tree of 3 levels, 6 steps against 4.
  CHECK(asked.us(8, 1024 * kMB) == Approx(10 * 14 / 6. + 10240 * (7 / 8.) / (3 / 4.)));
  CHECK(asked.us(8, 1) == Approx(10 * 6 / 4.));
  // Fewer: a tree's 2 steps against 4, a ring's bytes.
  CHECK(asked.us(2, 1024 * kMB) == Approx(10 * 2 / 4. + 10240 * (1 / 2.) / (3 / 4.)));
  // 1,024 GPUs: a ring's 2,046 steps lose against a tree's 20 up to large sizes.
  CHECK(asked.us(1024, 64 * kMB) == Approx(10 * 20 / 4. + 640 * 1 / (3 / 4.)));
  REQUIRE(asked.notices.texts().size() == 3);
  CHECK_THAT(asked.notices.texts().front(), ContainsSubstring("extrapolated: all_reduce of 8 ranks from 4 measured"));
}

TEST_CASE("several hosts: ring or tree over all ranks, the longer of the inside and the network, latencies of both") {
  Asked asked;
  // 2 hosts x 4: 2 x 7/8 of 1,024 MB at 50 GB/s, 35.84 ms, in two steps of 5 us; inside 14 steps, 11.95 ms.
  CHECK(asked.us(8, 1024 * kMB, 2) == Approx(10 * 14 / 6. + 2 * 5 + 35840));
  // A network that is faster than the inside.
  CHECK(asked.us(8, 1024 * kMB, 2, 5000) == Approx(10 * 14 / 6. + 2 * 5 + 10240 * (7 / 8.) / (3 / 4.)));
  CHECK_THAT(asked.notices.texts().back(), ContainsSubstring("2 hosts, of a network of 5000 GB/s a host and 5 us"));
  CHECK(asked.time(8, 1024 * kMB, 2).blocks == 24);
}

TEST_CASE("broadcast and reduce: the bytes once, 3 steps of a ring of 4, a tree of n has log2 n steps and grows less") {
  for (const std::string operation : {"broadcast", "reduce"}) {
    INFO(operation);
    Asked asked{operation};
    CHECK(asked.us(4, 64 * kMB) == Approx(650));
    CHECK(asked.us(2, 1024 * kMB) == Approx(10 * 1 / 2. + 10240));
    CHECK(asked.us(8, 1024 * kMB) == Approx(10 * 3 / 2. + 10240));
    CHECK(asked.us(16, 1) == Approx(10 * 4 / 2.));
    // 4 hosts x 4: a tree of 4 steps, 2 of them between hosts, 5 us each; the bytes at 50 GB/s.
    CHECK(asked.us(16, 1024 * kMB, 4) == Approx(10 * 4 / 2. + 2 * 5 + 20480));
    CHECK(asked.us(12, 1024 * kMB, 3) == Approx(10 * std::log2(12) / 2 + 5 * std::log2(3) + 20480));
  }
}

TEST_CASE("all_gather and reduce_scatter: a ring alone, (n-1)/n of the bytes in n-1 steps") {
  for (const std::string operation : {"all_gather", "reduce_scatter"}) {
    INFO(operation);
    Asked asked{operation};
    CHECK(asked.us(4, 64 * kMB) == Approx(650));
    CHECK(asked.us(2, 1024 * kMB) == Approx(10 * 1 / 3. + 10240 * (1 / 2.) / (3 / 4.)));
    CHECK(asked.us(8, 1024 * kMB) == Approx(10 * 7 / 3. + 10240 * (7 / 8.) / (3 / 4.)));
    CHECK(asked.us(1024, 1) == Approx(10 * 1023 / 3.));
    // 4 hosts x 4: 15 steps, 3 between hosts, 15/16 of the bytes at 50 GB/s.
    CHECK(asked.us(16, 1024 * kMB, 4) == Approx(10 * 15 / 3. + 3 * 5 + 19200));
  }
}

TEST_CASE("one GPU a host: every step is between hosts") {
  Asked asked;
  // Ring of 4 hosts: 3/2 of the bytes at 50 GB/s, 6 steps of 5 us. Small: a tree, 2 x 2 steps.
  CHECK(asked.us(4, 1024 * kMB, 4) == Approx(10 + 6 * 5 + 30720));
  CHECK(asked.us(4, 1, 4) == Approx(10 + 4 * 5));
  CHECK(asked.us(2, kMB, 2) == Approx(10 * 2 / 4. + 2 * 5 + 20));
  CHECK(Asked{"broadcast"}.us(2, 1, 2) == Approx(10 * 1 / 2. + 1 * 5));
  CHECK(Asked{"all_gather"}.us(2, kMB, 2) == Approx(10 * 1 / 3. + 1 * 5 + 10));
}

TEST_CASE("several hosts are never faster than one, whatever their network") {
  for (const std::int64_t ranks : {2, 4, 8, 16}) {
    for (const std::int64_t bytes : {std::int64_t{1}, kMB, 1024 * kMB}) {
      Asked asked;
      for (std::int64_t hosts = 2; hosts <= ranks; hosts *= 2) {
        CAPTURE(ranks, bytes, hosts);
        const CollectiveTime time = asked.time(ranks, bytes, hosts, 1e6, 0);
        CHECK(time.device_ns >= asked.time(ranks, bytes).device_ns);
        CHECK(time.blocks == 24);
      }
    }
  }
}

TEST_CASE("a group without thread blocks has those of the nearest that has, if none has, it is said") {
  Asked asked;
  MeasuredKey imported = asked.known.curves.front().key;
  imported.ranks = 8;
  ProfileBuilder builder;
  builder.profile = asked.known;
  builder.add(imported, {{1, 10}, {kMB, 30}});
  asked.known = builder.done();
  CHECK(asked.us(8, kMB) == Approx(30));
  CHECK(asked.time(8, kMB).blocks == 24);
  CHECK(asked.notices.texts().empty());
  std::erase_if(asked.known.curves, [](const MeasuredCurve& measured) { return measured.key.ranks == 4; });
  CHECK(asked.time(8, kMB).blocks == 0);
  REQUIRE(asked.notices.texts().size() == 1);
  CHECK_THAT(asked.notices.texts().front(), ContainsSubstring("thread blocks of all_reduce; taken as none"));
}

TEST_CASE("times of collectives grow with bytes, from one byte to a terabyte, for any group") {
  for (const std::int64_t ranks : {2, 3, 4, 8, 1024}) {
    Asked asked;
    double last = 0;
    for (std::int64_t bytes = 1; bytes <= std::int64_t{1} << 40; bytes *= 4) {
      const double us = asked.us(ranks, bytes);
      CAPTURE(ranks, bytes);
      CHECK(us > 0);
      CHECK(us >= last);
      last = us;
    }
  }
}

TEST_CASE("a larger group never takes less time, whatever the group that was measured") {
  for (const std::string operation : {"all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter"}) {
    for (const std::int64_t measured : {2, 3, 4, 8, 16, 64}) {
      for (std::int64_t bytes = 1; bytes <= 1024 * kMB; bytes *= 32) {
        Asked asked{operation};
        for (MeasuredCurve& curve : asked.known.curves) curve.key.ranks = measured;
        double last = 0;
        for (std::int64_t ranks = 2; ranks <= 1024; ranks += 1 + ranks / 8) {
          const double us = asked.us(ranks, bytes);
          CAPTURE(operation, measured, bytes, ranks);
          CHECK(us >= last * (1 - 1e-12));
          last = us;
        }
      }
    }
  }
}

TEST_CASE("a group between two that were measured takes no less than the smaller and no more than the larger") {
  Asked asked;
  MeasuredKey key = asked.known.curves.front().key;
  ProfileBuilder builder;
  builder.profile = asked.known;  // 4 ranks: 10 us and 10 us a megabyte
  key.ranks = 16;
  builder.add(key, {{1, 11}, {kMB, 21}, {1024 * kMB, 10251}});  // hardly more: trees in the switch, say
  key.ranks = 2;
  builder.add(key, {{1, 9.5}, {kMB, 19}, {1024 * kMB, 10200}});
  asked.known = builder.done();
  const auto between = [](double low, double high, double part) { return low * std::pow(high / low, part); };
  CHECK(asked.us(3, 1) == Approx(between(9.5, 10, std::log2(1.5))));
  CHECK(asked.us(5, 1) == Approx(between(10, 11, std::log(1.25) / std::log(4))));
  CHECK(asked.us(12, 1) == Approx(between(10, 11, std::log(3) / std::log(4))));
  CHECK(asked.us(16, 1) == Approx(11));
  CHECK_THAT(asked.notices.texts().front(), ContainsSubstring("between measured groups: all_reduce of 3 ranks from 2 and 4 measured"));
  for (const std::int64_t bytes : {std::int64_t{1}, kMB, 1024 * kMB}) {  // sizes at which all three were measured
    double last = 0;
    for (std::int64_t ranks = 2; ranks <= 64; ++ranks) {
      CAPTURE(bytes, ranks);
      CHECK(asked.us(ranks, bytes) >= last * (1 - 1e-12));
      last = asked.us(ranks, bytes);
    }
  }
}

TEST_CASE("measured groups are left as they are, a larger one that was not takes no less than any of them") {
  Asked asked;  // 4 ranks: 10 us
  MeasuredKey key = asked.known.curves.front().key;
  ProfileBuilder builder;
  builder.profile = asked.known;
  key.ranks = 2;
  builder.add(key, {{1, 12}, {kMB, 30}});
  asked.known = builder.done();
  CHECK(asked.us(2, 1) == Approx(12));
  CHECK(asked.us(3, 1) == Approx(12));
  CHECK(asked.us(4, 1) == Approx(10));
  CHECK(asked.us(5, 1) == Approx(12));  // a tree of 5 from 4: 11.6
}

TEST_CASE("more hosts never take less time, however fast their network") {
  for (const double gb_per_s : {10., 1000., 1e5}) {
    Asked asked;
    double last = 0;
    for (std::int64_t hosts = 1; hosts <= 16; ++hosts) {
      const double us = asked.us(8 * hosts, 64 * kMB, hosts, gb_per_s, 5);
      CAPTURE(gb_per_s, hosts);
      CHECK(us >= last * (1 - 1e-12));
      last = us;
    }
  }
}

TEST_CASE("a profile without the collective is refused by name") {
  Asked asked;
  CollectiveTimes times(asked.known, asked.notices);
  CHECK_THROWS_AS(times.at({"broadcast", "nccl", 4, 1024}), InputError);
  CHECK_THROWS_AS(times.at({"all_reduce", "gloo", 4, 1024}), InputError);
}
