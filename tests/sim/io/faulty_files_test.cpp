// Whatever reads a file refuses every kind of faulty file as the user's mistake, with the file's name first.
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <functional>

#include "sim/cost/cost_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/io/input_file.hpp"
#include "sim/run/run_json.hpp"
#include "sim/spec/schedule_csv.hpp"
#include "sim/study/scenario.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace pdl;

namespace {

struct Loader {
  std::string name;
  std::string file;
  std::function<void(const std::string&)> load;
};

const std::vector<Loader> kJsonLoaders = {
    {"model", "m.json", [](const std::string& path) { load_model(path); }},
    {"run", "r.json", [](const std::string& path) { read_run(path); }},
    {"scenario", "s.json", [](const std::string& path) { load_scenario(path, {}); }},
    {"profile", "p.json", [](const std::string& path) { load_profile(path); }},
};
const Loader kCsvLoader = {"schedule", "c.csv", [](const std::string& path) { load_schedule_csv(path); }};

/// The message of the refusal, or what else happened.
std::string refusal(const Loader& loader, const std::string& path) {
  try {
    loader.load(path);
  } catch (const InputError& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("no refusal of input: ") + error.what();
  }
  return "accepted";
}

void check_refused(const Loader& loader, const std::string& path, const std::string& found) {
  const std::string message = refusal(loader, path);
  INFO(loader.name << "\n" << message << "\n" << found);
  CHECK(message.starts_with(path + ": "));
  CHECK(message.find(found) != std::string::npos);
}

}  // namespace

TEST_CASE("every JSON file with a fault is refused by name") {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"", "not whole JSON (line 1, column 1"},
      {"{\"layers\": [", "not whole JSON (line 1"},
      {"{} {}", "not whole JSON"},
      {"{\n\"x\": 1e999}", "not whole JSON (line 2, column 10: number overflow"},
      {"{\"x\": \"\xff\"}", "not whole JSON (line 1, column 8"},
      {"{\"x\": \"\x1b\"}", "not whole JSON (line 1, column 8"},
      {"{\"x\": nan}", "not whole JSON"},
      {std::string("{}\n\0{", 5), "not whole JSON (line 2, column 1: a character \\0"},
      {"{\"x\": 1, \"x\": 1}", "the key \"x\" twice in one object"},
      {"{\"x\": {\"y\": 1, \"y\": 1}}", "the key \"y\" twice in one object"},
      {std::string(101, '['), "nested deeper than 100"},
      {"[]", "expected an object"},
      {"3", "expected an object"},
      {"{}", "no key"},
  };
  for (const Loader& loader : kJsonLoaders) {
    const TemporaryFolder folder;
    for (const auto& [text, found] : faults) check_refused(loader, folder.write(loader.file, text), found);
    check_refused(loader, folder / "none.json", "no such file");
  }
}

TEST_CASE("a folder, and a file that may not be read, are refused by name") {
  std::vector<Loader> loaders = kJsonLoaders;
  loaders.push_back(kCsvLoader);
  for (const Loader& loader : loaders) {
    const TemporaryFolder folder;
    mkdir((folder / loader.file).c_str(), 0777);
    if (loader.name != "profile") check_refused(loader, folder / loader.file, "a folder");
    // A folder of a profile is one with a profile.json in it.
    if (loader.name == "profile")
      CHECK_THAT(refusal(loader, folder / loader.file), ContainsSubstring("profile.json: found no such file"));
    if (geteuid() == 0) continue;  // may read everything
    const std::string hidden = folder.write("hidden-" + loader.file, "{}");
    chmod(hidden.c_str(), 0);
    check_refused(loader, hidden, "cannot be read");
  }
}

TEST_CASE("what has no end, or waits for a writer, is refused by name and not opened") {
  std::vector<Loader> loaders = kJsonLoaders;
  loaders.push_back(kCsvLoader);
  for (const Loader& loader : loaders) {
    const TemporaryFolder folder;
    check_refused(loader, "/dev/zero", "found a device, no regular file");
    const std::string pipe = folder / loader.file;
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    check_refused(loader, pipe, "found a named pipe, no regular file");
  }
}

TEST_CASE("a pipe that is open already is read, up to the limit") {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  REQUIRE(write(ends[1], "0F0,0B0\n", 8) == 8);
  close(ends[1]);
  const std::string path = "/dev/fd/" + std::to_string(ends[0]);
  CHECK_THROWS_WITH(read_input_file(path, 7, "a text"),
                    path + ": found more than 7 bytes, expected a text of at most that");
  close(ends[0]);
  REQUIRE(pipe(ends.data()) == 0);
  REQUIRE(write(ends[1], "0F0,0B0\n", 8) == 8);
  close(ends[1]);
  CHECK(read_input_file("/dev/fd/" + std::to_string(ends[0]), 8, "a text") == "0F0,0B0\n");
  close(ends[0]);
}

TEST_CASE("a schedule file with any bytes in it is refused by name") {
  const TemporaryFolder folder;
  for (const std::string& text :
       {std::string("\xff\xfe"), std::string("0F0,\x1b[31m"), std::string("0F0\0,0B0", 8),
        std::string("0F99999999999999999999,0B0"), std::string("0F0,0B0,0F0"), std::string("{\"x\": 1}")}) {
    const std::string message = refusal(kCsvLoader, folder.write("c.csv", text));
    INFO(message);
    CHECK(message.starts_with(folder / "c.csv" + ":"));
  }
  check_refused(kCsvLoader, folder.write("c.csv", ""), "");
}
