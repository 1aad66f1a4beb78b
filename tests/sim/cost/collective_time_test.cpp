// Collectives of any number of GPUs and hosts from those that were measured.
#include "sim/cost/collective_time.hpp"

#include <cmath>

#include "sim/cost/hosts_of_profile.hpp"
#include "sim/io/error.hpp"
#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kMB = 1'000'000;

/// Latency 10 us and 10 us a megabyte, on 4 GPUs.
CostProfile profile(const std::string& operation, const std::string& transport) {
  ProfileBuilder builder;
  MeasuredKey key;
  key.probe = Probe::collective;
  key.operation = operation;
  key.transport = transport;
  key.ranks = 4;
  ProfileBuilder::Points points = {{1, 10}};
  for (std::int64_t bytes = kMB; bytes <= 1024 * kMB; bytes *= 2)
    points.push_back({bytes, 10 + 10.0 * static_cast<double>(bytes) / kMB});
  for (CurvePoint& point : builder.add(key, points).points) point.kernels = {{"ring", point.time_ns, 24, 1, 1}};
  return builder.done();
}

struct Asked {
  std::string operation = "all_reduce";
  std::string transport = "nccl";
  CostProfile known = profile(operation, transport);
  Notices notices = {};

  CollectiveTime time(std::int64_t ranks, std::int64_t bytes, std::int64_t hosts = 1, double gb_per_s = 50,
                      double latency_us = 5) {
    CollectiveTimes times(known, notices);
    return times.at({operation, transport, ranks, bytes, hosts, gb_per_s * 1e9, latency_us * 1e3});
  }

  double us(std::int64_t ranks, std::int64_t bytes, std::int64_t hosts = 1, double gb_per_s = 50,
            double latency_us = 5) {
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

TEST_CASE("Gloo on several hosts: a ring over all ranks, the longer of the inside and the network, latencies of both") {
  Asked asked{"all_reduce", "gloo"};
  // 2 hosts x 4: 2 x 7/8 of 1,024 MB at 50 GB/s, 35.84 ms, in two steps of 5 us; inside 14 steps, 11.95 ms.
  CHECK(asked.us(8, 1024 * kMB, 2) == Approx(10 * 14 / 6. + 2 * 5 + 35840));
  // A network that is faster than the inside.
  CHECK(asked.us(8, 1024 * kMB, 2, 5000) == Approx(10 * 14 / 6. + 2 * 5 + 10240 * (7 / 8.) / (3 / 4.)));
  CHECK_THAT(asked.notices.texts().back(),
             ContainsSubstring("8 GPUs on 2 hosts by a ring, over a network of 5000 GB/s a host and 5 us"));
  CHECK(asked.time(8, 1024 * kMB, 2).blocks == 24);
  // One GPU a host: every step is between hosts.
  CHECK(asked.us(4, 1024 * kMB, 4) == Approx(10 + 6 * 5 + 30720));
}

TEST_CASE("broadcast and reduce: the bytes once, 3 steps of a ring of 4, a tree of n has log2 n steps and grows less") {
  for (const std::string operation : {"broadcast", "reduce"}) {
    INFO(operation);
    Asked asked{operation};
    CHECK(asked.us(4, 64 * kMB) == Approx(650));
    CHECK(asked.us(2, 1024 * kMB) == Approx(10 * 1 / 2. + 10240));
    CHECK(asked.us(8, 1024 * kMB) == Approx(10 * 3 / 2. + 10240));
    CHECK(asked.us(16, 1) == Approx(10 * 4 / 2.));
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
  }
}

TEST_CASE("several hosts are never faster than one, whatever their network") {
  for (const std::int64_t ranks : {2, 4, 8, 16}) {
    for (const std::int64_t bytes : {std::int64_t{1}, kMB, 1024 * kMB}) {
      Asked asked;
      for (std::int64_t hosts = 2; hosts <= ranks; hosts *= 2) {
        CAPTURE(ranks, bytes, hosts);
        const CollectiveTime time = asked.time(ranks, bytes, hosts, 1e6, 0);
        CHECK(time.device_ns >= asked.time(ranks, bytes).device_ns * (1 - 1e-12));
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
  CHECK_THAT(asked.notices.texts().front(),
             ContainsSubstring("between measured groups: all_reduce of 3 ranks from 2 and 4 measured"));
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

namespace {

/// 10 us, and 10 us a megabyte on one host of 4; 40 us, and 20 us a megabyte on 2 hosts of 8.
Asked with_cluster(const std::string& operation = "all_reduce", bool with_host = true) {
  Asked asked{operation};
  MeasuredKey key = asked.known.curves.front().key;
  ProfileBuilder builder;
  if (with_host) builder.profile = asked.known;
  key.ranks = 16;
  key.hosts = 2;
  ProfileBuilder::Points points = {{1, 40}};
  for (std::int64_t bytes = kMB; bytes <= 1024 * kMB; bytes *= 2)
    points.push_back({bytes, 40 + 20.0 * static_cast<double>(bytes) / kMB});
  builder.add(key, points);
  asked.known = builder.done();
  return asked;
}

}  // namespace

TEST_CASE("a cluster that was measured is its curve, without another network, and without a word") {
  for (const bool with_host : {true, false}) {
    Asked asked = with_cluster("all_reduce", with_host);
    asked.known.curves.front().curve.points.front().kernels = {{"ring", 1, 24, 1, 1}};
    for (const double gb_per_s : {1., 50., 1e6}) CHECK(asked.us(16, 64 * kMB, 2, gb_per_s) == Approx(40 + 64 * 20));
    CHECK(asked.us(16, 1, 2) == Approx(40));
    if (with_host) CHECK(asked.notices.texts().empty());
    if (with_host) CHECK(asked.us(4, 64 * kMB) == Approx(650));  // and one host is what it was
  }
}

TEST_CASE(
    "more hosts than were measured: from that cluster, by a tree's steps and its busiest host's bytes, and it is "
    "said") {
  Asked asked = with_cluster();
  // 4 hosts of 8: 10 steps against 8 of a tree of all, twice the bytes against once. 3 hosts: 3/2.
  CHECK(asked.us(32, 64 * kMB, 4) == Approx(40 * 10 / 8. + 64 * 20 * 2));
  CHECK(asked.us(24, 64 * kMB, 3) == Approx(40 * 2 * std::log2(24.) / 8 + 64 * 20 * 1.5));
  CHECK(asked.us(32, 64 * kMB, 4) == Approx(40 * 10 / 8. + 64 * 20 * 2));
  CHECK_THAT(
      asked.notices.texts().front(),
      ContainsSubstring("all_reduce of 24 GPUs on 3 hosts, 64000000 bytes: between 1325.8 us, if the links inside "
                        "the hosts limit it, and 1965.8 us, if their network does; the second is taken"));
  asked = with_cluster();
  asked.us(32, 64 * kMB, 4);
  CHECK_THAT(asked.notices.texts().back(),
             ContainsSubstring("extrapolated: all_reduce of 32 GPUs on 4 hosts from 16 GPUs on 2 hosts measured, by "
                               "the bytes of the busiest host in a tree of hosts"));
  // Another number of GPUs a host: the same bytes between hosts.
  CHECK(asked.us(8, 64 * kMB, 2) == Approx(40 * 6 / 8. + 64 * 20));
  CHECK_THAT(asked.notices.texts().back(), ContainsSubstring("8 GPUs on 2 hosts from 16 GPUs on 2 hosts measured"));
  Asked gather = with_cluster("all_gather");
  CHECK(gather.us(32, 64 * kMB, 4) == Approx(40 * 31 / 15. + 64 * 20 * (31 / 32.) / (15 / 16.)));
}

TEST_CASE("a network that was given beside a cluster that was measured: not used, and it is said") {
  Asked asked = with_cluster();
  CollectiveTimes times(asked.known, asked.notices);
  CHECK(times.at({"all_reduce", "nccl", 16, 64 * kMB, 2, 1e9, 5e3, true}).device_ns / 1e3 == Approx(40 + 64 * 20));
  CHECK_THAT(asked.notices.texts().back(),
             ContainsSubstring("not used: the network that was given; all_reduce was measured on 2 hosts"));
}

TEST_CASE("one host where only a cluster was measured: no more than that, and it is said") {
  Asked asked = with_cluster("all_reduce", false);
  CHECK(asked.us(16, 64 * kMB) == Approx(40 + 64 * 20));
  CHECK(asked.us(8, 64 * kMB) == Approx(40 * 6 / 8. + 64 * 20 * (7 / 8.) / (15 / 16.)));
  CHECK_THAT(asked.notices.texts().back(),
             ContainsSubstring("8 GPUs on one host from 16 GPUs on 2 hosts measured, with its network"));
}

TEST_CASE("measured clusters or not, more hosts of as many GPUs never take less time") {
  for (const std::string operation : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"}) {
    for (const bool measured : {true, false}) {
      for (const std::int64_t bytes : {std::int64_t{1}, kMB, 64 * kMB, 1024 * kMB}) {
        Asked asked = measured ? with_cluster(operation) : Asked{operation};
        double last = 0;
        for (std::int64_t hosts = measured ? 2 : 1; hosts <= 12; ++hosts) {
          CAPTURE(operation, measured, bytes, hosts);
          CHECK(asked.us(8 * hosts, bytes, hosts, 400) >= last * (1 - 1e-12));
          last = asked.us(8 * hosts, bytes, hosts, 400);
        }
      }
    }
  }
}

TEST_CASE("hosts where nobody says how many: those with the GPUs of the profile's hosts, or a refusal") {
  const CostProfile cluster = with_cluster().known;  // 4 on one host, 8 each on two
  for (std::int64_t gpus = 1; gpus <= 40; ++gpus) {
    CAPTURE(gpus);
    if (gpus <= 8) CHECK(hosts_of_profile(cluster, "nccl", gpus) == 1);
    if (gpus > 8 && gpus % 8 == 0) CHECK(hosts_of_profile(cluster, "nccl", gpus) == gpus / 8);
    if (gpus > 8 && gpus % 8 != 0) {
      CHECK_THROWS_WITH(hosts_of_profile(cluster, "nccl", gpus),
                        "--gpus: found " + std::to_string(gpus) +
                            " with profile test, whose hosts have 8 GPUs each, expected at most 8, a multiple of 8, "
                            "or --hosts H with an equal share for each host");
    }
    CHECK(hosts_of_profile(cluster, "gloo", gpus) == 1);
    CHECK(hosts_of_profile(profile("all_reduce", "nccl"), "nccl", gpus) == 1);  // one host of 4: a larger one perhaps
  }
}

TEST_CASE("a profile without the collective is refused by name") {
  Asked asked;
  CollectiveTimes times(asked.known, asked.notices);
  CHECK_THROWS_AS(times.at({"broadcast", "nccl", 4, 1024}), InputError);
  CHECK_THROWS_AS(times.at({"all_reduce", "gloo", 4, 1024}), InputError);
}
