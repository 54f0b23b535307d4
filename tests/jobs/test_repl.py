"""`eventr repl` as people and scripts use it: on a real manager with real workers."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import redis

from app.commands.repl import execute
from app.commands.repl.link import ManagerClient, make_local_dial
from app.config import Settings
from app.errors import InvalidError, StartupError, StoreError
from app.models.jobs.jobs import Job, Queue, State, Task
from queue_manager import groups
from queue_manager.control import listen
from queue_manager.control.commands import TABLE
from queue_manager.groups import OF_GROUPS
from tests.jobs import repl, support
from tests.jobs.conftest import Engine

Eventually = Callable[..., Any]


@pytest.fixture
def engine(engine: Engine, eventually: Eventually) -> Engine:
    """The running manager, when it can be talked to and its workers are ready."""
    eventually(lambda: listen.list_running(engine.settings) == [engine.manager.pid])
    eventually(lambda: {w["state"] for w in _workers(engine)} == {"ready"})
    return engine


def _workers(engine: Engine, group: str | None = None) -> list[dict[str, Any]]:
    workers = repl.ask(engine.settings, "status")["workers"]
    return [worker for worker in workers if group in (None, worker["group"])]


def _queue(engine: Engine, name: str) -> dict[str, Any]:
    found: dict[str, Any] = repl.values(repl.ask(engine.settings, "queues"), "name")[name]
    return found


def _sleep(engine: Engine, seconds: float, key: int, queue: Queue = Queue.PULL) -> str:
    return engine.jobs.enqueue(Job(Task.SLEEP, {"seconds": seconds, "key": key}, queue)).id


def test_status_shows_workers_with_age_jobs_memory_and_what_they_run(
    engine: Engine, eventually: Eventually
) -> None:
    job_id = _sleep(engine, 25, key=101)
    eventually(lambda: engine.jobs.get_status(job_id).state is State.STARTED)
    # The worker tells its manager beside telling Redis, and is measured four times a second.
    (worker,) = eventually(lambda: [w for w in _workers(engine, "feeds") if w["current"] and w["rss_mb"]])
    status = repl.ask(engine.settings, "status")
    assert status["pid"] == engine.manager.pid
    assert {group["name"] for group in status["groups"]} >= {"feeds", "suspects"}
    assert worker["pid"] in support.pids(engine.manager, "feeds")
    assert worker["age_s"] > 0
    assert worker["rss_mb"] > 10
    (running,) = worker["current"]
    assert (running["id"], running["task"]) == (job_id, "selftest.sleep")
    text = repl.run(engine.settings, "-c", "status").stdout
    (line,) = [line for line in text.splitlines() if line.startswith(worker["name"])]
    assert "selftest.sleep for " in line
    assert " MB  ready " in line
    repl.ask(engine.settings, f"kill {worker['name']}")
    eventually(lambda: worker["name"] not in support.workers(engine.client))


def test_a_setting_is_changed_while_the_manager_runs(engine: Engine, eventually: Eventually) -> None:
    settings = engine.settings
    (group,) = (each for each in groups.load(settings).groups if each.name == "feeds")
    of_file = {"queues": list(group.queues), "mode": group.mode}
    of_file |= {key: getattr(group, key) for key in OF_GROUPS}
    # Another test may have changed some, of the same Redis, which this manager has yet to hear of.
    eventually(lambda: repl.ask(settings, "settings feeds")["feeds"] == of_file)
    assert repl.ask(settings, "set feed-pull.max_workers 3") == {
        "name": "feeds",
        "key": "max_workers",
        "value": 3,
    }
    done = repl.run(settings, "-c", "set feeds.min_workers 3")
    assert done.stdout == "feeds.min_workers is now 3.\n"
    eventually(lambda: len(support.pids(engine.manager, "feeds")) == 3)
    now = repl.ask(settings, "settings feeds")["feeds"]
    assert now == {**of_file, "max_workers": 3, "min_workers": 3}
    repl.ask(settings, "reset feeds.min_workers")
    now = repl.ask(settings, "settings feeds")["feeds"]
    assert now == {**of_file, "max_workers": 3}
    repl.ask(settings, "reset feed-pull.max_workers")
    assert repl.ask(settings, "settings feeds")["feeds"] == of_file
    eventually(lambda: len(support.pids(engine.manager, "feeds")) == group.max_workers)


def test_a_queue_is_paused_drained_and_resumed(engine: Engine, eventually: Eventually) -> None:
    settings = engine.settings
    assert repl.ask(settings, "pause import")["paused"]
    ticket = engine.jobs.enqueue(Job(Task.ECHO, {"key": 301}, Queue.IMPORT))
    other = engine.jobs.enqueue(Job(Task.ECHO, {"key": 302}, Queue.PULL))
    assert [o.error for o in engine.jobs.await_many([other], 30)] == [None]
    waiting = eventually(lambda: _queue(engine, "import"))
    assert (waiting["length"], waiting["paused"], waiting["running"]) == (1, True, 0)
    assert engine.jobs.get_status(ticket.id).state is State.QUEUED
    assert repl.run(settings, "-c", "drain import").stdout == "import is now paused and draining.\n"
    assert repl.run(settings, "-c", "resume import").stdout == "import is now open.\n"
    assert [o.error for o in engine.jobs.await_many([ticket], 30)] == [None]
    assert not _queue(engine, "import")["paused"]


def test_a_worker_is_killed_and_its_job_goes_on(engine: Engine, eventually: Eventually) -> None:
    job = Job(Task.SLEEP, {"seconds": 3, "key": 401}, Queue.PULL)
    # If it has ended while nobody looked, it runs again.
    (worker,) = eventually(
        lambda: engine.jobs.enqueue(job) and [w for w in _workers(engine, "feeds") if w["current"]]
    )
    ticket = engine.jobs.enqueue(job)
    done = repl.run(engine.settings, "-c", f"kill {worker['name']}")
    assert done.stdout == (
        f"{worker['name']} (process {worker['pid']}) is being killed; its jobs go back to the queue.\n"
    )
    assert [o.error for o in engine.jobs.await_many([ticket], 60)] == [None]
    assert engine.jobs.get_status(ticket.id).crashes == 0
    eventually(lambda pid=worker["pid"]: not support.is_alive(pid))
    (worker,) = eventually(lambda: _workers(engine, "feeds"))
    assert (
        "will stop when its jobs are done"
        in repl.run(engine.settings, "-c", f"kill {worker['name']} gently").stdout
    )
    eventually(lambda: not support.is_alive(worker["pid"]))


def test_dead_tasks_are_shown_retried_and_dropped(engine: Engine, eventually: Eventually) -> None:
    settings = engine.settings
    wanted = [Job(Task.CRASH, {"how": "feed", "key": key}, Queue.PULL) for key in (501, 502, 503)]
    tickets = engine.jobs.enqueue_many(wanted)
    assert [o.error for o in engine.jobs.await_many(tickets, 60)] == ["not_a_feed"] * 3
    ids = {ticket.id for ticket in tickets}
    dead = [task for task in repl.ask(settings, "dead") if task["id"] in ids]
    assert {(t["task"], t["queue"], t["error"], t["failures"]) for t in dead} == {
        ("selftest.crash", "feed-pull", "not_a_feed", 1)
    }
    assert [line["error"] for line in dead[0]["history"]] == ["not_a_feed"]
    assert len(repl.ask(settings, "dead 1")) == 1
    text = repl.run(settings, "-c", "dead").stdout
    assert all(f"\n{job_id}  " in text for job_id in ids)

    first, second, _ = tickets
    assert repl.run(settings, "-c", f"drop {first.id}").stdout == "1 job deleted.\n"
    assert engine.jobs.get_status(first.id).state is State.MISSING
    mistyped = repl.run(settings, "-c", f"drop {first.id}")
    assert (mistyped.returncode, mistyped.stdout) == (1, "")
    assert f"There's no failed job {first.id}" in mistyped.stderr
    assert repl.ask(settings, f"retry {second.id}") == {"retried": 1}
    eventually(lambda: support.ends(engine.client)[second.id] == 2)
    assert repl.ask(settings, "drop all")["dropped"] >= 1
    assert [task for task in repl.ask(settings, "dead") if task["id"] == tickets[2].id] == []


def test_the_settings_file_is_read_again(engine: Engine) -> None:
    path = engine.settings.queues_file
    assert path is not None
    before = path.read_text()
    try:
        changed = before.replace("[suspects]", "[suspects]\nlifetime = 77")
        path.write_text(changed)
        assert "suspects" in repl.ask(engine.settings, "reload")["groups"]
        assert repl.ask(engine.settings, "settings suspects")["suspects"]["lifetime"] == 77
        path.write_text(changed.replace(', "import"', ""))
        for command in ("reload", "status"):
            text = repl.run(engine.settings, "-c", command).stdout
            others = "articles,articles-sys,media-fetch,media-fetch-sys,index,media,media-sys,maintenance"
            assert f"No group of this manager serves import,{others}." in text
        path.write_text("[feeds")
        done = repl.run(engine.settings, "-c", "reload")
        assert (done.returncode, done.stdout) == (1, "")
        assert "can't read" in done.stderr
        assert repl.ask(engine.settings, "settings suspects")["suspects"]["lifetime"] == 77
    finally:
        path.write_text(before)
        repl.ask(engine.settings, "reload")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nonsense", "“nonsense” isn't a command. Type “help” to list all commands."),
        ("status now", "Usage: status."),
        ("set feeds.max_workers", "Usage: set NAME.KEY VALUE."),
        ("set feeds 3", "“feeds” isn't a setting. Use NAME.KEY"),
        ("set feeds.colour red", "colour isn't a setting"),
        ("set nobody.max_workers 3", "nobody"),
        ("set feeds.max_workers many", "feeds.max_workers"),
        ("set feeds.max_workers 0", "feeds.max_workers"),
        ("pause nothing", "nothing isn't a queue"),
        ("kill nobody", "doesn't have a worker named nobody"),
        ("kill x softly", "“softly” isn't an option of this command"),
        ("dead -1", "“-1” isn't a valid number of jobs. Enter a number from 1 to 1000"),
        ("dead 1e3", "“1e3” isn't a valid number of jobs"),
        ("stats 49", "isn't a valid number of hours. Enter a number from 1 to 48"),
        ("settings nobody", "nobody isn't a group or queue"),
        ("help nonsense", "“nonsense” isn't a command"),
        ('pause "import', "A quotation mark isn't closed."),
    ],
)
def test_what_does_not_fit_is_one_sentence_and_exit_code_1(engine: Engine, line: str, words: str) -> None:
    done = repl.run(engine.settings, "--json", "-c", line)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("eventr: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_several_commands_end_at_the_first_error(engine: Engine) -> None:
    done = repl.run(
        engine.settings, "--json", "-c", "queues", "-c", "help status", "-c", "nonsense", "-c", "queues"
    )
    assert done.returncode == 1
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert repl.values(first, "name").keys() == set(map(str, Queue))
    assert second == [{"usage": "status", "text": TABLE["status"].text}]


def test_commands_are_read_from_a_pipe_and_each_is_answered_before_the_next(engine: Engine) -> None:
    text = "# who is there?\nhelp help\n\n  queues  # all\n"
    done = repl.run(engine.settings, given=text)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("help [COMMAND]  List the commands.\nqueue ")
    with subprocess.Popen(
        [*repl.EVENTR, "--json"],
        cwd=support.REPO,
        env=repl.environment(engine.settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as talking:
        assert talking.stdin is not None
        assert talking.stdout is not None
        for name in ("pause", "resume"):
            print(name, "maintenance", file=talking.stdin, flush=True)
            assert json.loads(talking.stdout.readline())["paused"] is (name == "pause")
        talking.stdin.close()
        assert talking.wait(20) == 0


def test_tail_shows_events_as_they_happen_until_ctrl_c(engine: Engine, eventually: Eventually) -> None:
    before = engine.manager.log.read_text().count("command=tail")
    with subprocess.Popen(
        [*repl.EVENTR, "--json", "-c", "tail selftest.echo finished"],
        cwd=support.REPO,
        env=repl.environment(engine.settings),
        stdout=subprocess.PIPE,
        text=True,
    ) as tail:
        assert tail.stdout is not None
        eventually(lambda: engine.manager.log.read_text().count("command=tail") > before)
        ids = []
        for key in range(601, 604):
            engine.jobs.enqueue(Job(Task.SLEEP, {"seconds": 0, "key": key}, Queue.PULL))
            ids.append(engine.jobs.enqueue(Job(Task.ECHO, {"key": key}, Queue.PULL)).id)
            event = json.loads(tail.stdout.readline())
            assert (event["kind"], event["id"], event["queue"]) == ("finished", ids[-1], "feed-pull")
        tail.send_signal(signal.SIGINT)
        assert tail.wait(20) == 130
    eventually(lambda: repl.ask(engine.settings, "queues"))


def test_tail_into_a_program_that_ends_is_no_fault(engine: Engine) -> None:
    with subprocess.Popen(
        [*repl.EVENTR, "-c", "tail"],
        cwd=support.REPO,
        env=repl.environment(engine.settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        key = 700
        tail.stdout.close()
        while tail.poll() is None:
            key += 1
            list(engine.jobs.await_many([engine.jobs.enqueue(Job(Task.ECHO, {"key": key}, Queue.PULL))], 5))
        assert tail.stderr.read() == ""


def test_without_a_manager_the_sentence_says_what_to_start(settings: Settings) -> None:
    done = repl.run(settings, "-c", "status")
    assert (done.returncode, done.stdout) == (1, "")
    assert "No manager is running here. Start one with 'eventr up' or 'eventr manager'" in done.stderr
    assert repl.run(settings, "--list").stdout == "No manager is running here.\n"
    assert (
        "No manager is running as process 7." in repl.run(settings, "--manager", "7", "-c", "status").stderr
    )


def test_of_several_managers_one_is_chosen(
    settings: Settings, redis_client: redis.Redis, eventually: Eventually
) -> None:
    with (
        support.running("queue_manager.main", settings, "one") as one,
        support.running("queue_manager.main", settings, "two") as two,
    ):
        pids = sorted([one.pid, two.pid])
        eventually(lambda: listen.list_running(settings) == pids)
        done = repl.run(settings, "-c", "status")
        assert done.returncode == 1
        told = f"2 managers are running here (processes {pids[0]}, {pids[1]}). Choose one with --manager."
        assert told in done.stderr
        for pid in pids:
            chosen = repl.run(settings, "--manager", str(pid), "--json", "-c", "status")
            assert json.loads(chosen.stdout)["pid"] == pid
        listed = json.loads(repl.run(settings, "--list", "--json").stdout)
        assert [row["pid"] for row in listed] == pids
        text = repl.run(settings, "--list").stdout
        assert all(f"\n{pid} " in text for pid in pids)
        # What one is told holds for both: it is kept in Redis.
        repl.run(settings, "--manager", str(one.pid), "-c", "set feeds.max_jobs 77")
        other = ("--manager", str(two.pid), "--json", "-c", "settings feeds")
        eventually(lambda: json.loads(repl.run(settings, *other).stdout)["feeds"]["max_jobs"] == 77)
        assert one.stop() == 0
        assert listen.list_running(settings) == [two.pid]
        assert repl.ask(settings, "status")["pid"] == two.pid
    assert list(listen.get_folder(settings).iterdir()) == []


def test_a_manager_without_redis_still_says_how_it_is(settings: Settings, eventually: Eventually) -> None:
    away = dataclasses.replace(settings, redis_url=f"unix://{settings.home}/nobody.sock")
    with support.running("queue_manager.main", away, "manager") as manager:
        eventually(lambda: listen.list_running(away) == [manager.pid])
        assert repl.ask(away, "status")["workers"] == []
        for line in ("queues", "stats", "pause import", "dead"):
            done = repl.run(away, "-c", line)
            assert done.returncode == 1
            assert (
                done.stderr
                == "eventr: The database isn't responding. Nothing was lost. Try again in a minute.\n"
            )
        assert "outcome=store_unavailable" in repl.audit(manager)[-1]


def test_what_a_killed_manager_was_asked_is_not_known(
    settings: Settings, redis_client: redis.Redis, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    with support.running("queue_manager.main", settings, "manager") as manager:
        eventually(lambda: listen.list_running(settings) == [manager.pid])
        line = ManagerClient(make_local_dial(settings, None))
        line.connect()
        # Frozen, it cannot answer before it is killed, and that is when it has been asked.
        manager.popen.send_signal(signal.SIGSTOP)
        read = line._read

        def killed(timeout: float | None) -> dict[str, Any]:
            manager.popen.kill()
            return read(timeout)

        monkeypatch.setattr(line, "_read", killed)
        with pytest.raises(StoreError, match="The command may or may not have run"):
            line.run_command(["status"])
        manager.popen.wait(20)
        # Its socket is still there, and nobody listens.
        assert listen.get_socket_path(settings, manager.pid).exists()
        with pytest.raises(StartupError, match="No manager is running here"):
            line.run_command(["status"])


def test_a_restarted_manager_is_found_again(
    settings: Settings, redis_client: redis.Redis, eventually: Eventually
) -> None:
    line = ManagerClient(make_local_dial(settings, None))
    for name in ("first", "second"):
        with support.running("queue_manager.main", settings, name) as manager:
            eventually(lambda pid=manager.pid: listen.list_running(settings) == [pid])
            assert line.connect() is (name == "second")
            assert line.run_command(["status"])["pid"] == manager.pid
    line.close()


def test_words_are_split_as_a_shell_does() -> None:
    assert execute.split_words("  kill  'a b' gently # now") == ["kill", "a b", "gently"]
    assert execute.split_words("# nothing") == []
    with pytest.raises(InvalidError, match="A quotation mark isn't closed"):
        execute.split_words("'")
