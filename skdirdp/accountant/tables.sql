-- Tables of a ledger, in an SQLite file or a PostgreSQL database. Statements are separated by empty
-- lines. A file stores their text, which is compared when it is checked, so keep every space.
-- `split` and `part` are empty for charges on the whole data set. There is no table of sums: totals
-- are computed from the charges alone, so that nothing can disagree with them. `heads` has the number
-- of charges of a ledger, and the hash of the last one: see `entry_hash`.

    CREATE TABLE ledgers (
        id INTEGER PRIMARY KEY,
        identity TEXT NOT NULL UNIQUE,
        created TEXT NOT NULL,
        epsilon DOUBLE PRECISION,
        delta DOUBLE PRECISION NOT NULL,
        renyi_order DOUBLE PRECISION,
        adaptive INTEGER NOT NULL CHECK (adaptive IN (0, 1)),
        name TEXT UNIQUE,
        adjacency TEXT,
        unit TEXT,
        origin TEXT
    )

    CREATE TABLE charges (
        ledger INTEGER NOT NULL REFERENCES ledgers (id),
        id BIGINT NOT NULL,
        time TEXT NOT NULL,
        username TEXT,
        entry_key TEXT NOT NULL,
        spec TEXT NOT NULL,
        releases BIGINT NOT NULL CHECK (releases >= 1),
        label TEXT,
        split TEXT NOT NULL,
        part TEXT NOT NULL,
        split_name TEXT,
        split_by TEXT,
        hash TEXT NOT NULL,
        PRIMARY KEY (ledger, id),
        UNIQUE (ledger, entry_key)
    )

    CREATE TABLE heads (
        ledger INTEGER PRIMARY KEY REFERENCES ledgers (id),
        entries BIGINT NOT NULL CHECK (entries >= 0),
        hash TEXT NOT NULL
    )
