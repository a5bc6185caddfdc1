"""JupyterLab on a free port and a headless Chromium, both private to the test run."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from chromium import CHROMIUM
from playwright.sync_api import sync_playwright
from reader import Notebook

ROOT = Path(__file__).parent.parent.parent
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip


@pytest.fixture(scope="session")
def chromium_path():
    if CHROMIUM is None:
        advice = "no Chromium found: install it (Debian: apt install chromium) to run the browser tests"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(advice)
    return CHROMIUM


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """Serve copies of the notebooks; yield the folder and a function from notebook name to address."""
    home = tmp_path_factory.mktemp("jupyter")
    folder = home / "notebooks"
    shutil.copytree(ROOT / "notebooks", folder, ignore=shutil.ignore_patterns(".*", "saved"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    for plugin, settings in (
        ("apputils-extension/notification", '{"fetchNews": "false", "checkForUpdates": false}'),
        ("docmanager-extension/plugin", '{"autosave": false}'),  # of several pages: asks which to keep
    ):
        file = home / f"settings/@jupyterlab/{plugin}.jupyterlab-settings"
        file.parent.mkdir(parents=True)
        file.write_text(settings)
    places = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")} | {
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1",
               f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={folder}"]  # fmt: skip
    log = home / "lab.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            command, env={**os.environ, **places, "JUPYTER_TOKEN": token}, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            deadline = time.monotonic() + 60
            while True:
                with contextlib.suppress(urllib.error.URLError, ConnectionError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/api?token={token}", timeout=5).close()
                    break
                assert server.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            yield folder, lambda name: f"http://127.0.0.1:{port}/lab/tree/{name}?token={token}&reset"
        finally:
            server.terminate()
            server.wait(15)


@pytest.fixture(scope="session")
def chromium(chromium_path):
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium_path, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def opened(lab, chromium):
    """Return a function from a notebook's name to that notebook, run once from top to bottom without an error.

    One is open at a time: asked for another, it closes the page and ends the kernel, which may still be simulating.
    """
    shown = {}

    def open_notebook(name):
        if name not in shown:
            for notebook in shown.values():
                notebook.close()
            shown.clear()
            shown[name] = Notebook(chromium.new_page(viewport={"width": 1400, "height": 1100}), lab[1](f"{name}.ipynb"))
            shown[name].run_all()
            assert shown[name].errors() == []
        return shown[name]

    return open_notebook
