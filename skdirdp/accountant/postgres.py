"""Ledgers in a PostgreSQL database: many budgets, and analysts on many machines.

Triggers and the roles of `roles_sql` let analysts add charges under their own name only. A writing
transaction locks the row of the budget's head, and ``synchronous_commit`` is on in each.

If a connection breaks before the commit was sent, nothing was written, and the charge is retried.
If it breaks during the commit, a new connection waits for the lock, which the server releases
only when the old transaction has ended, and looks for the charge. If the server cannot be asked,
the charge is an error: it may have been recorded, and nothing is released.
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
from .schema import (
    SCHEMA_VERSION,
    TABLES,
    ConnectionLostError,
    Header,
    LedgerError,
    UnusableError,
    insert_header,
    select_charges,
)
from .sqlite import BUSY_SECONDS, GATE

#: Name of a budget whose accountant has none.
DEFAULT_NAME = "default"

_RECONNECT_SECONDS = 10.0
# How long Ctrl-C waits for a database before a second one interrupts at once.
_PATIENCE_SECONDS = 3.0
_CREATED_MEANWHILE = ("42P06", "23505")  # the schema exists, or a row of it in the catalogue
# After this time the server releases the lock of a client that it cannot see any more.
_IDLE_SECONDS = 300.0
# How long a server may be silent. Longer than it may wait for a lock, which it reports.
_ANSWER_SECONDS = BUSY_SECONDS + 15.0
_CONNECT = {
    "connect_timeout": 10,
    "prepare_threshold": None,  # a connection pool in between may not keep statements
    # A peer that vanished silently must not hold a charge forever.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
_DRIVERS = ("postgresql", "postgresql+psycopg")
# Parameters allowed in the query of an address: none that is secret or specific to the driver.
# The timeouts of `_CONNECT` override the address.
_PARAMETER = re.compile(
    r"host|hostaddr|port|user|dbname|password|application_name|fallback_application_name|options"
    r"|service|target_session_attrs|load_balance_hosts|channel_binding|require_auth|requirepeer"
    r"|ssl(mode|cert|key|rootcert|crl|crldir|sni|certmode|negotiation|compression)"
    r"|ssl_(min|max)_protocol_version|gssencmode|gsslib|krbsrvname"
    r"|connect_timeout|keepalives(_idle|_interval|_count)?|tcp_user_timeout"
)

_FUNCTIONS = (
    """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION USING MESSAGE =
            TG_OP || ' on ' || TG_TABLE_NAME || ' is not allowed: a ledger only grows';
    END $$
    """,
    # With the rights of the owner, for the head, which nobody else may move.
    """
    CREATE FUNCTION follow() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = skdirdp, pg_temp AS $$
    BEGIN
        IF NEW.username IS DISTINCT FROM session_user AND NOT pg_has_role(session_user,
            (SELECT nspowner FROM pg_namespace WHERE nspname = 'skdirdp'), 'MEMBER')
        THEN
            RAISE EXCEPTION 'a charge has to be under the name of whoever makes it';
        END IF;
        UPDATE heads SET entries = NEW.id, hash = NEW.hash
        WHERE ledger = NEW.ledger AND entries = NEW.id - 1;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a charge has to follow the last one';
        END IF;
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION follow_charges() RETURNS trigger LANGUAGE plpgsql
    SET search_path = skdirdp, pg_temp AS $$
    BEGIN
        IF NEW.ledger <> OLD.ledger OR NEW.entries <> OLD.entries + 1 OR NOT EXISTS (
            SELECT FROM charges
            WHERE ledger = NEW.ledger AND id = NEW.entries AND hash = NEW.hash)
        THEN
            RAISE EXCEPTION 'the head of a ledger follows its charges';
        END IF;
        RETURN NEW;
    END $$
    """,
)
_TRIGGERS = {
    "charges_follow": "AFTER INSERT ON charges FOR EACH ROW EXECUTE FUNCTION follow()",
    "charges_stay": "BEFORE UPDATE OR DELETE ON charges FOR EACH ROW EXECUTE FUNCTION refuse()",
    "charges_are_kept": "BEFORE TRUNCATE ON charges EXECUTE FUNCTION refuse()",
    "heads_follow": "BEFORE UPDATE ON heads FOR EACH ROW EXECUTE FUNCTION follow_charges()",
    "heads_stay": "BEFORE DELETE ON heads FOR EACH ROW EXECUTE FUNCTION refuse()",
    "heads_are_kept": "BEFORE TRUNCATE ON heads EXECUTE FUNCTION refuse()",
    "ledgers_stay": "BEFORE UPDATE OR DELETE ON ledgers FOR EACH ROW EXECUTE FUNCTION refuse()",
    "ledgers_are_kept": "BEFORE TRUNCATE ON ledgers EXECUTE FUNCTION refuse()",
}

# One message to the server. Settings are local to the transaction, so that this also works
# through a connection pool. READ COMMITTED: reads after the lock was obtained see what its last
# holder wrote.
_BEGIN = f"""
    BEGIN ISOLATION LEVEL READ COMMITTED;
    SELECT set_config('search_path', 'skdirdp, pg_temp', true),
        set_config('lock_timeout', '{BUSY_SECONDS:.0f}s', true),
        set_config('idle_in_transaction_session_timeout', '{_IDLE_SECONDS:.0f}s', true),
        set_config('synchronous_commit', CASE current_setting('synchronous_commit')
            WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)
"""


def roles_sql() -> str:
    """Return the SQL that creates the roles of analyst and auditor, for ``psql``.

    The owner of the ledgers runs it once, after creating the first one.

    Examples
    --------
    >>> from skdirdp.accountant.postgres import roles_sql
    >>> print(roles_sql())
    -- Permissions for the ledgers of this database...
    """
    return files(__package__).joinpath("postgres_roles.sql").read_text(encoding="utf-8")


# Connections -------------------------------------------------------------------------


class NoAnswerError(psycopg.OperationalError):
    """The server was silent for too long. The connection is closed."""


class _Connection(psycopg.Connection[Any]):
    """Connection that waits for a limited time. A stopped server keeps the socket open."""

    def wait(self, gen: Any, *_: Any, **__: Any) -> Any:
        try:
            wanted = next(gen)
            with selectors.DefaultSelector() as selector:
                selector.register(self.pgconn.socket, wanted)
                while True:
                    ready = selector.select(_ANSWER_SECONDS)
                    if not ready:
                        raise NoAnswerError(
                            f"the server did not answer within {_ANSWER_SECONDS:g} seconds"
                        )
                    wanted = gen.send(ready[0][1])
                    selector.modify(self.pgconn.socket, wanted)
        except StopIteration as end:
            return end.value
        except (NoAnswerError, KeyboardInterrupt):
            self.pgconn.finish()
            raise


def _parse_address(address: str) -> tuple[URL, str | None]:
    """Return the address without its password, and the password."""
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise LedgerError(
            "the address of a ledger must be like postgresql+psycopg://user@host/database; "
            "got one that cannot be parsed"
        ) from None
    if url.drivername not in _DRIVERS:
        raise LedgerError(
            f"the address of a ledger must start with {_DRIVERS[1]}://; got {url.drivername}://"
        )
    if not all(map(_PARAMETER.fullmatch, url.query)):
        raise LedgerError(
            "the address of a ledger cannot be used: it has a parameter that is unknown or could "
            "be secret. Use lower-case parameters of libpq such as host, port and sslmode. The "
            "password may come from ~/.pgpass"
        )
    in_query = url.query.get("password")
    password = url.password or (in_query if isinstance(in_query, str) else None)
    url = url.difference_update_query(["password"])
    if _may_show_password(url):
        raise LedgerError(
            "the address of a ledger cannot be used: the end of its password is ambiguous. "
            "Write the characters : / @ of a password as %3A %2F %40"
        )
    # `URL.set` ignores values that are None.
    parts = (url.username, None, url.host, url.port, url.database, url.query)
    return URL.create(_DRIVERS[1], *parts), password


def _may_show_password(url: URL) -> bool:
    """Return whether a visible part of the address may contain the password."""
    values = [value if isinstance(value, str) else " ".join(value) for value in url.query.values()]
    # A folder of sockets may have any name.
    shown = (url.host, url.database, *(value for value in values if not value.startswith("/")))
    return ":" in f"{url.username}{url.database}" or any(
        "@" in part or "=***" in without_password(part) for part in shown if part
    )


# Of this process alone, by place.
_PASSWORDS: dict[str, str] = {}
_ENGINES: dict[tuple[str, str | None], Engine] = {}
_INHERITED: list[dict[tuple[str, str | None], Engine]] = []


def _engine(url: URL, place: str) -> Engine:
    """Return the connections of this process to a database."""
    password = _PASSWORDS.get(place)
    engine = _ENGINES.get((place, password))
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
        engine = _ENGINES.setdefault((place, password), engine)
    return engine


def _forget_connections() -> None:
    """Drop the connections of the parent, which a child must neither use nor close."""
    _INHERITED.append(dict(_ENGINES))
    _ENGINES.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_connections)


@contextmanager
def _delayed_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, unless it is repeated.

    An interrupt inside a foreign library can leave its locks locked forever, and a connection
    open that blocks others. Only the main thread is ever interrupted.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[tuple[float, int, FrameType | None]] = []

    def wait(number: int, frame: FrameType | None) -> None:
        came.append((time.monotonic(), number, frame))
        if came[-1][0] - came[0][0] > _PATIENCE_SECONDS:
            handler(number, frame)

    try:
        signal.signal(signal.SIGINT, wait)
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[-1][1:])


# Storage -----------------------------------------------------------------------------


class PostgresSession:
    """Transaction on one ledger; see `schema.Session`."""

    SIGNATURE = "CAST(session_user AS text), clock_timestamp()"

    def __init__(self, connection: Connection):
        self.connection = connection
        self._failed = False
        self.head: tuple[str, int, str] | None = None

    def execute(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        try:
            result = self.connection.execute(_statement(sql), values)
            return [tuple(row) for row in result] if result.returns_rows else []
        except BaseException:
            self._failed = True
            raise

    def commit(self) -> None:
        # The server answers a commit after an error with a rollback, and without an error.
        if self._failed:
            raise UnusableError("an earlier statement failed, so nothing was written")
        self.connection.exec_driver_sql("COMMIT")

    def sign(self, user: Any, time: Any) -> tuple[str | None, str]:
        return user, time.astimezone(timezone.utc).isoformat()

    def remembered(self, identity: str) -> tuple[int, str] | None:
        return None

    def saw(self, identity: str, entries: int, head: str) -> None:
        pass  # an anchor must be kept outside: see `Transaction.verify`

    def check_structure(self) -> None:
        rows = self.execute(
            "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
            " WHERE relnamespace = to_regnamespace('skdirdp')"
            " AND NOT tgisinternal AND tgenabled IN ('O', 'A')"
        )
        if {name for (name,) in rows} != set(_TRIGGERS):
            raise UnusableError("its triggers were changed")


class PostgresStorage:
    """One budget of a database, at an URL ``postgresql+psycopg://user:password@host/database``.

    A pickle contains the address without the password. Where it is loaded, the password is the
    one that the same process received before, or comes from where PostgreSQL's own programs find
    it: the variable PGPASSWORD or the file ~/.pgpass.
    """

    def __init__(self, address: str, name: str | None):
        self._url, password = _parse_address(address)
        self.place = self._url.render_as_string(hide_password=False)  # it contains none
        self.name = DEFAULT_NAME if name is None else name
        if password:
            _PASSWORDS[self.place] = password

    def __reduce__(self) -> tuple[Any, ...]:
        return PostgresStorage, (self.place, self.name)

    def find(self) -> int | None:
        """Return the number of the budget, or None if it does not exist."""
        with self._explained(), self._connected() as session:
            if not _has_schema(session):
                return None
            if session.execute("SELECT to_regclass('skdirdp.layout') IS NULL") == [(True,)]:
                raise UnusableError("the schema skdirdp of this database belongs to something else")
            versions = session.execute("SELECT version FROM layout")
            if versions != [(SCHEMA_VERSION,)]:
                found = ", ".join(str(version) for (version,) in versions) or "none"
                raise UnusableError(
                    f"its schema has version {found}, and this skdirdp knows "
                    f"{SCHEMA_VERSION}; use the version of skdirdp that wrote it, or a newer one"
                )
            rows = session.execute("SELECT id FROM ledgers WHERE name = :name", name=self.name)
            return rows[0][0] if rows else None

    def missing(self) -> str:
        return self._unusable("this database has no budget of that name")

    def create(self, header: Header) -> int:
        """Create the budget, and the tables before the first, unless another process does."""
        with self._explained():
            try:
                return self._create(header)
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) not in _CREATED_MEANWHILE:
                    raise
            return self._create(header)

    def _create(self, header: Header) -> int:
        with self._connected() as session:
            if _has_schema(session):
                session.execute("LOCK TABLE ledgers IN SHARE ROW EXCLUSIVE MODE")
            else:
                _make_schema(session)
            rows = session.execute("SELECT id FROM ledgers WHERE name = :name", name=self.name)
            if rows:
                return rows[0][0]
            ((number,),) = session.execute("SELECT coalesce(max(id), 0) + 1 FROM ledgers")
            insert_header(session, replace(header, name=self.name, number=number))
            session.commit()
            return number

    @contextmanager
    def transaction(self, number: int, *, to_write: bool) -> Iterator[PostgresSession]:
        """Open a transaction on one ledger; one that writes excludes other writers."""
        with self._explained(), self._connected(number if to_write else None) as session:
            yield session
            if session.head is not None:
                try:
                    session.commit()
                except DBAPIError:
                    session.connection.invalidate()  # so that the server ends the transaction
                    self._check_committed(number, session.head)

    def _check_committed(self, number: int, head: tuple[str, int, str]) -> None:
        """Find out whether a commit without an answer succeeded, with a new connection."""
        _, id_, hash_ = head
        give_up = time.monotonic() + _RECONNECT_SECONDS
        while True:
            try:
                _engine(self._url, self.place).dispose()  # other connections may be broken too
                with self._connected(number, _RECONNECT_SECONDS) as session:
                    rows = select_charges(session, number, id_ - 1, id_)
                break
            except SQLAlchemyError:
                if time.monotonic() > give_up:
                    raise LedgerError(
                        self._unusable(
                            "the connection broke while a charge was written, and the server "
                            "cannot be asked whether it was recorded. It may count, and nothing "
                            "may be released; a retry with the same key counts once"
                        )
                    ) from None
            time.sleep(0.2)
        if not rows or rows[0][-1] != hash_:
            raise ConnectionLostError(
                self._unusable("the connection broke, and the charge was not recorded")
            )

    @contextmanager
    def _connected(
        self, lock: int | None = None, wait: float | None = None
    ) -> Iterator[PostgresSession]:
        """Open a transaction that is rolled back unless it commits.

        `lock` is the number of a budget to lock, and `wait` how long to wait for it at most. The
        gate prevents a fork while a connection is in use.
        """
        begin = _BEGIN
        if lock is not None:
            begin += "" if wait is None else f"; SET LOCAL lock_timeout = {1000 * wait:.0f}"
            # A row lock needs the permission to update a column. Everybody could take an
            # advisory lock.
            begin += f"; SELECT 1 FROM skdirdp.heads WHERE ledger = {lock:d} FOR UPDATE"
        with _delayed_interrupts(), GATE.operation():
            connection = self._begin(begin)
            try:
                yield PostgresSession(connection)
            finally:
                with suppress(SQLAlchemyError):
                    connection.close()

    def _begin(self, begin: str, retry: bool = True) -> Connection:
        """Begin a transaction; if an old connection is broken, with a new one."""
        engine = _engine(self._url, self.place)
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
    def _explained(self) -> Iterator[None]:
        """Turn every error into a LedgerError of one line without a password.

        The errors of the driver are not chained: they could show how it was called.
        """
        try:
            yield
        except UnusableError as error:
            raise LedgerError(self._unusable(str(error))) from None
        except (SQLAlchemyError, psycopg.Error) as error:
            if isinstance(error, DBAPIError) and _may_retry(error):
                raise ConnectionLostError(
                    self._unusable("the connection broke, and nothing was written")
                ) from None
            raise LedgerError(self._unusable(self._reason(error))) from None

    def _reason(self, error: Exception) -> str:
        cause = error.orig if isinstance(error, DBAPIError) else error
        state = getattr(cause, "sqlstate", None)
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        reason = lines[0].strip()
        if state == "55P03":
            return f"another process kept it locked for more than {BUSY_SECONDS:g} seconds"
        if state == "42501":
            reason += (
                ". The administrator of the database creates budgets and grants permissions; those "
                "granted with an earlier version must be granted again, with roles_sql()"
            )
        if "no password supplied" in reason or "fe_sendauth" in reason:
            reason += ". Pickles do not contain it: set PGPASSWORD, or use ~/.pgpass"
        password = _PASSWORDS.get(self.place)
        return reason.replace(password, "***") if password else reason

    def _unusable(self, reason: str) -> str:
        return f"the ledger {self.name!r} in {self.place} cannot be used: {reason}"


def _may_retry(error: DBAPIError) -> bool:
    """Return whether a new connection may succeed; a silent server took long enough."""
    return error.connection_invalidated and not isinstance(error.orig, NoAnswerError)


# The ledger has few statements.
_statement = lru_cache(maxsize=64)(text)


def _has_schema(session: PostgresSession) -> bool:
    # From the table: functions of the server may return the answer from before the lock.
    return bool(session.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'skdirdp'"))


def _make_schema(session: PostgresSession) -> None:
    session.execute("CREATE SCHEMA skdirdp")
    session.execute("CREATE TABLE layout (version INTEGER NOT NULL)")
    session.execute("INSERT INTO layout VALUES (:version)", version=SCHEMA_VERSION)
    for statement in (*TABLES, *_FUNCTIONS):
        session.execute(statement)
    for name, definition in _TRIGGERS.items():
        session.execute(f"CREATE TRIGGER {name} {definition}")
