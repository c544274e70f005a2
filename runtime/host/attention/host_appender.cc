// host_appender.cc: see host_appender.h.
#include "runtime/host/attention/host_appender.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/call/append_plan.h"
#include "runtime/element.h"
#include "runtime/parallel.h"

namespace gqa {
namespace {

constexpr std::int64_t kTaskItems = 16;  // enough to be worth a thread's while

std::int64_t bytes_of(const AppendParams& p, std::int64_t elements) {
  return elements * element_bytes(static_cast<ElementType>(p.type));
}

// An element of a tensor, counted from its first, as an address.
const std::byte* element(const AppendParams& p, const void* tensor, std::int64_t at) {
  return static_cast<const std::byte*>(tensor) + bytes_of(p, at);
}
std::byte* element(const AppendParams& p, void* tensor, std::int64_t at) {
  return static_cast<std::byte*>(tensor) + bytes_of(p, at);
}

// Pair i of a row's first rotary_dim elements is (2 i, 2 i + 1), or (i, i + rotary_dim / 2).
void write_rotated(const AppendParams& p, const std::byte* from, std::byte* to, int position) {
  const auto type = static_cast<ElementType>(p.type);
  const NewTokens& t = p.tokens;
  const int pairs = t.rotary_dim / 2;
  const std::int64_t row = rotary_row(t, position);
  const auto number = [&](const void* tensor, std::int64_t at) { return load_element(type, element(p, tensor, at)); };
  for (int i = 0; i < pairs; ++i) {
    const int first = t.interleaved != 0 ? 2 * i : i, second = t.interleaved != 0 ? 2 * i + 1 : i + pairs;
    const float x = number(from, first), y = number(from, second);
    const float c = number(t.cos, row * t.cos_stride + i), s = number(t.sin, row * t.sin_stride + i);
    store_element(type, x * c - y * s, element(p, static_cast<void*>(to), first));
    store_element(type, x * s + y * c, element(p, static_cast<void*>(to), second));
  }
  const std::int64_t rotated = bytes_of(p, t.rotary_dim);
  std::copy(from + rotated, from + bytes_of(p, p.head_dim), to + rotated);
}

void append_query(const AppendParams& p, int row, int head) {
  const AppendPlace place = place_of_row(p.q_starts, p.batch, row, p.q_len);
  if (place.sequence < 0 || (p.q_lengths != nullptr && place.at >= p.q_lengths[place.sequence])) return;
  const int start = rotary_start(p.tokens, place.sequence, append_sequence(p, place.sequence).cached);
  write_rotated(p, element(p, p.q, row_offset(p.q_strides, p.q_starts, place, row, head)),
                element(p, p.q_out, row_offset(p.q_out_strides, p.q_starts, place, row, head)),
                start + (p.tokens.advances != 0 ? place.at : 0));
}

void append_key(const AppendParams& p, int row, int head) {
  const AppendPlace place = place_of_row(p.new_starts, p.batch, row, p.tokens.count);
  if (place.sequence < 0) return;
  const AppendSequence s = append_sequence(p, place.sequence);
  if (place.at >= s.added) return;
  const auto source = [&](const void* tensor, const TensorStrides& strides) {
    return element(p, tensor, row_offset(strides, p.new_starts, place, row, head));
  };
  const auto slot = [&](void* tensor, const TensorStrides& strides) {
    return element(p, tensor, slot_offset(p, strides, s.row, s.cached + place.at) + head * strides.head);
  };
  write_rotated(p, source(p.tokens.k, p.tokens.k_strides), slot(p.k, p.k_strides),
                rotary_start(p.tokens, place.sequence, s.cached) + place.at);
  const std::byte* values = source(p.tokens.v, p.tokens.v_strides);
  std::copy(values, values + bytes_of(p, p.head_dim_v), slot(p.v, p.v_strides));
}

void write_table(const AppendParams& p, int sequence) {
  const AppendSequence s = append_sequence(p, sequence);
  int* row = p.out_table + std::int64_t{sequence} * p.out_columns;
  for (int column = 0; column * p.out_page < keys_after(s); ++column) row[column] = out_entry(p, s, column);
}

void append_item(const AppendParams& p, std::int64_t item) {
  const int q_groups = append_groups(p, p.q_heads), kv_groups = append_groups(p, p.kv_heads);
  const std::int64_t queries = p.q == nullptr ? 0 : std::int64_t{p.q_rows} * q_groups, key = item - queries;
  const bool is_query = item < queries;
  const int row = static_cast<int>(is_query ? item / q_groups : key / kv_groups);
  const int group = static_cast<int>(is_query ? item % q_groups : key % kv_groups);
  const int heads = heads_of_group(p, is_query ? p.q_heads : p.kv_heads, group);
  for (int head = group * p.warp_heads; head < group * p.warp_heads + heads; ++head)
    if (is_query)
      append_query(p, row, head);
    else
      append_key(p, row, head);
}

char* memory_between(std::int64_t bytes) {
  thread_local std::vector<char> memory;
  if (static_cast<std::int64_t>(memory.size()) < bytes) memory.resize(static_cast<std::size_t>(bytes));
  return memory.data();
}

}  // namespace

Status HostAppender::run(const ProgramCall& given) const {
  const Call& call = *given.attention;
  const AppendParams p = append_params(call, memory_between(append_bytes(call)));
  for (int sequence = 0; sequence < p.batch; ++sequence) {
    write_lists(p, sequence);
    if (p.out_table != nullptr) write_table(p, sequence);
  }
  const std::int64_t items = append_items(p);
  parallel_for((items + kTaskItems - 1) / kTaskItems, threads_, [&](std::int64_t task) {
    const std::int64_t end = std::min(items, (task + 1) * kTaskItems);
    for (std::int64_t item = task * kTaskItems; item < end; ++item) append_item(p, item);
  });
  return given.then->run(attended_call(call, p));
}

}  // namespace gqa
