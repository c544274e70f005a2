// append_case.h: calls that append, made on the host: caches with NaN wherever no key is, and what each slot, each
// rotated query and each list must hold once attention may read them.
// Owns: the kinds of calls; a case's tensors and lists; its reference (append_reference.cc), in float64, which shares
// no rule with append_params.h. Never: attends. Threads: a case belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "runtime/call/call.h"
#include "runtime/verify/operation_case.h"

namespace gqa {

// Elements that belong to nobody, after each head and after each row's heads.
struct AppendGaps {
  int head = 0, row = 0;
};

struct AppendKind {
  ElementType type = ElementType::kF16;
  int page = 0;
  int rotary_dim = 0;
  bool interleaved = false, advances = false;
  bool packed = false;  // queries and new keys
  bool batch_idx = false, leftpad = false;
  bool own_rotary = false;            // rotary_seqlens
  bool adds = true;                   // new keys
  AppendGaps given = {}, cache = {};  // of q, k_new and v_new; of k and v
  int cos_gap = 0, sin_gap = 0;       // after each of their rows
  bool whole_rows = false;            // with batch_idx: a dense cache whose rows are taken as pages
  bool values_apart = false;          // where starts(): rows of values are further apart than those of keys
  bool many_rows = false;             // so many that a warp takes all heads of one

  bool starts() const { return page == 0 && !whole_rows && (batch_idx || leftpad); }
  bool table() const { return whole_rows || (page > 0 && (batch_idx || leftpad)); }
};

// Every way through the kernel: layouts, lists, rotations, rows in whole vectors and not.
std::span<const AppendKind> append_kinds();

struct AppendSizes {
  int batch = 5, most = 40, queries = 3, head_dim = 64, head_dim_v = 32;
  int q_heads = 10, kv_heads = 5;  // not whole groups of those that a warp takes
  int cache_rows = 7, positions = 48;
  explicit AppendSizes(const AppendKind& kind);
};

class AppendCase final : public OperationCase {
 public:
  explicit AppendCase(const AppendKind& kind);
  std::string inputs() const override;
  Status place(TrialMemory* memory) override;
  Status launch(const LoadedProgram& program) const override;
  Status run(const LoadedProgram& program, TrialMemory* memory) override;
  std::vector<Measured> measured() const override;

  const Call& call() const { return call_; }  // addresses only once it is placed

 private:
  class Attending;
  using Elements = std::vector<std::byte>;  // of kind_.type
  // bounds has, for each element, NaN where it must stay as it was, else how far it may be off.
  struct Expected {
    std::vector<double> values, bounds;
    explicit Expected(std::size_t elements);
  };
  struct Rotated {
    double value, bound;
  };
  // What attention is handed: the call, and what its lists say.
  struct Attended {
    Call call;
    std::vector<std::int32_t> lengths, starts, value_starts, table;
    Elements q, k, v;
  };

  void make_tensors();
  void make_call();
  Elements normal(std::size_t count);
  std::size_t element() const { return static_cast<std::size_t>(element_bytes(kind_.type)); }
  double number(const Elements& elements, std::size_t index) const;
  bool same_bits(const Elements& before, const Elements& after, std::size_t index) const;
  std::size_t row_size(const AppendGaps& gaps, int heads, int dim) const;
  Strides strides(const AppendGaps& gaps, std::int64_t rows, int heads, int dim) const;
  int rows_between(int dim) const;
  int table_width() const { return (sizes_.most + kind_.page - 1) / kind_.page; }
  std::size_t tokens() const;
  int first_token(int sequence) const;
  int added_to(int sequence) const;
  int keys_of(int sequence) const;
  std::int64_t slot(int sequence, int at, int dim) const;
  std::int64_t attended_slot(int sequence, int key, bool values) const;

  Status read(const Call& attended, TrialMemory* memory);
  Rotated copied(double value) const;
  Rotated rotated(const Elements& rows, std::size_t row, int element, int position) const;
  int position(int sequence, int at) const;
  void expect_rows(int sequence, Expected* k, Expected* v) const;
  Measured measured_lists() const;
  Measured measured_tensor(const char* name, const Elements& before, const Elements& after,
                           const Expected& expected) const;
  Measured measured_queries() const;

  const AppendKind kind_;
  const AppendSizes sizes_;
  std::mt19937 random_{3};
  Elements q_, k_, v_, k_new_, v_new_, cos_, sin_;
  std::vector<std::int32_t> lengths_, rows_, leftpad_, counts_, starts_, rotary_starts_, table_;
  std::int32_t pages_ = 0;
  Call call_;
  Attended attended_;
};

}  // namespace gqa
