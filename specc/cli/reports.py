"""Bundles, certificates and benchmarks on a terminal."""

from __future__ import annotations

from pathlib import Path

from specc.bundle.certificate import Certificate, ParityCheck, QualityCheck, ReferenceCheck, RowsCheck, SamplerCheck
from specc.bundle.manifest import REPORT_FILE, CheckpointSpec
from specc.bundle.rounding import rounding_of_bundle
from specc.certify.bench import BenchReport
from specc.certify.outlook import BundleOutlook
from specc.cli.show import OUT, show_notes, show_pairs, show_table, wrapped
from specc.plan.compare import interval_text
from specc.plan.prediction import Outlook, Prediction
from specc.report.numbers import bytes_text


def show_bundle(opened: BundleOutlook, bundle: Path) -> None:
    """Print what a bundle is and holds, and its speed-up by measured step costs beside that of the cost model."""
    manifest = opened.manifest
    limits, sampling = manifest.limits, manifest.sampling
    show_pairs(
        [
            ("bundle", str(bundle)),
            ("name", manifest.name),
            ("ABI", ".".join(map(str, manifest.abi))),
            ("built by", ", ".join(f"{name} {version}" for name, version in manifest.toolchain.items())),
            ("back end", f"{manifest.backend} for {manifest.gpu}"),
            ("model", (f"{manifest.model.family}, {manifest.model.num_hidden_layers} layers, "
             f"vocabulary {manifest.model.vocab_size}")),
            ("draft", manifest.draft.kind),
            ("acceptance", manifest.acceptance),
            ("gamma", f"{limits.default_gamma} by default, at most {limits.max_gamma}"),
            ("limits", (f"batch {limits.max_batch}, input {limits.max_input}, output {limits.max_output}, "
             f"length {limits.max_length}")),
            ("sampling", (f"temperature {sampling.temperature}, top_k {sampling.top_k}, top_p {sampling.top_p}, "
             f"min_p {sampling.min_p} (from {sampling.source})")),
            *speedup_pairs(opened),
            *([("report", str(bundle / REPORT_FILE))] if (bundle / REPORT_FILE).is_file() else []),
        ]
    )  # fmt: skip
    OUT.print()
    rows = []
    for engine in manifest.engines:
        cached = {cache.input for cache in engine.caches} | {cache.output for cache in engine.caches}
        plain = [tensor.name for tensor in (*engine.inputs, *engine.outputs) if tensor.name not in cached]
        dtypes = " and ".join(sorted({tensor.dtype for tensor in engine.inputs if tensor.name in cached}))
        sms = ", ".join(engine.compute_capabilities) or "CPU"
        tensors = f"{', '.join(plain)} and {len(engine.caches)} caches of {dtypes}"
        rows.append([engine.file, engine.compute_dtype, sms, tensors])
    if rows:
        show_table(["engine", "dtype", "runs on", "tensors"], rows)
    for role, rounding in rounding_of_bundle(bundle, manifest).items():
        for row in rounding.rounded:
            OUT.print(wrapped(row.text, f"{role} rounded: ", " " * 4), markup=False)
    if manifest.checkpoints:
        show_table(
            ["checkpoint", "weights", "caches", "GPUs", "loaded by"], [_checkpoint_row(c) for c in manifest.checkpoints]
        )
        OUT.print("specc inspects and verifies it; it runs where TensorRT-LLM is, see deploy/", markup=False)
    OUT.print()
    files = [[name, bytes_text(spec.size), spec.sha256[:16]] for name, spec in manifest.files.items()]
    show_table(["file", "size", "sha256"], files, right=frozenset({1}))
    said = (note for note in (opened.ignored, opened.elsewhere) if note is not None)
    show_notes((*said, *manifest.notes))


def speedup_pairs(opened: BundleOutlook) -> list[tuple[str, str]]:
    """Return the speed-up at batch 1: by measured step costs where there are any, and what the cost model said."""
    measured, modelled = opened.measured, opened.plan.prediction
    lines = [("speed-up", "no step costs were measured")]
    if measured is not None:
        lines = [("speed-up", _at_batch_1(measured)), ("measured on", str(opened.machine))]
    if modelled is not None:
        lines.append(("predicted", _at_batch_1(modelled)))
    return lines


def _at_batch_1(outlook: Outlook) -> str:
    """Return a speed-up with what it rests on: the costs of calls, and the acceptance."""
    if not isinstance(outlook, Prediction):
        return outlook.reason
    if not outlook.gammas:
        return "nothing is drafted"
    measured = outlook.acceptance.source.startswith("measured")
    origin = f"by {outlook.priced_by} and {'measured' if measured else 'published'} acceptance"
    if outlook.best_gamma == 0:
        return f"AR decoding is the fastest at batch 1, {origin}"
    first = outlook.at_batch(1)
    return f"{interval_text(first.speedup)} at batch 1 with gamma {first.gamma}, {origin}"


def _checkpoint_row(checkpoint: CheckpointSpec) -> list[str]:
    gpus = f"{checkpoint.tp_size}" + (f" x {checkpoint.pp_size} stages" if checkpoint.pp_size > 1 else "")
    weights = (
        f"{checkpoint.scheme} over {checkpoint.dtype}" if checkpoint.scheme != checkpoint.dtype else checkpoint.dtype
    )
    return [checkpoint.folder, weights, checkpoint.kv_cache, gpus, checkpoint.loaded_by]


def show_certificate(certificate: Certificate) -> None:
    """Print the checks and the step costs, these relative to one AR step."""
    if certificate.parity:
        _show_parity(certificate)
    if certificate.rows is not None:
        OUT.print(_rows_text(certificate.rows), markup=False)
    if certificate.quality is not None:
        OUT.print(_quality_text(certificate.quality), markup=False)
    if certificate.sampler:
        OUT.print()
        _show_sampler(certificate)
    if certificate.reference is not None:
        OUT.print()
        _show_reference(certificate.reference)
    if certificate.step_costs:
        OUT.print()
        _show_step_costs(certificate)
    OUT.print()
    for sentence in certificate.not_checked:
        OUT.print(f"not checked: {sentence}", markup=False)
    reason = f": {certificate.reason}" if certificate.reason else ""
    OUT.print(f"{certificate.scope} check {certificate.status}{reason} ({certificate.machine})", markup=False)


def _show_parity(certificate: Certificate) -> None:
    rows = [
        [
            check.mode,
            *_cell(check),
            str(check.gamma),
            f"{check.equal}/{check.prompts}",
            str(check.near_ties),
            str(check.tokens),
            f"{(check.accepted + check.rounds) / check.rounds:.2f}" if check.rounds else "-",
        ]
        for check in certificate.parity
    ]
    columns = ["spec = AR", "temp", "top_k", "top_p", "min_p", "gamma", "equal", "near ties", "tokens", "MAL"]
    show_table(columns, rows, right=frozenset(range(1, len(columns))))
    for check in certificate.parity:
        for found in check.divergences:
            margin = "unknown" if found.margin is None else f"{found.margin:.2g}"
            where = f"temperature {check.temperature:g}, prompt {found.prompt}, token {found.token}"
            kind = "near tie" if found.near_tie else "DIFFERENT"
            OUT.print(f"{kind}: {where}: AR {found.ar}, spec {found.speculative}, margin {margin}", markup=False)


def _rows_text(check: RowsCheck) -> str:
    """Return whether a token's logits depend on what a call computes beside it."""
    compared = f"{check.positions} positions, 1 token a call and {check.tokens}"
    if not check.differing:
        return f"rows: {compared}: the same logits to the last bit"
    flips = f"{check.flips} other greedy ids" + (f", of margins up to {check.flip_margin:.2g}" if check.flips else "")
    return f"rows: {compared}: logits differ by up to {check.difference:.2g}, {flips}"


def _quality_text(check: QualityCheck) -> str:
    """Return how far a quantized target moved."""
    return (
        f"quality: {check.scheme} against {check.reference}, {check.tokens} tokens: perplexity {check.perplexity:.3g} "
        f"for {check.reference_perplexity:.3g}, the same greedy id at {check.agreement:.0%}, logits differ by "
        f"{check.mean_difference:.2g} on average, {check.largest_difference:.2g} at most"
    )


def _show_sampler(certificate: Certificate) -> None:
    rows = [
        [
            check.mode,
            *_cell(check),
            str(check.picks),
            "-" if check.differing is None else str(check.differing - check.near_ties),
            str(check.near_ties),
            f"{check.p_value:.3f}" if check.freedom else "-",
        ]
        for check in certificate.sampler
    ]
    columns = ["law of", "temp", "top_k", "top_p", "min_p", "picks", "other than oracle", "near ties", "p"]
    show_table(columns, rows, right=frozenset(range(1, len(columns))))


def _show_reference(check: ReferenceCheck) -> None:
    rows = [
        [str(p.position), f"{p.difference:.1e}", f"{check.tolerance:g}", str(p.engine_pick), str(p.reference_pick)]
        for p in check.positions
    ]
    columns = ["logits at", "difference", "tolerance", "engine picks", "reference picks"]
    show_table(columns, rows, right=frozenset(range(len(columns))))


def _show_step_costs(certificate: Certificate) -> None:
    one = certificate.step_costs[0].seconds
    tokens = sorted({cost.tokens for cost in certificate.step_costs})
    grid = {(cost.batch, cost.tokens): f"{cost.seconds / one:.2f}" for cost in certificate.step_costs}
    batches = sorted({cost.batch for cost in certificate.step_costs})
    cost_rows = [[str(batch), *(grid.get((batch, count), "-") for count in tokens)] for batch in batches]
    header = ["T(B,S)/T(1,1)  B \\ S", *map(str, tokens)]
    show_table(header, cost_rows, right=frozenset(range(1, len(header))))


def _cell(check: ParityCheck | SamplerCheck) -> list[str]:
    return [f"{check.temperature:g}", str(check.top_k), f"{check.top_p:g}", f"{check.min_p:g}"]


def show_bench(report: BenchReport) -> None:
    """Print the ratios."""
    rows = [
        [
            str(index),
            str(prompt.prompt_tokens),
            str(prompt.completion_tokens),
            "-" if prompt.same_ids is None else "yes" if prompt.same_ids else "NO",
            "-" if prompt.mal is None else f"{prompt.mal:.2f}",
            f"{prompt.decode_speedup:.2f}",
            "-" if prompt.expected_speedup is None else f"{prompt.expected_speedup:.2f}",
        ]
        for index, prompt in enumerate(report.prompts)
    ]
    columns = ["prompt", "input", "output", "same ids", "MAL", "speed / AR", "by step costs"]
    show_table(columns, rows, right=frozenset(range(1, len(columns))))
    expected = "" if report.expected_speedup is None else f", by step costs {report.expected_speedup:.2f}"
    mal = "-" if report.mal is None else f"{report.mal:.2f}"
    OUT.print(
        f"\n{report.mode} against ar: {report.decode_speedup:.2f} times as fast in decoding "
        f"({report.lowest:.2f} to {report.highest:.2f} over rounds{expected}), MAL {mal}",
        markup=False,
    )
