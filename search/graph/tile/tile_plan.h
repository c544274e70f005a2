// tile_plan.h: how one block graph meets threads and shared memory: the thread level of a tile kernel.
// Owns: TilePlan: where each value of the block lives, the passes that the threads make over them with the barriers
// between, and the shared-memory buffers; plan_tile(), which derives all of it from a kernel and its plan's parameters;
// tile_plans(), the plans worth trying on a device.
// Never: writes code (jit/block/tile_codegen.h does) or measures.
// Threads: values and pure functions.
//
// Rows and columns: a tile of any rank is a matrix here, its last dimension the columns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/device_spec.h"
#include "search/graph/ir/kernel_graph.h"
#include "search/status.h"

namespace gqa {

inline constexpr std::string_view kTileFamily = "tile";

enum class TilePlace : std::uint8_t {
  kInline,     // computed where it is read
  kGlobal,     // a load read where it is used
  kShared,     // in a buffer
  kAbsorbed,   // a term of the accumulator, the product or the maximum that reads it
  kFragments,  // an accumulator of products: registers of mma.sync
  kLanes,      // an accumulator of anything else: each thread its elements, or its share of a reduction
  kStreamed,   // in the registers of the lanes that multiply it (tile_stream.h)
};

// How the warps share a product's 16x16 tiles of the result, and its inner dimension.
struct TileProduct {
  std::int64_t batches = 1, rows = 0, columns = 0;  // of the result
  int warps_rows = 1, warps_columns = 1, warps_inner = 1;
  std::int64_t row_tiles() const { return batches * ((rows + 15) / 16); }
  std::int64_t column_pairs() const { return (columns + 15) / 16; }  // of 8 columns each
  std::int64_t registers() const;                                    // a thread
};

// A loop that is streamed, and what its warps share.
inline constexpr std::int64_t kStreamDepth = 32;  // elements of the loop's dimension in a step, a piece

// An accumulator, or of a wide one the columns that a warp has registers for.
struct StreamedSum {
  int accumulator = -1;
  std::int64_t column = 0;  // the first
};

struct TileStream {
  int ahead = 0;   // pieces that a warp has on their way; 0: the loop's loads go through the ring
  int splits = 1;  // thread blocks that take turns at a block's loop; the last to arrive adds up their sums
  std::vector<std::vector<StreamedSum>> groups = {};  // each group of warps has one of these
  int last = -1;  // the buffer that says whether this thread block was the last to arrive

  bool on() const { return ahead > 0; }
};

struct TileValue {
  TilePlace place = TilePlace::kInline;
  ElementType type = ElementType::kF32;  // in its buffer
  bool tensor_cores = false;             // of a product: by mma.sync, else by plain multiplications
  int buffer = -1;
  int parts = -1;   // of a product whose inner dimension the warps share: a matrix for each share of it
  int change = -1;  // of a running maximum: exp(before - now)
  int width = 1;    // lanes that share an element of a reduction
  TileProduct product = {};
  std::vector<int> terms = {};  // of an accumulator in fragments: the products that add to it
  bool follows = false;         // of a running maximum: of a reduction that it finishes
};

// Rows of `columns` elements, in `copies` (stages of the ring, shares of a product). 16-bit rows are swizzled in pieces
// of 16 bytes, so that the eight rows of an ldmatrix lie in different banks; jit/device/block/tile_buffer.cuh has the
// same.
struct TileBuffer {
  std::string name;
  ElementType type = ElementType::kF32;
  std::int64_t rows = 1, columns = 1, copies = 1;
  bool padded = false;  // float32 rows lie 16 bytes further apart, so that columns of them lie in different banks
  std::int64_t offset = 0;
  int first = 0, last = 0;  // passes between which it holds a value; -1: from the start of the kernel

  std::int64_t pitch() const;  // bytes between rows
  std::int64_t copy_bytes() const { return (rows * pitch() + 127) / 128 * 128; }
  std::int64_t bytes() const { return copies * copy_bytes(); }
  bool overlaps(const TileBuffer& other) const {
    return offset < other.offset + other.bytes() && other.offset < offset + bytes();
  }
};

// Something that all threads do together.
struct TilePass {
  enum class Kind : std::uint8_t {
    kLoad,        // a tile that is not prefetched
    kProduct,     // on tensor cores, into a buffer
    kMap,         // element by element into a buffer
    kReduce,      // into a buffer
    kCarry,       // a running maximum
    kAccumulate,  // into registers
    kFlush,       // an accumulator's registers into its buffer
    kTotal,       // a product's parts into its buffer
    kStream,      // the whole loop, streamed; the accumulators into their parts
    kMerge,       // the parts of all blocks that share a loop into the accumulators' buffers
    kStore,       // node: of the stores
  };
  Kind kind = Kind::kMap;
  int node = -1;
  Phase phase = Phase::kBefore;
  std::vector<int> reads = {}, writes = {};  // buffers
  bool barrier = false;                      // comes first
  int wait = -1;                             // and before it: until so many groups of copies are in flight
};

struct TilePlan {
  BlockGraph block;  // softmax, rms_norm and mean opened
  int warps = 4, stages = 1;
  bool loops = false;
  TileStream stream;
  std::vector<TileValue> values;  // of the block's nodes
  std::vector<int> early, ring;   // loads issued at the start, and in the loop's ring
  std::vector<TilePass> passes;   // before, loop, after
  std::vector<TileBuffer> buffers;
  std::int64_t shared_memory = 0;  // dynamic, bytes

  int threads() const { return 32 * warps; }
  // Steps whose loads are in flight.
  int ahead() const { return !loops || stream.on() ? 0 : stages > 1 ? stages - 1 : 1; }
  int copies() const { return warps / static_cast<int>(stream.groups.size()); }  // warps of a group, of a stream
  std::int64_t blocks() const { return gqa::blocks(block); }
  // What the thread blocks that share a loop hand each other, in float32; 0 where none do.
  std::int64_t partials() const;  // of one of them
};

// The kernel's one node must be a custom operator. Error: what no plan of these parameters can run.
Status plan_tile(const KernelGraph& graph, const KernelNode& node, TilePlan* plan);

// Most promising first; none where the device cannot run the operator as tiles.
std::vector<ThreadPlan> tile_plans(const KernelGraph& graph, const KernelNode& node, const DeviceSpec& device);

// A plain product as a custom operator: blocks of rows and columns, a loop along the inner dimension.
Status tile_product(const KernelGraph& graph, const KernelNode& node, KernelGraph* tiled);

// Elements, rows and columns of the largest tile of a value.
std::int64_t tile_elements(const BlockNode& node);
std::int64_t tile_columns(const BlockNode& node);
inline std::int64_t tile_rows(const BlockNode& node) { return tile_elements(node) / tile_columns(node); }

// Numbers that a thread block hands over of an accumulator, to whole 16 bytes.
std::int64_t partial_floats(const BlockNode& accumulator);

// Whether a part of the dimension may be shorter than the tile, in some block and step.
bool may_be_short(const BlockGraph& block, const Axis& axis);

}  // namespace gqa
