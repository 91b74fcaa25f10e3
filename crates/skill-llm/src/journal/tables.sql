-- How the keys of calls are made: 'blake3'.
CREATE TABLE keys (
    hash TEXT NOT NULL
);
INSERT INTO keys VALUES ('blake3');

-- One row per process that has written to the journal.
CREATE TABLE processes (
    id INTEGER PRIMARY KEY,
    version TEXT NOT NULL,        -- of the program
    started_at INTEGER NOT NULL,  -- milliseconds since 1970, UTC
    elapsed_ms INTEGER NOT NULL   -- until its last commit
);

CREATE TABLE models (
    id INTEGER PRIMARY KEY,
    provider TEXT NOT NULL,
    name TEXT NOT NULL,
    revision TEXT NOT NULL,       -- of the weights; empty where they do not change
    parameters TEXT NOT NULL,     -- JSON: what the model adds to each request
    UNIQUE (provider, name, revision, parameters)
);

-- Each message once for each process, however many calls it is a part of. The program that writes knows which are
-- there: an index over digests would cost a page of the log for nearly every row.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    whole TEXT                    -- JSON: the whole message, where it is more than text
);

-- One row per call: its reply, or why there is none. No two replies have one key. A call of an embedding model is one
-- request; its messages are the texts, and the vectors of its reply are in the table embeddings.
CREATE TABLE calls (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL,            -- hash of model, request, place and occurrence
    place TEXT NOT NULL,          -- where in the run
    occurrence INTEGER NOT NULL,  -- how often the unit of work had made the same request before
    model INTEGER NOT NULL REFERENCES models (id),
    messages TEXT NOT NULL,       -- JSON: ids of messages, in order; see the view call_messages
    request TEXT NOT NULL,        -- JSON: sampling, tools, response schema
    outcome TEXT NOT NULL,        -- 'reply', or the class of the error
    reply TEXT,                   -- what the model said
    tool_calls TEXT,              -- JSON
    finish TEXT,                  -- JSON: why the reply ended
    error TEXT,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    cached_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    cache_written_tokens INTEGER NOT NULL DEFAULT 0,
    process INTEGER NOT NULL REFERENCES processes (id),
    finished_at INTEGER NOT NULL, -- milliseconds since 1970, UTC
    reasoning TEXT,               -- the model's reasoning, where the server returned it
    tokens TEXT,                  -- JSON: token ids and log-probabilities, where they were requested
    provider_state TEXT,          -- JSON: what the dialect needs back in later requests of the conversation
    kind TEXT NOT NULL DEFAULT 'chat' -- the kind of model: 'chat' or 'embedding'
);
CREATE INDEX calls_by_place ON calls (place);

-- What was really sent for a call; a reply that was copied from another journal has no attempts. The tokens of a request
-- that was sent and not answered (timeout, truncated, cancelled) are the most that it may be billed with.
CREATE TABLE attempts (
    call INTEGER NOT NULL REFERENCES calls (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,      -- from 1
    started_at INTEGER NOT NULL,  -- milliseconds since 1970, UTC
    waited_us INTEGER NOT NULL,   -- before it: pace, budget, and between attempts
    took_us INTEGER NOT NULL,
    outcome TEXT NOT NULL,        -- 'reply', or the class of the error
    error TEXT,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    cached_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    cache_written_tokens INTEGER NOT NULL DEFAULT 0,
    sent INTEGER,                 -- the number under which it was recorded before it was sent
    PRIMARY KEY (call, number)
) WITHOUT ROWID;

-- What calls had cost that were pruned, by model: what was paid stays counted.
CREATE TABLE pruned (
    model INTEGER PRIMARY KEY REFERENCES models (id),
    requests INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    cache_written_tokens INTEGER NOT NULL DEFAULT 0
);

-- Requests that were in flight when their process was killed, with what was reserved for them: they count like attempts.
CREATE TABLE unanswered (
    number INTEGER PRIMARY KEY,   -- as in attempts.sent
    model INTEGER NOT NULL REFERENCES models (id),
    started_at INTEGER NOT NULL,  -- milliseconds since 1970, UTC
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_written_tokens INTEGER NOT NULL DEFAULT 0
);

-- One row per text that was embedded, in whichever request. No two have one key.
CREATE TABLE embeddings (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL,            -- hash of model and text
    call INTEGER NOT NULL REFERENCES calls (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,    -- of the text among the messages of its call, from 0
    tokens INTEGER NOT NULL,      -- its share of the tokens of its call
    UNIQUE (call, position)
);

-- Apart from the keys, which are all read when a journal is opened.
CREATE TABLE vectors (
    embedding INTEGER PRIMARY KEY REFERENCES embeddings (id) ON DELETE CASCADE,
    vector BLOB NOT NULL          -- floats of 32 bits, little-endian
);

-- One row per finished unit of work other than a call, such as a rollout. No two have one key.
CREATE TABLE results (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL,
    kind TEXT NOT NULL,           -- such as 'rollout'
    place TEXT NOT NULL,          -- where it was made first
    subject TEXT NOT NULL,        -- what it is about, such as the item
    content TEXT NOT NULL,        -- JSON
    process INTEGER NOT NULL REFERENCES processes (id),
    finished_at INTEGER NOT NULL
);
CREATE INDEX results_by_place ON results (place);

CREATE VIEW call_messages AS
    SELECT calls.id AS call, each.key AS position, messages.role, messages.text, messages.whole
    FROM calls, json_each(calls.messages) AS each JOIN messages ON messages.id = each.value;
