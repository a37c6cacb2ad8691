"""One model instance as a process: prefill, draft, verify, commit; it does not know what else runs."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any

import simpy

from simulator.engine.costs import PassKind, pass_prices, prefill_prices
from simulator.engine.machine import Machine, Process
from simulator.engine.timeline import Timeline
from simulator.engine.work import Request
from simulator.lowering import ContextSums, CostParams
from simulator.lowering.outcome import PassTotals
from simulator.results import StepRecord

At = tuple[int, int]
"""Request and step; step -1 is the prefill."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """One request as it was served.

    Attributes
    ----------
    request : int
        Number of the request.
    prompt_tokens, decoded_tokens : float
        Prompt, and tokens after the first one.
    prefill, draft_prefill, draft, verify : PassTotals
        What ran in each phase.
    commit_s : float
        Host time between passes [s].
    verify_sums : dict of int to (int, ContextSums)
        By drafts in the verify pass: accepted drafts, and the contexts of the passes.
    drafts, catch_ups : ContextSums
        Draft passes of width 1 and of width 2.
    drafted : int
        Drafts computed.
    steps : tuple of StepRecord
        Steps; ``energy_j`` only where records are wanted.
    """

    request: int
    prompt_tokens: float
    decoded_tokens: float
    prefill: PassTotals
    draft_prefill: PassTotals
    draft: PassTotals
    verify: PassTotals
    commit_s: float
    verify_sums: dict[int, tuple[int, ContextSums]]
    drafts: ContextSums
    catch_ups: ContextSums
    drafted: int
    steps: tuple[StepRecord, ...]

    @property
    def ttft_s(self) -> float:
        """Time to the first token [s]."""
        return float(self.prefill.time_s + self.draft_prefill.time_s)

    @property
    def decode_s(self) -> float:
        """Time after the first token [s]."""
        return float(self.draft.time_s + self.verify.time_s + self.commit_s)


class Session:
    """A target with its drafter, serving one request at a time.

    Parameters
    ----------
    machine : Machine
        Resources.
    params : CostParams
        One design, plain numbers.
    engine, draft_engine : str
        Engines of the machine.
    timeline : Timeline or None
        Where spans go.
    energies : bool
        Also compute the energy of each step.
    """

    def __init__(
        self, machine: Machine, params: CostParams, *, engine: str, draft_engine: str,
        timeline: Timeline | None = None, energies: bool = False,
    ) -> None:  # fmt: skip
        self._machine, self._params, self._timeline, self._energies = machine, params, timeline, energies
        self._engine, self._draft_engine = machine.engines[engine], machine.engines[draft_engine]
        self._verify: dict[int, PassKind] = {}
        drafting = params.passes_per_step != "none" and not params.draft_pass.empty
        self._one = self._draft_kind(1) if drafting else None
        self._two = self._draft_kind(2) if drafting and params.catch_up else None
        self._moving = params.draft_context == "own" and params.fixed_context is None
        speculating = params.draft_length > 0
        self._lookup_s = float(params.host_s_per_step) if speculating else 0.0
        self._floor_s = float(params.floor_per_step_s) if speculating else 0.0
        self._prefill = PassKind(
            name="prefill", phase="prefill", rows=0.0, engine=self._engine, side=params.target_side,
            host_s=params.target_prefill().host_s, prices=prefill_prices(params, drafter=False),
        )  # fmt: skip
        self._draft_prefill = None if params.drafter_prefill_pass.empty or not speculating else PassKind(
            name="drafter prefill", phase="prefill", rows=0.0, engine=self._draft_engine,
            side=params.draft_side, host_s=params.draft_prefill().host_s,
            prices=prefill_prices(params, drafter=True),
        )  # fmt: skip

    def serve(self, requests: Iterable[Request], served: list[Served]) -> Generator[simpy.Event, Any, None]:
        """Serve requests one after the other, each as soon as the one before is done.

        Parameters
        ----------
        requests : iterable of Request
            What is asked.
        served : list of Served
            Finished requests are appended.
        """
        for number, request in enumerate(requests):
            served.append((yield from self.answer(number, request)))

    def answer(self, number: int, request: Request) -> Generator[simpy.Event, Any, Served]:
        """Serve one request.

        Parameters
        ----------
        number : int
            Its number.
        request : Request
            Prompt and steps.
        """
        params = self._params
        yield from self._run(self._prefill, request.prompt_tokens, (number, -1))
        if self._draft_prefill is not None:
            yield from self._run(self._draft_prefill, request.prompt_tokens, (number, -1))
        env, per_draft, fixed = self._machine.env, params.passes_per_step == "per_draft", params.fixed_context
        lookup_s, floor_s, moving = self._lookup_s, self._floor_s, self._moving
        records: list[StepRecord] = []
        accepted_by_length: dict[int, int] = {}
        commit_s, drafted, behind = 0.0, 0, False
        for step, (context, proposed, accepted, emitted, computed) in enumerate(request.steps):
            at, start_s, host_s, draft_s = (number, step), float(env.now), 0.0, 0.0
            before_j = self._energy_j(commit_s) if self._energies else 0.0
            if fixed is not None:
                context = float(fixed)
            if lookup_s:
                host_s = yield from self._host("lookup", lookup_s, at)
            asked = computed if per_draft else proposed
            drafted += asked
            if self._one is not None and asked:
                first = self._two if behind and self._two is not None else self._one
                draft_s = yield from self._run(first, context, at)
                if per_draft:
                    for i in range(1, asked):
                        draft_s += yield from self._run(self._one, context + i if moving else context, at)
            kind = self._verify.get(proposed) or self._verify_kind(proposed)
            verify_s = yield from self._run(kind, context, at, accepted)
            if floor_s:
                host_s += yield from self._host("commit", floor_s, at)
            if self._timeline is not None and accepted < proposed:
                now_s = float(env.now)
                dropped = proposed - accepted
                self._timeline.add("host", "rollback", "commit", at, now_s, now_s, dropped=dropped)
            behind = accepted == asked > 0
            commit_s += host_s
            accepted_by_length[proposed] = accepted_by_length.get(proposed, 0) + accepted
            energy_j = self._energy_j(commit_s) - before_j if self._energies else 0.0
            records.append(StepRecord(number, step, int(context), proposed, accepted, emitted, start_s,
                                      draft_s, verify_s, host_s, energy_j))  # fmt: skip
        return self._finished(number, request, records, accepted_by_length, commit_s, drafted)

    def _run(self, kind: PassKind, context: float, at: At, accepted: int | None = None) -> Process:
        """Run one pass: the engine is held all through it, first for the host's part, then for the bus."""
        machine, timeline = self._machine, self._timeline
        env, bus, engine = machine.env, machine.bus, kind.engine
        busy_s, bytes_moved, mac_energy_j = kind.prices[context]
        asked_s = env.now
        with engine.resource.request() as grant:
            if not grant.triggered:
                yield grant
            granted_s = env.now
            elapsed_s = float(granted_s - asked_s)
            if kind.host_s:
                elapsed_s += yield from machine.host.hold(kind.host_s)
                if timeline is not None:
                    timeline.add("host", kind.name, kind.phase, at, env.now - kind.host_s, env.now)
            elapsed_s += yield from bus.transfer(engine.name, bytes_moved, busy_s)
        engine.grants += 1
        kind.add(context, elapsed_s, bytes_moved, mac_energy_j)
        if timeline is not None:
            drafts = {} if accepted is None else {"accepted": accepted}
            timeline.add("bus", kind.name, kind.phase, at, env.now - busy_s, env.now, bytes=bytes_moved,
                         client=engine.name)  # fmt: skip
            shape = {"rows": kind.rows, "context": context} if kind.rows else {"rows": context, "context": 0}
            timeline.add(f"engine:{engine.name}", kind.name, kind.phase, at, granted_s, env.now, **shape,
                         **drafts)  # fmt: skip
        return elapsed_s

    def _host(self, name: str, duration_s: float, at: At) -> Process:
        elapsed_s = yield from self._machine.host.hold(duration_s)
        if self._timeline is not None:
            now_s = float(self._machine.env.now)
            self._timeline.add("host", name, "commit", at, now_s - duration_s, now_s)
        return elapsed_s

    def _draft_kind(self, width: int) -> PassKind:
        cost = self._params.draft_cost(width)
        return PassKind(name="draft", phase="draft", rows=float(cost.rows), engine=self._draft_engine,
                        side=self._params.draft_side, host_s=cost.host_s,
                        prices=pass_prices(cost))  # fmt: skip

    def _verify_kind(self, proposed: int) -> PassKind:
        cost = self._params.verify_cost(proposed + 1)
        kind = PassKind(name="verify", phase="verify", rows=float(cost.rows), engine=self._engine,
                        side=self._params.target_side, host_s=cost.host_s,
                        prices=pass_prices(cost))  # fmt: skip
        self._verify[proposed] = kind
        return kind

    def _energy_j(self, commit_s: float) -> float:
        """Energy of the decode so far [J]: bytes, MACs, and the powers of what was busy."""
        kinds = [kind for kind in (self._one, self._two, *self._verify.values()) if kind is not None]
        passes = sum(sum(kind.totals.energy_j(self._params, kind.side).values()) for kind in kinds)
        params = self._params
        idle_w = params.target_side.idle_power_w + params.host_power_w + params.base_power_w
        return float(passes + idle_w * commit_s)

    def _finished(
        self, number: int, request: Request, records: list[StepRecord], accepted: dict[int, int],
        commit_s: float, drafted: int,
    ) -> Served:  # fmt: skip
        windows, none = self._params.windows, PassTotals()
        draft, verify, verify_sums = none, none, {}
        sums = [ContextSums.of([], windows), ContextSums.of([], windows)]
        for i, kind in enumerate((self._one, self._two)):
            if kind is not None:
                totals, sums[i] = kind.take(windows)
                draft = draft + totals
        for proposed, each in accepted.items():
            totals, contexts = self._verify[proposed].take(windows)
            verify, verify_sums[proposed] = verify + totals, (each, contexts)
        return Served(
            request=number,
            prompt_tokens=request.prompt_tokens,
            decoded_tokens=float(sum(record.emitted for record in records)),
            prefill=self._prefill.take(())[0],
            draft_prefill=none if self._draft_prefill is None else self._draft_prefill.take(())[0],
            draft=draft,
            verify=verify,
            commit_s=commit_s,
            verify_sums=verify_sums,
            drafts=sums[0],
            catch_ups=sums[1],
            drafted=drafted,
            steps=tuple(records),
        )
