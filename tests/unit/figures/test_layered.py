from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpu_report.figures.layered import crossings, in_layers, needed_directly

DIAMOND = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c", "a")}


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, tuple[str, ...]]:
    """Graphs without cycles, whose nodes stand after those that they need."""
    names = [f"n{number}" for number in range(draw(st.integers(1, 9)))]
    return {
        name: tuple(draw(st.sets(st.sampled_from(names[:position])))) if position else ()
        for position, name in enumerate(names)
    }


def reached(graph: dict[str, tuple[str, ...]] | dict[str, list[str]], node: str) -> set[str]:
    return set(graph[node]).union(*(reached(graph, need) for need in graph[node]))


def test_an_edge_that_a_longer_way_replaces_is_left_out() -> None:
    assert needed_directly(DIAMOND) == {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


@given(graphs())
def test_what_a_node_needs_stays_what_it_needs(graph: dict[str, tuple[str, ...]]) -> None:
    direct = needed_directly(graph)

    assert all(reached(direct, node) == reached(graph, node) for node in graph)


@given(graphs())
def test_every_edge_goes_down_by_one_layer_at_a_time(graph: dict[str, tuple[str, ...]]) -> None:
    layers, ways = in_layers(graph)

    level = {name: number for number, layer in enumerate(layers) for name in layer}
    assert all(level[lower] == level[upper] + 1 for way in ways for upper, lower in pairwise(way))
    assert {(way[0], way[-1]) for way in ways} == {(need, node) for node, needs in graph.items() for need in needs}
    assert graph.keys() <= level.keys()


def test_nodes_change_places_where_that_spares_crossings() -> None:
    crossed = {"a": (), "b": (), "c": (), "x": ("c",), "y": ("b",), "z": ("a",)}

    layers, ways = in_layers(crossed)

    assert crossings(layers, ways) == 0
    assert crossings([["a", "b", "c"], ["x", "y", "z"]], ways) == 3
