"""Nodes of a file of shapes (docs/shapes.md) as a source of a cluster, as kubelets would register them."""

from typing import Any

from stowplan.api.decode import KINDS, convert
from stowplan.api.meta import Object
from stowplan.api.releases import DEFAULT
from stowplan.localcluster.kubelets.config import NamedNode, NodeShape, ShapeError, named_nodes, shapes_of
from stowplan.localcluster.kubelets.devices import classes_of, slices_of
from stowplan.localcluster.kubelets.nodes import csi_node, node_object
from stowplan.simulate.snapshot.files import SnapshotError
from stowplan.simulate.snapshot.places import Place

EPOCH = 0.0
"""When simulated nodes came; nothing depends on it."""


def nodes_of(data: Any, place: Place) -> list[Object]:
    """The nodes of a document of shapes, with what they publish. Raises SnapshotError."""
    try:
        return objects_of(named_nodes(shapes_of(data)))
    except ShapeError as error:
        raise wrong_shape(error, place) from None


def wrong_shape(error: ShapeError, place: Place) -> SnapshotError:
    """An error about a shape, with its line."""
    field, _, text = str(error).partition(": ")
    return place.wrong(field, text)


def objects_of(nodes: list[NamedNode]) -> list[Object]:
    """Node, CSINode and ResourceSlices of nodes of shapes."""
    found: list[Object] = []
    for node in nodes:
        registered = node_object(node, f"v{DEFAULT.version}", EPOCH)
        registered["metadata"]["uid"] = f"node-{node.name}"
        found.append(convert(registered, KINDS["Node"]))
        drivers = csi_node(node, registered)
        if drivers is not None:
            found.append(convert(drivers, KINDS["CSINode"]))
        slices = slices_of(registered, node.shape.devices)
        found += [convert(one, KINDS["ResourceSlice"]) for one in slices]
    groups = [group for node in nodes for group in node.shape.devices]
    found += [convert(one, KINDS["DeviceClass"]) for one in classes_of(groups)]
    return found


def shapes_at(data: Any, place: Place) -> list[NodeShape]:
    """Shapes of a document. Raises SnapshotError."""
    try:
        return shapes_of(data)
    except ShapeError as error:
        raise wrong_shape(error, place) from None
