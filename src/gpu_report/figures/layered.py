"""Places the nodes of a graph without cycles in layers, so that every edge leads downwards and few of them cross.

edges -> those that no longer way makes needless -> layers -> order inside each layer -> positions
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

Graph = Mapping[str, Sequence[str]]
"""What each node needs, by its name; a node stands after those that it needs."""

Way = tuple[str, ...]
"""The nodes that an edge passes, from above to below: its ends, and a bend named after them in each layer between."""

_SWEEPS: Final = 8


def needed_directly(graph: Graph) -> dict[str, list[str]]:
    """The graph without edges that a longer way replaces."""
    reached: dict[str, set[str]] = {}
    for node, needs in graph.items():
        reached[node] = set(needs).union(*(reached[need] for need in needs))
    return {
        node: [need for need in needs if not any(need in reached[other] for other in needs)]
        for node, needs in graph.items()
    }


def in_layers(graph: Graph) -> tuple[list[list[str]], list[Way]]:
    """The names in each layer from above, with the bends of long edges among them, and the way of each edge."""
    depth: dict[str, int] = {}
    for node, needs in graph.items():
        depth[node] = 1 + max((depth[need] for need in needs), default=-1)
    for node, needs in graph.items():
        followers = [depth[other] for other, others_needs in graph.items() if node in others_needs]
        if not needs and followers:
            depth[node] = min(followers) - 1
    ways = [
        (need, *(f"{need} > {node} {layer}" for layer in range(depth[need] + 1, depth[node])), node)
        for node, needs in graph.items()
        for need in needs
    ]
    layers: list[list[str]] = [[] for _ in range(1 + max(depth.values()))]
    for node, layer in depth.items():
        layers[layer].append(node)
    for way in ways:
        for layer, bend in enumerate(way[1:-1], start=depth[way[0]] + 1):
            layers[layer].append(bend)
    return _with_few_crossings(layers, ways), ways


def crossings(layers: Sequence[Sequence[str]], ways: Sequence[Way]) -> int:
    """How many pairs of edges cross, with the nodes in this order."""
    place = {name: position for layer in layers for position, name in enumerate(layer)}
    level = {name: number for number, layer in enumerate(layers) for name in layer}
    pieces = [piece for way in ways for piece in pairwise(way)]
    return sum(
        (place[upper] - place[other_upper]) * (place[lower] - place[other_lower]) < 0
        for number, (upper, lower) in enumerate(pieces)
        for other_upper, other_lower in pieces[:number]
        if level[upper] == level[other_upper]
    )


def _with_few_crossings(layers: list[list[str]], ways: Sequence[Way]) -> list[list[str]]:
    """The order with fewest crossings of those that come up when nodes move to the mean place of their neighbours."""
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for way in ways:
        for upper, lower in pairwise(way):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    best = layers
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        layers = list(layers)
        for number in range(1, len(layers)) if downwards else reversed(range(len(layers) - 1)):
            fixed = layers[number - 1 if downwards else number + 1]
            layers[number] = _sorted(layers[number], above if downwards else below, fixed)
        if crossings(layers, ways) < crossings(best, ways):
            best = layers
    return best


def _sorted(layer: Sequence[str], neighbours: Mapping[str, Sequence[str]], fixed: Sequence[str]) -> list[str]:
    """By the mean relative place of the neighbours; a node without any keeps its own."""
    place = {name: (position + 0.5) / len(fixed) for position, name in enumerate(fixed)}

    def mean(name: str) -> float:
        places = [place[neighbour] for neighbour in neighbours.get(name, ())]
        return sum(places) / len(places) if places else (layer.index(name) + 0.5) / len(layer)

    return sorted(layer, key=mean)
