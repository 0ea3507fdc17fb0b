"""Ledgers in a PostgreSQL database: many budgets, and analysts on many machines.

Triggers and the roles of `roles_sql` let analysts add charges only under their own name. A writing
transaction locks the head of the budget and uses ``synchronous_commit``, so a charge is on disk
when `charge` returns. If a connection is lost before the commit was sent, nothing was written, and
the charge is retried. If it is lost during the commit, a new connection waits for the lock, which
the server releases only when the old transaction has ended, and looks for the charge. If the server
cannot be reached, an error is raised: the charge may be recorded, but nothing is released.
"""

import os
import re
import selectors
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timezone
from functools import lru_cache
from importlib.resources import files
from types import FrameType
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from ..reporting.redact import without_password
from . import schema
from .sqlite import BUSY_SECONDS, GATE

#: Name of a budget if the accountant has no name.
DEFAULT_NAME = "default"

_RECONNECT_SECONDS = 10.0
# Seconds after the first Ctrl-C from which another Ctrl-C interrupts immediately.
_INTERRUPT_DELAY_SECONDS = 3.0
_ALREADY_EXISTS_STATES = ("42P06", "23505")  # duplicate_schema and unique_violation
# After this time, the server releases the lock of an unresponsive client.
_IDLE_SECONDS = 300.0
# Timeout for a response. Longer than the lock timeout, which the server reports itself.
_RESPONSE_SECONDS = BUSY_SECONDS + 15.0
_CONNECT = {
    "connect_timeout": 10,
    "prepare_threshold": None,  # a connection pooler may not support prepared statements
    # A server that disappears without closing the connection must not block a charge forever.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
_DRIVERS = ("postgresql", "postgresql+psycopg")
# Parameters allowed in the query of a URL: none of them is secret or specific to the driver.
# The timeouts of `_CONNECT` override the URL.
_PARAMETER = re.compile(
    r"host|hostaddr|port|user|dbname|password|application_name|fallback_application_name|options"
    r"|service|target_session_attrs|load_balance_hosts|channel_binding|require_auth|requirepeer"
    r"|ssl(mode|cert|key|rootcert|crl|crldir|sni|certmode|negotiation|compression)"
    r"|ssl_(min|max)_protocol_version|gssencmode|gsslib|krbsrvname"
    r"|connect_timeout|keepalives(_idle|_interval|_count)?|tcp_user_timeout"
)

_FUNCTIONS_AND_TRIGGERS = schema.read_sql("postgres_triggers.sql")

# Sent as one message. Settings are local to the transaction, so that a connection pooler can be
# used. READ COMMITTED: reads after the lock was obtained see what the last transaction that held
# the lock wrote.
_BEGIN = f"""
    BEGIN ISOLATION LEVEL READ COMMITTED;
    SELECT set_config('search_path', 'skdirdp, pg_temp', true),
        set_config('lock_timeout', '{BUSY_SECONDS:.0f}s', true),
        set_config('idle_in_transaction_session_timeout', '{_IDLE_SECONDS:.0f}s', true),
        set_config('synchronous_commit', CASE current_setting('synchronous_commit')
            WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)
"""


def roles_sql() -> str:
    """Return the SQL that creates the analyst and auditor roles, to be run with ``psql``.

    The owner of the ledgers runs it once, after creating the first ledger.

    Examples
    --------
    >>> from skdirdp.accountant.postgres import roles_sql
    >>> print(roles_sql())
    -- Permissions for the ledgers of this database...
    """
    return files(__package__).joinpath("postgres_roles.sql").read_text(encoding="utf-8")


# Connections -------------------------------------------------------------------------


class ServerTimeoutError(psycopg.OperationalError):
    """The server did not respond in time. The connection is closed."""


class _Connection(psycopg.Connection[Any]):
    """Connection with a client-side timeout, because a suspended server keeps the socket open."""

    def wait(self, gen: Any, *_: Any, **__: Any) -> Any:
        try:
            events = next(gen)
            with selectors.DefaultSelector() as selector:
                selector.register(self.pgconn.socket, events)
                while True:
                    ready = selector.select(_RESPONSE_SECONDS)
                    if not ready:
                        raise ServerTimeoutError(
                            f"the server did not respond within {_RESPONSE_SECONDS:g} seconds"
                        )
                    events = gen.send(ready[0][1])
                    selector.modify(self.pgconn.socket, events)
        except StopIteration as end:
            return end.value
        except (ServerTimeoutError, KeyboardInterrupt):
            self.pgconn.finish()
            raise


def _parse_url(location: str) -> tuple[URL, str | None]:
    """Return the URL without its password, and the password."""
    try:
        url = make_url(location)
    except (ArgumentError, ValueError):
        form = "postgresql+psycopg://user@host/database"
        raise schema.LedgerError(f"the URL of a ledger cannot be parsed; use {form}") from None
    if url.drivername not in _DRIVERS:
        raise schema.LedgerError(
            f"the URL of a ledger must start with {_DRIVERS[1]}://; got {url.drivername}://"
        )
    if not all(map(_PARAMETER.fullmatch, url.query)):
        raise schema.LedgerError(
            "the URL of a ledger cannot be used: it has a parameter that is unknown or could "
            "be secret. Use lower-case parameters of libpq such as host, port and sslmode. The "
            "password may come from ~/.pgpass"
        )
    in_query = url.query.get("password")
    password = url.password or (in_query if isinstance(in_query, str) else None)
    url = url.difference_update_query(["password"])
    values = [value if isinstance(value, str) else " ".join(value) for value in url.query.values()]
    # The directory of a Unix socket may have any name.
    shown = (url.host, url.database, *(value for value in values if not value.startswith("/")))
    if ":" in f"{url.username}{url.database}" or any(
        "@" in part or "=***" in without_password(part) for part in shown if part
    ):
        raise schema.LedgerError(
            "the URL of a ledger cannot be used: the end of its password is ambiguous. "
            "Write the characters : / @ of a password as %3A %2F %40"
        )
    # `URL.set` ignores values that are None.
    parts = (url.username, None, url.host, url.port, url.database, url.query)
    return URL.create(_DRIVERS[1], *parts), password


# Passwords and engines of this process, by URL without the password.
_PASSWORDS: dict[str, str] = {}
_ENGINES: dict[tuple[str, str | None], Engine] = {}
_INHERITED: list[dict[tuple[str, str | None], Engine]] = []


def _engine(url: URL, location: str) -> Engine:
    """Return the SQLAlchemy engine of this process for a database."""
    password = _PASSWORDS.get(location)
    engine = _ENGINES.get((location, password))
    if engine is None:
        engine = create_engine(
            url.set(password=password),
            isolation_level="AUTOCOMMIT",  # transactions begin and end with explicit statements
            connect_args=_CONNECT,
            pool_size=2,
            max_overflow=30,
            pool_timeout=BUSY_SECONDS,
            hide_parameters=True,
        )
        event.listen(engine, "do_connect", lambda _, __, args, kw: _Connection.connect(*args, **kw))
        engine = _ENGINES.setdefault((location, password), engine)
    return engine


def _forget_connections() -> None:
    """Forget the connections of the parent process, which a child must neither use nor close."""
    _INHERITED.append(dict(_ENGINES))
    _ENGINES.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_connections)


@contextmanager
def _delayed_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, unless it is repeated."""
    # An interrupt inside a library can leave its locks held, or a connection open that blocks
    # others.
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    received: list[tuple[float, int, FrameType | None]] = []

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        received.append((time.monotonic(), number, frame))
        if received[-1][0] - received[0][0] > _INTERRUPT_DELAY_SECONDS:
            handler(number, frame)

    try:
        signal.signal(signal.SIGINT, on_interrupt)
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            handler(*received[-1][1:])


# Storage -----------------------------------------------------------------------------


class PostgresSession(schema.Session):
    """Transaction on one ledger. Its head must be stored outside the database, as an anchor."""

    USER_AND_TIME_SQL = "CAST(session_user AS text), clock_timestamp()"

    def __init__(self, connection: Connection):
        self.connection = connection
        self._failed = False

    def execute(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        try:
            result = self.connection.execute(_statement(sql), values)
            return [tuple(row) for row in result] if result.returns_rows else []
        except BaseException:
            self._failed = True
            raise

    def commit(self) -> None:
        # After a failed statement, the server turns COMMIT into a rollback and reports no error.
        if self._failed:
            raise schema.UnusableError("an earlier statement failed, so nothing was written")
        self.connection.exec_driver_sql("COMMIT")

    def user_and_time(self, user: Any, time: Any) -> tuple[str | None, str]:
        return user, time.astimezone(timezone.utc).isoformat()

    def check_structure(self) -> None:
        rows = self.execute(
            "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
            " WHERE relnamespace = to_regnamespace('skdirdp')"
            " AND NOT tgisinternal AND tgenabled IN ('O', 'A')"
        )
        triggers = [sql for sql in _FUNCTIONS_AND_TRIGGERS if sql.startswith("CREATE TRIGGER")]
        if {name for (name,) in rows} != {sql.split()[2] for sql in triggers}:
            raise schema.UnusableError("its triggers were changed")


class PostgresStorage:
    """One budget of a database, at a URL ``postgresql+psycopg://user:password@host/database``.

    A pickle has no password. A process that loads it uses the password that it received before,
    PGPASSWORD, or ~/.pgpass.
    """

    def __init__(self, url: str, name: str | None):
        self._url, password = _parse_url(url)
        self.location = self._url.render_as_string(hide_password=False)  # it has no password
        self.name = DEFAULT_NAME if name is None else name
        if password:
            _PASSWORDS[self.location] = password

    def __reduce__(self) -> tuple[Any, ...]:
        return PostgresStorage, (self.location, self.name)

    def find(self) -> int | None:
        """Return the number of the budget, or None if it does not exist."""
        with self._ledger_errors(), self._connected() as session:
            if not _has_schema(session):
                return None
            if session.execute("SELECT to_regclass('skdirdp.layout') IS NULL") == [(True,)]:
                raise schema.UnusableError(
                    "the schema skdirdp of this database belongs to other software"
                )
            versions = session.execute("SELECT version FROM layout")
            if versions != [(schema.SCHEMA_VERSION,)]:
                stored = ", ".join(str(version) for (version,) in versions) or "none"
                raise schema.UnusableError(
                    f"its schema has version {stored}, but this version of skdirdp supports "
                    f"{schema.SCHEMA_VERSION}; use the version that wrote it, or a newer one"
                )
            rows = session.execute("SELECT id FROM ledgers WHERE name = :name", name=self.name)
            return rows[0][0] if rows else None

    def missing(self) -> str:
        return self._unusable("this database has no budget with this name")

    def create(self, header: schema.Header) -> int:
        """Create the budget, and the tables if there are none, unless another process does so."""
        with self._ledger_errors():
            try:
                return self._create(header)
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) not in _ALREADY_EXISTS_STATES:
                    raise
            return self._create(header)

    def _create(self, header: schema.Header) -> int:
        with self._connected() as session:
            if _has_schema(session):
                session.execute("LOCK TABLE ledgers IN SHARE ROW EXCLUSIVE MODE")
            else:
                session.execute("CREATE SCHEMA skdirdp")
                session.execute("CREATE TABLE layout (version INTEGER NOT NULL)")
                session.execute(
                    "INSERT INTO layout VALUES (:version)", version=schema.SCHEMA_VERSION
                )
                for statement in (*schema.TABLES, *_FUNCTIONS_AND_TRIGGERS):
                    session.execute(statement)
            rows = session.execute("SELECT id FROM ledgers WHERE name = :name", name=self.name)
            if rows:
                return rows[0][0]
            ((number,),) = session.execute("SELECT coalesce(max(id), 0) + 1 FROM ledgers")
            schema.insert_header(session, replace(header, name=self.name, number=number))
            session.commit()
            return number

    @contextmanager
    def transaction(self, number: int, *, write: bool) -> Iterator[PostgresSession]:
        """Open a transaction on one ledger; a writing transaction excludes other writers."""
        with self._ledger_errors(), self._connected(number if write else None) as session:
            yield session
            if session.head is not None:
                try:
                    session.commit()
                except DBAPIError:
                    session.connection.invalidate()  # so that the server ends the transaction
                    self._check_committed(number, session.head)

    def _check_committed(self, number: int, head: tuple[str, int, str]) -> None:
        """Use a new connection to check whether a commit succeeded whose response was lost."""
        _, id_, hash_ = head
        deadline = time.monotonic() + _RECONNECT_SECONDS
        while True:
            try:
                _engine(self._url, self.location).dispose()  # other connections may be broken too
                with self._connected(number, _RECONNECT_SECONDS) as session:
                    rows = schema.select_charges(session, number, id_ - 1, id_)
                break
            except SQLAlchemyError:
                if time.monotonic() > deadline:
                    raise schema.LedgerError(
                        self._unusable(
                            "the connection was lost while a charge was written, and the server "
                            "cannot be reached to check whether the charge was recorded. It may "
                            "count against the limit, but nothing may be released; a retry with "
                            "the same key is counted once"
                        )
                    ) from None
            time.sleep(0.2)
        if not rows or rows[0][-1] != hash_:
            raise schema.ConnectionLostError(
                self._unusable("the connection was lost, and the charge was not recorded")
            )

    @contextmanager
    def _connected(self, lock: int | None = None, wait: float | None = None) -> Iterator[Any]:
        """Open a transaction that is rolled back unless it commits."""
        # `lock` is the number of a budget to lock, and `wait` the lock timeout in seconds.
        begin = _BEGIN
        if lock is not None:
            begin += "" if wait is None else f"; SET LOCAL lock_timeout = {1000 * wait:.0f}"
            # A row lock requires the permission to update a column. An advisory lock would not:
            # any login could take it and block charges.
            begin += f"; SELECT 1 FROM skdirdp.heads WHERE ledger = {lock:d} FOR UPDATE"
        with _delayed_interrupts(), GATE.operation():
            connection = self._begin(begin)
            try:
                yield PostgresSession(connection)
            finally:
                with suppress(SQLAlchemyError):
                    connection.close()

    def _begin(self, begin: str, retry: bool = True) -> Connection:
        """Begin a transaction; if a pooled connection is broken, retry with a new one."""
        engine = _engine(self._url, self.location)
        connection = engine.connect()
        try:
            connection.exec_driver_sql(begin)
            return connection
        except DBAPIError as error:
            connection.close()
            if error.connection_invalidated:
                engine.dispose()
            if not (retry and _may_retry(error)):
                raise
        except BaseException:
            connection.close()
            raise
        return self._begin(begin, retry=False)

    @contextmanager
    def _ledger_errors(self) -> Iterator[None]:
        """Convert every error to a LedgerError with a one-line message without the password."""
        # Errors of the driver are not chained: they could show the arguments of its functions.
        try:
            yield
        except schema.UnusableError as error:
            raise schema.LedgerError(self._unusable(str(error))) from None
        except (SQLAlchemyError, psycopg.Error) as error:
            if isinstance(error, DBAPIError) and _may_retry(error):
                raise schema.ConnectionLostError(
                    self._unusable("the connection was lost, and nothing was written")
                ) from None
            raise schema.LedgerError(self._unusable(self._reason(error))) from None

    def _reason(self, error: Exception) -> str:
        cause = error.orig if isinstance(error, DBAPIError) else error
        state = getattr(cause, "sqlstate", None)
        reason = (str(cause).strip().splitlines() or [type(cause).__name__])[0].strip()
        if state == "55P03":
            return f"another process kept it locked for more than {BUSY_SECONDS:g} seconds"
        if state == "42501":
            reason += (
                ". The administrator of the database creates budgets and grants permissions. After "
                "an upgrade of skdirdp, permissions must be granted again with roles_sql()"
            )
        if "no password supplied" in reason or "fe_sendauth" in reason:
            reason += ". Pickles do not contain the password: set PGPASSWORD, or use ~/.pgpass"
        password = _PASSWORDS.get(self.location)
        return reason.replace(password, "***") if password else reason

    def _unusable(self, reason: str) -> str:
        return f"the ledger {self.name!r} in {self.location} cannot be used: {reason}"


def _may_retry(error: DBAPIError) -> bool:
    """Return whether a new connection may succeed; there is no retry after a timeout."""
    return error.connection_invalidated and not isinstance(error.orig, ServerTimeoutError)


# Cache parsed statements; there are only a few.
_statement = lru_cache(maxsize=64)(text)


def _has_schema(session: PostgresSession) -> bool:
    # Functions such as to_regnamespace may return a result from before the lock.
    return bool(session.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'skdirdp'"))
