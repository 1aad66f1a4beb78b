#include "sim/cost/card_limits.hpp"

#include "tests/support/catch.hpp"

using namespace pdl;

TEST_CASE("cards by the name that the driver reports") {
  Environment environment;
  const auto card = [&](const char* name) {
    environment.card = name;
    const auto limits = limits_of(environment);
    return limits ? limits->card : "";
  };
  CHECK(card("NVIDIA H100 80GB HBM3") == "H100");
  CHECK(card("NVIDIA H100 PCIe") == "H100");
  CHECK(card("NVIDIA H200") == "H200");
  CHECK(card("NVIDIA GH200 480GB") == "GH200");
  CHECK(card("NVIDIA A100-SXM4-80GB") == "A100");
  CHECK(card("Tesla T4") == "T4");
  CHECK(card("Quadro RT4000") == "");
  CHECK(card("AMD EPYC") == "");
  CHECK(card("") == "");
}

TEST_CASE("the peak of a card is its own, or it is not known") {
  CHECK(dense_peak("NVIDIA H200", Dtype::amp_bf16) == 989.4e12);
  CHECK(dense_peak("NVIDIA H200", Dtype::amp_fp16) == 989.4e12);
  CHECK(dense_peak("NVIDIA H200", Dtype::tf32) == 494.7e12);
  CHECK(dense_peak("NVIDIA H200", Dtype::fp32) == 66.9e12);
  CHECK(dense_peak("NVIDIA A100-PCIE-40GB", Dtype::amp_bf16) == 312e12);  // as the SXM card
  for (const char* slower : {"NVIDIA H100 PCIe", "NVIDIA H100 NVL", "Tesla V100-PCIE-16GB"})
    CHECK(dense_peak(slower, Dtype::amp_fp16) == std::nullopt);
  CHECK(dense_peak("NVIDIA H100 80GB HBM3 MIG 1g.10gb", Dtype::fp32) == std::nullopt);
  CHECK(dense_peak("Tesla T4", Dtype::amp_bf16) == std::nullopt);
  CHECK(dense_peak("Intel(R) Xeon(R) Processor", Dtype::fp32) == std::nullopt);
  CHECK(dense_peak("", Dtype::fp32) == std::nullopt);
}
