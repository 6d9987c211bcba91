-- Small columns stand before big ones: a list reads the first page of a row and leaves the rest where it is.

CREATE TABLE sessions (
    session_id    TEXT NOT NULL PRIMARY KEY,
    created_at    TEXT NOT NULL,
    last_activity TEXT NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('active', 'closed', 'error')),
    metadata      TEXT NOT NULL DEFAULT '{}',
    owner         TEXT NOT NULL,
    name          TEXT NOT NULL,
    pool          TEXT NOT NULL,
    -- The process that it lives in, by its tag.
    run           TEXT NOT NULL
);
CREATE INDEX sessions_by_name ON sessions (owner, name, created_at);
CREATE INDEX sessions_active ON sessions (run) WHERE state = 'active';

CREATE TABLE requests (
    -- Counts up, and is never given twice. AUTOINCREMENT would write another page with every call.
    position   INTEGER PRIMARY KEY,
    ref_id     TEXT NOT NULL UNIQUE,
    session_id TEXT REFERENCES sessions (session_id),
    tool_name  TEXT NOT NULL,
    timestamp  TEXT NOT NULL,
    owner      TEXT NOT NULL,
    params     TEXT NOT NULL
);
CREATE INDEX requests_by_session ON requests (session_id);
CREATE INDEX requests_by_owner ON requests (owner);
CREATE INDEX requests_by_tool ON requests (owner, tool_name);

-- The last position given, for when all records are gone.
CREATE TABLE last_position (
    only     INTEGER PRIMARY KEY CHECK (only = 1),
    position INTEGER NOT NULL
);
INSERT INTO last_position VALUES (1, 0);

CREATE TABLE responses (
    -- That of its request.
    position       INTEGER PRIMARY KEY REFERENCES requests (position) ON DELETE CASCADE,
    ref_id         TEXT NOT NULL UNIQUE,
    status         TEXT NOT NULL CHECK (status IN ('success', 'error')),
    -- That of its request, for the index of failures.
    owner          TEXT NOT NULL,
    timestamp      TEXT NOT NULL,
    took_ms        INTEGER NOT NULL,
    has_snapshot   INTEGER NOT NULL,
    console_count  INTEGER NOT NULL,
    console_errors INTEGER NOT NULL,
    url            TEXT,
    title          TEXT,
    error_message  TEXT,
    console_logs   TEXT,
    page_snapshot  TEXT,
    result         TEXT NOT NULL
);
CREATE INDEX responses_failed ON responses (owner) WHERE status = 'error';

CREATE TABLE console_logs (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    ref_id    TEXT NOT NULL REFERENCES responses (ref_id) ON DELETE CASCADE,
    level     TEXT NOT NULL CHECK (level IN ('debug', 'info', 'warn', 'error')),
    timestamp TEXT,
    location  TEXT,
    message   TEXT NOT NULL
);
CREATE INDEX console_logs_by_ref ON console_logs (ref_id);

CREATE TABLE diff_cursors (
    ref_id             TEXT NOT NULL PRIMARY KEY REFERENCES requests (ref_id) ON DELETE CASCADE,
    cursor_position    INTEGER NOT NULL,
    last_snapshot_hash TEXT NOT NULL,
    last_read          TEXT NOT NULL
) WITHOUT ROWID;

-- Files beside the database. `pool` is empty where all pools share them.
CREATE TABLE blobs (
    sha256     TEXT NOT NULL,
    pool       TEXT NOT NULL,
    bytes      INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    last_used  TEXT NOT NULL,
    PRIMARY KEY (sha256, pool)
) WITHOUT ROWID;
CREATE INDEX blobs_by_use ON blobs (last_used);

-- Which records name which blobs. A row stays when its blob is gone: the record still says what there was.
CREATE TABLE blob_refs (
    position INTEGER NOT NULL REFERENCES requests (position) ON DELETE CASCADE,
    place    INTEGER NOT NULL,
    sha256   TEXT NOT NULL,
    owner    TEXT NOT NULL,
    bytes    INTEGER NOT NULL,
    mime     TEXT NOT NULL,
    name     TEXT,
    PRIMARY KEY (position, place)
) WITHOUT ROWID;
CREATE INDEX blob_refs_by_blob ON blob_refs (sha256, owner);
CREATE INDEX blob_refs_by_owner ON blob_refs (owner, position);
