#include "sim/spec/mesh.hpp"

#include <array>

#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

/// The mesh as it is drawn: a row a replica, "dp0 | 0 1 2"; with several shards of a layer "(0 1) (2 3)".
std::string drawn(const Mesh& mesh) {
  std::string text;
  for (std::int64_t d = 0; d < mesh.dp; ++d) {
    text += "dp" + std::to_string(d) + " |";
    for (std::int64_t p = 0; p < mesh.pp; ++p) {
      text += mesh.tp > 1 ? " (" : " ";
      for (std::int64_t t = 0; t < mesh.tp; ++t)
        text += (t == 0 ? "" : " ") + std::to_string(mesh.gpu({.dp = d, .pp = p, .tp = t}));
      text += mesh.tp > 1 ? ")" : "";
    }
    text += "\n";
  }
  return text;
}

/// "0 3 | 1 4": the groups along a dimension, in the order of their first GPU.
std::string groups(const Mesh& mesh, Dimension dimension) {
  std::string text;
  for (std::int32_t gpu = 0; gpu < mesh.gpus(); ++gpu) {
    const WorkerGroup group = mesh.group_along(gpu, dimension);
    if (group.front() != gpu) continue;
    text += text.empty() ? "" : " |";
    for (const std::int32_t member : group) text += (text.empty() ? "" : " ") + std::to_string(member);
  }
  return text;
}

}  // namespace

TEST_CASE("a mesh, drawn: rows are replicas, columns average their gradients") {
  const Mesh mesh = resolve(spec("--gpus 6 --dp 2 --schedule gpipe --batch 64")).mesh;
  CHECK(drawn(mesh) ==
        "dp0 | 0 1 2\n"
        "dp1 | 3 4 5\n");
  CHECK(groups(mesh, Dimension::pp) == "0 1 2 | 3 4 5");
  CHECK(groups(mesh, Dimension::dp) == "0 3 | 1 4 | 2 5");
  CHECK(groups(mesh, Dimension::tp) == "0 | 1 | 2 | 3 | 4 | 5");
  CHECK(mesh.place(5) == MeshPlace{.dp = 1, .pp = 2, .tp = 0});
}

TEST_CASE("in three dimensions the shards of a layer are neighbours") {
  const Mesh mesh{.dp = 2, .pp = 2, .tp = 2, .hosts = 2};
  CHECK(drawn(mesh) ==
        "dp0 | (0 1) (2 3)\n"
        "dp1 | (4 5) (6 7)\n");
  CHECK(groups(mesh, Dimension::tp) == "0 1 | 2 3 | 4 5 | 6 7");
  CHECK(groups(mesh, Dimension::pp) == "0 2 | 1 3 | 4 6 | 5 7");
  CHECK(groups(mesh, Dimension::dp) == "0 4 | 1 5 | 2 6 | 3 7");
  for (std::int32_t gpu = 0; gpu < mesh.gpus(); ++gpu) CHECK(mesh.gpu(mesh.place(gpu)) == gpu);
  // Two hosts of four: a replica is on one, its gradients are averaged over both.
  CHECK(mesh.hosts_of(mesh.group_along(0, Dimension::pp)) == 1);
  CHECK(mesh.hosts_of(mesh.group_along(0, Dimension::dp)) == 2);
}

TEST_CASE("every strategy is a program on a mesh") {
  const auto resolved = [](const std::string& flags) {
    const Parallelism parallel = resolve(spec("--depth 8 --batch 64 " + flags));
    constexpr std::array kNames = {"pipeline", "pytorch_pipeline", "one_thread", "ddp", "data_parallel"};
    const Mesh& mesh = parallel.mesh;
    return std::string(kNames.at(static_cast<std::size_t>(parallel.program))) + " dp " + std::to_string(mesh.dp) +
           " pp " + std::to_string(mesh.pp) + " tp " + std::to_string(mesh.tp) + " hosts " + std::to_string(mesh.hosts);
  };
  CHECK(resolved("") == "pipeline dp 1 pp 1 tp 1 hosts 1");
  CHECK(resolved("--dtype amp-fp16") == "one_thread dp 1 pp 1 tp 1 hosts 1");
  CHECK(resolved("--gpus 4 --strategy mp") == "one_thread dp 1 pp 4 tp 1 hosts 1");
  CHECK(resolved("--gpus 4 --schedule gpipe --workers one") == "one_thread dp 1 pp 4 tp 1 hosts 1");
  CHECK(resolved("--gpus 4 --schedule zb-v") == "pipeline dp 1 pp 4 tp 1 hosts 1");
  CHECK(resolved("--gpus 4 --schedule zb-v --program pytorch") == "pytorch_pipeline dp 1 pp 4 tp 1 hosts 1");
  CHECK(resolved("--gpus 4 --strategy mp --program pytorch") == "one_thread dp 1 pp 4 tp 1 hosts 1");
  CHECK(resolved("--pp 2 --dp 4") == "pipeline dp 4 pp 2 tp 1 hosts 1");
  CHECK(resolved("--gpus 4 --strategy dp") == "data_parallel dp 4 pp 1 tp 1 hosts 1");
  CHECK(resolved("--gpus 8 --strategy ddp --hosts 2") == "ddp dp 8 pp 1 tp 1 hosts 2");
  CHECK_FALSE(is_data_parallel(Program::pipeline));
  CHECK_FALSE(is_data_parallel(Program::one_thread));
  CHECK(is_data_parallel(Program::ddp));
  CHECK(is_data_parallel(Program::data_parallel));
}
