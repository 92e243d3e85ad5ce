"""The address holds the whole state, and nothing else."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from hypothesis import given, settings
from hypothesis import strategies as st

from rightfit.web.catalog_pages import FILTERS, KINDS, CatalogState
from rightfit.web.forms import LONGEST_SENTENCE, LONGEST_VALUE, MOST_COMPARED, MOST_OPTIONS, TABS, WISHES, PageState, clean

TEXT = st.text(max_size=60).map(lambda text: clean(text, LONGEST_VALUE))
STATES = st.builds(
    PageState,
    ask=TEXT,
    wishes=st.dictionaries(st.sampled_from(WISHES), TEXT.filter(bool), max_size=6),
    lang=st.sampled_from(["en", "zh"]),
    option=st.integers(1, MOST_OPTIONS),
    compare=st.lists(st.integers(1, MOST_OPTIONS), max_size=MOST_COMPARED, unique=True).map(tuple),
    tab=st.sampled_from(TABS),
)


def _query(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query, keep_blank_values=True).items()}


@given(STATES)
@settings(max_examples=300, deadline=None)
def test_a_state_comes_back_from_its_address(state: PageState) -> None:
    assert PageState.from_query(_query(state.address())) == state


@given(st.dictionaries(st.sampled_from([*WISHES, "ask", "lang", "option", "compare", "tab", "evil", "trace"]), st.text(max_size=400)))
@settings(max_examples=300, deadline=None)
def test_any_query_gives_a_state_within_bounds(query: dict[str, str]) -> None:
    state = PageState.from_query(query)
    assert len(state.ask) <= LONGEST_SENTENCE
    assert set(state.wishes) <= set(WISHES)
    assert all(0 < len(value) <= LONGEST_VALUE and value.isprintable() for value in state.wishes.values())
    assert 1 <= state.option <= MOST_OPTIONS
    assert len(state.compare) <= MOST_COMPARED
    assert PageState.from_query(_query(state.address())) == state


def test_a_changed_wish_closes_what_was_opened() -> None:
    state = PageState(wishes={"model": "7B"}, option=3, compare=(1, 2), tab="buying")
    changed = state.with_wish("budget", "200usd")
    assert changed.wishes == {"model": "7B", "budget": "200usd"}
    assert (changed.option, changed.compare, changed.tab) == (1, (), "buying")
    assert changed.with_wish("budget", "").wishes == {"model": "7B"}


@given(
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(["query", "cloud", "gpu", "region", "purchase", "sort", "order", "page"]), st.text(max_size=40)),
)
@settings(max_examples=300, deadline=None)
def test_the_catalog_s_state_comes_back_too(kind: str, query: dict[str, str]) -> None:
    state = CatalogState.from_query({**query, "kind": kind}, lang="zh")
    assert CatalogState.from_query(_query(state.address()), lang="zh") == state
    assert all(not getattr(state.question, name) for name in ("cloud", "gpu", "region", "purchase") if name not in FILTERS[kind])
