-- What calls had cost that were pruned, by model: what was paid stays counted.
CREATE TABLE pruned (
    model INTEGER PRIMARY KEY REFERENCES models (id),
    requests INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL
);
