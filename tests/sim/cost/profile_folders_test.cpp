#include "sim/cost/cost_profile.hpp"
#include "sim/io/error.hpp"
#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/data_folder.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pdl {
namespace {

void add_profile(const TemporaryFolder& folder, const std::string& name, const std::string& device, int count) {
  ProfileBuilder b;
  b.profile.name = name;
  b.profile.environment = {{"device", device}, {"card", "Card of " + name}, {"count", count}, {"date", "2026-11-27"}};
  b.layer("forward", 64, {{16, 10}});
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

TEST_CASE("products of a file that is as it was written are read when they are asked for") {
  ProfileBuilder b;
  b.layer("forward", 64, {{16, 10}, {32, 20}});
  CostProfile profile = b.done();
  ProductModel products;
  products.library = "cuBLAS 1";
  products.asked_by = "hand";
  products.card = "c";
  products.multiprocessors = 1;
  products.kernels.resize(1);
  products.kernels.front().tiling.tile_m = products.kernels.front().tiling.tile_n = 64;
  profile.products = products;
  const std::string text = profile_text(profile);
  for (const bool with_checksum : {true, false}) {
    const std::string file = with_checksum ? text : nlohmann::json::parse(text).dump();
    const CostProfile read = profile_from_text(file, "p.json");
    CHECK(read.curves.size() == 1);
    REQUIRE(read.products);
    CHECK(read.products->library == "cuBLAS 1");
    CHECK(profile_text(read) == text);
  }
  // Broken ones are noticed at once where there is no checksum that holds.
  std::string broken = text;
  broken.replace(broken.find("cuBLAS 1"), 10, "\":1,\"x\":\"");
  CHECK_THROWS_AS(profile_from_text(broken, "p.json"), InputError);
}

TEST_CASE("a profile that is broken below its head is noticed when profiles are listed", "[profile_folders]") {
  ProfileBuilder b;
  b.layer("forward", 64, {{16, 10}, {32, 20}});
  b.profile.environment["count"] = 2;
  const std::string whole = profile_text(b.done());
  CHECK(checked_environment(whole, "p.json")->count == 2);
  const auto error_of = [](const std::string& text) {
    const TemporaryFolder folder;
    const DataFolder data(folder.path());
    folder.write("zz/profile.json", text);
    for (const ProfileSummary& profile : list_profiles()) {
      if (profile.name == "zz") return profile.error;
    }
    return std::string("not listed");
  };
  CHECK(error_of(whole).empty());
  std::string other = whole;
  other[whole.find("\"rows\":[")] = 'x';
  CHECK_FALSE(checked_environment(other, "p.json"));
  CHECK_THAT(error_of(other), ContainsSubstring("a file that is not whole JSON (line 3, column "));
  for (const std::size_t bytes : {whole.size() - 3, whole.size() / 2, whole.find('\n') + 1, whole.find('\n')})
    CHECK_THAT(error_of(whole.substr(0, bytes)), ContainsSubstring("a file that is not whole JSON"));
  // Changed by hand, and a file without a checksum: read whole.
  const std::string changed = nlohmann::json::parse(whole).dump();
  CHECK_FALSE(checked_environment(changed, "p.json"));
  CHECK(error_of(changed).empty());
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

TEST_CASE("$PDL_DATA that is no folder is refused, not passed over", "[profile_folders]") {
  const TemporaryFolder folder;
  folder.write("file", "");
  for (const std::string& path : {folder / "nowhere", folder / "file"}) {
    const DataFolder data(path);
    CHECK_THROWS_WITH(default_profile_name(),
                      "$PDL_DATA: found " + path + ", no folder, expected a folder with NAME/profile.json in it");
  }
}

TEST_CASE("the same name in several folders: the first folder's", "[profile_folders]") {
  const TemporaryFolder folder;
  const DataFolder data(folder.path());
  CHECK(profile_folders().front() == folder.path());
}

}  // namespace
}  // namespace pdl
