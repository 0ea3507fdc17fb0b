"""Ledgers in a PostgreSQL database: many budgets, and analysts on many machines.

The tables are in a schema of their own, and nothing else in the database is touched. The
code is that of every ledger (`skdirdp.accountant.ledger`); here is what the database itself
enforces:

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

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timezone
from functools import lru_cache
from importlib.resources import files
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from . import one_message
from .chain import followed
from .connections import PASSWORDS, NoAnswerError, engine_of, parse
from .layout import LAYOUT_VERSION, TABLES, Shortcut, insert_header, select_charges
from .locks import BUSY_SECONDS, GATE, interrupts_wait
from .records import ConnectionLostError, Header, LedgerError, UnusableError

_Answer = TypeVar("_Answer")

#: The name of a budget whose accountant was given none.
DEFAULT_NAME = "default"

_RECONNECT_SECONDS = 10.0
_MADE_MEANWHILE = ("42P06", "23505")  # the schema exists, or a row of it in the catalogue
# After which the server takes the lock back from somebody whom it cannot see any more.
_IDLE_SECONDS = 300.0
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
        url, password = parse(address)
        self.place = url.render_as_string(hide_password=False)  # has none
        self.name = DEFAULT_NAME if name is None else name
        self._url = url
        self._user: str | None = None
        if password:
            PASSWORDS[self.place] = password

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
            connection = engine_of(self._url, self.place).raw_connection()
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
                engine_of(self._url, self.place).dispose()  # others may be as broken
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
        engine = engine_of(self._url, self.place)
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
                ". The administrator of the database makes budgets and grants rights; those given "
                "with an earlier version have to be given again, with roles_sql()"
            )
        if "no password supplied" in reason or "fe_sendauth" in reason:
            reason += ". Pickles do not carry it: set PGPASSWORD, or use ~/.pgpass"
        password = PASSWORDS.get(self.place)
        return reason.replace(password, "***") if password else reason

    def _unusable(self, reason: str) -> str:
        return f"the ledger {self.name!r} in {self.place} cannot be used: {reason}"


def _begin_writing(number: int, wait: float | None = None) -> str:
    patience = "" if wait is None else f"; SET LOCAL lock_timeout = {1000 * wait:.0f}"
    # A row lock takes the right to update a column. Anybody could take an advisory lock.
    return f"{_BEGIN}{patience}; SELECT 1 FROM skdirdp.heads WHERE ledger = {number:d} FOR UPDATE"


def _is_worth_a_retry(error: DBAPIError) -> bool:
    """Whether a new connection may do better. One to a silent server took long enough."""
    return error.connection_invalidated and not isinstance(error.orig, NoAnswerError)


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
