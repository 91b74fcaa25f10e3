-- What a reply is besides its text.
ALTER TABLE calls ADD COLUMN reasoning TEXT;
ALTER TABLE calls ADD COLUMN tokens TEXT;
ALTER TABLE calls ADD COLUMN provider_state TEXT;
-- Models whose weights change under one name have a row for each revision.
CREATE TABLE models_5 (
    id INTEGER PRIMARY KEY,
    provider TEXT NOT NULL,
    name TEXT NOT NULL,
    revision TEXT NOT NULL,       -- of the weights; empty where they do not change
    parameters TEXT NOT NULL,     -- JSON: what the model adds to each request
    UNIQUE (provider, name, revision, parameters)
);
INSERT INTO models_5 SELECT id, provider, name, '', parameters FROM models;
DROP TABLE models;
ALTER TABLE models_5 RENAME TO models;
-- The kind of model that the call went to: 'chat' or 'embedding'.
ALTER TABLE calls ADD COLUMN kind TEXT NOT NULL DEFAULT 'chat';

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
