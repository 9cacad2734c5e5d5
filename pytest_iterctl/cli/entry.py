"""The commands and their options, and what a wrong command line prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

import click

from pytest_iterctl.cli.guard import complain, guarded
from pytest_iterctl.errors import ExitCode

__all__ = ["commands", "run_command_line"]

P = ParamSpec("P")
R = TypeVar("R")
_Decorator = Callable[[Callable[P, R]], Callable[P, R]]

_FORMAT = click.Choice(["human", "json"])
_COUNT = click.IntRange(min=1)


def run_command_line(arguments: Sequence[str]) -> int:
    """Parse and run. A wrong command line is 4, as pytest has it, never click's own 2."""
    return guarded(lambda: _dispatch(arguments))


def _dispatch(arguments: Sequence[str]) -> int:
    try:
        result = commands.main(list(arguments), prog_name="iterctl", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return int(ExitCode.USAGE)
    except click.ClickException as error:
        context = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "iterctl"
        complain(f"error: {error.format_message()}")
        complain(f"hint: see {context} --help")
        return int(ExitCode.USAGE)
    except click.Abort:
        complain("error: interrupted")
        return int(ExitCode.INTERRUPTED)
    return result if isinstance(result, int) else 0


def _version(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    if value and not context.resilient_parsing:
        from pytest_iterctl import __version__  # noqa: PLC0415 - read only when asked for

        click.echo(f"iterctl {__version__}")
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def commands() -> None:
    """Bounded generate-test-review loops around any coding agent.

    Exit codes: 0 done, 1 ended without acceptance, 2 interrupted, 3 internal error, 4 usage or plan error,
    5 no tests, 10 escalated: a question waits, 11 stopped by a safety limit or a person.
    """


def _manner_options(command: Callable[P, R]) -> Callable[P, R]:
    command = click.option("-q", "--quiet", count=True, help="Only the summary; -qq: only the exit code.")(command)
    command = click.option("-v", "--verbose", count=True, help="Also what was said to the agent.")(command)
    return click.option("--format", "form", type=_FORMAT, default="human", help="What goes to stdout.")(command)


@commands.command()
@click.argument("plan", required=False, type=click.Path(path_type=Path))
@click.option(
    "--agent",
    help="Who changes the code: a name from the plan, a preset such as claude, hook, person, or a command line.",
)
@click.option("--reviewer", "review", multiple=True, help="Who reviews; may be given more than once.")
@click.option("--prompt", default="", help="What the agent is asked to do, or @FILE (for a plan without tasks).")
@click.option("--max-iterations", "--max", "max_iterations", help="Iterations before a person is asked.")
@click.option("--safety", help="What a run may spend and touch: permissive, normal or paranoid.")
@click.option("--sandbox", help="Run agents and tests in a sandbox: bwrap, none, or auto (at paranoid).")
@click.option("--timeout", help="Time for each agent call and test run, as in 90s, 5m, 1h.")
@click.option("--checkpoint-interval", help="Write a portable checkpoint file every N iterations.")
@click.option("--on-escalate", help="What the work tree holds after an escalation: best, last or base.")
@click.option("--protect", multiple=True, help="More files that the agent's changes don't count in; may be repeated.")
@click.option("--may-change", multiple=True, help="Tests that are the agent's to change, shown for review; repeatable.")
@click.option("--gate", help="How much is checked before a change is accepted: fast or full.")
@click.option("--strategy", help="How the next try goes about it: auto, conservative, aggressive, or one by its name.")
@click.option("--task", help="Run this task and what it needs, no other.")
@click.option("--dry-run", is_flag=True, help="Show what would be run, and run nothing.")
@click.option(
    "--commit", is_flag=False, flag_value="", default=None, help="Commit the accepted change: --commit[=MESSAGE]."
)
@_manner_options
def run(
    plan: Path | None,
    agent: str | None,
    review: tuple[str, ...],
    prompt: str,
    max_iterations: str | None,
    safety: str | None,
    sandbox: str | None,
    timeout: str | None,
    checkpoint_interval: str | None,
    on_escalate: str | None,
    protect: tuple[str, ...],
    may_change: tuple[str, ...],
    gate: str | None,
    strategy: str | None,
    task: str | None,
    dry_run: bool,  # noqa: FBT001 - click hands options over by name
    commit: str | None,
    form: str,
    verbose: int,
    quiet: int,
) -> int:
    """Run a plan's tasks (default: iterctl.yaml, [tool.iterctl], else the whole suite as one task)."""
    from pytest_iterctl.cli import running  # noqa: PLC0415

    settings: dict[str, str | list[str] | None] = {
        "agent": agent,
        "review": list(review) or None,
        "max_iterations": max_iterations,
        "safety": safety,
        "sandbox": sandbox,
        "timeout": timeout,
        "checkpoint_interval": checkpoint_interval,
        "on_escalate": on_escalate,
        "protect": list(protect) or None,
        "may_change": list(may_change) or None,
        "gate": gate,
        "strategy": strategy,
    }
    manner = running.Manner(json=form == "json", quiet=quiet, verbose=verbose)
    return running.run(plan, settings, manner, prompt=prompt, task=task, dry_run=dry_run, commit=commit)


@commands.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--limit", "limits", multiple=True, metavar="NAME=VALUE", help="Raise one limit, e.g. max_total_cost=30.")
@click.option("--safety", help="Go on under another safety level.")
@click.option("--max-iterations", "--max", "max_iterations", type=_COUNT, help="A new bound on the iterations.")
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Go on from a checkpoint file of any clone.")
@_manner_options
def resume(
    run_id: str | None,
    limits: tuple[str, ...],
    safety: str | None,
    max_iterations: int | None,
    checkpoint: Path | None,
    form: str,
    verbose: int,
    quiet: int,
) -> int:
    """Go on with a run (default: the latest) from its last finished stage."""
    from pytest_iterctl.cli import running  # noqa: PLC0415

    manner = running.Manner(json=form == "json", quiet=quiet, verbose=verbose)
    return running.resume(
        run_id, manner, limits=limits, safety=safety, max_iterations=max_iterations, checkpoint=checkpoint
    )


@commands.command()
@click.argument("run_id", metavar="[RUN]", required=False)
def stop(run_id: str | None) -> int:
    """Stop a run (default: the one at work here) from any shell."""
    from pytest_iterctl.cli import running  # noqa: PLC0415

    return running.stop(run_id)


@commands.command()
@click.argument("run_id", metavar="RUN")
@click.option("--task", help="Whose question it is, when several wait.")
@click.option("--option", type=_COUNT, help="One of the numbered options.")
@click.option("--continue", "guidance", metavar="TEXT", help="Go on, with guidance for the next prompt.")
@click.option("--iterations", type=_COUNT, help="How many more iterations (default: as many as before).")
@click.option("--abort", is_flag=True, help="Leave it.")
@_manner_options
def answer(
    run_id: str,
    task: str | None,
    option: int | None,
    guidance: str | None,
    iterations: int | None,
    abort: bool,  # noqa: FBT001 - click hands options over by name
    form: str,
    verbose: int,
    quiet: int,
) -> int:
    """Answer a run's question and go on with it."""
    from pytest_iterctl.cli import running  # noqa: PLC0415

    manner = running.Manner(json=form == "json", quiet=quiet, verbose=verbose)
    return running.answer(
        run_id, manner, task=task, option=option, guidance=guidance, iterations=iterations, abort=abort
    )


@commands.command()
@click.option("--reset", is_flag=True, help="Forget what was learned, and begin anew.")
@click.option("--format", "form", type=_FORMAT, default="human", help="What goes to stdout.")
def strategies(reset: bool, form: str) -> int:  # noqa: FBT001 - click hands options over by name
    """List the strategies, and what was learned of them in this repository."""
    from pytest_iterctl.cli import looking  # noqa: PLC0415

    return looking.strategies(reset=reset, as_json=form == "json")


@commands.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--format", "form", type=_FORMAT, default="human", help="What goes to stdout.")
def status(run_id: str | None, form: str) -> int:
    """List the runs of this repository, or tell about one."""
    from pytest_iterctl.cli import looking  # noqa: PLC0415

    return looking.status(run_id, as_json=form == "json")


@commands.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--task", help="Which task (default: the first that needs a person, else the last).")
@click.option("--format", "form", type=click.Choice(["md", "yaml", "json"]), default="md", help="What goes to stdout.")
def report(run_id: str | None, task: str | None, form: str) -> int:
    """Print a task's report: the question, what was tried, what each attempt changed."""
    from pytest_iterctl.cli import looking  # noqa: PLC0415

    return looking.report(run_id, task, form)


@commands.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--task", help="Which task (default: all).")
@click.option("--format", "form", type=_FORMAT, default="human", help="What goes to stdout.")
def audit(run_id: str | None, task: str | None, form: str) -> int:
    """Show what was protected, what was compared and what was found before a change was accepted."""
    from pytest_iterctl.cli import looking  # noqa: PLC0415

    return looking.audit(run_id, task, as_json=form == "json")


@commands.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.argument("iteration", required=False, type=click.IntRange(min=0))
@click.option("--task", help="Which task (default: the last).")
@click.option("--stat", is_flag=True, help="Names and numbers only.")
def diff(run_id: str | None, iteration: int | None, task: str | None, stat: bool) -> int:  # noqa: FBT001 - as above
    """Print what a run changed in all, or what the agent changed in one ITERATION."""
    from pytest_iterctl.cli import looking  # noqa: PLC0415

    return looking.diff(run_id, iteration, task, stat=stat)


@commands.group()
def memory() -> None:
    """Read and write what a run keeps in memory: whole outputs of its stages, and notes.

    Inside a stage this is the memory of its run. Elsewhere name the RUN, else it is the latest.
    """


_RUN = click.option("--run", "run_id", metavar="RUN", help="Whose memory (default: this stage's run, or the latest).")
_NAMESPACE = click.option(
    "--namespace",
    "-n",
    type=click.Choice(("workflow", "session", "agent", "global")),
    help="Where (default: workflow).",
)
_OF = click.option("--of", metavar="NAME", help="The task or agent whose namespace it is (inside a stage: its own).")


@memory.command("get")
@click.argument("key")
@_NAMESPACE
@_OF
@_RUN
def memory_get(key: str, namespace: str | None, of: str | None, run_id: str | None) -> int:
    """Print one value whole."""
    from pytest_iterctl.cli import remembering  # noqa: PLC0415

    return remembering.get(key, namespace, of, run_id)


@memory.command("list")
@click.argument("prefix", required=False, default="")
@_NAMESPACE
@_OF
@_RUN
@click.option("--format", "form", type=_FORMAT, default="human", help="What goes to stdout.")
def memory_list(prefix: str, namespace: str | None, of: str | None, run_id: str | None, form: str) -> int:
    """List the keys, those that begin with PREFIX, with size, time and who wrote them."""
    from pytest_iterctl.cli import remembering  # noqa: PLC0415

    return remembering.listed(prefix, namespace, of, run_id, form)


@memory.command("put")
@click.argument("key")
@click.argument("value", required=False)
@_NAMESPACE
@_OF
@_RUN
def memory_put(key: str, value: str | None, namespace: str | None, of: str | None, run_id: str | None) -> int:
    """Write a note: VALUE, or what comes on stdin. Outputs of stages can't be written over."""
    from pytest_iterctl.cli import remembering  # noqa: PLC0415

    return remembering.put(key, value, namespace, of, run_id)


@memory.command("delete")
@click.argument("key")
@_NAMESPACE
@_OF
@_RUN
def memory_delete(key: str, namespace: str | None, of: str | None, run_id: str | None) -> int:
    """Delete a note."""
    from pytest_iterctl.cli import remembering  # noqa: PLC0415

    return remembering.delete(key, namespace, of, run_id)


@commands.command()
@click.argument("run_id", metavar="RUN")
@click.argument("iteration", type=click.IntRange(min=0))
@click.option("--task", help="Which task (default: the last).")
def restore(run_id: str, iteration: int, task: str | None) -> int:
    """Put the work tree back to what it was after ITERATION (0: before the run)."""
    from pytest_iterctl.cli import tending  # noqa: PLC0415

    return tending.restore(run_id, iteration, task)


@commands.command()
@click.argument("run_ids", metavar="[RUN]...", nargs=-1)
@click.option("--older-than", metavar="DURATION", help="Runs that ended before that, as in 14d.")
@click.option("--all", "everything", is_flag=True, help="All runs but the one at work.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and keep it.")
def clean(run_ids: tuple[str, ...], older_than: str | None, everything: bool, dry_run: bool) -> int:  # noqa: FBT001 - as above
    """Remove refs, state and reports of old runs."""
    from pytest_iterctl.cli import tending  # noqa: PLC0415

    return tending.clean(run_ids, older_than=older_than, everything=everything, dry_run=dry_run)


@commands.command()
@click.option("--force", is_flag=True, help="Write over a plan that is there.")
def init(force: bool) -> int:  # noqa: FBT001 - as above
    """Write a plan for this repository."""
    from pytest_iterctl.cli import tending  # noqa: PLC0415

    return tending.init(force=force)


@commands.command()
@click.option("--format", "form", type=_FORMAT, default="human", help="What goes to stdout.")
def doctor(form: str) -> int:
    """Say what is missing here, and what to do about it."""
    from pytest_iterctl.cli import health  # noqa: PLC0415

    return health.doctor(as_json=form == "json")


@commands.command()
def schema() -> int:
    """Print the plan's JSON Schema."""
    from pytest_iterctl.cli import tending  # noqa: PLC0415

    return tending.schema()


@commands.command()
@click.argument("file", required=False, default="-")
@click.option(
    "--run", "loop", metavar="NAME", help="Remember the checks of one loop, so that an escalation tells of all."
)
@click.option("--format", "form", type=click.Choice(["yaml", "json"]), help="Default: as the input.")
@click.option("--exit-code", is_flag=True, help="Exit 1 for retry and 10 for escalate.")
def check(file: str, loop: str | None, form: str | None, exit_code: bool) -> int:  # noqa: FBT001 - as above
    """Decide proceed, retry or escalate for anyone's loop: an iteration_check document in, a decision out."""
    from pytest_iterctl.cli import checking  # noqa: PLC0415

    return checking.check(file, loop=loop, form=form, exit_code=exit_code)


@commands.command()
@click.argument("reports", nargs=-1, required=True)
@click.option(
    "--format", "form", type=click.Choice(["text", "md", "json", "yaml"]), default="text", help="What goes to stdout."
)
@click.option(
    "--limit",
    "--max-length",
    "limit",
    type=click.IntRange(min=200),
    default=8192,
    help="Bytes of the text (default: 8192).",
)
def feedback(reports: tuple[str, ...], form: str, limit: int) -> int:
    """Turn JUnit REPORTS (files, globs, - for stdin) into feedback an agent can act on.

    Each test counts once, by its worst result. Exits with 0 when the reports were read, whatever they say (the JSON
    document's "outcome" tells), and with 4 when one could not be.
    """
    from pytest_iterctl.cli import checking  # noqa: PLC0415

    return checking.feedback(reports, form=form, limit=limit)


@commands.command()
@click.option("--keep", is_flag=True, help="Keep the throw-away repository.")
def demo(keep: bool) -> int:  # noqa: FBT001 - as above
    """See a real run: a failing package, an agent that would rather change a test, a task that escalates."""
    from pytest_iterctl.cli import demonstration  # noqa: PLC0415

    return demonstration.demo(keep=keep)
