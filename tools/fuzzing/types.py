"""Element types as a fuzz sees them: their names, steps and ends.

Never: imports a framework at once; what a machine lacks is missed when it is asked for.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Type:
    name: str
    step: float  # of a unit in the last place at 1
    least: float  # the least number that must not become zero
    most: float
    small: float  # scales normal numbers to where they lose bits

    def rounded(self, x):
        """float32 or float64, rounded to this type, as float32."""
        x = np.asarray(x, np.float32)
        if self.name != "bfloat16":
            return x.astype(self.name).astype(np.float32)
        bits = np.ascontiguousarray(x).view(np.uint32)
        nearest = ((bits + (0x7FFF + ((bits >> 16) & 1))) & np.uint32(0xFFFF0000)).view(np.float32)
        return np.where(np.isnan(x), x, nearest).reshape(x.shape)

    @property
    def numpy_text(self):
        return "ml_dtypes.bfloat16" if self.name == "bfloat16" else f"np.{self.name}"


def array_text(text, kind, frame, device):
    """The expression of a tensor of this element type, a name of TYPES or NumPy's, that holds a NumPy array."""
    if frame == "torch":
        on = ', device="cuda"' if device == "cuda" else ""
        return f"torch.tensor(np.ascontiguousarray({text}), dtype=torch.{kind}{on})"
    name = TYPES[kind].numpy_text if kind in TYPES else f"np.{kind}"
    return f"np.ascontiguousarray({text}).astype({name})"


TYPES = {
    "float16": Type("float16", 2.0**-10, 2.0**-24, 65504.0, 2.0**-20),
    "bfloat16": Type("bfloat16", 2.0**-7, 2.0**-126, (2 - 2.0**-7) * 2.0**127, 2.0**-120),
    "float32": Type("float32", 2.0**-23, 2.0**-126, (2 - 2.0**-23) * 2.0**127, 2.0**-120),
}
