"""The download of CIFAR-10 from the launcher: its progress, its end, its failures, and its thread."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from fakes import FakeSampler, FakeSession, screen_text, seed_cnn, settle
from kept_runs import until
from textual.pilot import Pilot

from tuitrain import paths
from tuitrain.config import ConfigError, RunConfig
from tuitrain.events import BYTES, Progress
from tuitrain.recipes import load_recipe
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.launch.fetch import Fetch
from tuitrain.tui.widgets.launcher import Launcher

SIZES = [(80, 24), (120, 40), (200, 60)]
TOTAL = 170_498_071
BOUND = 60.0


class Interrupted(Exception):
    """As the engine's own."""


class FakeDownload:
    """Goes on when it is told to: by a progress, by "done", or by an error."""

    def __init__(self) -> None:
        self.started = 0
        self._go = threading.Condition()
        self._next: list[Progress | Exception | str] = []

    def say(self, what: Progress | Exception | str) -> None:
        with self._go:
            self._next.append(what)
            self._go.notify()

    def __call__(self, ending: Callable[[], bool]) -> Iterator[Progress]:
        self.started += 1
        while True:
            with self._go:
                self._go.wait_for(lambda: bool(self._next), 0.01)
                what = self._next.pop(0) if self._next else None
            if ending():
                raise Interrupted
            if isinstance(what, Exception):
                raise what
            if isinstance(what, Progress):
                yield what
            elif what == "done":
                put_on_disk()
                return


def put_on_disk() -> None:
    folder = paths.cifar10_dirs()[0]
    folder.mkdir(parents=True)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (folder / name).touch()


def at(megabytes: int) -> Progress:
    return Progress(phase="downloading CIFAR-10", done=megabytes * 10**6, total=TOTAL, unit=BYTES)


def make(session: FakeSession, sampler: FakeSampler, download: FakeDownload | None, config: RunConfig | None = None) -> TuitrainApp:
    return TuitrainApp(session, sampler, config or seed_cnn(), Path("runs"), download=download)


async def shows(pilot: Pilot[None], text: str) -> None:
    """Wait until the screen, redrawn as by its beat, shows `text`."""
    app = pilot.app
    assert isinstance(app, TuitrainApp)

    def there() -> bool:
        app.main.beat()
        return text in screen_text(app)

    await until(pilot, there)


def footer(app: TuitrainApp) -> str:
    return screen_text(app).rstrip().splitlines()[-1]


@pytest.fixture
def download() -> FakeDownload:
    return FakeDownload()


@pytest.mark.parametrize("size", SIZES)
async def test_f_fetches_with_progress_and_takes_the_data(
    session: FakeSession, sampler: FakeSampler, download: FakeDownload, size: tuple[int, int]
) -> None:
    app = make(session, sampler, download)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert "f fetches CIFAR-10, 170 MB" in screen_text(app)
        await pilot.press("f")
        await pilot.pause()
        assert "CIFAR-10: connecting… · f cancels" in screen_text(app)
        download.say(at(9))
        await shows(pilot, "─   9/170 MB · f cancels")
        download.say(at(83))
        await shows(pilot, "downloading CIFAR-10 ━━━━━━━━━╸──────────  83/170 MB · f cancels")
        download.say(Progress(phase="unpacking CIFAR-10"))
        await shows(pilot, "unpacking CIFAR-10… · f cancels")
        download.say("done")
        # The files are there a moment before the download has ended.
        await until(pilot, lambda: app.fetch.state == "arrived")
        await shows(pilot, "from disk: 50,000 images")
        await until(pilot, lambda: "f CIFAR-10" not in screen_text(app))
        text = screen_text(app)
        assert "--data cifar10" in text
        assert "Enter trains seed-cnn on cpu with CIFAR-10, from disk" in text
        assert "f fetches" not in text
        await pilot.press("f")
        assert download.started == 1
        await pilot.press("enter")
        assert session.started[0].data == "cifar10"


async def test_f_again_cancels_and_it_can_be_had_again(session: FakeSession, sampler: FakeSampler, download: FakeDownload) -> None:
    app = make(session, sampler, download)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        download.say(at(83))
        await shows(pilot, "83/170 MB")
        await pilot.press("f")
        await shows(pilot, "f fetches CIFAR-10, 170 MB")
        assert app.fetch.state == "cancelled"
        assert not app.main.query_one(Launcher).form.errors
        assert app.fetch.join(BOUND)
        await pilot.press("f")
        assert download.started == 2
        download.say("done")
        await shows(pilot, "from disk: 50,000 images")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConfigError("data: CIFAR-10 could not be downloaded: no route; try again."), "✗ data: CIFAR-10 could not be downloaded: no route"),
        (ModuleNotFoundError("No module named 'torch'"), "✗ data: No module named 'torch'"),
        (OSError("[/red]深\x1b]52;c;eA==\x1b\\\x9b2J\u202e\nsecond line"), "✗ data: [/red]深·]52;c;eA=="),
        (ValueError(""), "✗ data: ValueError"),
    ],
)
async def test_an_error_is_one_sentence_beside_the_data(
    session: FakeSession, sampler: FakeSampler, download: FakeDownload, error: Exception, said: str
) -> None:
    app = make(session, sampler, download)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        download.say(error)
        await shows(pilot, said)
        text = screen_text(app)
        assert "second line" not in text
        assert "Traceback" not in text
        assert not set("\x1b\x9b\u202e") & set(text)
        assert "f fetches CIFAR-10, 170 MB" in text
        # It stands in nobody's way.
        await pilot.press("enter")
        assert session.started == [seed_cnn()]


async def test_an_error_does_not_stand_beside_data_of_ones_own(session: FakeSession, sampler: FakeSampler, download: FakeDownload) -> None:
    app = make(session, sampler, download)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.press("f")
        app.main.query_one(Launcher).form.set_text("data", "/imgs")
        download.say(ConfigError("data: CIFAR-10 could not be downloaded: no route; try again."))
        await shows(pilot, "CIFAR-10 could not be downloaded: no route")
        assert not app.main.query_one(Launcher).form.errors
        assert "✗ data" not in screen_text(app)


async def test_it_goes_on_while_a_run_trains(session: FakeSession, sampler: FakeSampler, download: FakeDownload) -> None:
    app = make(session, sampler, download)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.press("f", "enter")
        session.begin()
        session.steps(50)
        await settle(pilot)
        download.say(at(100))
        await pilot.press("n")
        await shows(pilot, "100/170 MB · f cancels")
        assert "a run is training" in screen_text(app)
        await pilot.press("t")
        download.say("done")
        await shows(pilot, "CIFAR-10 is on disk.")
        session.end()
        await pilot.press("n")
        await shows(pilot, "from disk: 50,000 images")


async def test_a_start_waits_for_the_data_that_it_wants(session: FakeSession, sampler: FakeSampler, download: FakeDownload) -> None:
    app = make(session, sampler, download, msgspec.structs.replace(seed_cnn(), data="cifar10"))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.press("f", "enter")
        await shows(pilot, "CIFAR-10 is still on its way")
        assert "Enter trains seed-cnn on cpu with CIFAR-10, when it has come" in screen_text(app)
        assert re.search(r" data +cifar10 +on its way", screen_text(app))
        assert not session.started
        download.say("done")
        await shows(pilot, "from disk: 50,000 images")
        await pilot.press("enter")
        assert len(session.started) == 1


async def test_what_the_person_chose_meanwhile_stays(session: FakeSession, sampler: FakeSampler, download: FakeDownload) -> None:
    app = make(session, sampler, download)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f", "down", "left", *"/imgs")
        download.say("done")
        await until(pilot, lambda: app.fetch.state == "arrived")
        await pilot.pause()
        form = app.main.query_one(Launcher).form
        assert form.config.data == "/imgs"
        await pilot.press("enter")
        assert session.started[0].data == "/imgs"


async def test_nothing_is_offered_where_it_is_there_or_of_no_use(
    session: FakeSession, sampler: FakeSampler, download: FakeDownload
) -> None:
    own = [msgspec.structs.replace(seed_cnn(), data=data) for data in ("/imgs", "mine:images")]
    for config in (load_recipe("random-linear"), *own):
        app = make(session, sampler, download, config)
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause()
            assert "fetches" not in screen_text(app)
            assert "CIFAR-10" not in footer(app)
            await pilot.press("f")
            assert download.started == 0
    put_on_disk()
    app = make(session, sampler, download)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "fetches" not in screen_text(app)
        assert "CIFAR-10, from disk" in screen_text(app)
        await pilot.press("f")
        assert download.started == 0
    app = make(session, sampler, None)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        assert app.fetch.state == "idle"


async def test_what_came_to_the_disk_by_another_way_is_seen(session: FakeSession, sampler: FakeSampler, download: FakeDownload) -> None:
    app = make(session, sampler, download)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        put_on_disk()
        session.end()
        await settle(pilot)
        await pilot.press("n")
        await shows(pilot, "CIFAR-10, from disk")


@pytest.mark.parametrize("moment", ["connecting", "downloading"])
async def test_quitting_ends_the_thread(session: FakeSession, sampler: FakeSampler, download: FakeDownload, moment: str) -> None:
    app = make(session, sampler, download)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        if moment == "downloading":
            download.say(at(50))
            await shows(pilot, "50/170 MB")
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running
    assert app.fetch.join(BOUND)
    assert app.fetch.state == "cancelled"
    assert not [thread for thread in threading.enumerate() if thread.name == "tuitrain-fetch"]


def test_the_end_of_waiting_is_bounded() -> None:
    release = threading.Event()

    def stuck(_ending: Callable[[], bool]) -> Iterator[Progress]:
        release.wait(BOUND)
        return iter(())

    fetch = Fetch(stuck)
    assert fetch.join(0)
    fetch.start()
    fetch.cancel()
    begin = time.monotonic()
    assert not fetch.join(0.05)
    assert time.monotonic() - begin < BOUND / 2
    release.set()
    assert fetch.join(BOUND)


def test_only_a_new_phase_wakes_the_screen() -> None:
    woken: list[str] = []
    fetch = Fetch(lambda _: iter([at(1), at(2), at(3), Progress(phase="unpacking CIFAR-10")]))
    fetch.listen(lambda: woken.append(fetch.progress.phase if fetch.progress else ""))
    fetch.start()
    assert fetch.join(BOUND)
    assert woken == ["downloading CIFAR-10", "unpacking CIFAR-10", "unpacking CIFAR-10"]
    assert fetch.state == "arrived"
