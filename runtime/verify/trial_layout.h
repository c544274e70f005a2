// trial_layout.h: how a trial lays out one problem's tensors, the same on every device.
// Owns: element counts, compact strides, pages, the start off 16-byte alignment where the problem asks for it, the
// guards around outputs, and the ragged variant of a problem. Never: owns memory; devices do. Threads: a value.
#pragma once

#include <cstdint>

#include "jit/device/check/trial_inputs.h"
#include "runtime/device.h"
#include "runtime/verify/trial_lists.h"

namespace gqa {

struct TrialLayout {
  static constexpr std::int64_t kGuard = 4096;  // elements of poison before and after each output

  explicit TrialLayout(const Problem& problem);

  // A call on the given set's inputs. `slabs`: its q, k, v, out and lse begin where the buffers do, without strides; q,
  // k and v hold several sets one after the other, out and lse lie between guards. Lists and arrays are the call's
  // already. `lengths`: the problem or its ragged variant; strides are the problem's own.
  Call call(const Call& slabs, const Problem& lengths, int set) const;

  // What the trial's queries or keys are made by. Rows begin `shift` past the slab's first element.
  TrialRows trial_rows(TrialTensor tensor) const;

  std::int64_t element_bytes() const { return gqa::element_bytes(problem.q_type); }
  std::int64_t input_bytes() const { return element_bytes() * (q + k + v); }  // of a set
  std::int64_t input_slab(std::int64_t count, int sets) const { return count * sets + 8; }
  std::int64_t out_slab() const { return out + 2 * kGuard; }
  std::int64_t lse_slab() const { return problem.lse ? lse + 2 * kGuard : 0; }
  std::int64_t first_out() const { return kGuard + shift; }
  // Elements from the beginning of a slab to a row's first.
  std::int64_t out_at(const TrialLists& lists, int batch, int position, int head) const;
  std::int64_t lse_at(const TrialLists& lists, int batch, int position, int head) const;
  std::int64_t lse_head_stride() const {
    return problem.q_packed() ? std::int64_t{problem.batch} * problem.q_len : problem.q_len;
  }
  std::int64_t lse_batch_stride() const {
    return problem.q_packed() ? 0 : std::int64_t{problem.q_heads} * problem.q_len;
  }

  Problem problem;
  std::int64_t q, k, v, out, lse;  // elements, a set; where there are pages, k and v are trial_pages() of them
  std::int64_t shift;              // elements that tensors start past 16-byte alignment
  Strides q_strides, k_strides, v_strides, out_strides;
};

// Lengths a few shorter: not multiples of anything a tile is made of. The problem itself where it is too short for
// that.
Problem ragged(Problem problem);

}  // namespace gqa
