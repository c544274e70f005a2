// tile_product.cc: see tile_product.h.
#include "search/graph/tile/tile_product.h"

#include <limits>

#include "search/rounding.h"

namespace gqa {
namespace {

double cost_of(const TileProduct& product, std::int64_t inner) {
  const auto rows = static_cast<double>(ceil_div(product.row_tiles(), product.warps_rows));
  const auto pairs = static_cast<double>(ceil_div(product.column_pairs(), product.warps_columns));
  const auto deep = static_cast<double>(ceil_div(inner / kProductDepth, product.warps_inner));
  return deep * (2 * rows * pairs + 2 * (rows + pairs));
}

double cost_of_parts(const TileProduct& product, std::int64_t steps, int threads) {
  if (product.warps_inner == 1) return 0;
  const double elements = static_cast<double>(product.batches * product.rows * product.columns);
  return (16 + product.warps_inner * elements / threads) / static_cast<double>(steps);
}

}  // namespace

ProductSizes::ProductSizes(const BlockGraph& block, const BlockNode& node) {
  const Axes& a = block.nodes[static_cast<std::size_t>(node.inputs[0])].axes;
  const BlockNode& b = block.nodes[static_cast<std::size_t>(node.inputs[1])];
  inner = a[a.size() - (node.attributes.transpose_a ? 2 : 1)].tile;
  columns = node.axes.back().tile;
  rows = node.axes[node.axes.size() - 2].tile;
  batches = tile_elements(node) / (rows * columns);
  if (!node.attributes.transpose_a && tile_elements(b) == inner * columns) rows *= batches, batches = 1;
}

TileProduct share_out(const TilePlan& plan, const std::vector<int>& terms, std::int64_t steps) {
  std::vector<ProductSizes> products;
  for (const int term : terms) products.emplace_back(plan.block, plan.block.nodes[static_cast<std::size_t>(term)]);
  TileProduct best = {products[0].batches, products[0].rows, products[0].columns};
  for (const ProductSizes& other : products) {
    if (other.batches > best.batches) best.batches = other.batches, best.rows = other.rows;
  }
  double least = std::numeric_limits<double>::infinity();
  for (int columns = plan.warps; columns >= 1; columns /= 2) {
    for (int rows = plan.warps / columns; rows >= 1; rows /= 2) {
      TileProduct tried = best;
      tried.warps_columns = columns;
      tried.warps_rows = rows;
      tried.warps_inner = plan.warps / columns / rows;
      double cost = cost_of_parts(tried, steps, plan.threads());
      for (const ProductSizes& product : products) cost += cost_of(tried, product.inner);
      if (cost >= least) continue;
      least = cost;
      best = tried;
    }
  }
  return best;
}

}  // namespace gqa
