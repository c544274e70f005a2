"""The package's arguments that are taken at their defaults alone, where they change nothing.

Owns: their names and defaults, one table a function, and the refusal of what else is given. Never: refuses an argument
that is served. Threads: constants.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping

from .._kinds import shown
from .._refused import refuse

TRANSFORMER: Dict[str, Any] = {
    "max_mem_len": 0,
    "shift_mem_down": 0,
    "emb_dropout": 0.0,
    "post_emb_norm": False,
    "num_memory_tokens": None,
    "tie_embedding": False,
    "use_abs_pos_emb": True,
    "scaled_sinu_pos_emb": False,
    "l2norm_embed": False,
    "emb_frac_gradient": 1.0,
    "attn_z_loss_weight": 1e-4,
}
TRANSFORMER_CALL: Dict[str, Any] = {
    "mask": None,
    "return_mems": False,
    "return_attn": False,
    "mems": None,
    "pos": None,
    "prepend_embeds": None,
    "sum_embeds": None,
    "return_attn_z_loss": False,
    "attn_z_loss_weight": 1e-4,
    "seq_start_pos": None,
}
LAYERS: Dict[str, Any] = {
    "cross_attend": False,
    "only_cross": False,
    "use_scalenorm": False,
    "use_rmsnorm": False,
    "use_simple_rmsnorm": False,
    "alibi_pos_bias": False,
    "alibi_num_heads": None,
    "rel_pos_bias": False,
    "rel_pos_num_buckets": 32,
    "rel_pos_max_distance": 128,
    "dynamic_pos_bias": False,
    "dynamic_pos_bias_log_distance": False,
    "dynamic_pos_bias_mlp_depth": 2,
    "dynamic_pos_bias_norm": False,
    "rotary_pos_emb": False,
    "rotary_emb_dim": None,
    "rotary_xpos": False,
    "rotary_interpolation_factor": 1.0,
    "rotary_xpos_scale_base": 512,
    "rotary_base_rescale_factor": 1.0,
    "custom_layers": None,
    "sandwich_coef": None,
    "par_ratio": None,
    "weight_tie_layers": False,
    "layers_execute_order": None,
    "residual_attn": False,
    "cross_residual_attn": False,
    "macaron": False,
    "pre_norm": True,
    "pre_norm_has_final_norm": True,
    "gate_residual": False,
    "scale_residual": False,
    "scale_residual_constant": 1.0,
    "shift_tokens": 0,
    "sandwich_norm": False,
    "resi_dual": False,
    "resi_dual_scale": 1.0,
    "zero_init_branch_output": False,
    "layer_dropout": 0.0,
    "cross_attn_tokens_dropout": 0.0,
}
LAYERS_CALL: Dict[str, Any] = {
    "context": None,
    "mask": None,
    "context_mask": None,
    "attn_mask": None,
    "self_attn_kv_mask": None,
    "mems": None,
    "seq_start_pos": None,
}
ATTENTION: Dict[str, Any] = {
    "talking_heads": False,
    "head_scale": False,
    "sparse_topk": None,
    "num_mem_kv": 0,
    "dropout": 0.0,
    "on_attn": False,
    "gate_values": False,
    "zero_init_output": False,
    "qk_norm": False,
    "qk_norm_groups": 1,
    "qk_norm_scale": 10,
    "qk_norm_dim_scale": False,
    "shared_kv": False,
    "tensor_product": False,
    "add_zero_kv": False,
    "rotary_embed_values": False,
    "onnxable": False,
}
ATTENTION_CALL: Dict[str, Any] = {
    "context": None,
    "mask": None,
    "context_mask": None,
    "attn_mask": None,
    "rel_pos": None,
    "rotary_pos_emb": None,
    "prev_attn": None,
    "mem": None,
    "return_intermediates": False,
}
FEED_FORWARD: Dict[str, Any] = {
    "glu": False,
    "glu_mult_bias": False,
    "swish": False,
    "relu_squared": False,
    "post_act_ln": False,
    "dropout": 0.0,
    "zero_init_output": False,
}

_INSTEAD = {
    **dict.fromkeys(("emb_dropout", "layer_dropout", "dropout"), "leave it out: a model in eval mode drops nothing"),
    **dict.fromkeys(("mask", "seq_start_pos"), "give sequences of one length, or each on its own"),
    **dict.fromkeys(("use_rmsnorm", "rotary_pos_emb", "qk_norm"), "gqa.nn has layers to make such a model of"),
}


def only(function: str, table: Mapping[str, Any], given: Mapping[str, Any], prefix: str = "") -> None:
    """Raises NotImplementedError for what is given and is not the table's, TypeError for a name that is not in it.
    prefix: what names begin with for the caller."""
    for name, value in given.items():
        if name not in table:
            raise TypeError(f"{function} has no argument {prefix}{name}: is it spelled as mgqa's Decoder has it?")
        if not _same(value, table[name]):
            refuse(function, prefix + name, value, shown(table[name]), _INSTEAD.get(name, ""))


def _same(value: Any, default: Any) -> bool:
    """0 is 0.0, but not False, nor None."""
    if value is default:
        return True
    numbers = isinstance(default, (int, float)) and isinstance(value, (int, float))
    return numbers and isinstance(value, bool) == isinstance(default, bool) and value == default
