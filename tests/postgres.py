"""PostgreSQL server for tests, from the wheel pgserver, which contains the programs."""

import os
import shutil
import signal
import tempfile
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest


class Server:
    """A running server that can be killed and started again."""

    def __init__(self, folder):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of where it keeps its own lock
            pgserver = pytest.importorskip(
                "pgserver", reason="there is no wheel of pgserver for this platform"
            )
            self._pgserver = pgserver.get_server(folder, cleanup_mode="stop")
        self.folder = Path(folder)

    @property
    def url(self):
        return self.url_of("postgres")

    def url_of(self, user, password="", database="postgres"):
        return f"postgresql+psycopg://{user}:{password}@/{database}?host={self.folder}"

    def sql(self, statement, user="postgres"):
        """Run statements as a role, committed one by one; the rows of the last."""
        with psycopg.connect(
            host=str(self.folder), user=user, dbname="postgres", autocommit=True
        ) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def kill(self):
        """Kill all processes at once, as a power failure does."""
        postmaster = int((self.folder / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGKILL)
        # Its children notice, and have to be gone before it can start again.
        for child in self._pgserver._postmaster_info.process.children():
            with suppress(Exception):
                child.kill()
                child.wait(5)

    def start(self):
        for _ in range(50):
            with suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._pgserver.ensure_postgres_running()
                self.sql("SELECT 1")
                return
            time.sleep(0.2)
        raise RuntimeError("the server did not start again")

    def stop(self):
        self._pgserver.cleanup()


@contextmanager
def running_server():
    # Not in pytest's own folders, which the user that the server runs as may not enter.
    folder = tempfile.mkdtemp(prefix="skdirdp-postgres-")
    server = None
    try:
        server = Server(folder)
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
