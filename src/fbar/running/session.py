"""One task at work: the session that begins or resumes its run, advances it to its end, and gives its result.

A recorded run is a list of legs. To go on with it, its finished legs are replayed from the ledger through the loop, as
they were asked for then; the last one goes on where its record ends. A session's steps are

    begin, or resume, or replay and extend;   then finish.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fbar.diagnostics.faults import FailureWatch
from fbar.engine import Engine, machine_of
from fbar.errors import NoPosterior
from fbar.estimation.posterior import Posterior
from fbar.ledger import Ledger, LedgerReader, Leg
from fbar.methods import Run
from fbar.methods.restored import restored_method
from fbar.methods.stopping import NOT_FINISHED
from fbar.methods.total_error import WHAT_HELPS
from fbar.results.described import spent
from fbar.results.result import Result
from fbar.results.warned import doubt_damaged
from fbar.running.damage import damage_of, other_estimates
from fbar.running.lesson import learn_recorded, learn_unrecorded
from fbar.running.loop import BIAS_STAYS, drive
from fbar.running.model_file import ModelFile
from fbar.running.recall import task_of
from fbar.running.repeat import DOUBTED, REMARKS, WARNINGS, FirstBlockTwice
from fbar.running.shown import ProgressOption, interruption_explained, progress_shown
from fbar.running.task import Task
from fbar.seeds import Seeds
from fbar.system.json_values import json_seed

DAMAGED = "its record is damaged"
"""Why a run ended whose record was read as far as it is sound."""


@dataclass(eq=False)
class InferenceSession:
    """A task, where it is simulated and recorded, and its run. With a ledger that is only read, nothing is simulated.

    ``notes`` are warnings that the result will carry.
    """

    task: Task
    seeds: Seeds
    engine: Engine
    progress: ProgressOption = None
    ledger: LedgerReader | None = None
    notes: tuple[str, ...] = ()
    watch: FailureWatch = field(default_factory=FailureWatch)
    started: Run | None = None

    @property
    def run(self) -> Run:
        assert self.started is not None, "begin, resume or replay comes first"
        return self.started

    @property
    def writable(self) -> Ledger | None:
        """The ledger, if the session drives the run that it records."""
        return self.ledger if isinstance(self.ledger, Ledger) else None

    @property
    def replay_only(self) -> bool:
        return self.ledger is not None and self.writable is None

    # ------------------------------------------------------------ up to the last leg

    def begin(self, model: ModelFile | None = None) -> None:
        """Start a new run, recorded if there is a ledger, with the ``model`` file that it comes from."""
        if self.writable is not None:
            self.started = self.task.start(self.seeds)  # refuses what cannot be done before anything is recorded
            if model is not None:
                model.copy_to(self.writable.directory)
            about = {} if model is None else {"model": model.describe()}
            self.writable.add_leg({**self._settings(), **about})
        if self.task.lesson is not None or self.started is None:
            self.learn()
            self.started = self.task.start(self.seeds)

    def resume(self) -> None:
        """Come to the last leg of a recorded run, which it is to go on with."""
        assert self.ledger is not None
        self.learn()
        legs = self.ledger.legs
        if len(legs) == 1:
            self.started = self.task.start(self.seeds)
        elif self.replay(legs[:-1]):
            self._go_on(legs[-2], self.task)

    def learn(self) -> None:
        """Learn the task's summaries, if it asks for that and they are not there."""
        if self.task.lesson is None or self.task.learned is not None:
            return
        if self.ledger is None:
            learned = learn_unrecorded(self.task, self.seeds, self.engine, self.progress)
        else:
            learned = learn_recorded(self.task, self.seeds, self.engine, self.progress, self.ledger)
        self.task = replace(self.task, learned=learned)

    def replay(self, legs: Sequence[Leg]) -> bool:
        """Bring the run to the end of these finished legs, and whether it came there.

        Damaged blocks are simulated again; where the ledger is only read, the run stays at the first of them.
        """
        tasks = [replace(task_of(leg, self.task.problem, self.task.targets), learned=self.task.learned) for leg in legs]
        self.started = tasks[0].start(Seeds.recorded(legs[0].settings))
        for number, (leg, task) in enumerate(zip(legs, tasks, strict=True)):
            if number:
                self._go_on(legs[number - 1], task)
            assert leg.result is not None
            rounds = leg.result["rounds"]
            why = drive(self.run, engine=self.engine, ledger=self.ledger, watch=self.watch, until_round=rounds)
            if why == NOT_FINISHED:
                return False
        return True

    def extend(self, task: Task) -> None:
        """Add a leg with another task to a run that has been replayed to its end."""
        assert self.writable is not None
        last = self.writable.legs[-1]
        self.task = replace(task, learned=self.task.learned)
        self._go_on(last, self.task)  # refuses what cannot be done before anything is recorded
        about = {"model": last.settings["model"]} if "model" in last.settings else {}
        self.writable.add_leg({**self.task.settings(self.seeds), **about, "machine": machine_of(self.engine)})

    def _go_on(self, before: Leg, task: Task) -> None:
        tolerance = task.method.final_tolerance
        if tolerance == restored_method(before.settings["method"]).final_tolerance:
            tolerance = None
        self.run.extend(
            budget=task.left_of(task.budget), limit=task.left_of(task.limit), tolerance=tolerance, targets=task.targets
        )

    def _settings(self) -> dict[str, Any]:
        return {**self.task.settings(self.seeds), "machine": machine_of(self.engine)}

    # ------------------------------------------------------------ the last leg

    def finish(self) -> Result:
        """Advance the last leg to its end, take the result, and record how it ended."""
        ledger = self.writable
        if ledger is None:
            return self._result()
        ended_before = ledger.legs[-1].result
        try:
            result = self._result()
        except NoPosterior as error:
            if ended_before is None:  # it has ended all the same, and may be extended
                ledger.finish_leg(_without_posterior(self.run, error))
            raise
        if ended_before is None:
            ledger.finish_leg(result.as_dict())
            return result
        if ledger.has_recorded:  # it was finished, and some of it was gone
            ledger.sweep()
        note = other_estimates(result, ended_before) if ledger.damaged else ""
        return replace(result, notes=(*result.notes, note)) if note else result

    def _result(self) -> Result:
        run = self.run
        try:
            return self._advance_and_close()
        except NoPosterior as error:
            if run.seen.failures >= run.simulations > 0 and self.ledger is not None:
                raise NoPosterior(
                    f"all {run.simulations} simulations recorded in {self.ledger.directory} failed "
                    f"({run.seen.failed}); correct the simulator and start a new run in another directory"
                ) from error
            if self.task.exact:
                raise NoPosterior(
                    f"{error}. No tolerance was given, so simulations had to match the data exactly; give one "
                    "(tolerance=, --tolerance)"
                ) from error
            raise

    def _advance_and_close(self) -> Result:
        run, ledger = self.run, self.ledger
        twice = FirstBlockTwice(self.engine, ledger is None or not len(ledger), self.task.budget)
        why = self._advance(twice)
        damage = "" if ledger is None or not self.replay_only else damage_of(ledger, run, finished=why != NOT_FINISHED)
        try:
            posterior = run.posterior()
        except NoPosterior as error:
            if damage:
                raise NoPosterior(f"{damage} ({error})") from error
            raise
        if damage:
            doubt_damaged(posterior, run)
        numbers = self._random_numbers(twice)
        doubts = tuple(text for text in numbers if text in DOUBTED)
        posterior.doubts = (*posterior.doubts, *doubts)
        return Result(
            run,
            posterior,
            self._estimates(posterior, look_again=bool(damage or doubts)),
            DAMAGED if damage else why,
            self._notes(damage, numbers, why),
            {} if self.task.stop is None else self.task.stop.missing(run),
            self._remarks(posterior, numbers),
            settings=self._settings() if ledger is None else ledger.legs[-1].settings,
            earlier=() if ledger is None else tuple(leg.settings for leg in ledger.legs[:-1]),
            directory=None if ledger is None else ledger.directory,
            failed=self.watch.where_failed(),
            damage=damage,
        )

    def _remarks(self, posterior: Posterior, numbers: tuple[str, ...]) -> tuple[str, ...]:
        """What was learned, before the run or by its answer, and what was seen of the simulator's random numbers."""
        before = "" if self.task.learned is None else self.task.learned.remark
        seen = (text for text in numbers if text in REMARKS)
        return tuple(text for text in (before, posterior.remark, *seen) if text)

    def _advance(self, engine: Engine) -> str:
        """Drive the last leg to its end, or to where its record ends; why it ended."""
        ledger = self.ledger
        ended_before = None if ledger is None else ledger.legs[-1].result
        record = self.writable if ended_before is None else None
        with (
            interruption_explained(ledger),
            progress_shown(self.progress, self.task.stop, record=record) as progress,
        ):
            why = drive(
                self.run,
                self.task.stop,
                engine=engine,
                progress=progress,
                ledger=ledger,
                watch=self.watch,
                until_round=None if ended_before is None else ended_before["rounds"],
            )
        if self.writable is not None:
            self.writable.flush()
        return why if why == NOT_FINISHED or ended_before is None else str(ended_before["stopped_by"])

    def _estimates(self, posterior: Posterior, look_again: bool) -> Any:
        """The estimates; those of the run's last moment, if the loop has looked when it ended."""
        history, run = self.run.history, self.run
        if not look_again and history and history[-1].simulations == run.simulations:
            return history[-1].estimates
        return posterior.expect(list(self.task.targets))

    def _random_numbers(self, twice: FirstBlockTwice) -> tuple[str, ...]:
        """What was seen of the simulator's random numbers; what was seen before is not looked at again."""
        before = None if self.ledger is None else self.ledger.legs[-1].result
        known = () if before is None else (*before["warnings"], *before.get("remarks", ()))
        return tuple(text for text in (*WARNINGS, *REMARKS) if text in known) or twice.found

    def _notes(self, damage: str, numbers: tuple[str, ...], why: str) -> tuple[str, ...]:
        """The session's notes, and warnings about the record, failures, summaries, the seed and a bias that stays."""
        ledger, task = self.ledger, self.task
        notes = [damage, *self.notes]
        if why == BIAS_STAYS and task.stop is not None:
            seen_before = (
                f"{task.stop} will not be reached: when the run ended, its error was mostly bias; {WHAT_HELPS}"
            )
            notes.append(task.stop.hopeless(self.run) or seen_before)  # the last estimate may be another one
        if ledger is not None and ledger.damaged and not damage:
            state = f"repair with fbar resume {ledger.directory}" if self.replay_only else "recomputed from their seeds"
            notes.append(f"damaged in {ledger.directory} ({state}): {', '.join(ledger.damaged)}")
        notes += [
            self.watch.dependence(),
            _learned_for_others(task),
            task.learned.warning if task.learned else "",
            *(text for text in numbers if text in WARNINGS),
        ]
        return tuple(note for note in notes if note)


def _learned_for_others(task: Task) -> str:
    """A warning of targets that were asked for after the summaries were learned."""
    if task.lesson is None:
        return ""
    learned = {target.name for target in task.lesson.targets}
    others = [target.name for target in task.targets if target.name not in learned]
    return f"summaries were learned for {', '.join(sorted(learned))}, not for {', '.join(others)}" if others else ""


def _without_posterior(run: Run, error: NoPosterior) -> dict[str, Any]:
    """How a run went that accepted nothing, as `Result.as_dict` has it."""
    return {
        "estimates": {},
        "simulations": run.simulations,
        "accepted": 0,
        **spent(run),
        "failures": {kind.name.lower(): count for kind, count in run.seen.counts.items()},
        "warnings": [str(error)],
        "stopped_by": run.ended,
        "rounds": run.round,
        "seed": json_seed(run.seeds.entropy),
    }
