"""What the page says is what the plan says; what comes from outside is text, whatever it contains."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from specc.doctor.finding import Finding
from specc.plan.compare import interval_text
from specc.plan.make import plan_from_recipe
from specc.plan.plan import MemoryItem
from specc.plan.prediction import Prediction, Unpredicted
from specc.plan.remedies import overrides_text
from specc.report.answer import answer_from_subject, memory_text
from specc.report.numbers import bytes_text, decimal_text, duration_text, rate_text
from specc.report.page import Page, page_from_subject
from specc.report.render import html_from_page
from specc.report.subject import subject_from_plan
from specc.report.tables import batch_table, gamma_table, measured_table, memory_table, priors_table, step_table
from tests.report_subjects import SUBJECTS, losing, measured, on_a_cpu, on_four_gpus
from tests.stated_source import StatedSource
from tests.unit.plan.test_prediction import recipe

HOSTILE = '"></title><script>document.title = "taken"</script><img src=x onerror=alert(1)> `x'


class Outline(HTMLParser):
    """Tags, ids and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs) -> None:
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        self.addresses += [value for name, value in attrs if name in {"src", "href", "data", "action", "xlink:href"}]


def rendered(page: Page) -> tuple[str, Outline]:
    text = html_from_page(page)
    return text, Outline(text)


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_parts_stand_in_order(name: str) -> None:
    page = page_from_subject(SUBJECTS[name]())
    expected = ["memory", "speedup", "tokens", "roofline", "steps", "acceptance"]
    assert [section.key for section in page.sections] == expected + ["measured"] * (name == "measured")
    _, outline = rendered(page)
    keys = [key for key in outline.ids if key in {"findings", "notes", *expected, "measured"}]
    notes = ["notes"] * bool(page.notes)
    assert keys == ["findings", *expected, *["measured"] * (name == "measured"), *notes]
    assert len(set(outline.ids)) == len(outline.ids)
    assert outline.tags.count("svg") == outline.tags.count("desc") == 4
    assert outline.tags.count("table") == sum(len(section.tables) for section in page.sections)


@pytest.mark.parametrize("name", SUBJECTS)
def test_nothing_is_loaded_and_nothing_runs(name: str) -> None:
    text, outline = rendered(page_from_subject(SUBJECTS[name]()))
    assert outline.addresses == ["data:,"]
    assert not {"script", "iframe", "object", "img", "form"} & set(outline.tags)
    assert not re.search(r"@import|url\(|https?://", text)


def test_what_comes_from_outside_is_text() -> None:
    subject = on_four_gpus()
    finding = Finding("SPC335", "warning", HOSTILE, ((HOSTILE, HOSTILE),), HOSTILE)
    page = page_from_subject(
        replace(
            subject, name=HOSTILE, facts=(("target", HOSTILE),), findings=(finding,), notes=(HOSTILE,), refused=HOSTILE,
            memory=(MemoryItem(f"weights: {HOSTILE}", 5, HOSTILE, "weights"),),
        )
    )  # fmt: skip
    text, outline = rendered(page)
    assert not {"script", "img"} & set(outline.tags)
    assert outline.tags.count("title") == 5  # of the page and of four drawings
    assert text.count(html.escape(HOSTILE).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")) == 10


def test_the_answer_is_a_sentence_with_its_interval() -> None:
    outlook = on_four_gpus().outlook
    assert isinstance(outlook, Prediction)
    answer, speedup = answer_from_subject(on_four_gpus()), outlook.at_batch(1).speedup
    assert f"{speedup.mid:.2f} times" in answer.sentence
    assert f"interval of {speedup.low:.2f} to {speedup.high:.2f}, at gamma {outlook.best_gamma}" in answer.sentence
    assert answer.sentence.endswith(f"AR decoding is faster from batch {outlook.crossover_batch}.")
    assert "published acceptance for chat, not on a measurement of this pair" in answer.rests_on
    assert "may miss by 21%" in answer.rests_on
    assert "The interval includes a loss." in answer_from_subject(on_a_cpu()).sentence


def test_what_would_make_it_fit_is_a_table() -> None:
    fit = losing().fit
    assert fit is not None
    assert fit.remedies
    table = page_from_subject(losing()).sections[0].tables[0]
    assert [row[0] for row in table.rows] == [overrides_text(remedy) for remedy in fit.remedies]
    assert [row[2] for row in table.rows] == [bytes_text(remedy.headroom_bytes) for remedy in fit.remedies]
    fitting = on_four_gpus().fit
    assert fitting is not None
    assert (
        f"batch {fitting.largest_batch} at this length, or length {fitting.largest_length}"
        in memory_text(on_four_gpus())[1]
    )


def test_a_loss_is_said_first() -> None:
    answer = answer_from_subject(losing())
    assert answer.sentence.startswith("Speculation does not pay here: at batch 1 the best gamma, 1, gives 0.")
    assert memory_text(losing())[0].startswith("It does not fit: ")
    assert answer.figures[1].value == "0"
    assert (answer.figures[2].value, answer.figures[2].detail) == ("from 1", "of 1 to 4096")


def test_measured_acceptance_and_measured_calls_are_named() -> None:
    subject = measured()
    assert "Calls cost what was measured on a machine" in answer_from_subject(subject).rests_on
    outlook = subject.outlook
    assert isinstance(outlook, Prediction)
    own = replace(outlook, acceptance=replace(outlook.acceptance, source="measured: acceptance.json, 125 steps"))
    assert subject.measured is not None
    told = answer_from_subject(replace(subject, measured=replace(subject.measured, outlook=own))).rests_on
    assert told.startswith("It rests on measured acceptance (acceptance.json, 125 steps).")


def test_too_few_measured_calls_leave_the_model_in_place() -> None:
    subject = measured()
    assert subject.measured is not None
    few = replace(subject, measured=replace(subject.measured, outlook=None))
    assert few.outlook is few.modelled
    page = page_from_subject(few)
    assert "Too few calls were measured" in page.sections[-1].text[0]
    assert "Calls cost what the model says" in page.answer.rests_on


def test_without_a_prediction_there_is_memory_and_the_reason() -> None:
    plan = plan_from_recipe(recipe(gpu="cpu", target={"model": "m", "scheme": "f32"}), StatedSource())
    assert isinstance(plan.prediction, Unpredicted)
    page = page_from_subject(subject_from_plan(plan, ()))
    assert [section.key for section in page.sections] == ["memory"]
    assert "run `specc probe`" in page.answer.sentence
    text, _ = rendered(page)
    assert "<code>specc probe</code>" in text
    assert "The doctor found nothing." in text


def test_without_drafts_there_are_tokens_and_no_speedup() -> None:
    plan = plan_from_recipe(recipe(draft="none", gpu="rtx-4090"), StatedSource())
    page = page_from_subject(subject_from_plan(plan, ()))
    assert [section.key for section in page.sections] == ["memory", "tokens", "roofline", "steps"]
    assert page.answer.sentence.startswith("Nothing is drafted: AR decoding gives one request ")
    rendered(page)


def test_a_gpu_of_the_recipe_is_named_with_its_memory() -> None:
    own = {"name": "box", "memory_gb": 12, "memory_kind": "gddr", "bandwidth_gbps": 400, "compute_capability": "8.9",
           "dense_tflops": {"f32": 20, "bf16": 60}}  # fmt: skip
    subject = subject_from_plan(plan_from_recipe(recipe(gpu=own), StatedSource()), ())
    assert dict(subject.facts)["device"] == "box, a GPU of the recipe"
    assert "one GPU has 12 GB (11.2 GiB)" in memory_text(subject)[0]


def test_tables_hold_the_numbers_of_the_plan_as_the_terminal_shows_them() -> None:
    subject, outlook = on_four_gpus(), on_four_gpus().outlook
    assert isinstance(outlook, Prediction)
    for row, line in zip(batch_table(outlook).rows, outlook.batches, strict=True):
        assert row[:2] == (str(line.batch), str(line.gamma))
        assert f"{row[2]} {row[3].replace(' to ', '-')}" == interval_text(line.speedup)
        assert row[4:6] == (f"{line.ar_user_tokens:.1f}", f"{line.user_tokens.mid:.1f}")
        assert row[7] == f"{line.gpu_tokens.mid:.0f}"
    table = gamma_table(outlook)
    assert table.strong == outlook.best_gamma - 1
    for row, line in zip(table.rows, outlook.gammas, strict=True):
        assert row[0] == str(line.gamma)
        assert f"{row[1]} {row[2].replace(' to ', '-')}" == interval_text(line.tokens)
    memory = memory_table(subject.memory)
    assert [row[1] for row in memory.rows[:-1]] == [bytes_text(item.bytes) for item in subject.memory]
    assert memory.rows[-1][1] == bytes_text(sum(item.bytes for item in subject.memory))
    assert outlook.calls is not None
    grid = step_table(outlook.calls.target, "T")
    assert [row[0] for row in grid.rows] == ["1", "2", "4"]
    assert grid.rows[0][1] == duration_text(outlook.calls.target[0].seconds * 1e3)
    assert outlook.calls.draft


def test_measured_calls_stand_beside_the_model() -> None:
    subject, modelled = measured(), measured().modelled
    assert subject.measured is not None
    assert isinstance(modelled, Prediction)
    assert modelled.calls is not None
    table = measured_table(subject.measured.target, modelled.calls.target, "T")
    assert {row[4] for row in table.rows} == {"-33%"}
    assert measured_table(subject.measured.target, (), "T").rows[0][3:] == ("-", "-")


def test_priors_come_with_their_sources() -> None:
    table = priors_table("eagle3", "code")
    assert table is not None
    assert [row[0] for row in table.rows] == ["chat", "code", "math"]
    assert table.strong == 1
    assert all("DSpark" in row[-1] for row in table.rows)
    assert priors_table("self", "chat") is None


def test_numbers_are_read_easily() -> None:
    assert [duration_text(ms) for ms in (0.421, 13.57, 242.4, 6563)] == ["0.42 ms", "13.6 ms", "242 ms", "6.56 s"]
    assert (decimal_text(2.27e12, "op"), decimal_text(12.0, "B")) == ("2.27 Top", "12 B")
    assert rate_text(3.35e12, "B") == "3.35 TB/s"


def test_a_page_is_the_same_every_time() -> None:
    assert html_from_page(page_from_subject(on_a_cpu())) == html_from_page(page_from_subject(on_a_cpu()))


def test_batches_beyond_the_memory_are_named() -> None:
    subject = on_four_gpus()
    assert subject.fit is not None
    (speedup,) = [section for section in page_from_subject(subject).sections if section.key == "speedup"]
    assert "do not fit" not in speedup.text[0]  # all that are shown fit
    tight = replace(subject, fit=replace(subject.fit, largest_batch=7))
    (speedup,) = [section for section in page_from_subject(tight).sections if section.key == "speedup"]
    assert speedup.text[0].endswith("Batches above 7 do not fit with texts of full length.")
