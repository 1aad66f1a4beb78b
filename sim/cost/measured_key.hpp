// What a measurement is a measurement of. Samples (raw) and profiles (fitted) name it in the same way.
//
//   MeasuredKey key{.probe = Probe::layer, .implementation = "pipeline", .operation = "forward",
//                   .dtype = Dtype::fp32, .layer = linear_relu(4096, 4096), .size = 512};
//   describe(key)   // "layer pipeline forward fp32 4096x4096, rows 512"
//
// Which fields count, and what `size` is, depends on the probe:
//
//   probe       fields                                                                size
//   layer       implementation operation accumulate input_gradient dtype layer        rows
//   loss        implementation dtype [name: cross_entropy; mse if it is not there]     elements (rows * out)
//   optimizer   implementation optimizer ("unscale": GradScaler's unscale and check)  parameters
//   zero_grad   implementation                                                        parameters
//   transfer    transport from to bidirectional                                       bytes
//   collective  operation transport ranks [hosts: 1 if it is not there]                bytes
//   bucket      operation (copy_in, copy_out, join: several tensors into one)         parameters
//   overlap     name (compute, communication: whose time, each beside the other; compute_alone, communication_alone)
//               operation transport ranks, dtype layer rows of its forward            bytes
//   pause       operation (forward, backward, optimizer) implementation dtype         ns since the host issued the same
//               name (after_wait, after_sleep, later: what the host did just before; again: the same, size 1)
//   sustained   implementation operation dtype layer: as layer, of a GPU that went on   rows
//               with it for long
//   host        name [implementation] [transport] [workers]                           -
//   memory      name [implementation] [dtype]                                         -
//
// A layer is its kind ("kind"; a linear_relu where it is not there) and the sizes of that kind ("in" and "out").
//
// Units: counts of numbers or bytes. No times here.
#pragma once

#include <compare>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/model/dtype.hpp"
#include "sim/model/layer.hpp"

namespace pdl {

enum class Probe : std::uint8_t {
  layer,
  loss,
  optimizer,
  zero_grad,
  transfer,
  collective,
  host,
  memory,
  bucket,
  overlap,
  pause,
  sustained
};
inline constexpr int kProbes = 12;
std::string_view to_string(Probe probe);

/// The operation of an overlap that is not beside a layer but beside copies of in x out numbers: with rows 1.
inline constexpr const char* kAllReduceBesideCopies = "all_reduce_beside_copies";

/// The name of the loss of logits: of tokens x vocabulary of them.
inline constexpr const char* kCrossEntropy = "cross_entropy";

struct MeasuredKey {
  Probe probe = Probe::layer;
  std::string implementation;  // "pipeline" or "autograd" (sim/plan/task_graph.hpp)
  std::string operation;       // layer: forward, backward, backward_input, backward_weight; others: see above
  bool accumulate = false;     // layer, backward and backward_weight: adds to gradients that are there
  bool input_gradient = true;  // layer, backward and backward_input: false for the first layer of the model
  bool bidirectional = false;  // transfer: both directions at once
  std::optional<Dtype> dtype;  // of layer, loss, overlap, pause, sustained; of memory where it depends on it
  std::string optimizer;       // sgd, adam
  std::string transport;       // copy, nccl, gloo
  std::string name;            // host, memory, overlap, pause
  Layer layer;                 // layer, overlap, sustained
  std::int64_t layers = 0;  // layer, whole backward: measured in a stage of so many; 0: the stage's length is not said
  std::int64_t from = 0;    // worker
  std::int64_t to = 0;      // worker
  std::int64_t ranks = 0;
  std::int64_t hosts = 1;    // collective: that the ranks were spread over evenly
  std::int64_t workers = 0;  // 0: does not depend on it
  std::int64_t rows = 0;     // overlap: of the layer; elsewhere rows are the size
  std::int64_t size = 0;     // see the table above

  auto operator<=>(const MeasuredKey&) const = default;
};

/// "rows", "elements", "parameters", "bytes", "pause_ns"; empty for host and memory, which have no size.
std::string_view size_name(Probe probe);

class JsonPlace;

/// Names of the fields of a probe in a file, in order, without "probe" and without the size. Those of a layer depend on
/// its kind, which `object` says.
std::vector<std::string> key_fields(Probe probe, const JsonPlace& object);

/// "amp-fp16"; empty where the key has no data type.
std::string dtype_word(const MeasuredKey& key);

/// For people: fields in the order of the table; what is at its default is left out.
std::string describe(const MeasuredKey& key);

/// The key without its size: measurements that differ only in size form one curve.
MeasuredKey curve_key(MeasuredKey key);

/// Fields that the operation cannot have are at their defaults (a forward pass has no `accumulate`), every word is
/// known, every number in range. Throws InputError that starts with `place`.
void check_key(const MeasuredKey& key, const std::string& place);

/// Adds the fields to a JSON object (optional ones only if set); `with_size` also the size.
void write_key(const MeasuredKey& key, bool with_size, nlohmann::ordered_json& object);

/// Reads them from an object of a file. Throws InputError naming the place: missing, wrong type, unknown word, out of
/// range. Does not look for unknown keys.
MeasuredKey read_key(Probe probe, const JsonPlace& object, bool with_size);

/// The probe of that name. Throws InputError with the nearest known one.
Probe read_probe(const JsonPlace& value);

}  // namespace pdl
