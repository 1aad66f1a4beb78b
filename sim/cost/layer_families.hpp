// The layers of a profile, put in order once for all predictions: families of curves that differ only in the shape
// of the layer, what the model of products says at each measured size, and the times that were asked for last.
//
//   LayerFamilies families(profile);                            // one for all rows of a sweep, and all of its threads
//   LayerTimes times(families, Dtype::fp32, notices);           // one for each plan (sim/cost/layer_time.hpp)
//
// A family takes the model's time of hundreds of sizes, once. Times do not depend on what was asked before, so that any
// number of threads have the same. Units: nanoseconds. Not here: issue times, which depend on the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/layer_model.hpp"
#include "sim/cost/notices.hpp"
#include "sim/cost/power_limit.hpp"
#include "sim/io/made_once.hpp"

namespace pdl {

/// Device time of one operation of a layer, and the kernels among which it is divided.
struct LayerPart {
  double device_ns = 0;
  const std::vector<Kernel>* kernels = nullptr;
  double half_width = 0;         // relative: 90 % of truths lie so near to device_ns
  bool probed = true;            // measured at this very size
  bool asked = true;             // not probed: the library was asked which kernel it takes for such sizes
  double octaves_beyond = 0;     // the widths and rows that were measured, or that the library was asked for: log2
  MeasuredKey of = {};           // what it is the time of
  const Curve* issue = nullptr;  // whose issue times are those of this operation
  std::int64_t issue_size = 0;   // read there
};

/// The operation, or the two that make it up where only those were measured; none for what takes no time of its own.
struct LayerPrice {
  std::vector<LayerPart> parts;
  std::list<std::vector<Kernel>> modelled_kernels;  // of parts whose kernels are not the profile's
  Notices said;                                     // what these times rest on
};

class LayerFamilies {
 public:
  /// The profile must outlive this and stay as it is.
  explicit LayerFamilies(const CostProfile& profile);

  const CostProfile& profile() const { return profile_; }

  /// Throws InputError if the profile has no layers of that data type, naming those it has.
  void check_dtype(Dtype dtype);

  /// Throws InputError if nothing like it was measured; if no layer of its kind was, it says so.
  std::shared_ptr<const LayerPrice> at(MeasuredKey layer);

  /// True if this operation was measured, of whatever shape.
  bool has(const MeasuredKey& layer);

  /// Of the card, for layers of that data type.
  PowerLimit power_limit(Dtype dtype);

 private:
  /// Of a layer's operation the products, and what moves memory beside them: where the one is twice as long as its
  /// model says, the other need not be.
  static constexpr std::size_t kProducts = 0, kBeside = 1, kParts = 2;

  /// A measured size of a family, and by how much its parts differ from their model.
  struct MeasuredShare {
    std::array<double, 3> log_size{};  // rows, in, out
    std::array<double, kParts> log_share{};
    bool aligned = true;  // to what kernels of tensor cores load at once
    const CurvePoint* point = nullptr;
    const MeasuredCurve* curve = nullptr;
  };

  /// Other kernels serve what is not aligned: the one says nothing of the other.
  struct Shares {
    std::vector<MeasuredShare> all;
    std::array<std::vector<std::size_t>, kParts> by_log_share;  // indices into them, ascending log_share
    std::array<bool, 2> has{};                                  // not aligned ones, aligned ones
  };

  /// What the layers of one data type have in common.
  struct OfDtype {
    std::map<const LayerKind*, double> best_bytes_per_ns;  // at which memory was seen to deliver, in layers of a kind
    mutable MadeOnce<std::optional<LayerModel>> model;     // see model_of()
  };

  /// Curves that differ only in the shape of the layer, ascending sqrt(in * out).
  struct Family {
    std::vector<const MeasuredCurve*> shapes;
    std::deque<MeasuredCurve> derived;  // those of them that are of another kind (sim/cost/without_activation.hpp)
    double smallest_ns = 0;
    Curve by_numbers;  // row-wise kinds: all shapes, over the numbers of the result
    const OfDtype* of_dtype = nullptr;
    mutable MadeOnce<Shares> shares;  // see shares_of()
  };

  /// What stands for an operation, of whatever shape: keys of families, and what is said of them.
  struct Substitute {
    std::vector<std::pair<MeasuredKey, const Family*>> parts;
    Notices said;
  };

  /// Of operations of layers, whatever their shape and rows.
  struct HashOfOperation {
    std::size_t operator()(const MeasuredKey& layer) const;
  };
  struct SameOperation {
    bool operator()(const MeasuredKey& a, const MeasuredKey& b) const;
  };
  template <typename Value>
  using ByOperation = std::unordered_map<MeasuredKey, Value, HashOfOperation, SameOperation>;

  /// An operation of one shape, on so many rows.
  struct OfSize {
    const Substitute* operation = nullptr;
    std::array<std::int64_t, kMostLayerSizes> sizes{};
    std::int64_t rows = 0;
    bool operator==(const OfSize&) const = default;
  };
  struct HashOfSize {
    std::size_t operator()(const OfSize& size) const;
  };

  // These are called with mutex_ held.
  const OfDtype& of_dtype(Dtype dtype);
  const Family* family(const MeasuredKey& layer);
  void add_derived(const MeasuredKey& layer, Family& family);
  const Substitute& substitute(const MeasuredKey& layer);
  Substitute find_substitute(const MeasuredKey& layer);

  // These read what does not change any more, or is made once.
  void as_odd_widths_were_measured(MeasuredKey& layer) const;
  /// Of products; nullptr if the profile has none. Made when a size is asked for that was not measured.
  const LayerModel* model_of(const OfDtype& of) const;
  static std::array<double, kParts> log_shares(const MeasuredKey& layer, const CurvePoint& point,
                                               const ModelledOperation& modelled);
  const Shares& shares_of(const Family& family) const;
  LayerPart of_family(const Family& family, const MeasuredKey& layer, LayerPrice& price) const;
  LayerPart by_numbers(const Family& family, const MeasuredKey& layer, Notices& notices) const;
  LayerPart by_line(const Family& family, const MeasuredKey& layer, Notices& notices) const;
  std::optional<LayerPart> by_model(const Family& family, const MeasuredKey& layer, LayerPrice& price) const;
  static std::optional<LayerPart> by_rows_and_width(const Family& family, const MeasuredKey& layer);
  static double octaves_of(const Family& family, const MeasuredKey& layer);
  double other_kernels_bar(const MeasuredKey& layer) const;
  double half_width(const MeasuredKey& layer, const LayerPart& part, double an_octave_beyond) const;
  double at_rows(const Family& family, const MeasuredCurve& shape, std::int64_t rows, Notices& notices) const;
  double roofline_ns(const Family& family, const MeasuredKey& layer, const MeasuredKey& measured,
                     double measured_ns) const;

  const CostProfile& profile_;
  std::set<Dtype> unaligned_by_autograd_;  // data types of which products of odd widths were measured there alone
  mutable std::shared_mutex mutex_;        // of all below
  std::map<Dtype, OfDtype> dtypes_;
  ByOperation<Family> families_;
  ByOperation<Substitute> substitutes_;
  std::map<Dtype, PowerLimit> power_limits_;
  std::unordered_map<OfSize, std::shared_ptr<const LayerPrice>, HashOfSize> known_;
};

}  // namespace pdl
