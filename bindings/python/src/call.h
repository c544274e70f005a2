// call.h: Handle.run, which every call of attention goes through.
// Owns: the order of its arguments, which gqa/_call.py hands in by position, and what each becomes in a gqa_call. It is
// a method of Python's own, not of pybind11's: that spends half of what the rest of a hit does on twenty arguments.
// Never: checks what the library checks. Threads: entered and left with the GIL held, without it while the library
// runs.
#pragma once

#include <pybind11/pybind11.h>

namespace gqa::python {

// run(q, k, v, out, lse, scale, causal, stream, softcap, sink, cache_seqlens, page_table, window, cu_seqlens_q,
// cu_seqlens_k, seqused_q, max_seqlen_q, max_seqlen_k, append, score_scale, bias, tuning), by position; from softcap on
// they may be left out. append: None, or (k, v, cu_seqlens_k_new, rotary_cos, rotary_sin, rotary_seqlens,
// rotary_interleaved, cache_batch_idx, cache_leftpad). tuning: a gqa_call_tuning. Returns the seconds that making the
// kernel ready took; 0.0: it was.
void define_run(pybind11::handle type);

}  // namespace gqa::python
