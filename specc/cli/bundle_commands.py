"""Commands about bundles: inspect, run, bench, verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specc.bundle.own_certificate import own_certificate
from specc.bundle.record import json_from_record, text_from_record
from specc.bundle.rounding import rounding_of_bundle
from specc.certify.bench import BenchRequest, bench_from_session
from specc.certify.certificate import certify_bundle
from specc.certify.machine import costs_from_elsewhere
from specc.certify.outlook import check_measured_speedup, open_outlook
from specc.certify.prompt_file import ids_from_input, prompts_from_jsonl
from specc.certify.request import CertifyRequest
from specc.certify.verdict import refuse_failed
from specc.cli.generations import json_from_generation, show_statistics, stream_to_terminal, write_generation
from specc.cli.options import AsChat, AsJson, BundleFolder, MaxTokens, PromptFile, PromptLines, PromptText, Threads
from specc.cli.prompts import prompts_from_options
from specc.cli.reports import show_bench, show_bundle, show_certificate
from specc.cli.show import ERR, OUT, progress_bars, show_json, wrapped
from specc.cli.write import write_text
from specc.report.bundle_report import write_bundle_report
from specc.runtime import GenerationParams, Session
from specc.runtime.request import mode_from_name


def inspect(bundle: BundleFolder, as_json: AsJson = False) -> None:
    """Show what a bundle holds, after checking every file's digest, and the speed-up by its measured step costs."""
    opened = open_outlook(bundle, "full")
    if as_json:
        fields = json_from_record(opened.manifest)
        assert isinstance(fields, dict)
        measured, modelled = opened.measured, opened.plan.prediction
        predictions = {"measured_prediction": measured, "modelled_prediction": modelled}
        fields["rounded"] = {
            role: json_from_record(made) for role, made in rounding_of_bundle(bundle, opened.manifest).items()
        }
        show_json(
            fields | {key: None if value is None else json_from_record(value) for key, value in predictions.items()}
        )
        return
    show_bundle(opened, bundle)


def run(
    *,
    bundle: BundleFolder,
    prompt: PromptText = None,
    prompt_file: PromptFile = None,
    prompts: PromptLines = None,
    chat: AsChat = False,
    max_tokens: MaxTokens = None,
    temperature: Annotated[float | None, typer.Option("--temperature", help="0 is greedy.", show_default=False)] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", help="0 is off.", show_default=False)] = None,
    top_p: Annotated[float | None, typer.Option("--top-p", help="1 is off.", show_default=False)] = None,
    min_p: Annotated[float | None, typer.Option("--min-p", help="0 is off.", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Same seed, same text.", show_default=False)] = None,
    stop: Annotated[
        list[str] | None, typer.Option("--stop", help="End before this text; may be repeated.", show_default=False)
    ] = None,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Go on after an end-of-sequence token.")] = False,
    mode: Annotated[str, typer.Option("--mode", help="ar, spec, or auto: the bundle's policy.")] = "auto",
    gamma: Annotated[int | None, typer.Option("--gamma", help="Most drafts a round.", show_default=False)] = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Generate from a bundle; one prompt is streamed, several run as one batch."""
    inputs = prompts_from_options(prompt, prompt_file, prompts, chat=chat)
    params = GenerationParams(
        max_new_tokens=max_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        seed=seed,
        stop=tuple(stop or ()),
        ignore_eos=ignore_eos,
        mode=mode_from_name(mode),
        gamma=gamma,
    )
    with Session.load(bundle, threads=threads) as session:
        _show_costs(bundle, session.manifest.backend)
        ids = [ids_from_input(session, item) for item in inputs]
        if len(ids) == 1 and not as_json:
            show_statistics([stream_to_terminal(session, ids[0], params)])
            return
        generations = session.generate(ids, params)
        for generation in generations:
            if as_json:
                show_json(json_from_generation(generation))
            else:
                write_generation(session, generation)
        if not as_json:
            show_statistics(generations)


def bench(
    *,
    bundle: BundleFolder,
    prompts: Annotated[Path, typer.Option("--prompts", help="JSON lines of prompts.", show_default=False)],
    chat: AsChat = False,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            min=2,
            help="New tokens of each prompt, 2 to decode any; absent: up to 128.",
            show_default=False,
        ),
    ] = None,
    mode: Annotated[str, typer.Option("--mode", help="What is held against AR: spec or auto.")] = "auto",
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=100, help="Rounds; the first of several warms up.")] = 4,
    temperature: Annotated[
        float | None, typer.Option("--temperature", help="Absent: the bundle's.", show_default=False)
    ] = None,
    output: Annotated[Path, typer.Option("--output", help="The report.")] = Path("acceptance.json"),
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Measure AR against speculation on your own prompts, interleaved, and write acceptance.json."""
    inputs = prompts_from_jsonl(prompts, chat=chat).prompts
    with Session.load(bundle, threads=threads) as session, progress_bars() as bars:
        _show_costs(bundle, session.manifest.backend)
        ids = tuple(ids_from_input(session, item) for item in inputs)
        most = min(128, session.manifest.limits.max_output) if max_tokens is None else max_tokens
        request = BenchRequest(ids, most, mode_from_name(mode), rounds, temperature)
        report = bench_from_session(session, request, bars)
    write_text(output, text_from_record(report))
    if as_json:
        show_json(json_from_record(report))
        return
    show_bench(report)
    OUT.print(f"wrote {output}", markup=False)


def verify(
    *,
    bundle: BundleFolder,
    prompts: PromptLines = None,
    chat: AsChat = False,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", min=1, help="New tokens of each prompt; absent: up to 32.", show_default=False),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="BUNDLE", help="The same model in f32: how far did quantization move it?"),
    ] = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Check that speculation keeps the text, that sampling has its law and that logits are the reference's.

    Step costs are measured too; all of it goes into certificate.json, and the report is written anew.
    """
    own = None if prompts is None else prompts_from_jsonl(prompts, chat=chat)
    request = CertifyRequest(
        prompts=None if own is None else own.prompts,
        prompts_sha256=None if own is None else own.sha256,
        max_new_tokens=max_tokens,
        threads=threads,
        against=against,
    )
    with progress_bars() as bars:
        certificate = certify_bundle(bundle, request, bars)
    write_bundle_report(bundle)
    if as_json:
        show_json(json_from_record(certificate))
    else:
        show_certificate(certificate)
    refuse_failed(certificate, bundle)
    check_measured_speedup(bundle)


def _show_costs(bundle: Path, backend: str) -> None:
    """Say on standard error where a certificate does not steer the runtime, or is of another machine."""
    own = own_certificate(bundle)
    for note in (own.ignored, costs_from_elsewhere(own.certificate, backend, bundle)):
        if note is not None:
            ERR.print(wrapped(note, "note: ", " " * 6), markup=False)
