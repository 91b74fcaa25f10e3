PRAGMA foreign_keys = OFF;
PRAGMA application_id = 1936421484;
PRAGMA user_version = 5;
BEGIN TRANSACTION;
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
    reasoning_tokens INTEGER NOT NULL
);

-- Requests that were in flight when their process was killed, with what was reserved for them: they count like attempts.
CREATE TABLE unanswered (
    number INTEGER PRIMARY KEY,   -- as in attempts.sent
    model INTEGER NOT NULL REFERENCES models (id),
    started_at INTEGER NOT NULL,  -- milliseconds since 1970, UTC
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL
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
INSERT INTO "processes" VALUES(1,'0.1.0',1795000000000,2000);
INSERT INTO "models" (id, provider, name, revision, parameters) VALUES(1,'http://llm.example','m','','{"temperature":0.5}');
INSERT INTO "messages" VALUES(1,X'338CB1562E527658B98E069ACA3CE051797BA8BC141D635311A8DA027CEDEB08','system','be brief',NULL);
INSERT INTO "messages" VALUES(2,X'0F5827BC6CA674142CFB427880913DC2F6EBFCAA5C295CAE89886E5745880A15','user','a',NULL);
INSERT INTO "calls" (id, key, place, occurrence, model, messages, request, outcome, reply, tool_calls, finish, error, input_tokens, cached_tokens, output_tokens, reasoning_tokens, process, finished_at, kind, reasoning) VALUES(1,X'D1C725F945247C53B2E63ED1A17630CA140E3C7BF2594CD05A3873DEFDD564A5','step 1',0,1,'[1,2]','{"sampling":{}}','reply','an old reply',NULL,'"stop"',NULL,12,4,3,1,1,1795000000000,'chat','It is old.');
INSERT INTO "attempts" VALUES(1,1,1795000000000,0,1500,'reply',NULL,12,4,3,1,7);
INSERT INTO "pruned" VALUES(1,2,0,0,0,0);
INSERT INTO "unanswered" VALUES(8,1,1795000000000,0,5);
INSERT INTO "models" (id, provider, name, revision, parameters) VALUES(2,'http://llm.example','vectors','','{"dimensions":null,"kind":"embedding"}');
INSERT INTO "messages" VALUES(3,X'D853DB6AF6DA2DC9ACDC9929621A43573734C279DE047F658F9DDD3F999E8847','user','heat an egg',NULL);
INSERT INTO "messages" VALUES(4,X'62D253811FEA18132285E78D4F13E64E1572D88C3CB8CFD2D9578DEF69C1A9DB','user','cool a cup',NULL);
INSERT INTO "calls" (id, key, place, occurrence, model, messages, request, outcome, reply, tool_calls, finish, error, input_tokens, cached_tokens, output_tokens, reasoning_tokens, process, finished_at, kind) VALUES(2,X'EB2CD1DA976247B2B57D947CEBF63A6FB0CAB0E9826F18183991BB0A177C6232','step 1',0,2,'[3,4]','{}','reply',NULL,NULL,NULL,NULL,21,0,0,0,1,1795000000000,'embedding');
INSERT INTO "attempts" VALUES(2,1,1795000000000,0,1500,'reply',NULL,21,0,0,0,9);
INSERT INTO "embeddings" VALUES(1,X'FEC68F3583DDEC2FADAB6F9B1F5F86941BB0989EF81D3ACBCC7939673860106E',2,0,11);
INSERT INTO "embeddings" VALUES(2,X'6D313329BEA1DC1AA790F6E68CF378348EFBE05A73BEA81E3246A6086C8BD242',2,1,10);
INSERT INTO "vectors" VALUES(1,X'00003041ABAA0A42');
INSERT INTO "vectors" VALUES(2,X'0000204100000442');
COMMIT;
