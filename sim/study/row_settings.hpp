// The settings of a row of a sweep. Rows have most of their values in common: each is stored once for all rows of the
// process, and a row has a pointer to it, so that a million rows fit into memory.
//
//   const RowSettings settings(to_settings(spec));
//   find_setting(settings, "gpus")->value     // "4"
//   for (const SettingValue& setting : settings) ...
//
// What is stored stays until the process ends: as much as the lists of its sweeps have values.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "sim/spec/run_spec.hpp"

namespace pdl {

class RowSettings {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = SettingValue;
    using difference_type = std::ptrdiff_t;
    using pointer = const SettingValue*;
    using reference = const SettingValue&;

    Iterator() = default;
    explicit Iterator(const SettingValue* const* at) : at_(at) {}
    reference operator*() const { return **at_; }
    pointer operator->() const { return *at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return Iterator(at_++); }
    bool operator==(const Iterator&) const = default;

   private:
    const SettingValue* const* at_ = nullptr;
  };

  RowSettings() = default;
  explicit RowSettings(const std::vector<SettingValue>& settings);

  Iterator begin() const { return Iterator(values_.data()); }
  Iterator end() const { return Iterator(values_.data() + values_.size()); }
  bool empty() const { return values_.empty(); }
  std::size_t size() const { return values_.size(); }
  const SettingValue& operator[](std::size_t i) const { return *values_[i]; }

  /// One of another row's settings, behind these.
  void add(const RowSettings& from, std::size_t i) { values_.push_back(from.values_[i]); }

  /// As a list of their own, for what reads settings.
  std::vector<SettingValue> list() const { return {begin(), end()}; }

 private:
  std::vector<const SettingValue*> values_;
};

/// nullptr if the row has no such word.
const SettingValue* find_setting(const RowSettings& settings, const std::string& name);

}  // namespace pdl
