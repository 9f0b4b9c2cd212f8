"""What Prometheus is asked of a running bundle: recorded acceptance and its length, alerts, panels of the dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from specc.deploy.values import Deployment

MetricsKind: TypeAlias = Literal["specc", "iterations", "trtllm"]

ACCEPTANCE: Final = "specc:acceptance:ratio_rate5m"
LENGTH: Final = "specc:mean_accepted_length:rate5m"
FULL_CACHE: Final = 0.95


@dataclass(frozen=True)
class Rule:
    """One recorded series: what a dashboard and the alerts share."""

    name: str
    expression: str


@dataclass(frozen=True)
class Alert:
    """An alert: `lasts` is how long the expression holds before it fires, empty: at once."""

    name: str
    expression: str
    lasts: str
    severity: Literal["warning", "critical"]
    summary: str
    description: str


@dataclass(frozen=True)
class Panel:
    """A panel of the dashboard; units are Grafana's, `legend` may name labels."""

    title: str
    unit: str
    expression: str
    legend: str


@dataclass(frozen=True)
class Watch:
    """What the templates of Prometheus and Grafana say.

    Attributes:
        source: where the metrics come from, for people.
        rules: recorded.
        alerts: over them and the metrics.
        panels: in rows of two.
    """

    source: str
    rules: tuple[Rule, ...]
    alerts: tuple[Alert, ...]
    panels: tuple[Panel, ...]


def watch_from_deployment(bundle: Deployment, kind: MetricsKind) -> Watch:
    """Return what is watched.

    Args:
        bundle: whose label is the name of the scrape job, and of the model where specc exposes the metrics.
        kind: `specc`: the model for Triton; `iterations`: deploy/metrics.py, which adds up the statistics of
            trtllm-serve; `trtllm`: trtllm-serve's own metrics of 1.3.
    """
    if kind == "trtllm":
        return _of_trtllm(bundle)
    return _of_engines(bundle) if kind == "specc" else _of_iterations(bundle)


def _of_engines(bundle: Deployment) -> Watch:
    model = f'{{model="{bundle.label}"}}'
    calls = f"(sum(rate(specc_rounds_total{model}[5m])) + sum(rate(specc_ar_steps_total{model}[5m])))"
    return Watch(
        source=f"deploy/triton/{bundle.label}/1/model.py",
        rules=_recorded(model),
        alerts=(
            _down(bundle, f'up{{job="{bundle.label}"}} == 0'),
            *_unpaid_as_measured(bundle, model),
            Alert(
                "SpeccRequestsFail", f"increase(specc_request_failures_total{model}[10m]) > 5", "", "warning",
                f"Requests to {bundle.name} are refused or fail", "",
            ),
            _queue(bundle, f"specc_requests_active{model}"),
        ),
        panels=(
            *_acceptance_panels(_recorded(model)),
            Panel(
                "Acceptance by position", "percentunit",
                f"sum by (position) (rate(specc_draft_accepted_at_position_total{model}[5m])) "
                f"/ sum by (position) (rate(specc_draft_evaluated_at_position_total{model}[5m]))",
                "draft {{position}}",
            ),
            Panel(
                "Target calls that speculate", "percentunit", f"sum(rate(specc_rounds_total{model}[5m])) / {calls}",
                "rounds",
            ),
            Panel("Output tokens a second", "none", f"sum(rate(specc_output_tokens_total{model}[5m]))", "tokens"),
            Panel("Requests", "none", f"specc_requests_active{model}", "active"),
        ),
    )  # fmt: skip


def _of_iterations(bundle: Deployment) -> Watch:
    model = f'{{model="{bundle.label}"}}'
    cache = f"specc_cache_blocks_used{model} / specc_cache_blocks{model}"
    return Watch(
        source="deploy/metrics.py, which adds up the iterations that trtllm-serve reports",
        rules=_recorded(model),
        alerts=(
            _down(bundle, f'up{{job="{bundle.label}"}} == 0 or specc_server_up{model} == 0'),
            *_unpaid(bundle, model, "Compare with SPECULATION=off deploy/serve.sh: the traffic may have changed."),
            *_stopped(bundle, "specc_rounds_total", "specc_iterations_total", model),
            _queue(bundle, f"specc_requests_queued{model}"),
            _full(bundle, cache),
        ),
        panels=(
            *_acceptance_panels(_recorded(model)),
            Panel(
                "Drafts of a round", "none",
                f"sum(rate(specc_draft_tokens_proposed_total{model}[5m])) / sum(rate(specc_rounds_total{model}[5m]))",
                "drafts",
            ),
            Panel(
                "Latency of an iteration", "s",
                f"sum(rate(specc_iteration_seconds_total{model}[5m])) / sum(rate(specc_iterations_total{model}[5m]))",
                "seconds",
            ),
            Panel("Requests", "none", f"specc_requests_active{model}", "active"),
            Panel("Caches in use", "percentunit", cache, "blocks"),
        ),
    )  # fmt: skip


def _of_trtllm(bundle: Deployment) -> Watch:
    """Return what 1.3 is asked: a round is told by the position that is drafted most often, the first one."""
    job = f'{{job="{bundle.label}"}}'
    accepted, drafted = (f"rate(trtllm_spec_decode_{kind}_tokens_total{job}[5m])" for kind in ("accepted", "drafted"))
    rules = (
        Rule(
            ACCEPTANCE,
            f"sum by (job) (rate(trtllm_spec_decode_num_accepted_tokens_total{job}[5m])) "
            f"/ sum by (job) (rate(trtllm_spec_decode_num_draft_tokens_total{job}[5m]))",
        ),
        Rule(LENGTH, f"1 + sum by (job) ({accepted}) / max by (job) (sum by (job, token_position) ({drafted}))"),
    )
    return Watch(
        source="trtllm-serve itself, at /prometheus/metrics",
        rules=rules,
        alerts=(
            _down(bundle, f"up{job} == 0"),
            *_unpaid(bundle, job, "Compare with SPECULATION=off deploy/serve.sh: the traffic may have changed."),
            Alert(
                "SpeccRequestsFail", f"sum by (job) (increase(trtllm_request_error_total{job}[10m])) > 5", "",
                "warning", f"Requests to {bundle.name} fail", "",
            ),
            *_stopped(
                bundle, "trtllm_spec_decode_num_draft_tokens_total", "trtllm_generation_tokens_total", job
            ),
            _queue(bundle, f"trtllm_num_requests_waiting{job}"),
            _full(bundle, f"trtllm_kv_cache_utilization{job}"),
        ),
        panels=(
            *_acceptance_panels(rules),
            Panel(
                "Acceptance by position", "percentunit",
                f"sum by (token_position) ({accepted}) / sum by (token_position) ({drafted})",
                "draft {{token_position}}",
            ),
            Panel("Output tokens a second", "none", f"sum(rate(trtllm_generation_tokens_total{job}[5m]))", "tokens"),
            Panel(
                "Time to the first token, 9 of 10 requests", "s",
                f"histogram_quantile(0.9, sum by (le) (rate(trtllm_time_to_first_token_seconds_bucket{job}[5m])))",
                "seconds",
            ),
            Panel("Requests", "none", f"trtllm_num_requests_running{job}", "running"),
        ),
    )  # fmt: skip


def _recorded(model: str) -> tuple[Rule, Rule]:
    accepted = f"sum by (model) (rate(specc_draft_tokens_accepted_total{model}[5m]))"
    return (
        Rule(ACCEPTANCE, f"{accepted} / sum by (model) (rate(specc_draft_tokens_proposed_total{model}[5m]))"),
        Rule(LENGTH, f"1 + {accepted} / sum by (model) (rate(specc_rounds_total{model}[5m]))"),
    )


def _acceptance_panels(rules: tuple[Rule, Rule]) -> tuple[Panel, ...]:
    """Return the panels of both series, which a dashboard shows without the rules, too."""
    acceptance, length = rules
    return (
        Panel("Mean accepted length (tokens a round)", "none", length.expression, "tokens"),
        Panel("Acceptance", "percentunit", acceptance.expression, "accepted"),
    )


def _down(bundle: Deployment, expression: str) -> Alert:
    return Alert("SpeccServerDown", expression, "2m", "critical", f"{bundle.name} does not answer", "")


def _unpaid(bundle: Deployment, selector: str, description: str) -> tuple[Alert, ...]:
    """Return the alert on drafts that cost more than they bring; none where the plan has no prediction."""
    length = bundle.break_even_length
    if length is None:
        return ()
    summary = f"Fewer than {length} tokens a round: the plan's cost model expects no gain"
    return (Alert("SpeccDraftsDoNotPay", f"{LENGTH}{selector} < {length}", "15m", "warning", summary, description),)


def _unpaid_as_measured(bundle: Deployment, selector: str) -> tuple[Alert, ...]:
    """Return the same alert over what the bundle says a round costs in plain steps, as measured where it was."""
    if not bundle.drafts:
        return ()
    expression = f"{LENGTH}{selector} < on (model) specc_break_even_length{selector}"
    summary = f"Rounds of {bundle.name} have fewer tokens than they cost plain steps"
    description = "The runtime falls back by itself; if this lasts, the traffic is not what the drafter was chosen for."
    return (Alert("SpeccDraftsDoNotPay", expression, "15m", "warning", summary, description),)


def _stopped(bundle: Deployment, drafted: str, served: str, selector: str) -> tuple[Alert, ...]:
    """Return the alert on a server that drafted once, serves, and drafts no more; where it never did, none fires."""
    if not bundle.drafts:
        return ()
    expression = (
        f"sum(increase({drafted}{selector}[15m])) == 0 and sum(increase({served}{selector}[15m])) > 0 "
        f"and sum({drafted}{selector}) > 0"
    )
    summary = f"{bundle.name} serves without drafts since 15 minutes"
    description = "Acceptance fell below the plan's limit, which ends drafting until a restart, or batches stay large."
    return (Alert("SpeccSpeculationStopped", expression, "5m", "warning", summary, description),)


def _queue(bundle: Deployment, requests: str) -> Alert:
    summary = f"More than four times the largest batch waits for {bundle.name}"
    return Alert("SpeccQueueGrows", f"{requests} > {4 * bundle.limits.max_batch}", "5m", "warning", summary, "")


def _full(bundle: Deployment, share: str) -> Alert:
    summary = f"The caches of {bundle.name} are nearly full: requests wait for room, or are put off"
    return Alert("SpeccCachesFull", f"{share} > {FULL_CACHE}", "10m", "warning", summary, "")
