"""gqa.bench: gqa beside the attention that PyTorch carries, on the same shapes in the same run.

    python -m gqa.bench                                   # the default grids on the best device
    python -m gqa.bench --grid decode --json decode.json
    python -m gqa.bench --shapes b=1,hq=32,hk=8,sq=4096,sk=4096,d=128,dtype=bf16,causal

Stages, a file each: shapes (what to run), peers (who runs it), timing (how long), report (what is printed). Ratios are
what counts: every round times every contestant, on the same inputs, and a ratio is taken within its round.
"""
