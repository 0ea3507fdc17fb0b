"""A charge in one message to a PostgreSQL server, for a process that knows the ledger.

A transaction that first looks at the ledger, and then writes, goes back and forth four times
while others wait. Here the look is a condition of what is written: the header of the ledger and
its last hash, which stands for all charges before it, have to be those that this process has
decided on, and whoever charges the one that the server knows. Else no row is written, and the
caller takes the longer way. The server's own clock says when, so that the server has to take the
hash; what it is taken of is the text of `skdirdp.accountant.chain`, made here.

The parameters are put into the text by the driver. So the message needs nothing that the server
would have to keep for the connection, which a pool between here and there may give to others.
"""

import json
from functools import lru_cache
from typing import Any

import psycopg

from .chain import ENTRY, around_time
from .layout import HEADER, header_values
from .records import Header

_TIME = """to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')"""
# One row or none. The conditions are questions of their own, which the server plans quicker
# than a join.
_INSERT = f"""
    INSERT INTO charges (ledger, {", ".join(ENTRY)}, hash)
    SELECT %s, %s, signed.time, %s, {", ".join(["%s"] * len(ENTRY[3:]))},
        encode(sha256(convert_to(%s || signed.time || %s, 'UTF8')), 'hex')
    FROM (SELECT {_TIME} AS time) AS signed
    WHERE session_user = %s AND (SELECT hash FROM heads WHERE ledger = %s) = %s
        AND (SELECT to_jsonb(ledgers) FROM ledgers WHERE id = %s) = %s
    RETURNING time, hash
"""


def write(
    connection: "psycopg.Connection[Any]",
    begin: str,
    header: Header,
    before: str,
    entry: tuple[Any, ...],
) -> tuple[Any, ...] | None:
    """Write an entry and commit it, if it is the next; its row, or None.

    Parameters
    ----------
    connection : psycopg.Connection
        In no transaction.
    begin : str
        What begins one, and takes the lock of the ledger.
    header : Header
        Of the ledger.
    before : str
        The last hash of the ledger.
    entry : tuple
        The values of `ENTRY`, but for the time.
    """
    id_, _, user, *values = entry
    with psycopg.ClientCursor(connection) as cursor:
        cursor.execute(
            f"{begin}; {_INSERT}; COMMIT",
            (
                *(header.number, id_, user, *values),
                *around_time(before, entry),
                *(user, header.number, before),
                *(header.number, _as_json(header)),
            ),
        )
        while not (cursor.statusmessage or "").startswith("INSERT") and cursor.nextset():
            pass
        written = cursor.fetchone()
    return None if written is None else (id_, written[0], user, *values, written[1])


@lru_cache(maxsize=64)
def _as_json(header: Header) -> str:
    """The row of a ledger, as the server makes it; it compares values, and not their order."""
    row = dict(zip(HEADER, header_values(header), strict=True))
    return json.dumps({"id": header.number, **row}, ensure_ascii=False)


def is_alive(connection: "psycopg.Connection[Any]") -> bool:
    """Whether the server has not closed a connection while nothing happened on it.

    What is sent on one that is closed comes back as what may have arrived.
    """
    try:
        # Its last words, if there are any, and then that there is nobody any more.
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return False
    return True
