// What a step of autograd's programs needs is what sim/memory/autograd_memory.cpp replays: LibTorch itself says so, on
// the CPU.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "runtime/program/autograd_program.hpp"
#include "runtime/program/ddp_program.hpp"
#include "runtime/program/dp_program.hpp"
#include "sim/memory/memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/counted_memory.hpp"
#include "tests/support/cpu_training.hpp"
#include "tests/support/layer_models.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

std::unique_ptr<StepProgram> make_program(const Plan& plan) {
  RuntimeOptions options = cpu_training("sgd", 7);
  if (plan.parallel.program == Program::ddp) options.rank = 0;
  if (plan.parallel.program == Program::ddp) {
    return make_ddp_program(plan, options, c10::make_intrusive<c10d::HashStore>(), /*one_host=*/true, nullptr);
  }
  return plan.parallel.program == Program::data_parallel ? make_dp_program(plan, options)
                                                         : make_autograd_program(plan, options);
}

/// Of a step after the first ones.
std::int64_t peak_of_a_step(const Plan& plan) {
  CountedMemory memory;
  const auto program = make_program(plan);
  for (int step = 0; step < 2; ++step) program->step(nullptr);
  memory.begin_peak();
  program->step(nullptr);
  return memory.peak_bytes();
}

/// What is left out is scalars, 512 bytes each: a loss each micro-batch, the gradient of a loss, its weight. Under
/// autocast a copy of a bias each layer, as small, may be there still where the peak is at the end of a forward.
void check(const Plan& plan) {
  INFO(describe(plan.spec));
  for (const Layer& layer : plan.spec.model.layers) UNSCOPED_INFO(to_text(layer));
  const std::int64_t measured = peak_of_a_step(plan), predicted = predict_memory_bytes(plan, {}).front();
  const std::int64_t microbatches = static_cast<std::int64_t>(plan.microbatch_rows.size());
  const std::int64_t biases = is_amp(plan.spec.dtype) ? std::ssize(plan.spec.model.layers) : 0;
  CHECK(measured - predicted <= (microbatches + 8 + biases) * 512);
  // DataParallel under autocast: two models with linear_no_bias need one activation in half precision less than is
  // predicted. Which one goes sooner is not known.
  const bool dp_in_half = plan.parallel.program == Program::data_parallel && is_amp(plan.spec.dtype);
  const std::int64_t activation = dp_in_half ? plan.spec.batch * plan.spec.dim * 2 : 0;
  CHECK(predicted - measured <= 6 * 512 + activation);
}

/// On the CPU LibTorch has RMSNorm in several steps, of which each keeps something, and dropout with a mask of numbers;
/// on GPUs one kernel each, which is what is predicted (measured there: data/h200x2/runs_on_host_9).
bool has_own_tensors_on_cpu(const std::vector<Layer>& layers) {
  return std::any_of(layers.begin(), layers.end(), [](const Layer& layer) {
    const std::string_view kind = layer.kind->name;
    return kind == "rms_norm" || kind == "dropout" || kind == "llama_block" || kind == "softmax" || kind == "gpt_block";
  });
}

void check(const std::string& flags) {
  check(make_plan(spec("--gpus 1 " + flags)));
}

/// 64 rows of 256 numbers are 64 KiB, a weight is 256 KiB.
const std::string kSmall = "--dim 256 ";
/// A bias is 8 KiB, more than all scalars: none is forgotten.
const std::string kWide = "--dim 2048 --depth 2 --batch 8 ";
/// DDP on the CPU needs Gloo, and its headers are not everywhere.
#if PDL_GLOO
const std::vector<std::string> kStrategies = {"dp", "ddp --transport gloo"};
#else
const std::vector<std::string> kStrategies = {"dp"};
#endif

}  // namespace

TEST_CASE("A step of autograd needs what is predicted", "[runtime][memory]") {
  for (const std::string dtype : {"fp32", "amp-bf16"}) {
    for (const std::string depth : {"1", "2", "5"}) {
      const std::string flags = kSmall + "--workers one --dtype " + dtype + " --depth " + depth + " ";
      for (const std::string batch : {"64", "512"}) {
        for (const std::string rounds : {"1", "3"})
          check(flags + "--strategy mp --microbatches 8 --batch " + batch + " --accum " + rounds);
      }
      for (const std::string schedule : {"naive", "gpipe", "option-c"}) {
        check(flags + "--schedule " + schedule + " --batch 1024 --microbatches 4");
      }
    }
    check(kSmall + "--workers one --strategy mp --microbatches 8 --optimizer adam --batch 64 --depth 3 --dtype " +
          dtype);
    for (const std::string rounds : {"1", "2"})
      check(kWide + "--workers one --strategy mp --microbatches 8 --dtype " + dtype + " --accum " + rounds);
  }
}

TEST_CASE("A step with layers of every kind needs what is predicted", "[runtime][memory]") {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);  // LayerNorm's backward on the CPU takes two rows a thread for a moment
  for (const std::vector<Layer>& layers : mixed_layers(256)) {
    if (has_own_tensors_on_cpu(layers)) continue;
    for (const std::string dtype : {"fp32", "amp-bf16"}) {
      for (const std::string batch : {"64", "512"}) {
        std::vector<std::string> programs = {"--workers one --strategy mp --microbatches 8",
                                             "--workers one --schedule gpipe --microbatches 4"};
        for (const std::string& strategy : kStrategies) programs.push_back("--strategy " + strategy);
        for (const std::string& program : programs) {
          const std::string flags = "--gpus 1 " + kSmall + "--depth 11 --dtype " + dtype + " --batch " + batch + " ";
          check(make_plan(with_layers(spec(flags + program), layers)));
        }
      }
    }
  }
  at::set_num_threads(threads);
}

TEST_CASE("A step whose layers are run again needs what is predicted", "[runtime][memory][recomputation]") {
  std::vector<std::string> programs = {"--workers one --strategy single ", "--workers one --schedule gpipe "};
#if PDL_GLOO
  programs.push_back("--strategy ddp --transport gloo ");
#endif
  const int threads = at::get_num_threads();
  at::set_num_threads(1);  // as above
  for (const std::string& program : programs) {
    for (const std::string dtype : {"fp32", "amp-bf16"}) {
      const std::string flags = program + "--recompute 1 --dtype " + dtype + " ";
      for (const std::string batch : {"64", "512"}) {
        for (const std::string depth : {"1", "2", "5"}) {
          check(kSmall + flags + "--batch " + batch + " --depth " + depth);
          check(kSmall + flags + "--microbatches 4 --accum 3 --batch " + batch + " --depth " + depth);
        }
        for (const std::vector<Layer>& layers : mixed_layers(256)) {
          if (has_own_tensors_on_cpu(layers)) continue;
          check(
              make_plan(with_layers(spec("--gpus 1 " + kSmall + "--depth 11 " + flags + "--batch " + batch), layers)));
        }
      }
      check(kWide + flags);
    }
  }
  at::set_num_threads(threads);
}

TEST_CASE("A step of data parallelism on one GPU needs what is predicted", "[data_parallel][memory]") {
  for (const std::string dtype : {"fp32", "amp-bf16"}) {
    for (const std::string& strategy : kStrategies) {
      for (const std::string batch : {"64", "512"}) {
        for (const std::string rounds : {"1", "3"}) {
          check(kSmall + "--strategy " + strategy + " --depth 4 --batch " + batch + " --accum " + rounds + " --dtype " +
                dtype);
        }
      }
      check(kSmall + "--strategy " + strategy + " --depth 3 --batch 130 --microbatches 4 --dtype " +
            dtype);  // 33 33 33 31
      check(kSmall + "--strategy " + strategy + " --depth 3 --batch 64 --optimizer adam --dtype " + dtype);
      check(kWide + "--strategy " + strategy + " --dtype " + dtype);
    }
  }
#if PDL_GLOO
  check(kSmall + "--strategy ddp --transport gloo --depth 4 --batch 64 --bucket-views 1");
#endif
}
