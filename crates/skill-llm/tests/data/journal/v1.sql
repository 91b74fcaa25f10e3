PRAGMA foreign_keys = OFF;
PRAGMA application_id = 1936421484;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
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
    PRIMARY KEY (call, number)
) WITHOUT ROWID;
INSERT INTO "attempts" VALUES(1,1,1795000000000,0,1500,'reply',NULL,12,4,3,1);
CREATE TABLE calls (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL,            -- SHA-256 of model, request, place and occurrence
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
    process INTEGER NOT NULL REFERENCES processes (id),
    finished_at INTEGER NOT NULL  -- milliseconds since 1970, UTC
);
INSERT INTO "calls" VALUES(1,X'4C8FDE64790975C095BDABB16BA8E6AEFC178D5CDA2BB5483659DE9ED5BB8D7E','step 1',0,1,'[1,2]','{"sampling":{}}','reply','an old reply',NULL,'"stop"',NULL,12,4,3,1,1,1795000000000);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    whole TEXT                    -- JSON: the whole message, where it is more than text
);
INSERT INTO "messages" VALUES(1,X'88A3ACC732E2428CFCB3F74C3DE7664979661944BB0E2AF11BE5196BFFA2CE44','system','be brief',NULL);
INSERT INTO "messages" VALUES(2,X'0352FC95D18DC9FE74EA5EF57DE08730DC6BE10DD325AA4CE9BDC19ABA7C9981','user','a',NULL);
CREATE TABLE models (
    id INTEGER PRIMARY KEY,
    provider TEXT NOT NULL,
    name TEXT NOT NULL,
    parameters TEXT NOT NULL,     -- JSON: what the model adds to each request
    UNIQUE (provider, name, parameters)
);
INSERT INTO "models" VALUES(1,'http://llm.example','m','{"temperature":0.5}');
CREATE TABLE processes (
    id INTEGER PRIMARY KEY,
    version TEXT NOT NULL,        -- of the program
    started_at INTEGER NOT NULL,  -- milliseconds since 1970, UTC
    elapsed_ms INTEGER NOT NULL   -- until its last commit
);
INSERT INTO "processes" VALUES(1,'0.1.0',1795000000000,2000);
CREATE TABLE results (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    kind TEXT NOT NULL,           -- such as 'rollout'
    place TEXT NOT NULL,          -- where it was made first
    subject TEXT NOT NULL,        -- what it is about, such as the item
    content TEXT NOT NULL,        -- JSON
    process INTEGER NOT NULL REFERENCES processes (id),
    finished_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX replies_by_key ON calls (key) WHERE outcome = 'reply';
CREATE INDEX calls_by_place ON calls (place);
CREATE INDEX results_by_place ON results (place);
CREATE VIEW call_messages AS
    SELECT calls.id AS call, each.key AS position, messages.role, messages.text, messages.whole
    FROM calls, json_each(calls.messages) AS each JOIN messages ON messages.id = each.value;
COMMIT;
