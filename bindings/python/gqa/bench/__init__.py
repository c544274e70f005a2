"""gqa.bench: gqa beside the attention that PyTorch carries, and programs for graphs beside PyTorch, eager and compiled.

    python -m gqa.bench                                   # the default grids on the best device
    python -m gqa.bench --grid decode --json decode.json
    python -m gqa.bench --grid hopper --dtype fp16
    python -m gqa.bench --shapes b=1,hq=32,hk=8,sq=4096,sk=4096,d=128,dtype=bf16,causal
    python -m gqa.bench --grid graph                      # programs of gqa.new_kernel_graph()
    python -m gqa.bench --shapes lora:m=4,k=4096,n=4096,r=16,dtype=bf16

    python -m gqa.bench --grid serving                    # over a paged cache: beside FlashInfer, XQA, FlashAttention-3

Stages, a file each: shapes, graph_cases and serving_cases (what to run), peers, graph_peers and serving_peers (who
runs it), timing (how long), report (what is printed). Ratios are what counts: every round times every contestant, on
the same inputs, and a ratio is taken within its round.
"""
