"""Every field of every form of the page, found on the page itself: what is typed or chosen reaches
the address and the answer.

What must come out is what a fresh visitor of the same address sees, so a field may leave the answer
as it was only where its value says nothing new.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

pytest.importorskip("nicegui")
sync_api = pytest.importorskip("playwright.sync_api")

from rightfit.web.forms import MAIN  # noqa: E402
from rightfit.web.words import word  # noqa: E402

pytestmark = pytest.mark.deep

FORMS = {
    "train": "/?model=resnet50&task=train&data=imagenet&cloud=aws&region=us-east-1",
    "finetune": "/?model=Llama-3-8B&task=finetune&method=lora&data=5Mtok&cloud=aws&region=us-east-1",
    "serve": "/?model=Qwen2.5-7B&task=serve&users=20&cloud=aws&region=us-east-1",
    "batch": "/?model=Qwen2.5-7B&task=batch&data=100k+samples&cloud=aws&region=us-east-1",
    "prepare": "/?operation=tokenize&task=prepare&data=100GB&cloud=aws&region=us-east-1",
}
PLAN = FORMS["finetune"]
NONSENSE = "§?!"
ANSWERS = ".cards, .results .problem, .results .section.panel"  # plans, what is wrong, that no server does it
#: Every control of a page is in one of these places; the tests below walk each of them.
PLACES = {
    "fields of the plan": ".ask .fields",
    "sentence": ".ask .sentence",
    "question about a server": ".tab-panel .sentence-row",
    "knobs": ".knobs",
    "target of an export": ".tab-panel .head",
    "plans to compare": ".card .tick",
    "filters of the catalog": ".filters",
    "claim": ".panel .sentence-row",
}
CONTROLS = "main :is(input, textarea, select, [role=slider])"
#: Said by the library of charts when a chart is taken away before it is drawn;
#: nothing of it is seen.
HASTE = "reading 'dispose'"


class Form:
    """A visited page whose controls are used one by one; `answer` is where it answers."""

    def __init__(self, visit: Any, path: str, *, answer: str, answered: bool = True) -> None:
        self.visit, self.answer_place = visit, answer
        self.page = visit.open(path, "en", ready=answer if answered else "")
        self.reader = visit.context.new_page()

    def answer(self, page: Any = None) -> str:
        return "\n".join((page or self.page).locator(self.answer_place).all_inner_texts())

    def does(self, name: str, act: Any) -> bool:
        """Something is done: the address changes, and the answer is that of the new address. True
        where it is another answer than before."""
        address, before = self.page.url, self.answer()
        act()
        self.page.wait_for_function("before => location.href !== before && !document.querySelector('.stale')", arg=address)
        try:
            self._awaits("found && found !== told", before, timeout=1500)
        except sync_api.TimeoutError:  # late, or the same answer: right where a fresh visitor sees it too
            self.reader.goto(self.page.url)
            self.reader.wait_for_selector(self.answer_place)
            fresh = self.answer(self.reader)
            with contextlib.suppress(sync_api.TimeoutError):
                self._awaits("found === told", fresh, timeout=20_000)
            assert self.answer() == fresh, f"{name}: the answer is not that of the address {self.page.url}"
            return fresh != before
        return True

    def _awaits(self, holds: str, told: str, *, timeout: float) -> None:
        """Something holds, soon, of the answer (`found`) and a text (`told`)."""
        script = (
            "([place, told]) => { const found = [...document.querySelectorAll(place)].map(one => one.innerText).join('\\n');"
            f" return {holds}; }}"
        )
        self.page.wait_for_function(script, arg=[self.answer_place, told], timeout=timeout)

    def close(self) -> None:
        self.visit.complaints[:] = [line for line in self.visit.complaints if HASTE not in line]


def typed(form: Form, field: Any, text: str, way: str) -> Any:
    """Type, then leave the field in one of three ways."""

    def act() -> None:
        field.fill("")
        field.press_sequentially(text)
        if way == "button":
            form.page.get_by_role("button", name=word("ask.submit", "en")).click()
        else:
            field.press(way)

    return act


def lines_of(page: Any, place: str) -> list[str]:
    return page.eval_on_selector_all(f"{place} .q-input input", "found => found.map(one => one.getAttribute('aria-label'))")


def choices_of(page: Any, place: str) -> list[str]:
    return page.eval_on_selector_all(f"{place} .q-select input[role=combobox]", "found => found.map(one => one.getAttribute('aria-label'))")


def line(page: Any, place: str, label: str) -> Any:
    return page.locator(f'{place} .q-input input[aria-label="{label}"]')


def chooses(page: Any, place: str, label: str) -> Any:
    """Take what stands next in a list, or of a list of several leave out what was taken."""

    def act() -> None:
        page.locator(f'{place} .q-select input[role=combobox][aria-label="{label}"]').click()
        page.wait_for_selector(".q-menu .q-item")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")  # a list of several stays open
        page.wait_for_selector(".q-menu", state="detached")

    return act


def walk(form: Form, place: str, labels: list[str]) -> set[str]:
    """Each line of a form is typed into in three ways and put back; the labels whose nonsense and
    example change nothing."""
    page, mute = form.page, set()
    for label in labels:
        field = line(page, place, label)
        before, example = field.input_value(), (field.get_attribute("placeholder") or "").removeprefix("e.g. ")
        steps = [(NONSENSE, "Enter"), (example if example not in ("", before) else "7", "Tab"), (before, "button")]
        changed = [form.does(f"{label} = {text!r}, {way}", typed(form, field, text, way)) for text, way in steps]
        if not any(changed):
            mute.add(label)
    return mute


@pytest.mark.parametrize("task", list(FORMS))
def test_every_line_of_the_plan_is_answered(watched: Any, task: str) -> None:
    assert set(FORMS) == set(MAIN)
    form = Form(watched(), FORMS[task], answer=ANSWERS)
    place = PLACES["fields of the plan"]
    if task == "finetune":  # the other options are the same ones for every task
        form.page.get_by_role("button", name=word("ask.more", "en")).click()
        form.page.get_by_role("button", name=word("ask.fewer", "en")).wait_for()
    labels = lines_of(form.page, place)
    assert len(labels) > (45 if task == "finetune" else 3)
    assert len(walk(form, place, labels)) <= len(labels) // 8  # options that other models have
    form.close()


def test_every_choice_of_the_plan_is_answered(watched: Any) -> None:
    form = Form(watched(), PLAN, answer=ANSWERS)
    place = PLACES["fields of the plan"]
    form.page.get_by_role("button", name=word("ask.more", "en")).click()
    form.page.get_by_role("button", name=word("ask.fewer", "en")).wait_for()
    labels = choices_of(form.page, place)
    assert len(labels) > 12
    labels.sort(key=lambda label: label == "Task")  # another task has other fields
    changed = [form.does(label, chooses(form.page, place, label)) for label in labels]
    assert sum(changed) > len(changed) // 3
    form.close()


@pytest.mark.parametrize("way", ["Enter", "button"])
def test_a_sentence_and_the_fields_after_it_both_hold(watched: Any, way: str) -> None:
    """What was said last holds: fields after the sentence, a new sentence after the fields, a field
    that is changed while a sentence stands unread."""
    form = Form(watched(), "/?ask=fine-tune+Llama-3-8B+with+LoRA+on+5M+tokens", answer=".cards")
    data, sentence = line(form.page, ".ask .fields", "Data"), line(form.page, ".ask .sentence", "In one sentence")

    assert form.does("a field after the sentence", typed(form, data, "31Mtok", "Enter"))
    before = form.page.url, form.answer()
    typed(form, sentence, sentence.input_value(), way)()
    form.page.wait_for_timeout(1000)
    assert (form.page.url, form.answer()) == before
    assert data.input_value() == "31Mtok"

    assert form.does("another sentence", typed(form, sentence, "fine-tune Qwen2.5-7B with LoRA on 9M tokens", way))
    assert data.input_value() != "31Mtok"

    sentence.fill("fine-tune Qwen2.5-14B with LoRA on 9M tokens")
    assert form.does("a field while a sentence stands unread", typed(form, data, "77Mtok", "Tab"))
    assert form.does("the sentence with the field", lambda: submit(form, sentence, way))
    assert "data=77Mtok" in form.page.url
    assert "model=Qwen2.5-14B" in form.page.url
    form.close()


def submit(form: Form, field: Any, way: str) -> None:
    if way == "button":
        form.page.get_by_role("button", name=word("ask.submit", "en")).click()
    else:
        field.press(way)


@pytest.mark.parametrize("kind", ["servers", "prices", "accelerators", "models"])
def test_every_filter_of_the_catalog_is_answered(watched: Any, kind: str) -> None:
    form = Form(watched(), f"/catalog?kind={kind}", answer=".tab-panel > :last-child")
    place = PLACES["filters of the catalog"]
    form.page.wait_for_selector("tbody tr")
    for label in lines_of(form.page, place):
        field = line(form.page, place, label)
        for text, way in ((NONSENSE, "Enter"), ("", "Tab")):
            assert form.does(f"{label} = {text!r}, {way}", typed(form, field, text, way)), label
    for label in choices_of(form.page, place):
        assert form.does(label, chooses(form.page, place, label)), label
    headings = form.page.eval_on_selector_all("thead [data-key^=sort-]", "found => found.map(one => one.dataset.key)")
    moved = {heading: form.does(heading, form.page.locator(f"[data-key={heading}]").click) for heading in headings}
    assert any(moved.values()), moved


@pytest.mark.parametrize("way", ["Enter", "button"])
def test_claims_and_questions_are_answered(watched: Any, way: str) -> None:
    form = Form(watched(), "/rules", answer=".panel [aria-live]", answered=False)
    claim = form.page.locator(f'.panel .sentence-row textarea[aria-label="{word("rules.claim", "en")}"]')
    for text in ("g5.xlarge=T4", "RAM >= 4x VRAM", NONSENSE):

        def act(text: str = text) -> None:
            claim.fill(text)
            if way == "button":
                form.page.get_by_role("button", name=word("rules.ask", "en")).click()
            else:
                claim.press(way)

        assert form.does(text, act)

    page = form.visit.open(PLAN, "en", ready=".tab-panel .sentence-row input")
    page.locator(".tab-panel .sentence-row input").fill("aws/g5.xlarge")
    if way == "button":
        page.get_by_role("button", name=word("tab.ask_why", "en")).click()
    else:
        page.keyboard.press(way)
    page.wait_for_selector("[role=dialog] h3")
    assert "g5.xlarge" in page.locator("[role=dialog]").inner_text()


def test_every_knob_and_every_target_is_answered(watched: Any) -> None:
    visit = watched()
    page = visit.open(f"{PLAN}&tab=change", "en", ready=".knobs")
    for slider in page.locator(".knobs [role=slider]").all():
        at_its_end = slider.get_attribute("aria-valuenow") == slider.get_attribute("aria-valuemin")
        slider.locator("[tabindex]").focus()
        page.keyboard.press("ArrowRight" if at_its_end else "ArrowLeft")
        page.wait_for_selector(".versus .panel:nth-child(2) :is(dl, p:not(.muted), h3)")
        page.get_by_role("button", name=word("tab.reset", "en")).click()
        page.wait_for_selector(".versus .panel:nth-child(2) p.muted")

    page = visit.open(f"{PLAN}&tab=export", "en", ready="pre")
    before = page.locator("pre").first.inner_text()
    chooses(page, ".tab-panel .head", word("tab.export_target", "en"))()
    page.wait_for_function("before => (document.querySelector('pre')?.innerText ?? before) !== before", arg=before)
    visit.complaints[:] = [line for line in visit.complaints if HASTE not in line]


@pytest.mark.parametrize(
    "path", [PLAN, *(f"{PLAN}&tab={tab}" for tab in ("change", "export")), "/catalog?kind=prices", "/rules", "/accuracy", "/about"]
)
def test_no_control_is_left_out_here(watched: Any, path: str) -> None:
    page = watched().open(path, "en")
    page.wait_for_timeout(2500)
    strange = page.eval_on_selector_all(
        CONTROLS, "(found, places) => found.filter(one => !one.closest(places)).map(one => one.outerHTML)", ", ".join(PLACES.values())
    )
    assert strange == []


def test_names_of_models_are_suggested_while_one_is_typed(watched: Any) -> None:
    page = watched().open("/", "en")
    field = line(page, PLACES["fields of the plan"], word("option.model", "en"))
    for text, name in (("llama-3", "Llama-3-8B"), ("qwen2.5", "Qwen2.5-7B")):
        field.fill("")
        field.press_sequentially(text)
        page.wait_for_function(
            "([field, name]) => [...(field.list?.options ?? [])].some(one => one.value.endsWith(name))", arg=[field.element_handle(), name]
        )
