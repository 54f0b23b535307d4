"""The commands of the REPL: a fixed table of everything that can be called. Words in, JSON out."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from app.errors import InvalidError
from app.models.operations.hourly_stats import HOURS_KEPT
from queue_manager.control.actions import Controls
from queue_manager.groups import OF_GROUPS, OF_QUEUES
from queue_manager.statistics import Statistics

#: The argument for "all": dropping all dead jobs must be explicit.
ALL: Final = "all"
#: Most dead jobs in one answer.
DEAD_MOST: Final = 1000
_DEAD_SHOWN, _HOURS_SHOWN = 50, 24


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """One row of the table.

    Attributes:
        usage: The arguments, for the help.
        text: The description, for the help.
        min_args: The fewest arguments.
        max_args: The most arguments.
        run: Receives the arguments; None: the control socket handles the command itself.
    """

    usage: str
    text: str
    min_args: int = 0
    max_args: int = 0
    run: Callable[[Commands, Sequence[str]], Awaitable[Any]] | None = None


class Commands:
    """Runs commands on this manager.

    Args:
        controls: The manager's actions.
        statistics: The figures by hour.
    """

    def __init__(self, controls: Controls, statistics: Statistics) -> None:
        self._controls, self._statistics = controls, statistics

    async def run(self, words: Sequence[str]) -> Any:
        """Run one command and return its result.

        Raises:
            InvalidError: The command doesn't exist or its arguments aren't valid; the error shows the usage.
            EventrError: As documented for the command.
        """
        command = find_command(words)
        if command.run is None:
            raise InvalidError(f"“{words[0]}” can't be run here.")
        return await command.run(self, words[1:])

    async def show_help(self, args: Sequence[str]) -> Any:
        for name in args:
            find_command([name], count=False)
        names = list(args) or list(TABLE)
        return [{"usage": f"{name} {TABLE[name].usage}".strip(), "text": TABLE[name].text} for name in names]

    async def show_status(self, args: Sequence[str]) -> Any:
        return self._controls.get_status()

    async def show_queues(self, args: Sequence[str]) -> Any:
        return await self._controls.list_queues()

    async def show_settings(self, args: Sequence[str]) -> Any:
        everything = self._controls.get_settings()
        if not args:
            return everything
        if args[0] not in everything:
            raise InvalidError(f"{args[0]} isn't a group or queue. Choose one of {', '.join(everything)}.")
        return {args[0]: everything[args[0]]}

    async def set(self, args: Sequence[str]) -> Any:
        return await self._controls.set(*_target(args[0]), args[1])

    async def reset(self, args: Sequence[str]) -> Any:
        return await self._controls.reset(*_target(args[0]))

    async def pause(self, args: Sequence[str]) -> Any:
        return await self._controls.pause(args[0])

    async def resume(self, args: Sequence[str]) -> Any:
        return await self._controls.resume(args[0])

    async def drain(self, args: Sequence[str]) -> Any:
        return await self._controls.drain(args[0])

    async def kill(self, args: Sequence[str]) -> Any:
        if args[1:] not in ([], ["gently"]):
            raise InvalidError(f"“{args[1]}” isn't an option of this command. Leave it out, or use “gently”.")
        return await self._controls.kill(args[0], gently=len(args) > 1)

    async def list_dead(self, args: Sequence[str]) -> Any:
        return await self._controls.list_dead(_number(args, _DEAD_SHOWN, DEAD_MOST, "jobs"))

    async def retry_dead(self, args: Sequence[str]) -> Any:
        return {"retried": await self._controls.retry_dead(_one_or_all(args[0]))}

    async def remove_dead(self, args: Sequence[str]) -> Any:
        return {"dropped": await self._controls.remove_dead(_one_or_all(args[0]))}

    async def show_stats(self, args: Sequence[str]) -> Any:
        return await self._statistics.list_hours(_number(args, _HOURS_SHOWN, HOURS_KEPT, "hours"))

    async def reload(self, args: Sequence[str]) -> Any:
        return self._controls.reload()

    async def list_words(self, args: Sequence[str]) -> Any:
        status = self._controls.get_status()
        queues = [queue["name"] for queue in await self._controls.list_queues()]
        groups = [group["name"] for group in status["groups"]]
        served = {queue for group in status["groups"] for queue in group["queues"]}
        of_groups = [(name, OF_GROUPS) for name in (*groups, *(q for q in queues if q in served))]
        settings = [f"{name}.{key}" for name, keys in of_groups for key in keys]
        return {
            "groups": groups,
            "queues": queues,
            "workers": [worker["name"] for worker in status["workers"]],
            "settings": settings + [f"{queue}.{key}" for queue in queues for key in OF_QUEUES],
            "dead": [task["id"] for task in await self._controls.list_dead(DEAD_MOST)],
        }


#: All commands of a manager, in the order of the help.
TABLE: Final[Mapping[str, Command]] = {
    "help": Command("[COMMAND]", "List the commands.", 0, 1, Commands.show_help),
    "status": Command("", "Show this manager, its groups and its workers.", run=Commands.show_status),
    "queues": Command("", "Show all queues.", run=Commands.show_queues),
    "settings": Command("[NAME]", "Show the settings of groups and queues.", 0, 1, Commands.show_settings),
    "set": Command("NAME.KEY VALUE", "Change a setting immediately for all managers.", 2, 2, Commands.set),
    "reset": Command("NAME.KEY", "Reset a setting to its value in the settings file.", 1, 1, Commands.reset),
    "pause": Command(
        "QUEUE", "Stop running jobs from a queue. It still accepts new jobs.", 1, 1, Commands.pause
    ),
    "drain": Command(
        "QUEUE", "Stop accepting new jobs in a queue. Its remaining jobs still run.", 1, 1, Commands.drain
    ),
    "resume": Command("QUEUE", "Resume a paused or draining queue.", 1, 1, Commands.resume),
    "kill": Command(
        "WORKER [gently]",
        "Stop a worker of this manager at once, or gently when its jobs are done.",
        1,
        2,
        Commands.kill,
    ),
    "dead": Command("[LIMIT]", "Show permanently failed jobs, newest first.", 0, 1, Commands.list_dead),
    "retry": Command("ID|all", "Retry failed jobs.", 1, 1, Commands.retry_dead),
    "drop": Command("ID|all", "Delete failed jobs.", 1, 1, Commands.remove_dead),
    "tail": Command("[WORD…]", "Show live events that contain all of the words. Ctrl-C stops.", 0, 8),
    "stats": Command(
        "[HOURS]", "Show jobs, failures, feed checks and wait times by hour.", 0, 1, Commands.show_stats
    ),
    "reload": Command("", "Reload the settings file, as SIGHUP does.", run=Commands.reload),
    "words": Command("", "List all names, for completion.", run=Commands.list_words),
}


def find_command(words: Sequence[str], *, count: bool = True) -> Command:
    """Return the row of a command.

    Args:
        words: The command and its arguments.
        count: Whether to check the number of arguments.

    Raises:
        InvalidError: The command doesn't exist, or has too few or too many arguments.
    """
    command = TABLE.get(words[0]) if words else None
    if command is None:
        name = words[0] if words else ""
        raise InvalidError(f"“{name}” isn't a command. Type “help” to list all commands.")
    if count and not command.min_args <= len(words) - 1 <= command.max_args:
        raise InvalidError(f"Usage: {words[0]} {command.usage}".rstrip() + ".")
    return command


def _target(text: str) -> tuple[str, str]:
    name, dot, key = text.partition(".")
    if not (name and dot and key):
        raise InvalidError(f"“{text}” isn't a setting. Use NAME.KEY, such as feed-pull.max_workers.")
    return name, key


def _one_or_all(text: str) -> str | None:
    return None if text == ALL else text


def _number(args: Sequence[str], usual: int, limit: int, what: str) -> int:
    if not args:
        return usual
    if not (args[0].isascii() and args[0].isdigit() and 1 <= int(args[0][:9]) <= limit):
        raise InvalidError(
            f"“{args[0][:40]}” isn't a valid number of {what}. Enter a number from 1 to {limit}."
        )
    return int(args[0])
