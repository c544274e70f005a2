"""gqa.PagePool: which pages of a key/value cache belong to which sequence.

Owns: what a pool's tensors and its answers are in their framework. Never: counts pages; the library does. Threads: one
pool serves any number; each method is one step.
"""

from __future__ import annotations

from typing import Any, Iterable, List, Optional, Sequence, Tuple, Union

from . import _defaults, _gqa
from ._call import refined
from ._errors import Status, error_for
from ._export import exported
from ._frameworks import KINDS, adopt
from ._handle import Handle
from ._kinds import MOST_INT64, PAGES


class PagePool:
    """The pages of a key/value cache, given to sequences, shared among them and taken back.

    caches: the tensors whose pages they are, keys and values of all layers: each (pages, page, kv_heads, head_dim), of
    any strides and any dtype of whole bytes, all on one device, with as many pages and as many tokens a page. They stay
    the caller's, who writes keys and values; the pool keeps page numbers, in host memory, and copies a page in all of
    them where two sequences part on it. handle: a gqa.Handle; None: the device's shared one.

        pool = gqa.PagePool(k_pages, v_pages)              # each (pages, page, kv_heads, head_dim)
        sequence = pool.add(40)                            # room for 40 tokens
        table, lengths = pool.table([sequence])            # for gqa.flash_attn_with_kvcache
        other = pool.share(sequence)                       # begins as it, without a copy
        pool.append([sequence, other])                     # room for one more token in each
        pool.free(sequence, other)

    A sequence is a number that no other pool of the process gives. A freed page may be given out at once: work that
    reads the caches and work that writes them must be in order with the stream that is current at append(), as on one
    stream. One pool may be used from many threads at once. Methods raise GqaValueError, GqaTypeError, GqaMemoryError or
    GqaError.
    """

    def __init__(self, *caches: Any, handle: Optional[Handle] = None) -> None:
        tensors = [
            cache if type(cache) in KINDS else adopt(cache, f"caches[{at}]") for at, cache in enumerate(caches)
        ]
        if not tensors:
            raise error_for(Status.ERROR_SIZE, "there is no cache; expected at least one tensor of pages")
        self._first = tensors[0]
        self._kind = KINDS[type(tensors[0])]
        names = [f"caches[{at}]" for at in range(len(tensors))]
        try:
            core = _defaults.served_by(handle)(self._kind.device(tensors[0]))
            stream = self._kind.stream(tensors[0])
            given = [exported(tensor, self._kind, stream, name) for name, tensor in zip(names, tensors)]
            self._pool = _gqa.PagePool(core, given)
        except Exception as error:
            raise refined(error, dict(zip(names, tensors))) from error.__cause__
        self._caches = tensors  # whose memory the pool copies pages in
        self._pages, self._page = (int(size) for size in tuple(tensors[0].shape)[:2])

    @property
    def pages(self) -> int:
        """All pages, free or not."""
        return self._pages

    @property
    def page(self) -> int:
        """Tokens a page."""
        return self._page

    @property
    def free_pages(self) -> int:
        return self._pool.free_pages()

    def add(self, tokens: int = 0) -> int:
        """A new sequence, with room for so many tokens."""
        tokens = PAGES["tokens"]("tokens", tokens)
        sequence = self._pool.add()
        try:
            self.append(sequence, tokens)
        except BaseException:
            self._pool.free([sequence])
            raise
        return sequence

    def share(self, sequence: int, tokens: Optional[int] = None) -> int:
        """A new sequence that begins with another's first tokens; None: with all. Their pages are shared: nothing is
        copied before one of the two appends to a page that is not full."""
        shared = -1 if tokens is None else PAGES["tokens"]("tokens", tokens)
        if tokens is not None and shared < 0:
            raise error_for(Status.ERROR_SIZE, f"tokens is {tokens}; expected 0 or more, or None for all")
        return self._pool.share(PAGES["sequence"]("sequence", sequence), shared)

    def append(
        self,
        sequences: Union[int, Iterable[int]],
        tokens: Union[int, Sequence[int]] = 1,
        columns: Optional[int] = None,
    ) -> None:
        """Makes room for more tokens: so many in each sequence, or a number for each. A shared page that is to be
        written is copied first, in all caches, on the current stream of their framework, which must not be captured.
        Raises GqaMemoryError where too few pages are free. columns: of the table that they have to fit; raises
        GqaValueError where a sequence would have more pages. All is then as before."""
        named = _listed(sequences)
        counts = _each(tokens, "tokens") if _is_several(tokens) else [PAGES["tokens"]("tokens", tokens)] * len(named)
        most = MOST_INT64 if columns is None else PAGES["columns"]("columns", columns)
        self._pool.append(named, counts, most, self._kind.stream(self._first))

    def truncate(self, sequence: int, tokens: int) -> None:
        """Leaves a sequence its first `tokens`: those of a draft that was refused go. Pages that hold none of them any
        more are given back; keys and values stay as they are."""
        self._pool.truncate(PAGES["sequence"]("sequence", sequence), PAGES["tokens"]("tokens", tokens))

    def free(self, *sequences: int) -> None:
        """Takes sequences back. Pages that no other sequence holds are free."""
        self._pool.free(PAGES["sequences"]("sequences", sequences))

    def length(self, sequence: int) -> int:
        """How many tokens a sequence has room for."""
        return self._pool.length(PAGES["sequence"]("sequence", sequence))

    def table(self, sequences: Union[int, Iterable[int]], columns: Optional[int] = None) -> Tuple[Any, Any]:
        """(page_table, lengths) of sequences: (sequences, columns) and (sequences) int32, in host memory, of NumPy or
        PyTorch where the caches are, else gqa.Array. columns: None for as many as the longest has pages; 0 stands past
        a sequence's last."""
        named = _listed(sequences)
        if columns is None:
            longest = max((self.length(sequence) for sequence in named), default=0)
            columns = max(1, (longest + self._page - 1) // self._page)
        columns = PAGES["columns"]("columns", columns)
        if not named or columns < 1:
            raise error_for(
                Status.ERROR_SIZE, f"a table of {len(named)} sequences and {columns} columns; expected one of each"
            )
        table, lengths = self._kind.host_int32s((len(named), columns)), self._kind.host_int32s((len(named),))
        self._pool.table(named, _writable(table, "table"), _writable(lengths, "lengths"))
        return table, lengths

    def __repr__(self) -> str:
        return f"gqa.PagePool({self.free_pages} of {self.pages} pages free, {self.page} tokens each)"


def _is_several(given: Any) -> bool:
    """Whether it is a list, an array, a generator, ...; a text is none, nor is a tensor of one number."""
    return hasattr(given, "__iter__") and not isinstance(given, (str, bytes)) and getattr(given, "shape", None) != ()


def _each(given: Any, name: str) -> List[int]:
    return [PAGES[name](f"{name}[{at}]", item) for at, item in enumerate(given)]


def _listed(sequences: Union[int, Iterable[int]]) -> List[int]:
    return PAGES["sequences"]("sequences", sequences if _is_several(sequences) else [sequences])


def _writable(tensor: Any, name: str) -> Any:
    if type(tensor) not in KINDS:
        tensor = adopt(tensor, name)
    return exported(tensor, KINDS[type(tensor)], 0, name)
