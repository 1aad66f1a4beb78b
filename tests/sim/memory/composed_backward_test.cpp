// Backwards of blocks, tensor by tensor, in units of 512 bytes: a for activations and their gradients, g for gradients
// of parameters, o for others. Two sequences of 8 tokens of 64 numbers (8 units in fp32); keys and values of 32 (4), an
// MLP of 128 (16), a vocabulary of 256. PyTorch 2.11 allocates the same for the modules of runtime/pytorch on
// FakeTensors of a GPU, but for sums in place, which FakeTensors do not have.
#include "sim/memory/composed_backward.hpp"
#include "sim/memory/memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

constexpr std::int64_t kUnit = 512;

Plan gpt_plan(const std::string& flags) {
  RunSpec model = spec("--depth 3 --strategy single --workers one --batch 2 " + flags);
  const auto kind = [](const char* name) { return find_layer_kind(name); };
  model.model.layers = {{kind("gpt_embedding"), {256, 8, 64, 8, 0}},
                        {kind("gpt_block"), {64, 2, 128, 8, 0, 1}},
                        {kind("gpt_head"), {64, 256, 8, 1}}};
  model.model.loss = Loss::cross_entropy;
  return make_plan(model);
}

Plan llama_plan(const std::string& flags) {
  RunSpec model = spec("--depth 3 --strategy single --workers one --batch 2 " + flags);
  const auto kind = [](const char* name) { return find_layer_kind(name); };
  model.model.layers = {{kind("embedding"), {256, 64, 8}},
                        {kind("llama_block"), {64, 2, 1, 128, 8}},
                        {kind("llama_head"), {64, 256, 8, 0}}};
  model.model.loss = Loss::cross_entropy;
  return make_plan(model);
}

/// "a+8 g+64 a-8": the backward of a layer whose result's gradient is there.
std::string backward(const Plan& plan, std::int64_t layer) {
  const Replay replay{plan, /*multiprocessors=*/0};
  GpuMemory memory;
  memory.records = true;
  Work work;
  work.rows = 2;
  work.layer_count = static_cast<std::int32_t>(plan.spec.model.layers.size());
  ComposedBackward composed(replay, work, plan.stages[0], layer, {memory, 0});
  const std::int64_t left = composed.run(replay.activation_bytes(work.rows, layer + 1));
  CHECK(left == (layer > 0 ? replay.activation_bytes(work.rows, layer) : 0));
  std::string text;
  for (const MemoryChange& change : memory.changes) {
    if (!text.empty()) text += ' ';
    text += to_string(change.category)[0];
    if (change.bytes > 0) text += '+';
    text += std::to_string(change.bytes / kUnit);
  }
  return text;
}

}  // namespace

TEST_CASE("a head under autocast: gradients are cast when what was kept is gone, that of the tied weight waits") {
  CHECK(backward(gpt_plan("--dtype amp-bf16"), 2) ==
        "a+4 g+64 a-4 o-64 a-16 a+8 a-4 g+128 g-64 "  // the product: half gradients, copies go, logits' gradient, casts
        "a+8 g+1 g+1 a-2 a-8 a-8");                   // the norm: its statistics, its input, and the gradient go
}

TEST_CASE("the gradients of a tied weight: under autocast added in place, in fp32 to a third tensor") {
  const std::string embedding = "g+4 a-1 g+128 a-8 ";
  CHECK(backward(gpt_plan("--dtype amp-bf16"), 0) == embedding + "g-128");
  CHECK(backward(gpt_plan("--dtype fp32"), 0) == embedding + "g+128 g-128 g-128");
}

TEST_CASE("a gpt block under autocast: gradients of one product after another, a residual's is half for a product") {
  CHECK(backward(gpt_plan("--dtype amp-bf16 --program pytorch"), 1) ==
        "a+4 "                                          // the sum's gradient, cast for the product
        "a+8 g+32 g+1 o-32 a-8 a-4 g+1 g-1 g+64 g-32 "  // back to the MLP's width
        "a+8 a-8 a-8 "                                  // GELU
        "a+4 g+32 g+1 a-4 o-32 a-8 a+8 a-4 g+1 g-1 g+64 g-32 "
        "a+8 g+1 g+1 a-2 a-8 a-8 a-8 "  // the norm; its gradient is added to the residual's, in place
        "a+4 "
        "a+4 g+16 g+1 o-16 a-4 g+1 g-1 g+32 g-16 "  // behind attention, which keeps the result that it reads
        "a+12 a-1 a-12 a-4 a-4 "                    // attention: q, k, v and its result go
        "a+12 a-12 "                                // split puts the three gradients together
        "a+4 g+48 g+1 a-4 o-48 a-12 a+8 a-4 g+2 g-1 g+96 g-48 "
        "a+8 g+1 g+1 a-2 a-8 a-8 a-8");
}

TEST_CASE("a llama block in fp32, grouped queries: plain products keep no inputs, products' gradients are views") {
  const std::string mlp =
      "a+16 g+64 a-16 "            // back to the MLP's width; what came, the residual's gradient, stays
      "a+16 a+16 a-16 a-16 a-16 "  // silu(w1 x) * w3 x
      "a+8 g+64 a-16 "             // w3
      "a+16 a-16 a-16 "            // silu
      "a+8 g+64 a-8 a-16 ";        // w1
  const std::string attention =
      "a+8 g+1 a-1 a-8 a-8 a-8 "  // the norm, into the residual's
      "a+8 g+32 a-8 "             // behind attention
      "a+12 a+4 a-26 a-8 "        // attention: queries, keys, values each 8, the softmax 2
      "a+8 a+4 a-12 "             // rotary
      "a+8 g+16 a-4 "             // v
      "a+8 g+16 a-4 ";            // k
  const std::string rest = "a+8 g+32 a-8 a-8 a-8 a+8 g+1 a-1 a-8 a-8 a-8";  // q, added in place, and the norm
  // A script's second gradient of a norm makes a third tensor; rows of tokens are added in place.
  CHECK(backward(llama_plan("--program pytorch"), 1) == mlp + "a+8 a-8 a-8 " + attention + "a+8 a-8 a-8 " + rest);
  CHECK(backward(llama_plan(""), 1) == mlp + "a-8 " + attention + "a-8 " + rest);
}

TEST_CASE("what blocks keep comes and goes in every program") {
  for (const char* model : {"gpt", "llama --kv-heads 1"}) {
    for (const char* dtype : {"fp32", "amp-bf16"}) {
      for (const char* program : {"--strategy single --workers one", "--strategy single --workers one --accum 2",
                                  "--strategy single --workers one --program pytorch --accum 2",
                                  "--strategy mp --gpus 2 --workers one --microbatches 2", "--strategy ddp --gpus 2",
                                  "--strategy ddp --gpus 2 --program pytorch --accum 2", "--strategy dp --gpus 2",
                                  "--gpus 2 --schedule 1f1b --microbatches 2 --program pytorch",
                                  "--gpus 2 --schedule zb-v --microbatches 4 --program pytorch"}) {
        const Plan plan = make_plan(spec("--model " + std::string(model) +
                                         " --layers 4 --hidden 64 --heads 2 --sequence 8 --vocabulary 256 --batch 4 "
                                         "--dtype " +
                                         dtype + " " + program));
        CAPTURE(model, dtype, program);
        const std::vector<GpuMemory> memory = replay_memory(plan, {.multiprocessors = 132});
        for (const GpuMemory& of_gpu : memory) {
          BytesByCategory now = of_gpu.at_start;
          for (const MemoryChange& change : of_gpu.changes) {
            auto& of_category = now[static_cast<std::size_t>(change.category)];
            of_category += change.bytes;
            CHECK(of_category >= 0);
          }
          const bool replica = plan.parallel.program == Program::data_parallel && &of_gpu != &memory.front();
          if (!replica)
            CHECK(now[static_cast<std::size_t>(MemoryCategory::activations)] ==
                  of_gpu.at_start[static_cast<std::size_t>(MemoryCategory::activations)]);
        }
      }
    }
  }
}
