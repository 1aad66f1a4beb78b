// The model of products of a profile, or none. Of a profile's file it is the larger part, and sizes that were measured
// do without it: it is read when it is first asked for. Copies of a profile share what was read.
//
//   if (profile.products) profile.products->library       // "cuBLAS 13.1.0"
//
// Any number of threads may ask.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "sim/cost/product_model.hpp"
#include "sim/io/made_once.hpp"

namespace pdl {

class ProductsOfProfile {
 public:
  ProductsOfProfile() = default;
  ProductsOfProfile(ProductModel model) : ProductsOfProfile([model = std::move(model)] { return model; }) {}
  explicit ProductsOfProfile(std::function<ProductModel()> read)
      : products_(std::make_shared<Products>(std::move(read))) {}

  explicit operator bool() const { return products_ != nullptr; }
  /// There is one. Throws what reading it throws.
  const ProductModel& operator*() const { return products_->model.get(products_->read); }
  const ProductModel* operator->() const { return &**this; }
  /// For whoever makes it: no other profile has it yet.
  ProductModel& operator*() { return products_->model.get(products_->read); }

 private:
  struct Products {
    explicit Products(std::function<ProductModel()> how) : read(std::move(how)) {}
    std::function<ProductModel()> read;
    MadeOnce<ProductModel> model;
  };
  std::shared_ptr<Products> products_;
};

}  // namespace pdl
