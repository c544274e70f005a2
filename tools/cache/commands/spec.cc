// spec.cc: see spec.h.
#include "tools/cache/commands/spec.h"

#include "tools/cache/models.h"

namespace gqa::tools {
namespace {

constexpr const char* kShape =
    R"(SPEC describes the shape of an attention call. It is a list of items with commas between, in any order:

  b=1,hq=32,hk=8,sq=4096,sk=4096,d=128,dtype=bf16,causal

Sizes are whole numbers of at least 1; for gqa-cache 4k stands for 4096, 1M for 1048576. hq, sq and d are required.
  hq=N      query heads
  sq=N      query tokens of a sequence; 1 is a decode step
  d=N       head_dim of queries and keys
  b=N       sequences in the batch; default 1
  hk=N      key/value heads, a divisor of hq; default hq, which is multi-head attention
  sk=N      key/value tokens of a sequence; default sq
  dv=N      head_dim of values and output; default d
d and dv are each one of 16, 32, 64, 80, 96, 112, 128, 192, 256.

The element type of q, k, v and out:
  dtype=T   bf16 or bfloat16, the default; f16, fp16 or float16; or f32, fp32 or float32
  kvdtype=T   of k and v; default dtype, and refused where it differs
  outdtype=T  of out, likewise

Flags stand alone, or with =1 or =0. Each is off by default.
  causal    query i sees keys j <= i + sk - sq (aligned bottom-right)
  lse       the call asks for log-sum-exp; it is tuned apart from a call that does not
  lens      each sequence has keys of its own number, up to sk, read on the device
  packk     the same, and keys of all sequences follow each other in one tensor (cu_seqlens_k)
  packq     each sequence has queries of its own number, up to sq, that follow each other (cu_seqlens_q)
  softcap   scores are capped: a score s becomes cap * tanh(s / cap); the call brings the cap
  sink      a number of each query head joins the softmax's denominator; the call brings the numbers
  ktrans    k lies as (head_dim, tokens); only kernels of graphs ask for it
  notma     the strides suit no TMA tensor map: one steps backwards, or spans 2^40 bytes or more

A window and a cache in pages:
  left=N    a query sees at most N keys before the one it stands at, N from 0; default all
  right=N   and at most N after it; default all; causal is right=0
  page=N    keys lie in pages of N, found by a table; sk is N times the table's columns

Steps on each score, of which softcap is one chain:
  scores=S  at most 4 operators of graphs with + between, as in div0+tanh+mul0+addtensor. What follows an operator is its
            operand, which the call brings: a digit, a number of its own (clamp reads it and the next); head or row, a
            float32 of each query head or query row; tensor or tensor32, a number of each score, of dtype or float32.
            A call's bias is addtensor or addtensor32, its score_scale mulhead or mulrow, in a cap div0+mulrow+tanh+mul0

How rows of q, k, v and out are aligned, in bytes:
  align=N   16, the default, or 2; 2 implies notma

An item is given once. Blanks around items, keys and values are ignored. What cannot be read is refused with the item
and what was expected; a command then ends with exit code 2.

A winner serves a range of sizes: b, sq and sk are rounded up to 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, ... (sk to at
least 16). One query needs no causal mask, so sq=1 drops it. Specs that round to the same shape are warmed once.

Examples:
  hq=32,hk=8,sq=4096,d=128,causal          prefill of 4096 tokens, bfloat16
  b=64,hq=32,hk=8,sq=1,sk=8192,d=128       decode of 64 sequences, 8192 cached tokens each
  b=64,hq=32,hk=8,sq=1,sk=8192,d=128,page=16,lens    up to 8192 each, in pages of 16
  hq=32,hk=8,sq=4,sk=8192,d=128,causal,left=1023     4 queries, which see 1024 keys each
  hq=16,sq=2048,d=192,dv=128,dtype=f16     multi-head, values narrower than keys, no mask
  hq=16,hk=8,sq=1,sk=8192,d=256,softcap    decode of gemma-2-9b
  hq=64,hk=8,sq=1,sk=8192,d=64,sink,left=127    decode of gpt-oss-20b, a layer with a window
  hq=32,hk=8,sq=4096,d=128,causal,lse      the first one, for calls that ask for log-sum-exp

--shapes FILE names a JSON file. It holds an array of SPEC strings, of objects with the same keys, or of both:
  ["hq=32,hk=8,sq=4096,d=128,causal", {"hq": 32, "hk": 8, "sq": 1, "sk": 8192, "d": 128, "lse": true}]

)";

}  // namespace

std::string spec_text() { return kShape + models_text(); }

}  // namespace gqa::tools
