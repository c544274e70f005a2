// tile_writer.h: a planned block graph as the text of its kernel.
// Owns: TileWriter: the buffers, extents, loads, passes and the loop; how an element of a value is said where it is
// read.
// Never: plans (search/graph/tile/tile_plan.h has).
// Threads: one writer a text.
#pragma once

#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "jit/block/tile_text.h"
#include "search/graph/tile/tile_plan.h"

namespace gqa {

class TileWriter {
 public:
  TileWriter(const KernelGraph& graph, const TilePlan& plan);

  std::string constants() const;  // before the entry point
  std::string body();             // of the entry point

 private:
  using Kind = TilePass::Kind;

  const BlockNode& node(int at) const { return plan_.block.nodes[static_cast<std::size_t>(at)]; }
  const TileValue& value(int at) const { return plan_.values[static_cast<std::size_t>(at)]; }
  const TileBuffer& buffer(int at) const { return plan_.buffers[static_cast<std::size_t>(at)]; }
  const TensorSpec& operand(const BlockNode& load) const;
  std::string argument(const BlockNode& load) const;

  // Names in the source.
  std::string name_of(int node) const;
  std::string buffer_name(int buffer) const;
  std::string buffer_type(int buffer) const;
  std::string extent_name(const Axis& axis) const;

  // One element of a value.
  std::string element(int node, const TileIndex& index) const;
  std::string computed(int node, const TileIndex& index) const;
  std::string in_buffer(int node, const TileIndex& index) const;
  std::string dot(int node, const TileIndex& index) const;
  std::string masked(int node, const TileIndex& index) const;
  std::string inside(const Axes& axes, const TileIndex& index) const;  // "": everywhere
  std::string offset(const Axes& axes, const TileIndex& index, const Dims& strides) const;
  std::string end_of(const Axis& axis) const;
  int eights_of(int reduction) const;
  std::string folded(int node, const std::string& fold, const TileIndex& index, int width);

  void line(const std::string& text);
  void open(const std::string& text);
  void close(const std::string& text);
  void split(const std::string& from, const Dims& dims, TileIndex* index);

  void declare_extents(bool loop);
  void declare_buffers();
  void load(int node, const std::string& tile);
  void load_pieces(int node, const std::string& tile);
  void load_elements(int node, const std::string& tile);
  bool lies_in_pieces(int node) const;
  void begin_loads();
  void begin_accumulators();
  void write_loop();
  void write_passes(Phase phase);

  void write(const TilePass& pass);
  void write_map(int node);
  void write_reduce(int node);
  void write_carry(int node, Phase phase);
  void write_product(int node);
  void write_accumulate(int node);
  void accumulate_products(int node);
  std::string change_at(int node, const TileIndex& index) const;
  void write_flush(int node);
  void write_total(int node);
  void write_store(int store);
  void multiply(const std::string& sums, int term, const TileProduct& product);
  void flush_products(const std::string& sums, int node);
  std::string products_type(const TileProduct& product) const;
  std::string lanes_type(int node) const;
  std::string batch_text(int term, std::size_t which, const TileProduct& product) const;
  void carry(int node, const TileIndex& index, const std::string& x);

  // A streamed loop (tile_stream.cc).
  std::string rows_type(int node) const;
  std::string right_type(int product) const;
  std::string sums_type(int accumulator) const;
  std::string streamed(int load) const;
  std::string streamed_element(int node);
  void stream_extents();
  void stream_rows(int load);
  void stream_right(int product, std::int64_t column);
  std::vector<std::pair<int, std::int64_t>> rights(const std::vector<StreamedSum>& group) const;
  void stream_prefetch(int product, std::int64_t column);
  std::string first_piece() const;
  void write_groups(const std::function<void(const std::vector<StreamedSum>&)>& write);
  void write_prefetches();
  void stream_use(int accumulator, std::vector<int>* computed);
  void stream_flush(const StreamedSum& sum);
  void stream_group(const std::vector<StreamedSum>& group);
  void write_stream();
  void write_merge();

  const KernelGraph& graph_;
  const KernelNode& kernel_;
  const TilePlan& plan_;
  std::vector<Axis> extents_;
  int read_as_x_ = -1;  // a load whose element is at hand, as x
  std::ostringstream out_;
  int depth_ = 1;
};

}  // namespace gqa
