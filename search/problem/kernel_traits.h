// kernel_traits.h: what of a problem shapes machine code.
// Owns: KernelTraits and the kinds that it names: masks, where keys lie, whose lengths differ; what
// becomes of scores is score_chain.h's.
// Never: holds a size, a length or a number that a launch can bring: those are Problem's.
// Threads: values.
#pragma once

#include <cstdint>
#include <string_view>

#include "search/element_type.h"
#include "search/problem/kind_set.h"
#include "search/problem/score_chain.h"
#include "search/status.h"

namespace gqa {

class TextItems;

// Which keys a query sees; mask.h has the rules. All masks are aligned bottom-right.
enum class Mask : std::uint8_t { kNone, kCausal, kWindow };
// Those whose rows see one interval of keys: what a kernel serves whose loops ask a walk.
inline constexpr KindSet<Mask> kIntervalMasks{Mask::kNone, Mask::kCausal, Mask::kWindow};

// How k and v lie; key_layout.h has what belongs to each. Dense: a sequence's keys follow each other. Transposed: k
// lies as (head_dim, keys), v is dense. Paged: blocks of `page` keys, found by a table of each sequence.
enum class KeyLayout : std::uint8_t { kDense, kTransposed, kPaged };
// Those that a key source copies: what a kernel serves whose loops ask one.
inline constexpr KindSet<KeyLayout> kCopiedKeys{KeyLayout::kDense, KeyLayout::kTransposed, KeyLayout::kPaged};

// How long sequences are, queries and keys apart. One: all alike. Each: its own, read on the device from an array.
// Packed: its own, and sequences follow each other in one tensor without a batch, where a device array of their
// beginnings says.
enum class Lengths : std::uint8_t { kOne, kEach, kPacked };

struct KernelTraits {
  ElementType q_type = ElementType::kBF16, kv_type = ElementType::kBF16, out_type = ElementType::kBF16;
  Mask mask = Mask::kNone;
  KeyLayout keys = KeyLayout::kDense;
  Lengths q_lengths = Lengths::kOne, kv_lengths = Lengths::kOne;
  // Bytes that every row of q, k, v and out is aligned to: 16 (vector copies) or 2 (element by element).
  std::uint16_t align = 16;
  std::int32_t head_dim = 0;    // of q and k
  std::int32_t head_dim_v = 0;  // of v and out
  std::int32_t page = 0;        // keys a page holds; 0 where there are none
  ScoreChain chain;             // on each score before the mask and the softmax
  bool sink = false;            // a number of each query head joins the softmax's denominator, and adds no value

  bool causal() const { return mask == Mask::kCausal; }
  bool windowed() const { return mask == Mask::kWindow; }
  bool keys_transposed() const { return keys == KeyLayout::kTransposed; }
  bool paged() const { return keys == KeyLayout::kPaged; }
  bool lengths_differ() const { return kv_lengths != Lengths::kOne; }
  bool q_packed() const { return q_lengths == Lengths::kPacked; }
  bool k_packed() const { return kv_lengths == Lengths::kPacked; }
  // Whether a list says how many keys or queries each sequence has.
  bool lengths_listed() const { return lengths_differ() || q_lengths != Lengths::kOne; }
  // Whether a list says anything of a sequence: that, or where its pages lie.
  bool has_lists() const { return lengths_listed() || paged(); }
  void set_types(ElementType all) { q_type = kv_type = out_type = all; }
  void set_q_packed(bool packed) { q_lengths = packed ? Lengths::kPacked : Lengths::kOne; }
  friend bool operator==(const KernelTraits&, const KernelTraits&) = default;
};

std::string_view name(Mask mask);         // "none", "causal", "window"
std::string_view name(KeyLayout layout);  // "dense", "transposed", "paged"
std::string_view name(Lengths lengths);   // "one length", "lengths of their own", "packed sequences"

// Reads "dtype=f16" of a text; leaves what is given as it was where there is none.
Status read_dtype(TextItems* items, ElementType* dtype);
Status read_dtype(std::string_view key, TextItems* items, ElementType* dtype);

// Whether a launch says more than lengths and strides: jit/device/attention/common/cache_params.h.
inline bool needs_cache_params(const KernelTraits& traits) { return traits.has_lists() || traits.windowed(); }

// Whether a launch brings numbers for the scores: jit/device/attention/common/score_params.h.
inline bool needs_score_params(const KernelTraits& traits) { return traits.chain.any() || traits.sink; }

}  // namespace gqa
