"""Node selectors over many rows at once, by the same requirements that decide for one node.

A requirement leaves a few rows, all but a few, or a mask over all of them. Each requirement of a term only
looks at the rows that the previous ones left; as soon as few rows are left their nodes are matched directly.
So a selector with thousands of keys, terms or values costs little more than reading it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np

from stowplan.api.labels import (
    DOES_NOT_EXIST,
    EXISTS,
    GREATER_THAN,
    IN,
    LESS_THAN,
    NONE_OF,
    ONE_OF,
    Requirement,
    Selector,
)
from stowplan.api.rules.nodeselector import (
    NODE_NAME_FIELD,
    CompiledNodeSelector,
    FieldRequirement,
    RequiredNodeAffinity,
    Term,
)
from stowplan.gocompat.numbers import parse_int64
from stowplan.scheduler.table.columns import BoolColumn, IntColumn
from stowplan.scheduler.table.nodelabels import LabelColumn
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.table.view import NodeRows

Column = TypeVar("Column", BoolColumn, IntColumn)

_FEW: Final = 16
"""Up to this many rows are matched one by one."""


def matching_affinity(affinity: RequiredNodeAffinity, nodes: NodeRows) -> BoolColumn:
    """Rows that have what a pod demands of its node."""
    if nodes.count <= _FEW:
        return _one_by_one(affinity, nodes)
    found = _Search(nodes.table)
    mask = np.ones(found.used, dtype=np.bool_)
    if affinity.labels is not None:
        mask = found.labels(affinity.labels)
    if affinity.affinity is not None and mask.any():
        mask &= found.any_term(affinity.affinity.terms)
    return _of(mask, nodes)


def matching_selector(selector: CompiledNodeSelector, nodes: NodeRows) -> BoolColumn:
    """Rows that match at least one term."""
    return matching_affinity(RequiredNodeAffinity(None, selector), nodes)


def preference_scores(terms: Sequence[tuple[int, Term]], nodes: NodeRows) -> IntColumn:
    """By row, the sum of the weights of the terms it matches."""
    if nodes.count <= _FEW:
        scores = np.zeros(nodes.count, dtype=np.int64)
        for position, row in enumerate(_numbers(nodes)):
            node = nodes.table.nodes[row]
            if node is not None:
                labels, name = node.metadata.labels, node.name
                scores[position] = sum(weight for weight, term in terms if term.matches(labels, name))
        return scores
    return _of(_Search(nodes.table).weighed(terms), nodes)


def _one_by_one(affinity: RequiredNodeAffinity, nodes: NodeRows) -> BoolColumn:
    mask = np.zeros(nodes.count, dtype=np.bool_)
    for position, row in enumerate(_numbers(nodes)):
        node = nodes.table.nodes[row]
        mask[position] = node is not None and affinity.matches(node.metadata.labels, node.name)
    return mask


def _numbers(nodes: NodeRows) -> Iterable[int]:
    return range(nodes.count) if isinstance(nodes.rows, slice) else nodes.rows.tolist()


def _of(column: Column, nodes: NodeRows) -> Column:
    """Values of a column of all rows in use for some of the rows."""
    return column if isinstance(nodes.rows, slice) else column[nodes.rows]


class _Part(NamedTuple):
    """Result of a requirement or a term: `rows`, or all rows but these, or those of a mask but these."""

    rows: Sequence[int] = ()
    all_but: bool = False
    mask: BoolColumn | None = None

    @property
    def is_few(self) -> bool:
        return self.mask is None and not self.all_but


_NONE = _Part()
_ALL = _Part(all_but=True)


class _Search:
    """Rows in use that match something. A mask that was made for one requirement serves the next like it."""

    __slots__ = ("_columns", "_known", "_masks", "_table", "used")

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self.used = table.rows_in_use
        self._columns: dict[str, LabelColumn] = {}
        self._known: dict[Requirement, _Part] = {}
        self._masks: dict[tuple[str, str, frozenset[int]], BoolColumn] = {}

    # Terms

    def labels(self, selector: Selector) -> BoolColumn:
        """Rows whose labels a label selector chooses."""
        if selector.nothing:
            return np.zeros(self.used, dtype=np.bool_)
        return self._mask(self._all(Term(selector.requirements)))

    def any_term(self, terms: Iterable[Term]) -> BoolColumn:
        """Rows that match at least one of some terms."""
        result: BoolColumn = np.zeros(self.used, dtype=np.bool_)
        bounds = _Bounds()
        rows: list[int] = []
        for term in dict.fromkeys(terms):
            if self._is_bound(term) and bounds.add(term.expressions[0]):
                continue
            part = self._term(term)
            if part.is_few:
                rows += part.rows
            else:
                result |= self._mask(part)
                if result.all():
                    return result
        for key in bounds.keys:
            column = self._table.label_column(key)
            result |= bounds.any_met(column)[column.ids[: self.used]]
        result[rows] = True
        return result

    def weighed(self, terms: Iterable[tuple[int, Term]]) -> IntColumn:
        """By row, the sum of the weights of the terms it matches."""
        scores: IntColumn = np.zeros(self.used, dtype=np.int64)
        together: dict[Term, int] = {}
        for weight, term in terms:
            together[term] = together.get(term, 0) + weight
        bounds = _Bounds()
        by_mask: dict[int, tuple[BoolColumn, int]] = {}
        everywhere = 0
        by_row: dict[int, int] = {}
        for term, weight in together.items():
            if self._is_bound(term) and bounds.add(term.expressions[0], weight):
                continue
            part = self._term(term)
            if part.mask is not None:
                known = by_mask.get(id(part.mask), (part.mask, 0))
                by_mask[id(part.mask)] = (part.mask, known[1] + weight)
                for row in part.rows:
                    if part.mask.item(row):
                        by_row[row] = by_row.get(row, 0) - weight
                continue
            if part.all_but:
                everywhere += weight
                weight = -weight
            for row in part.rows:
                by_row[row] = by_row.get(row, 0) + weight
        for mask, weight in by_mask.values():
            scores += mask * np.int64(weight)
        for key in bounds.keys:
            column = self._table.label_column(key)
            scores += bounds.weighed(column)[column.ids[: self.used]]
        scores[list(by_row)] += np.array(list(by_row.values()), dtype=np.int64)
        return scores + everywhere

    def _mask(self, part: _Part) -> BoolColumn:
        if part.mask is not None:
            if not part.rows:
                return part.mask
            mask = part.mask.copy()
            mask[list(part.rows)] = False
            return mask
        mask = np.full(self.used, part.all_but, dtype=np.bool_)
        mask[list(part.rows)] = not part.all_but
        return mask

    def _term(self, term: Term) -> _Part:
        """Result of a term; nothing if it is empty or could not be read."""
        return _NONE if term.errors or term.is_empty else self._all(term)

    def _all(self, term: Term) -> _Part:
        """Result of all requirements of a term together."""
        mask: BoolColumn | None = None
        exceptions: list[int] = []
        bounds = _Bounds()
        for part in self._parts(term, bounds):
            if part.is_few:
                is_all = len(term.expressions) == 1 and not term.fields
                return part if is_all or not part.rows else self._ask(part.rows, term)
            exceptions += part.rows
            if part.mask is None:
                continue
            if mask is None:
                mask = part.mask
                continue
            mask = mask & part.mask
            if np.count_nonzero(mask) <= _FEW:
                return self._ask(mask.nonzero()[0].tolist(), term)
        for key in bounds.keys:
            column = self._table.label_column(key)
            met = bounds.all_met(column)[column.ids[: self.used]]
            mask = met if mask is None else mask & met
        return _Part(tuple(dict.fromkeys(exceptions)), all_but=True, mask=mask)

    def _parts(self, term: Term, bounds: "_Bounds") -> Iterator[_Part]:
        """Result of each requirement of a term; comparisons are collected in `bounds`."""
        for field in term.fields:
            yield self._field(field)
        for demand in term.expressions:
            if demand.operator not in _COMPARING or not (self._compares(demand) and bounds.add(demand)):
                yield self._requirement(demand)

    def _ask(self, rows: Iterable[int], term: Term) -> _Part:
        """Those of a few rows that match a term, found by asking their nodes."""
        nodes = self._table.nodes
        found = []
        for row in rows:
            node = nodes[row]
            if node is not None and term.matches(node.metadata.labels, node.name):
                found.append(row)
        return _Part(found)

    # Requirements

    def _field(self, field: FieldRequirement) -> _Part:
        if field.key != NODE_NAME_FIELD:
            return _ALL if field.matches_name("-") else _NONE
        row = self._table.row_of(field.value)
        rows = () if row is None else (row,)
        return _Part(rows, all_but=field.operator != IN)

    def _requirement(self, demand: Requirement) -> _Part:
        column = self._columns.get(demand.key)
        if column is not None:
            return self._by_column(demand, column)
        few = self._table.labels.few_with(demand.key)
        if few is None:
            column = self._columns[demand.key] = self._table.label_column(demand.key)
            return self._by_column(demand, column)
        meant = demand.matches_value(None)
        nodes = self._table.nodes
        rows = []
        for row in few:
            node = nodes[row]
            assert node is not None
            if demand.matches_value(node.metadata.labels[demand.key]) != meant:
                rows.append(row)
        return _Part(rows, all_but=meant)

    def _by_column(self, demand: Requirement, column: LabelColumn) -> _Part:
        """The same for a key that many rows have."""
        operator = demand.operator
        if operator in ONE_OF or operator in NONE_OF:
            if len(demand.values) == 1:
                number = column.index.get(demand.values[0])
                if number is None or column.populations[number] == 1:
                    rows = () if number is None else (column.only_row(number),)
                    return _Part(rows, operator in NONE_OF)
            known = self._known.get(demand)
            if known is not None:
                return known
            ids = frozenset(column.index[value] for value in demand.values if value in column.index)
            if sum(column.populations[number] for number in ids) <= _FEW:
                few = column.rows_of(list(ids), self.used).tolist()
                return _Part(few, all_but=operator in NONE_OF)
            part = _Part(mask=self._made(column, IN if operator in ONE_OF else "", ids))
            if len(self._known) < _MOST_KNOWN:
                self._known[demand] = part
            return part
        if operator in (EXISTS, DOES_NOT_EXIST):
            return _Part(mask=self._made(column, IN if operator == DOES_NOT_EXIST else "", _ABSENT))
        verdicts = np.array([demand.matches_value(value) for value in column.values], dtype=np.bool_)
        return _Part(mask=verdicts[column.ids[: self.used]])

    def _made(self, column: LabelColumn, operator: str, ids: frozenset[int]) -> BoolColumn:
        """Rows whose value is among some, or not among them."""
        mask = self._masks.get((column.key, operator, ids))
        if mask is None:
            verdicts = np.full(column.size, operator != IN, dtype=np.bool_)
            verdicts[list(ids)] = operator == IN
            mask = self._masks[column.key, operator, ids] = verdicts[column.ids[: self.used]]
        return mask

    def _compares(self, demand: Requirement) -> bool:
        """True if a requirement compares numbers of a key that many rows have."""
        return demand.operator in _COMPARING and self._table.labels.few_with(demand.key) is None

    def _is_bound(self, term: Term) -> bool:
        """True if a term is a single such comparison."""
        if len(term.expressions) != 1 or term.fields or term.errors:
            return False
        return self._compares(term.expressions[0])


_COMPARING: Final = (GREATER_THAN, LESS_THAN)
_MOST_KNOWN: Final = 256
_ABSENT: Final = frozenset((0,))


class _Bounds:
    """Requirements Gt and Lt by key: all bounds of one key together cost hardly more than one of them."""

    __slots__ = ("_above", "_below")

    def __init__(self) -> None:
        self._above: dict[str, list[tuple[int, int]]] = {}
        self._below: dict[str, list[tuple[int, int]]] = {}

    @property
    def keys(self) -> Iterable[str]:
        return dict.fromkeys((*self._above, *self._below))

    def add(self, demand: Requirement, weight: int = 0) -> bool:
        """Take in a requirement; False if its bound is none."""
        bound = parse_int64(demand.values[0]) if len(demand.values) == 1 else None
        if bound is None:
            return False
        bounds = self._above if demand.operator == GREATER_THAN else self._below
        bounds.setdefault(demand.key, []).append((bound, weight))
        return True

    def all_met(self, column: LabelColumn) -> BoolColumn:
        """By value of a key, whether it meets all requirements."""
        numbers, numeric = column.numbers()
        above, below = self._above.get(column.key), self._below.get(column.key)
        met: BoolColumn = numeric.copy()
        if above:
            met &= numbers > max(above)[0]
        if below:
            met &= numbers < min(below)[0]
        return met

    def any_met(self, column: LabelColumn) -> BoolColumn:
        """By value of a key, whether it meets one of the requirements."""
        numbers, numeric = column.numbers()
        above, below = self._above.get(column.key), self._below.get(column.key)
        met: BoolColumn = np.zeros(column.size, dtype=np.bool_)
        if above:
            met |= numbers > min(above)[0]
        if below:
            met |= numbers < max(below)[0]
        return met & numeric

    def weighed(self, column: LabelColumn) -> IntColumn:
        """By value of a key, the weights of the requirements that it meets."""
        numbers, numeric = column.numbers()
        scores = np.zeros(column.size, dtype=np.int64)
        for listed, is_above in ((self._above, True), (self._below, False)):
            bounds = sorted(listed.get(column.key, ()))
            if not bounds:
                continue
            sums = np.cumsum([0, *(weight for _, weight in bounds)])
            limits = np.array([bound for bound, _ in bounds], dtype=np.int64)
            lower = sums[np.searchsorted(limits, numbers, side="left" if is_above else "right")]
            scores += lower if is_above else sums[-1] - lower
        return np.where(numeric, scores, 0)
