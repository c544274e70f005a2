// new_tokens_case.h: a call on a key/value cache that brings its last keys with it.
// Owns: what is taken out of a CacheCase: the last keys and values of each sequence, turned back by quarter turns, as
// are the queries, so that rotating them gives the same bits again; the cache, lengths and tensors of such a call, and
// what the cache must hold after it.
// Never: knows a device; shares code with what it judges. Threads: a value that is not copied: Call points into it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "runtime/call/append.h"
#include "tests/runtime/cache_case.h"

namespace gqa::test {

struct NewTokensKind {
  int count = 1;  // of each sequence
  int rotary_dim = 0;
  bool interleaved = false, advances = false;
  bool own_rotary = false;  // where rotation begins is said of each sequence
};

struct NewTokensLaunch {
  const char *problem, *candidate;  // of a kernel that appends
  std::vector<std::int32_t> lengths;
  NewTokensKind kind;
  bool heads_first = false;
};

// Parts that hold new keys only, new keys across blocks and pages, a block of all warps' first stages and one that is
// read later; rows that do not exist; a sequence without room.
inline const std::vector<NewTokensLaunch>& new_tokens_launches() {
  static const std::vector<NewTokensLaunch> all = {
      {"b=4,hq=4,hk=2,sq=1,sk=150,d=64,dv=32,causal,lens,lse",
       "split m=16 n=16 warps=2 stages=3 pack=2 splits=3",
       {150, 33, 20, 97},
       {1, 64}},
      {"b=5,hq=4,hk=2,sq=3,sk=150,d=64,causal,page=16,lens,lse",
       "split m=16 n=32 warps=2 stages=3 pack=2 even=1 splits=7",
       {149, 51, 20, 150, 66},
       {3, 32, true, true},
       true},
      {"b=3,hq=2,hk=1,sq=5,sk=90,d=64,dv=128,dtype=f16,page=3,lens,lse",
       "split m=16 n=16 warps=1 stages=2 pack=2 splits=1",
       {90, 17, 41},
       {5, 64, false, true, true}},
      {"b=3,hq=3,hk=1,sq=40,sk=90,d=64,left=9,right=0,page=7,lens,lse",
       "split m=32 n=16 warps=4 stages=4 pack=1 splits=2",
       {90, 41, 63},
       {37, 0}},
      {"b=2,hq=2,hk=1,sq=2,sk=1,d=32,lens,lse", "split m=16 n=16 warps=1 stages=4 pack=2 splits=1", {1, 1}, {1, 16}},
      {"b=4,hq=4,hk=2,sq=2,sk=150,d=64,causal,page=16,lens,lse",
       "flash m=16 n=32 warps=1 stages=3 pack=2",
       {149, 51, 20, 66},
       {2, 32, true, true}},
      {"b=3,hq=2,hk=1,sq=9,sk=90,d=64,dtype=f16,left=30,right=0,lens,lse",
       "flash m=16 n=16 warps=1 stages=1 pack=1",
       {90, 41, 63},
       {9, 64}}};
  return all;
}

class NewTokensCase {
 public:
  // A sequence that fills its cache has one key fewer than it brings: the last that it brings finds no room.
  explicit NewTokensCase(const NewTokensLaunch& run)
      : attended(run.problem, run.lengths, run.heads_first),
        kind(run.kind),
        k(attended.k),
        v(attended.v),
        q(attended.q),
        call(attended.call) {
    const Problem& p = attended.call.problem;
    for (int b = 0; b < p.batch; ++b) {
      const bool full = attended.length(b) == p.kv_len;
      cached.push_back(attended.length(b) - kind.count + (full ? 1 : 0));
      rotary_starts.push_back(kind.own_rotary ? 3 * b + 1 : cached.back());
    }
    make_angles();
    k_new.assign(static_cast<std::size_t>(p.batch * kind.count * p.kv_heads * p.head_dim), 0xffff);
    v_new.assign(static_cast<std::size_t>(p.batch * kind.count * p.kv_heads * p.head_dim_v), 0xffff);
    for (int b = 0; b < p.batch; ++b) {
      for (int i = 0; cached[index(b)] + i < attended.length(b); ++i)
        for (int h = 0; h < p.kv_heads; ++h) take_out(b, i, h);
      for (int i = 0; i < p.q_len; ++i)
        for (int h = 0; h < p.q_heads; ++h)
          turn_back(&q[index(b * call.strides(Role::kQ).batch + i * call.strides(Role::kQ).row + h * p.head_dim)],
                    rotary_starts[index(b)] + (kind.advances ? i : 0));
    }
    describe();
  }
  NewTokensCase(const NewTokensCase&) = delete;
  NewTokensCase& operator=(const NewTokensCase&) = delete;

  CacheCase attended;  // as if all keys had been there: its out and lse are judged
  NewTokensKind kind;
  std::vector<std::uint16_t> k, v, q, k_new, v_new, cos, sin;
  std::vector<std::int32_t> cached, rotary_starts;
  Call call;  // that appends; of what it appends without the addresses

 private:
  static constexpr int kPositions = 512;
  static std::size_t index(std::int64_t at) { return static_cast<std::size_t>(at); }

  void make_angles() {
    constexpr float kCosines[] = {1, 0, -1, 0}, kSines[] = {0, 1, 0, -1};
    std::mt19937 random(5);
    for (int i = 0; i < kPositions * kind.rotary_dim / 2; ++i) {
      const unsigned turn = random() % 4;
      cos.push_back(store(attended.call.problem.q_type, kCosines[turn]));
      sin.push_back(store(attended.call.problem.q_type, kSines[turn]));
    }
  }

  // Makes the row what rotation by the position's angles turns into it.
  void turn_back(std::uint16_t* row, int position) const {
    const ElementType type = attended.call.problem.q_type;
    const int pairs = kind.rotary_dim / 2;
    for (int i = 0; i < pairs; ++i) {
      std::uint16_t &one = row[kind.interleaved ? 2 * i : i], &other = row[kind.interleaved ? 2 * i + 1 : i + pairs];
      const float x = load(type, one), y = load(type, other);
      const float c = load(type, cos[index(position * pairs + i)]), s = load(type, sin[index(position * pairs + i)]);
      one = store(type, x * c + y * s);
      other = store(type, y * c - x * s);
    }
  }

  void take_out(int b, int i, int h) {
    const Problem& p = attended.call.problem;
    const auto move = [&](std::vector<std::uint16_t>* cache, const Strides& s, int dim, std::uint16_t* to) {
      const int key = cached[index(b)] + i;
      const std::int64_t slab = p.paged() ? attended.table[index(b * attended.table_stride + key / p.page)] : b;
      const auto from = cache->begin() + slab * s.batch + (p.paged() ? key % p.page : key) * s.row + h * s.head;
      std::copy_n(from, dim, to);
      std::fill_n(from, dim, std::uint16_t{0xffff});
    };
    const std::int64_t head = (std::int64_t{b} * kind.count + i) * p.kv_heads + h;
    move(&k, attended.call.strides(Role::kK), p.head_dim, &k_new[index(head * p.head_dim)]);
    move(&v, attended.call.strides(Role::kV), p.head_dim_v, &v_new[index(head * p.head_dim_v)]);
    turn_back(&k_new[index(head * p.head_dim)], rotary_starts[index(b)] + i);
  }

  void describe() {
    const Problem& p = attended.call.problem;
    const auto strides = [&](std::int64_t dim) {
      return Strides{kind.count * p.kv_heads * dim, p.kv_heads * dim, dim};
    };
    call.strides(Role::kNewK) = strides(p.head_dim);
    call.strides(Role::kNewV) = strides(p.head_dim_v);
    call.append.count = kind.count;
    call.append.rows = p.batch * kind.count;
    call.strides(Role::kCos).row = call.strides(Role::kSin).row = kind.rotary_dim / 2;
    call.append.rotary_dim = kind.rotary_dim;
    call.append.rotary_len = kPositions;
    call.append.interleaved = kind.interleaved;
    call.append.advances = kind.advances;
    call.append.page = p.page;
    call.append.pages = attended.pages;
    call.append.cache_batch = p.batch;
  }
};

}  // namespace gqa::test
