"""Connections to PostgreSQL: addresses without passwords, and waits that end."""

import os
import re
import selectors
from typing import Any

import psycopg
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from ..reporting.redact import without_password
from .locks import BUSY_SECONDS
from .records import LedgerError

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
# How long a server may be silent. Longer than it may wait for a lock, of which it tells.
_ANSWER_SECONDS = BUSY_SECONDS + 15.0
_CONNECT = {
    "connect_timeout": 10,
    "prepare_threshold": None,  # a pool between here and the server may not keep statements
    # A peer that vanished without a word must not hold a charge for ever.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}


class NoAnswerError(psycopg.OperationalError):
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


def parse(address: str) -> tuple[URL, str | None]:
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
            "that could be secret. Known are host, port, sslmode and others of libpq, in small "
            "letters. The password may come from ~/.pgpass"
        )
    in_query = url.query.get("password")
    password = url.password or (in_query if isinstance(in_query, str) else None)
    url = url.difference_update_query(["password"])
    if _may_show_password(url):
        raise LedgerError(
            "the address of a ledger cannot be used: the end of its password is ambiguous. "
            "Write the characters : / @ of a password as %3A %2F %40"
        )
    # `set` leaves alone what is given as None.
    return (
        URL.create(_DRIVERS[1], url.username, None, url.host, url.port, url.database, url.query),
        password,
    )


def _may_show_password(url: URL) -> bool:
    """Whether a part that is shown holds what may have been meant as a password."""
    values = [value if isinstance(value, str) else " ".join(value) for value in url.query.values()]
    # A folder of sockets may have any name.
    shown = (url.host, url.database, *(value for value in values if not value.startswith("/")))
    return ":" in f"{url.username}{url.database}" or any(
        "@" in part or "=***" in without_password(part) for part in shown if part
    )


# Of this process alone, by place.
PASSWORDS: dict[str, str] = {}
_ENGINES: dict[tuple[str, str | None], Engine] = {}
_INHERITED: list[dict[tuple[str, str | None], Engine]] = []


def engine_of(url: URL, place: str) -> Engine:
    """The connections of this process to a database."""
    password = PASSWORDS.get(place)
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


def forget_connections() -> None:
    # A child has its parent's sockets, and must neither use nor close them.
    _INHERITED.append(dict(_ENGINES))
    _ENGINES.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_connections)
