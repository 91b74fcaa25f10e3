-- The number under which the request was recorded before it was sent.
ALTER TABLE attempts ADD COLUMN sent INTEGER;
-- Requests that were in flight when their process was killed, with what was reserved for them: they count like attempts.
CREATE TABLE unanswered (
    number INTEGER PRIMARY KEY,   -- as in attempts.sent
    model INTEGER NOT NULL REFERENCES models (id),
    started_at INTEGER NOT NULL,  -- milliseconds since 1970, UTC
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL
);
