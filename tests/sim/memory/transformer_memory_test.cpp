// Peak memory of transformers: what cross-entropy takes, weights that two layers share.
#include "sim/memory/allocated_tensors.hpp"
#include "sim/memory/memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kTokens = 64, kFeatures = 64, kVocabulary = 32768;

/// A model that is nearly all vocabulary: an embedding, one block, a head.
Plan plan_of(const std::string& flags, bool tied) {
  RunSpec model = spec("--depth 3 --strategy single --workers one --batch 8 " + flags);
  const auto kind = [](const char* name) { return find_layer_kind(name); };
  model.model.layers = {{kind("gpt_embedding"), {kVocabulary, kTokens, kFeatures, kTokens, 0}},
                        {kind("gpt_block"), {kFeatures, 2, 4 * kFeatures, kTokens, 0, 1}},
                        {kind("gpt_head"), {kFeatures, kVocabulary, kTokens, tied ? 1 : 0}}};
  model.model.loss = Loss::cross_entropy;
  return make_plan(model);
}

std::int64_t peak(const std::string& flags, bool tied = false) {
  return predict_memory_bytes(plan_of(flags, tied), {}).front();
}

}  // namespace

TEST_CASE("cross-entropy: log_softmax and the two gradients behind it, in fp32, are the peak", "[transformer_memory]") {
  const std::int64_t logits = 8 * kTokens * kVocabulary;
  const std::int64_t parameters = 2 * kVocabulary * kFeatures * 4;
  // log_softmax, its gradient, that of the logits: which themselves are gone in fp32.
  const std::int64_t fp32 = peak("--dtype fp32");
  CHECK(static_cast<double>(fp32 - parameters) == Approx(3.0 * 4 * static_cast<double>(logits)).epsilon(.02));
  // Under autocast log_softmax is half, and once more in fp32 for nll_loss, whose gradient is fp32; PyTorch's script
  // has the logits in a variable.
  const std::int64_t script = peak("--dtype amp-bf16 --program pytorch");
  const std::int64_t copies = kVocabulary * kFeatures * 2;  // of the head's weight, in half precision
  CHECK(static_cast<double>(script - parameters - copies) ==
        Approx((2.0 * 4 + 2 * 2) * static_cast<double>(logits)).epsilon(.02));
}

TEST_CASE("a block that is run again keeps what goes into it alone", "[transformer_memory]") {
  const auto live = [](const std::string& flags) { return plan_of(flags, false).live.front().bytes; };
  const std::int64_t input = 8 * kTokens * kFeatures * 4;
  const std::int64_t block = kept_by_autograd(plan_of("", false).spec.model, 1, 1, 8, Dtype::fp32, {8, 4, 4, 4});
  CHECK(live("") - live("--recompute 1") == block - input);
  // The forward casts all weights; so does a block for itself, when it is run again.
  CHECK(peak("--dtype amp-bf16 --recompute 1") < peak("--dtype amp-bf16"));
}

TEST_CASE("a tied head has no weight of its own, and memory is less by that at the peak", "[transformer_memory]") {
  const std::int64_t weight = kVocabulary * kFeatures * 4;
  const Plan tied = plan_of("", true), untied = plan_of("", false);
  CHECK(parameters(untied.spec.model) - parameters(tied.spec.model) == kVocabulary * kFeatures);
  CHECK(predict_memory_bytes(untied, {}).front() - predict_memory_bytes(tied, {}).front() == weight);
  // Adam's step: parameters, gradients, two moments and the roots of one, each once.
  const std::int64_t at_step = peak("--optimizer adamw", false) - peak("--optimizer adamw", true);
  CHECK(at_step == 3 * weight);  // the peak stays the loss's: a weight and two moments
}

TEST_CASE("tokens are whole numbers of 8 bytes, as inputs and as targets", "[transformer_memory]") {
  const Plan plan = plan_of("", false);
  CHECK(data_bytes(plan, 0) == 2 * 8 * kTokens * 8);
  CHECK(activation_number_bytes(plan.spec.model, Dtype::amp_bf16) == std::vector<std::int64_t>{8, 4, 4, 2});
}
