"""Node selectors over many rows at once, by the same requirements that decide for one node.

A requirement is asked once per distinct value of its label, not once per node.
"""

import numpy as np

from stowplan.api.labels import Requirement, Selector
from stowplan.api.nodeselector import CompiledNodeSelector, FieldRequirement, RequiredNodeAffinity, Term
from stowplan.cluster.columns import BoolColumn, LabelColumn
from stowplan.cluster.view import NodeRows


def matching_affinity(affinity: RequiredNodeAffinity, nodes: NodeRows) -> BoolColumn:
    """Rows that have what a pod demands of its node."""
    result = np.ones(nodes.count, dtype=np.bool_)
    if affinity.labels is not None:
        result &= matching_labels(affinity.labels, nodes)
    if affinity.affinity is not None:
        result &= matching_selector(affinity.affinity, nodes)
    return result


def matching_selector(selector: CompiledNodeSelector, nodes: NodeRows) -> BoolColumn:
    """Rows that match at least one term."""
    result = np.zeros(nodes.count, dtype=np.bool_)
    for term in selector.terms:
        result |= matching_term(term, nodes)
    return result


def matching_term(term: Term, nodes: NodeRows) -> BoolColumn:
    """Rows that satisfy all of a term; none if the term is empty or could not be read."""
    if term.errors or term.is_empty:
        return np.zeros(nodes.count, dtype=np.bool_)
    result = np.ones(nodes.count, dtype=np.bool_)
    for requirement in term.expressions:
        result &= matching_requirement(requirement, nodes)
    for field in term.fields:
        result &= _matching_field(field, nodes)
    return result


def matching_labels(selector: Selector, nodes: NodeRows) -> BoolColumn:
    """Rows whose labels a label selector chooses."""
    if selector.nothing:
        return np.zeros(nodes.count, dtype=np.bool_)
    result = np.ones(nodes.count, dtype=np.bool_)
    for requirement in selector.requirements:
        result &= matching_requirement(requirement, nodes)
    return result


def matching_requirement(requirement: Requirement, nodes: NodeRows) -> BoolColumn:
    column = nodes.table.label_column(requirement.key)
    verdicts = _verdicts(requirement, column)
    result: BoolColumn = verdicts[column.ids[nodes.rows]]
    return result


def _verdicts(requirement: Requirement, column: LabelColumn) -> BoolColumn:
    """What a requirement says of each value id (id 0: the label is absent)."""
    operator = requirement.operator
    if operator in ("In", "NotIn"):
        # The ids of the few values named decide; asking about every value would be slow for host names.
        verdicts = np.full(column.size, operator == "NotIn", dtype=np.bool_)
        for value in requirement.values:
            found = column.index.get(value)
            if found is not None:
                verdicts[found] = operator == "In"
        return verdicts
    return np.array([requirement.matches_value(value) for value in column.values], dtype=np.bool_)


def _matching_field(field: FieldRequirement, nodes: NodeRows) -> BoolColumn:
    table = nodes.table
    if field.key != "metadata.name":
        return np.full(nodes.count, field.matches_name("-"), dtype=np.bool_)
    mask = np.full(table.capacity, field.operator == "NotIn", dtype=np.bool_)
    row = table.row_of(field.value)
    if row is not None:
        mask[row] = field.operator == "In"
    result: BoolColumn = mask[nodes.rows]
    return result
