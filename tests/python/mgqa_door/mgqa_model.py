"""A small MGQATransformer for tests, and the package's forward pass written out in float64 from its state dict.
Imported once PyTorch is known to be there."""

import torch
from gqa.mgqa.transformer import Decoder, MGQATransformer
from torch_layers import attention64, randomised, weights_of

TOKENS, LENGTH, DIM, DEPTH, HEADS, KV_HEADS, WIDTH = 97, 48, 64, 2, 8, 2, 32
SMALL = {"dim": DIM, "depth": DEPTH, "heads": HEADS, "attn_kv_heads": KV_HEADS, "attn_dim_head": WIDTH}


def model_of(dtype=torch.bfloat16, device="cpu", **options):
    """Trained, as it seems: a fresh model's heads are alike, whoever attends to whom."""
    layers = Decoder(**{**SMALL, **options})
    model = randomised(MGQATransformer(num_tokens=TOKENS, max_seq_len=LENGTH, attn_layers=layers)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "to_" in name and "attn_layers" in name:
                parameter.mul_(2)
    return model.to(device, dtype)


def ids(batch, length, device="cpu", seed=0):
    return torch.randint(TOKENS, (batch, length), generator=torch.Generator().manual_seed(seed)).to(device)


def normed(x, w, name):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * w[f"{name}.weight"] + w[f"{name}.bias"]


def embeddings64(w, x, heads=HEADS, kv_heads=KV_HEADS, window=(-1, -1)):
    """What logits are made of, (batch, n, dim), by the package's names and layouts: w is a state dict in float64."""
    dim = w["token_emb.emb.weight"].shape[1]
    h = w["token_emb.emb.weight"][x] + w["pos_emb.emb.weight"][: x.shape[1]] * dim**-0.5
    depth = sum(name.endswith("to_q.weight") for name in w)
    for at in range(2 * depth):
        part = f"attn_layers.layers.{at}"
        inner = normed(h, w, f"{part}.0.0")
        if at % 2:
            inner = inner @ w[f"{part}.1.ff.0.0.weight"].T + w.get(f"{part}.1.ff.0.0.bias", 0)
            inner = inner * 0.5 * (1 + torch.erf(inner / 2**0.5))
            h = h + inner @ w[f"{part}.1.ff.2.weight"].T + w.get(f"{part}.1.ff.2.bias", 0)
            continue
        q, k, v = (
            (inner @ w[f"{part}.1.to_{n}.weight"].T).unflatten(2, (heads if n == "q" else kv_heads, -1)).transpose(1, 2)
            for n in "qkv"
        )
        out = attention64(q, k, v, window=window, key_of=lambda head: head % kv_heads)
        h = h + out.transpose(1, 2).flatten(2) @ w[f"{part}.1.to_out.weight"].T
    return normed(h, w, "attn_layers.final_norm")


def logits64(w, x, **heads):
    return embeddings64(w, x, **heads) @ w["to_logits.weight"].T + w["to_logits.bias"]


def expected(model, x, **heads):
    return logits64(weights_of(model), x.cpu(), **heads)
