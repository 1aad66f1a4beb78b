#include "sim/cost/cost_profile.hpp"
#include "sim/spec/error.hpp"
#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/data_folder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pdl {
namespace {

/// What a profile has beside a layer in fp32.
struct Extras {
  bool collectives = false;
  bool amp_bf16 = false;
};

void add_profile(const TemporaryFolder& folder, const std::string& name, const std::string& device, int count,
                 const Extras& extras = {}) {
  ProfileBuilder b;
  b.profile.name = name;
  b.profile.environment = {{"device", device}, {"card", "Card of " + name}, {"count", count}, {"date", "2026-11-27"}};
  b.layer("forward", 64, {{16, 10}});
  if (extras.amp_bf16) {
    MeasuredKey key = ProfileBuilder::layer_key("forward", 64, 64);
    key.dtype = "amp-bf16";
    b.add(key, {{16, 10}});
  }
  if (extras.collectives) {
    MeasuredKey key;
    key.probe = Probe::collective;
    key.operation = "all_reduce";
    key.transport = "nccl";
    key.ranks = 2;
    b.add(key, {{1024, 10}, {2048, 20}});
  }
  folder.write(name + "/.keep", "");
  save_profile(b.done(), folder / (name + "/profile.json"));
}

TEST_CASE("profiles are found by the name of their folder, and listed", "[profile_folders]") {
  const TemporaryFolder folder;
  const DataFolder data(folder.path());
  add_profile(folder, "zz-two", "cuda", 2);
  add_profile(folder, "zz-one", "cpu", 16);
  folder.write("zz-broken/profile.json", "{\"format\": ");
  folder.write("zz-empty/readme.txt", "no profile here");
  CHECK(load_profile("zz-two").host_description.count == 2);
  CHECK(load_profile("zz-two").environment["card"] == "Card of zz-two");

  std::vector<std::string> names;
  for (const ProfileSummary& profile : list_profiles()) {
    if (profile.name.starts_with("zz-")) names.push_back(profile.name);
    if (profile.name == "zz-broken") CHECK_THAT(profile.error, ContainsSubstring("zz-broken/profile.json"));
    if (profile.name == "zz-one") {
      CHECK(profile.error.empty());
      CHECK(profile.environment.card == "Card of zz-one");
      CHECK(profile.environment.date == "2026-11-27");
    }
  }
  CHECK(names == std::vector<std::string>{"zz-broken", "zz-one", "zz-two"});
}

TEST_CASE("a name that is not there is refused with those that are", "[profile_folders]") {
  const TemporaryFolder folder;
  const DataFolder data(folder.path());
  add_profile(folder, "zz-two", "cuda", 2);
  for (const char* name : {"zz-three", "", "..zz"}) {
    CHECK_THROWS_WITH(load_profile(name), ContainsSubstring("--profile: found \"" + std::string(name) + "\"") &&
                                              ContainsSubstring("zz-two"));
  }
  CHECK_THROWS_WITH(load_profile("no/such.json"), ContainsSubstring("no/such.json"));
  CHECK_THROWS_AS(load_profile(".."), InputError);
}

TEST_CASE("the default is the largest host: GPUs before CPUs, then count, then name", "[profile_folders]") {
  const TemporaryFolder folder;
  const DataFolder data(folder.path());
  add_profile(folder, "zz-cpus", "cpu", 1000000);
  add_profile(folder, "zz-b", "cuda", 999999);
  add_profile(folder, "zz-a", "cuda", 999999);
  add_profile(folder, "zz-small", "cuda", 999998);
  folder.write("zz-0/profile.json", "broken");
  CHECK(default_profile_name() == "zz-a");
}

TEST_CASE("a profile that cannot be read is passed over with a warning in each prediction that named none",
          "[profile_folders]") {
  const TemporaryFolder folder;
  const DataFolder data(folder.path());
  add_profile(folder, "zz-a", "cuda", 999999);
  const RunSpec spec;
  CHECK(load_default_profile({&spec, 1}).warnings.empty());
  folder.write("zz-0/profile.json", "broken");
  const CostProfile taken = load_default_profile({&spec, 1});
  REQUIRE(taken.warnings.size() == 1);
  CHECK_THAT(taken.warnings.front(), ContainsSubstring("zz-0 passed over, which cannot be read") && ContainsSubstring("zz-0/profile.json"));
  CHECK(load_profile("zz-a").warnings.empty());
}

TEST_CASE("$PDL_DATA that is no folder is refused, not passed over", "[profile_folders]") {
  const TemporaryFolder folder;
  folder.write("file", "");
  for (const std::string& path : {folder / "nowhere", folder / "file"}) {
    const DataFolder data(path);
    CHECK_THROWS_WITH(default_profile_name(), "$PDL_DATA: found " + path + ", no folder, expected a folder with NAME/profile.json in it");
  }
}

TEST_CASE("a profile that the user did not name says why it was taken", "[profile_folders]") {
  const TemporaryFolder folder;
  const DataFolder data(folder.path());
  add_profile(folder, "zz-large", "cuda", 999999);
  add_profile(folder, "zz-collectives", "cuda", 999998, {.collectives = true});
  add_profile(folder, "zz-both", "cuda", 999997, {.collectives = true, .amp_bf16 = true});
  RunSpec pipeline, ddp, half;
  ddp.strategy = Strategy::ddp;
  half.dtype = Dtype::amp_bf16;
  half.strategy = Strategy::ddp;
  const CostProfile usual = load_default_profile({&pipeline, 1}), exchanging = load_default_profile({&ddp, 1});
  const CostProfile mixed = load_default_profile({&half, 1});
  CHECK(usual.name == "zz-large");
  CHECK(usual.chosen_as == "the largest host in data/");
  CHECK(exchanging.name == "zz-collectives");
  CHECK(exchanging.chosen_as == "the largest host in data/ with collectives");
  CHECK(mixed.name == "zz-both");
  CHECK(mixed.chosen_as == "the largest host in data/ with collectives and layers in amp-bf16");
  CHECK(load_profile("zz-large").chosen_as == "");
}

TEST_CASE("the largest profile that has what is needed says so, and is taken although others have it too",
          "[profile_folders]") {
  const TemporaryFolder folder;
  const DataFolder data(folder.path());
  add_profile(folder, "zz-b", "cuda", 999999, {.collectives = true});
  add_profile(folder, "zz-a", "cuda", 999998, {.collectives = true});
  RunSpec ddp;
  ddp.strategy = Strategy::ddp;
  CHECK(load_default_profile({&ddp, 1}).name == "zz-b");
  CHECK(load_default_profile({&ddp, 1}).chosen_as == "the largest host in data/ with collectives");
}

TEST_CASE("where no profile has what is needed, the largest says that none has", "[profile_folders]") {
  const TemporaryFolder folder;
  const DataFolder data(folder.path());
  // Of the same names, so that they hide the bundled ones.
  for (const ProfileSummary& bundled : list_profiles()) add_profile(folder, bundled.name, "cpu", 1);
  add_profile(folder, "zz-large", "cuda", 999999, {.amp_bf16 = true});
  add_profile(folder, "zz-small", "cuda", 999998, {.collectives = true});
  RunSpec half;
  half.dtype = Dtype::amp_bf16;
  half.strategy = Strategy::ddp;
  const CostProfile taken = load_default_profile({&half, 1});
  CHECK(taken.name == "zz-large");
  CHECK(taken.chosen_as == "the largest host in data/; none has collectives and layers in amp-bf16");
}

TEST_CASE("the same name in several folders: the first folder's", "[profile_folders]") {
  const TemporaryFolder folder;
  const DataFolder data(folder.path());
  CHECK(profile_folders().front() == folder.path());
}

}  // namespace
}  // namespace pdl
