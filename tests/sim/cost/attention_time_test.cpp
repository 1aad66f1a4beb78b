// Attention between, and beyond, the sizes that were measured.
#include "sim/cost/attention_time.hpp"

#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

MeasuredKey attention(std::int64_t heads, std::int64_t head_size, std::int64_t tokens, std::int64_t sequences = 0) {
  MeasuredKey key;
  key.probe = Probe::layer;
  key.implementation = "autograd";
  key.operation = "forward";
  key.dtype = Dtype::amp_bf16;
  key.layer = {find_layer_kind("scaled_dot_product"), {heads, heads, head_size, tokens}};
  key.size = sequences;
  return key;
}

/// 12 heads of 64: 512 tokens take 10, 20 us for 1, 4 sequences, 2048 tokens 100 and 300.
CostProfile measured() {
  ProfileBuilder b;
  b.add(attention(12, 64, 512), {{1, 10}, {4, 20}});
  b.add(attention(12, 64, 2048), {{1, 100}, {4, 300}});
  return b.done();
}

double us(const CostProfile& profile, const MeasuredKey& layer) {
  std::vector<const MeasuredCurve*> shapes;
  for (const MeasuredCurve& curve : profile.curves) shapes.push_back(&curve);
  return attention_time(shapes, layer).ns / 1e3;
}

double octaves(const CostProfile& profile, const MeasuredKey& layer) {
  std::vector<const MeasuredCurve*> shapes;
  for (const MeasuredCurve& curve : profile.curves) shapes.push_back(&curve);
  return attention_time(shapes, layer).octaves_beyond;
}

}  // namespace

TEST_CASE("attention: what was measured, whoever has the heads: 12 of 4 sequences are 48 of one", "[attention]") {
  const CostProfile profile = measured();
  CHECK(us(profile, attention(12, 64, 512, 4)) == Approx(20));
  CHECK(us(profile, attention(48, 64, 512, 1)) == Approx(20));
  CHECK(us(profile, attention(24, 64, 2048, 2)) == Approx(300));
  CHECK(octaves(profile, attention(24, 64, 2048, 2)) == 0);
}

TEST_CASE("attention between: straight lines in the logarithms of heads x sequences and of tokens", "[attention]") {
  const CostProfile profile = measured();
  CHECK(us(profile, attention(12, 64, 512, 2)) == Approx(10 * std::sqrt(2.0)));
  CHECK(us(profile, attention(12, 64, 1024, 1)) == Approx(std::sqrt(10.0 * 100)));
  CHECK(us(profile, attention(12, 64, 1024, 4)) == Approx(std::sqrt(20.0 * 300)));
  CHECK(octaves(profile, attention(12, 64, 1024, 2)) == 0);
}

TEST_CASE("attention beyond: by FLOPs, with fewer heads along the line of the fewest", "[attention]") {
  const CostProfile profile = measured();
  CHECK(us(profile, attention(12, 64, 512, 8)) == Approx(40));
  CHECK(us(profile, attention(6, 64, 512, 1)) == Approx(10 / std::sqrt(2.0)));
  CHECK(us(profile, attention(12, 64, 4096, 1)) == Approx(400));
  CHECK(us(profile, attention(12, 64, 256, 4)) == Approx(10));
  CHECK(us(profile, attention(12, 128, 512, 4)) == Approx(40));
  CHECK(octaves(profile, attention(12, 64, 512, 8)) == Approx(1));
  CHECK(octaves(profile, attention(12, 64, 4096, 1)) == Approx(1));
  CHECK(octaves(profile, attention(12, 128, 512, 4)) == Approx(1));
}
