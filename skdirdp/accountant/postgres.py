"""Ledgers in a PostgreSQL database: many budgets, and analysts on many machines.

The tables are in a schema of their own, and nothing else in the database is touched. The
code is that of every ledger (`skdirdp.accountant.ledger`); here are connections, which
SQLAlchemy keeps, and what the database itself enforces:

- **Append only**, by triggers, whoever tries; and by rights, with the roles of
  `roles_sql`: an analyst may read everything and add charges, under his own name.
- **One charge at a time for each budget**: a transaction that writes locks the row of the
  budget's head until it ends. That takes a right which only analysts and the owner have.
- **A charge that returned is on disk**: ``synchronous_commit`` is on in every transaction.
  A server that runs with ``fsync = off`` can still lose what it confirmed.

Where this process knows the ledger, a charge is one message to the server, which writes it
only if nobody else has charged meanwhile: see `skdirdp.accountant.one_message`.

When a connection breaks before the commit was sent, nothing was written, and the charge
is tried again. When it breaks during the commit, a new connection waits for the lock,
which the server gives away only when the old transaction is over, and looks whether the
charge is there. A message that comes to the server still later finds that the same charge
was made again, or counts without a release. If the server cannot be asked, the charge is an
error: it may have been recorded, and nothing is released. A server that does not answer is as
one whose connection broke: the client gives up by its own clock.
"""

import os
import re
import selectors
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timezone
from functools import lru_cache
from importlib.resources import files
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from ..reporting.places import without_password
from . import one_message
from .chain import followed
from .layout import LAYOUT_VERSION, TABLES, Shortcut, insert_header, select_charges
from .locks import BUSY_SECONDS, GATE, interrupts_wait
from .records import ConnectionLostError, Header, LedgerError, UnusableError

_Answer = TypeVar("_Answer")

#: The name of a budget whose accountant was given none.
DEFAULT_NAME = "default"

_DRIVERS = ("postgresql", "postgresql+psycopg")
# What the query of an address may set: nothing secret, and nothing of the driver's own. The
# times are those of `_CONNECT` all the same.
_PARAMETER = re.compile(
    r"host|hostaddr|port|user|dbname|password|application_name|fallback_application_name|options"
    r"|service|target_session_attrs|load_balance_hosts|channel_binding|require_auth|requirepeer"
    r"|ssl(mode|cert|key|rootcert|crl|crldir|sni|certmode|negotiation|compression)"
    r"|ssl_(min|max)_protocol_version|gssencmode|gsslib|krbsrvname"
    r"|connect_timeout|keepalives(_idle|_interval|_count)?|tcp_user_timeout"
)
_RECONNECT_SECONDS = 10.0
# How long a server may be silent. Longer than it may wait for a lock, of which it tells.
_ANSWER_SECONDS = BUSY_SECONDS + 15.0
_CREATIONS = 5
_MADE_MEANWHILE = ("42P06", "23505")  # the schema exists, or a row of it in the catalogue
# After which the server takes the lock back from somebody whom it cannot see any more.
_IDLE_SECONDS = 300.0
_CONNECT = {
    "connect_timeout": 10,
    "prepare_threshold": None,  # a pool between here and the server may not keep statements
    # A peer that vanished without a word must not hold a charge for ever.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}

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

# In one message to the server. Settings are local to the transaction, so that this also works
# through a pool between here and there. READ COMMITTED: what is read after the lock was given
# is what the last holder wrote.
_BEGIN = f"""
    BEGIN ISOLATION LEVEL READ COMMITTED;
    SELECT set_config('search_path', 'skdirdp, pg_temp', true),
        set_config('lock_timeout', '{BUSY_SECONDS:.0f}s', true),
        set_config('idle_in_transaction_session_timeout', '{_IDLE_SECONDS:.0f}s', true),
        set_config('synchronous_commit', CASE current_setting('synchronous_commit')
            WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)
"""
# A row lock, which takes the right to update a column. Anybody could take an advisory lock.
_LOCK = "SELECT 1 FROM skdirdp.heads WHERE ledger = {number:d} FOR UPDATE"


def roles_sql() -> str:
    """The SQL that makes the roles of an analyst and an auditor, for ``psql``.

    Whoever owns the ledgers runs it once, after the first one was made.

    Examples
    --------
    >>> from skdirdp.accountant.postgres import roles_sql
    >>> print(roles_sql())
    -- Who may do what with the ledgers of this database...
    """
    return files(__package__).joinpath("postgres_roles.sql").read_text(encoding="utf-8")


class _NoAnswerError(psycopg.OperationalError):
    """The server was silent for too long. The connection is closed."""


class _Connection(psycopg.Connection[Any]):
    """A connection that waits for a limited time. A stopped server keeps the socket open."""

    def wait(self, gen: Any, *_: Any, **__: Any) -> Any:
        try:
            wanted = next(gen)
            with selectors.DefaultSelector() as selector:
                selector.register(self.pgconn.socket, wanted)
                while True:
                    ready = selector.select(_ANSWER_SECONDS)
                    if not ready:
                        raise _NoAnswerError(
                            f"the server did not answer within {_ANSWER_SECONDS:g} seconds"
                        )
                    wanted = gen.send(ready[0][1])
                    selector.modify(self.pgconn.socket, wanted)
        except StopIteration as end:
            return end.value
        except (_NoAnswerError, KeyboardInterrupt):
            self.pgconn.finish()
            raise


class PostgresSession:
    """A transaction on one ledger; see `skdirdp.accountant.layout.Session`."""

    SIGNATURE = "CAST(session_user AS text), clock_timestamp()"

    def __init__(self, connection: Connection):
        self._connection = connection
        self._failed = False
        self.head: tuple[str, int, str] | None = None
        self.user: str | None = None

    def execute(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        try:
            result = self._connection.execute(_statement(sql), values)
            return [tuple(row) for row in result] if result.returns_rows else []
        except BaseException:
            self._failed = True
            raise

    def commit(self) -> None:
        # The server answers a commit after an error with a rollback, and without an error.
        if self._failed:
            raise UnusableError("something failed before, so that nothing was written")
        self._connection.exec_driver_sql("COMMIT")

    def abandon(self) -> None:
        """Close the connection: the server ends a transaction that nobody is at the end of."""
        self._connection.invalidate()

    def sign(self, user: Any, time: Any) -> tuple[str | None, str]:
        self.user = user
        return user, time.astimezone(timezone.utc).isoformat()

    def remembered(self, identity: str) -> tuple[int, str] | None:
        return None

    def saw(self, identity: str, entries: int, head: str) -> None:
        pass  # an anchor has to be kept outside: see `Transaction.verify`

    def check_structure(self) -> None:
        rows = self.execute(
            "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
            " WHERE relnamespace = to_regnamespace('skdirdp')"
            " AND NOT tgisinternal AND tgenabled IN ('O', 'A')"
        )
        if {name for (name,) in rows} != set(_TRIGGERS):
            raise UnusableError("its triggers are not those it was made with")


class PostgresStorage:
    """One budget of a database.

    Its pickle has the address without the password. Where it is loaded, the password is the
    one that the same process was given before, or else comes from where PostgreSQL's own
    programs find it: the variable PGPASSWORD or the file ~/.pgpass.

    Parameters
    ----------
    address : str
        An URL, ``postgresql+psycopg://user:password@host/database``.
    name : str, optional
        Of the budget.
    """

    def __init__(self, address: str, name: str | None):
        url, password = _parse(address)
        self.place = url.render_as_string(hide_password=False)  # has none
        self.name = DEFAULT_NAME if name is None else name
        self._url = url
        self._user: str | None = None
        if password:
            _PASSWORDS[self.place] = password

    def __reduce__(self) -> tuple[Any, ...]:
        return PostgresStorage, (self.place, self.name)

    def find(self) -> int | None:
        """The number of the budget, or None if it was not made yet."""
        with self._explained(), self._connected() as session:
            if not _has_schema(session):
                return None
            if session.execute("SELECT to_regclass('skdirdp.layout') IS NULL") == [(True,)]:
                raise UnusableError("the schema skdirdp of this database is something else")
            versions = session.execute("SELECT version FROM layout")
            if versions != [(LAYOUT_VERSION,)]:
                found = ", ".join(str(version) for (version,) in versions) or "none"
                raise UnusableError(
                    f"the layout of this database has version {found}, and this skdirdp knows "
                    f"{LAYOUT_VERSION}; use the version of skdirdp that wrote it, or a newer one"
                )
            rows = session.execute("SELECT id FROM ledgers WHERE name = :name", name=self.name)
            return rows[0][0] if rows else None

    def missing(self) -> str:
        return self._unusable("this database has no budget of that name")

    def create(self, header: Header) -> int:
        """Make the budget, and the tables before the first, unless somebody else does."""
        with self._explained():
            for _ in range(_CREATIONS - 1):
                try:
                    return self._create(header)
                except DBAPIError as error:
                    if getattr(error.orig, "sqlstate", None) not in _MADE_MEANWHILE:
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
        """One ledger, on which nobody else writes if this does."""
        with self._explained(), self._connected(number if to_write else None) as session:
            yield session
            self._user = session.user or self._user
            if session.head is not None:
                try:
                    session.commit()
                except DBAPIError:
                    session.abandon()
                    self._check_committed(number, session.head)

    def shortcut(self) -> Shortcut | None:
        """One message, once the server has said as whom it knows this process."""
        return None if self._user is None else Shortcut(self._user, self._append)

    def _append(
        self, header: Header, before: str, entry: tuple[Any, ...]
    ) -> tuple[Sequence[Any], str] | None:
        with self._explained(), interrupts_wait(), GATE.operation():
            # Without SQLAlchemy's own way to run statements, which takes as long as the server.
            connection = _engine(self._url, self.place).raw_connection()
            driver: Any = connection.driver_connection
            try:
                if not one_message.is_alive(driver):
                    connection.invalidate()
                    return None
                begin = _begin_writing(header.number)
                row = one_message.write(driver, begin, header, before, entry)
            except psycopg.errors.UniqueViolation:
                return None  # the key was used before
            except psycopg.Error as error:
                # A transaction that has failed, and waits to be rolled back, is not committed.
                if driver.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
                    raise UnusableError(self._reason(error)) from None
                connection.invalidate()
                row = self._find(header.number, entry)
            except BaseException:
                connection.invalidate()
                raise
            finally:
                with suppress(SQLAlchemyError, psycopg.Error):
                    connection.close()
            return None if row is None else next(followed([row], entry[0] - 1, before))

    def _find(self, number: int, entry: tuple[Any, ...]) -> tuple[Any, ...]:
        """The row of an entry whose message was not answered."""
        id_, _, *others = entry
        rows = self._ask(number, lambda session: select_charges(session, number, id_ - 1, id_))
        if not rows or list(rows[0][2:-1]) != others:
            raise self._not_recorded()
        return rows[0]

    def _check_committed(self, number: int, head: tuple[str, int, str]) -> None:
        """Find out what became of a commit whose answer never came."""
        _, id_, hash_ = head
        rows = self._ask(number, lambda session: select_charges(session, number, id_ - 1, id_))
        if not rows or rows[0][-1] != hash_:
            raise self._not_recorded()

    def _ask(self, number: int, question: Callable[[PostgresSession], _Answer]) -> _Answer:
        """Ask a ledger with a new connection, after all that was sent before is over."""
        give_up = time.monotonic() + _RECONNECT_SECONDS
        while True:
            try:
                _engine(self._url, self.place).dispose()  # others may be as broken
                with self._connected(number, _RECONNECT_SECONDS) as session:
                    return question(session)
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

    def _not_recorded(self) -> ConnectionLostError:
        return ConnectionLostError(
            self._unusable("the connection broke, and the charge was not recorded")
        )

    @contextmanager
    def _connected(
        self, lock: int | None = None, wait: float | None = None
    ) -> Iterator[PostgresSession]:
        """A transaction; whatever is not committed inside is rolled back.

        `lock` is the number of the budget to lock, `wait` another time than usual to wait for it.
        """
        # No fork with a connection in the middle of something.
        with interrupts_wait(), GATE.operation():
            connection = self._begin(_BEGIN if lock is None else _begin_writing(lock, wait))
            try:
                yield PostgresSession(connection)
            finally:
                with suppress(SQLAlchemyError):
                    connection.close()

    def _begin(self, begin: str) -> Connection:
        engine = _engine(self._url, self.place)
        for attempt in ("with a connection that may be old", "with a new one"):
            connection = engine.connect()
            try:
                connection.exec_driver_sql(begin)
                return connection
            except DBAPIError as error:
                connection.close()
                if error.connection_invalidated:
                    engine.dispose()
                if not _is_worth_a_retry(error) or attempt == "with a new one":
                    raise
            except BaseException:
                connection.close()
                raise
        raise AssertionError("the second attempt returns or raises")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Whatever is wrong, as one kind of error, in one line, without a password.

        The errors of the driver are not chained: they could show how it was called.
        """
        try:
            yield
        except UnusableError as error:
            raise LedgerError(self._unusable(str(error))) from None
        except DBAPIError as error:
            if _is_worth_a_retry(error):
                raise ConnectionLostError(
                    self._unusable("the connection broke, and nothing was written")
                ) from None
            raise LedgerError(self._unusable(self._reason(error))) from None
        except (SQLAlchemyError, psycopg.Error) as error:
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
                ". Whoever keeps the database makes budgets and gives rights; those given with an "
                "earlier version have to be given again, with roles_sql()"
            )
        if "no password supplied" in reason or "fe_sendauth" in reason:
            reason += ". Pickles do not carry it: set PGPASSWORD, or use ~/.pgpass"
        password = _PASSWORDS.get(self.place)
        return reason.replace(password, "***") if password else reason

    def _unusable(self, reason: str) -> str:
        return f"the ledger {self.name!r} in {self.place} cannot be used: {reason}"


def _parse(address: str) -> tuple[URL, str | None]:
    """The address without its password, and the password."""
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise LedgerError(
            "the address of a ledger must be like postgresql+psycopg://user@host/database; "
            "got one that cannot be read"
        ) from None
    if url.drivername not in _DRIVERS:
        raise LedgerError(
            f"the address of a ledger must start with {_DRIVERS[1]}://; got {url.drivername}://"
        )
    if not all(map(_PARAMETER.fullmatch, url.query)):
        raise LedgerError(
            "the address of a ledger cannot be used: it has a parameter that is unknown here, or "
            "that could be secret. Known are those of libpq, such as host, port, sslmode and "
            "sslrootcert, in small letters; of passwords only password, or better ~/.pgpass"
        )
    in_query = url.query.get("password")
    password = url.password or (in_query if isinstance(in_query, str) else None)
    url = url.difference_update_query(["password"])
    if _may_show_password(url):
        raise LedgerError(
            "the address of a ledger cannot be used: it cannot be told where its password ends. "
            "Write the characters : / @ of a password as %3A %2F %40"
        )
    # `set` leaves alone what is given as None.
    return (
        URL.create(_DRIVERS[1], url.username, None, url.host, url.port, url.database, url.query),
        password,
    )


def _may_show_password(url: URL) -> bool:
    """Whether a part that is shown holds what may have been meant as a password."""
    in_query = [
        value
        for values in url.query.values()
        for value in ((values,) if isinstance(values, str) else values)
    ]
    return (
        ":" in (url.username or "")
        or any("@" in (part or "") for part in (url.host, url.database))
        # A folder of sockets may have any name.
        or any("@" in value for value in in_query if not value.startswith("/"))
        or any("=***" in without_password(part or "") for part in (url.host, url.database))
        or any("=***" in without_password(value) for value in in_query)
    )


def _begin_writing(number: int, wait: float | None = None) -> str:
    patience = "" if wait is None else f"; SET LOCAL lock_timeout = {1000 * wait:.0f}"
    return f"{_BEGIN}{patience}; {_LOCK.format(number=number)}"


def _is_worth_a_retry(error: DBAPIError) -> bool:
    """Whether a new connection may do better. One to a silent server took long enough."""
    return error.connection_invalidated and not isinstance(error.orig, _NoAnswerError)


# Of the ledger's own few statements.
_statement = lru_cache(maxsize=64)(text)


def _has_schema(session: PostgresSession) -> bool:
    # From the table: the server's functions may still know the answer from before the lock.
    return bool(session.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'skdirdp'"))


def _make_schema(session: PostgresSession) -> None:
    session.execute("CREATE SCHEMA skdirdp")
    session.execute("CREATE TABLE layout (version INTEGER NOT NULL)")
    session.execute("INSERT INTO layout VALUES (:version)", version=LAYOUT_VERSION)
    for statement in (*TABLES, *_FUNCTIONS):
        session.execute(statement)
    for name, definition in _TRIGGERS.items():
        session.execute(f"CREATE TRIGGER {name} {definition}")


# Of this process alone, by place.
_PASSWORDS: dict[str, str] = {}
_ENGINES: dict[tuple[str, str | None], Engine] = {}
_INHERITED: list[dict[tuple[str, str | None], Engine]] = []


def _engine(url: URL, place: str) -> Engine:
    """The connections of this process to a database."""
    password = _PASSWORDS.get(place)
    engine = _ENGINES.get((place, password))
    if engine is None:
        engine = create_engine(
            url.set(password=password),
            isolation_level="AUTOCOMMIT",  # transactions begin and end in our own words
            connect_args=_CONNECT,
            pool_size=2,
            max_overflow=30,
            pool_timeout=BUSY_SECONDS,
            hide_parameters=True,
        )
        event.listen(engine, "do_connect", _connect)
        engine = _ENGINES.setdefault((place, password), engine)
    return engine


def _connect(dialect: Any, record: Any, arguments: Any, options: Any) -> _Connection:
    return _Connection.connect(*arguments, **options)


def _forget_connections() -> None:
    # A child has its parent's sockets, and must neither use nor close them.
    _INHERITED.append(dict(_ENGINES))
    _ENGINES.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_connections)
