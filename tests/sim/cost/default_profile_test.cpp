// Which profile is taken where the user names none: one for all rows.
#include "sim/cost/cost_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/study/sweep.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/data_folder.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_profile.hpp"

using namespace pdl;

namespace {

/// What a profile has beside pipelines in fp32 with copies.
struct Extras {
  bool all_reduce = false;
  bool tf32 = false;
  bool nccl = false;    // between stages
  bool clocks = false;  // of layers in TF32, also sustained
};

/// Profiles of this test alone: the bundled ones are hidden by small ones of the same names.
class Folder {
 public:
  Folder() {
    for (const ProfileSummary& bundled : list_profiles()) add(bundled.name, 1);
  }
  void add(const std::string& name, int count, const Extras& extras = {}) const {
    CostProfile profile = tiny_profile();
    profile.name = name;
    profile.environment["count"] = count;
    const std::vector<MeasuredCurve> plain = profile.curves;
    for (const MeasuredCurve& curve : plain) {
      MeasuredCurve other = curve;
      other.key.dtype = Dtype::tf32;
      if (extras.tf32 && curve.key.dtype == Dtype::fp32) profile.curves.push_back(other);
      other.key.probe = Probe::sustained;
      if (extras.clocks && curve.key.operation == "forward") profile.curves.push_back(other);
      other = curve;
      other.key.transport = "nccl";
      if (extras.nccl && curve.key.probe == Probe::transfer) profile.curves.push_back(other);
    }
    MeasuredKey exchange;
    exchange.probe = Probe::collective;
    exchange.operation = "all_reduce";
    exchange.transport = "nccl";
    exchange.ranks = 2;
    if (extras.all_reduce) profile.curves.push_back({exchange, tiny_constant(50'000)});
    std::sort(profile.curves.begin(), profile.curves.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
    folder_.write(name + "/.keep", "");
    save_profile(profile, folder_ / (name + "/profile.json"));
  }
  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }

 private:
  TemporaryFolder folder_;
  DataFolder data_{folder_.path()};
};

/// All of width 64, which is what the profiles have.
CostProfile chosen(const std::vector<std::string>& rows) {
  std::vector<RunSpec> specs;
  for (const std::string& row : rows) specs.push_back(spec("--dim 64 --depth 8 --batch 256 " + row));
  return load_default_profile(specs);
}

const std::string kPipeline = "--gpus 4 --schedule gpipe", kReplicas = "--gpus 4 --pp 2 --dp 2";

}  // namespace

TEST_CASE("the default profile is the largest host, or the largest that can price what is asked for, and says so") {
  const Folder folder;
  folder.add("zz-large", 999999);
  folder.add("zz-exchange", 999998, {.all_reduce = true});
  folder.add("zz-both", 999997, {.all_reduce = true, .tf32 = true});
  folder.add("zz-nccl", 999996, {.nccl = true});
  const auto name_and_reason = [](const CostProfile& profile) { return profile.name + ": " + profile.chosen_as; };
  CHECK(name_and_reason(chosen({kPipeline})) == "zz-large: the largest host in data/");
  CHECK(name_and_reason(chosen({kReplicas})) == "zz-exchange: the largest host in data/ with collectives");
  CHECK(name_and_reason(chosen({kReplicas + " --dtype tf32"})) ==
        "zz-both: the largest host in data/ with collectives and layers in tf32");
  CHECK(name_and_reason(chosen({kPipeline + " --transport nccl"})) ==
        "zz-nccl: the largest host in data/ that has what is asked for");
  CHECK(name_and_reason(chosen({"--gpus 4 --schedule auto"})) == "zz-large: the largest host in data/");
  CHECK(load_profile("zz-large").chosen_as == "");
}

TEST_CASE(
    "rows that are compared have one profile: the largest that can price all of them, in whatever order they come") {
  const Folder folder;
  folder.add("zz-large", 999999);
  folder.add("zz-exchange", 999998, {.all_reduce = true});
  folder.add("zz-exchange-too", 999997, {.all_reduce = true, .tf32 = true});
  for (std::vector<std::string> rows : {std::vector{kPipeline, kReplicas},
                                        {kReplicas, kPipeline},
                                        {kPipeline, kPipeline + " --microbatches 4", kReplicas}}) {
    CHECK(chosen(rows).name == "zz-exchange");
  }
  CHECK(chosen({kPipeline, kPipeline + " --dtype tf32"}).name == "zz-exchange-too");
}

TEST_CASE("on tensor cores the first host with enough GPUs whose power limit is known goes before a larger one") {
  const Folder folder;
  folder.add("zz-large", 999999, {.all_reduce = true, .tf32 = true});
  folder.add("zz-clocks", 4, {.tf32 = true, .clocks = true});
  folder.add("zz-clocks-too", 4, {.all_reduce = true, .tf32 = true, .clocks = true});
  const std::string tf32 = kPipeline + " --dtype tf32", replicas = kReplicas + " --dtype tf32";
  CHECK(chosen({tf32}).name == "zz-clocks");
  CHECK(chosen({tf32}).chosen_as == "the largest host in data/ with layers in tf32 whose power limit is known");
  CHECK(chosen({replicas}).name == "zz-clocks-too");  // what is asked for is priced first of all
  CHECK(chosen({kPipeline, tf32}).name == "zz-clocks");
  CHECK(chosen({kPipeline}).name == "zz-large");  // fp32 has no such limit
  const CostProfile larger = chosen({"--gpus 8 --schedule gpipe --dtype tf32"});
  CHECK(larger.name == "zz-large");  // 8 GPUs are more than the others have
  CHECK(larger.chosen_as == "the largest host in data/ with layers in tf32");
  CHECK(chosen({"--gpus 4 --strategy ddp --dtype amp-bf16"}).name == "zz-large");  // that none has: no clocks either
}

TEST_CASE("where no profile can price all rows, the one that can price most, and it is said") {
  const Folder folder;
  folder.add("zz-large", 999999);
  folder.add("zz-tf32", 999998, {.tf32 = true});
  const std::string tf32 = kPipeline + " --dtype tf32";
  const CostProfile taken = chosen({kPipeline, tf32, tf32 + " --microbatches 2", kReplicas});
  CHECK(taken.name == "zz-tf32");
  CHECK(taken.chosen_as == "the one in data/ that can predict most rows, 3 of 4");
  CHECK(chosen({kPipeline, kReplicas}).name == "zz-large");  // the largest of equals
}

TEST_CASE("where no profile can price anything, the largest says that none has what is needed") {
  const Folder folder;
  folder.add("zz-large", 999999, {.tf32 = true});
  folder.add("zz-small", 999998);
  const CostProfile taken = chosen({kReplicas + " --dtype tf32"});
  CHECK(taken.name == "zz-large");
  CHECK(taken.chosen_as == "the largest host in data/; none has collectives and layers in tf32");
}

TEST_CASE("rows that have no plan count for no profile") {
  const Folder folder;
  folder.add("zz-large", 999999);
  folder.add("zz-exchange", 999998, {.all_reduce = true});
  std::vector<SettingValue> given;
  for (const auto& [name, value] : {std::pair{"gpus", "4"},
                                    {"pp", "1,2,4"},
                                    {"schedule", "1f1b,interleaved"},
                                    {"microbatches", "3,4"},
                                    {"dim", "64"},
                                    {"depth", "8"},
                                    {"batch", "384"}}) {
    given.push_back({name, value, std::string("--") + name});
  }
  const KindsOfSpecs kinds = kinds_of_sweep(given, {});
  const CostProfile taken = load_default_profile(kinds);
  CHECK(taken.name == "zz-exchange");
  CHECK(taken.chosen_as == "the largest host in data/ with collectives");
}

TEST_CASE("a profile that cannot be read is passed over with a warning in each prediction that named none") {
  const Folder folder;
  folder.add("zz-a", 999999);
  CHECK(chosen({kPipeline}).warnings.empty());
  folder.write("zz-0/profile.json", "broken");
  const CostProfile taken = chosen({kPipeline});
  REQUIRE(taken.warnings.size() == 1);
  CHECK_THAT(taken.warnings.front(),
             ContainsSubstring("zz-0 passed over, which cannot be read") && ContainsSubstring("zz-0/profile.json"));
  CHECK(load_profile("zz-a").warnings.empty());
}
