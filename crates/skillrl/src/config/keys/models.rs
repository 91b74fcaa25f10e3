//! The keys of the sections of models.

use super::Effect::{Process, Result as Outcome};
use super::KeyDefault::{Absent, Required, Suggested, Value};
use super::table::{MAX_RATE, MAX_SEED, MAX_TOKENS, PRICE};
use super::{KeySpec, ValueType};

/// The kinds of models that a server answers for.
pub(in crate::config) const SERVED: &[&str] = &["openai", "anthropic", "responses"];
/// The kinds of models that cost money.
const PAID: &[&str] = &["openai", "anthropic", "responses", "agent"];

/// What a provider sets: in the default file these are off, so that another word for the provider is enough.
pub(in crate::config) const SET_BY_PROVIDER: &[&str] = &[
    "kind",
    "base_url",
    "api_key_env",
    "key_header",
    "seed_field",
    "max_tokens_field",
    "response_format",
    "reasoning_effort_field",
    "thinking_field",
];
/// The kind whose keys the default file only has where it is asked for, since it has many.
pub(in crate::config) const AGENT: &str = "agent";

pub(super) const MODEL: &[KeySpec] = &[
    KeySpec::new(
        "kind",
        ValueType::Choice(&["openai", "anthropic", "responses", "agent", "scripted", "simulated"]),
        Outcome,
        Value("\"openai\""),
        "openai: any server with the Chat Completions interface. anthropic: the Messages interface.\n\
         responses: OpenAI's Responses interface. agent: Claude Code, Codex, Gemini CLI or any program.\n\
         scripted: replies from a file.\n\
         simulated: a small program that plays the part of a model, for demonstrations and tests.",
    ),
    KeySpec::new(
        "provider",
        ValueType::Choice(&[
            "openai",
            "anthropic",
            "azure",
            "gemini",
            "openrouter",
            "deepseek",
            "qwen",
            "minimax",
            "vllm",
            "sglang",
            "llamacpp",
            "ollama",
        ]),
        Process,
        Suggested { example: "\"openai\"" },
        "Sets what is known about a provider: kind, base_url, api_key_env and the names of fields. Each of them\n\
         can be set here too, and then counts.",
    )
    .of_kinds(SERVED),
    KeySpec::new(
        "base_url",
        ValueType::Url,
        Outcome,
        Value("\"https://api.openai.com/v1\""),
        "Where the server is, usually up to and with /v1.",
    )
    .of_kinds(SERVED),
    KeySpec::new(
        "api_version",
        ValueType::Text,
        Process,
        Absent { example: "\"2024-10-21\"" },
        "The version of the interface, where the address has to name one, as Azure's older addresses do.",
    )
    .of_kinds(SERVED),
    KeySpec::new(
        "model",
        ValueType::Text,
        Outcome,
        Required { example: "\"gpt-5-mini\"" },
        "The model's name, as the server knows it.",
    )
    .of_kinds(PAID),
    KeySpec::new(
        "api_key_env",
        ValueType::Variable,
        Process,
        Absent { example: "\"OPENAI_API_KEY\"" },
        "The environment variable that holds the key, never the key itself. Without it a provider's own variable is\n\
         taken for the provider's own address, and no key is sent elsewhere.",
    )
    .of_kinds(SERVED),
    KeySpec::new(
        "api_key_command",
        ValueType::Texts,
        Process,
        Absent { example: "[\"az\", \"account\", \"get-access-token\", \"--resource\", \"https://cognitiveservices.azure.com\"]" },
        "A command that prints the key or a token, instead of api_key_env. It is run again when the token expires,\n\
         and what it prints is kept in memory only.",
    )
    .of_kinds(SERVED),
    KeySpec::new(
        "key_header",
        ValueType::Choice(&["authorization", "x-api-key", "api-key"]),
        Process,
        Absent { example: "\"authorization\"" },
        "The header that the key stands in. Without it x-api-key for kind \"anthropic\", and authorization else.",
    )
    .of_kinds(SERVED),
    KeySpec::new(
        "temperature",
        ValueType::Number { min: 0.0, max: f64::INFINITY },
        Outcome,
        Absent { example: "0.0" },
        "Randomness of the replies; 0 is greedy. Without it the server decides.",
    )
    .of_kinds(SERVED),
    KeySpec::new(
        "top_p",
        ValueType::Number { min: 0.0, max: 1.0 },
        Outcome,
        Absent { example: "1.0" },
        "Nucleus sampling. Without it the server decides.",
    )
    .of_kinds(SERVED),
    KeySpec::new(
        "max_tokens",
        ValueType::Integer { min: 1, max: MAX_TOKENS },
        Outcome,
        Absent { example: "4096" },
        "The most tokens that a reply may have, where nothing else in this file bounds it.",
    )
    .of_kinds(SERVED),
    KeySpec::new(
        "seed",
        ValueType::Integer { min: 0, max: MAX_SEED },
        Outcome,
        Absent { example: "42" },
        "A sampling seed, for servers that take one.",
    )
    .of_kind("openai"),
    KeySpec::new(
        "seed_field",
        ValueType::Choice(&["seed", "off"]),
        Process,
        Value("\"seed\""),
        "Whether the server takes a seed. off: one that is asked for is an error.",
    )
    .of_kind("openai"),
    KeySpec::new(
        "timeout_s",
        ValueType::Integer { min: 1, max: 86_400 },
        Process,
        Value("120"),
        "Seconds to wait for one reply.",
    )
    .of_kinds(PAID),
    KeySpec::new(
        "max_tokens_field",
        ValueType::Choice(&["auto", "max_tokens", "max_completion_tokens"]),
        Process,
        Value("\"auto\""),
        "The name under which the server takes the bound on tokens.",
    )
    .of_kind("openai"),
    KeySpec::new(
        "response_format",
        ValueType::Choice(&["json_schema", "json_object_schema", "json_object", "tool", "off"]),
        Outcome,
        Value("\"json_schema\""),
        "How the server is asked for JSON, where a stage wants it. tool: as a tool that has to be called, for kind\n\
         \"anthropic\".",
    )
    .of_kinds(SERVED),
    KeySpec::new(
        "reasoning_effort",
        ValueType::Choice(&["none", "minimal", "low", "medium", "high", "xhigh", "max"]),
        Outcome,
        Absent { example: "\"low\"" },
        "How much the model thinks before it answers. Each provider takes some of these words.",
    )
    .of_kinds(PAID),
    KeySpec::new(
        "reasoning_effort_field",
        ValueType::Choice(&["reasoning_effort", "reasoning", "chat_template_kwargs", "off"]),
        Process,
        Value("\"reasoning_effort\""),
        "Where the server looks for the effort. off: one that is asked for is an error.",
    )
    .of_kind("openai"),
    KeySpec::new(
        "thinking",
        ValueType::Flag,
        Outcome,
        Absent { example: "false" },
        "Whether the model thinks before it answers. Without it the server decides.",
    )
    .of_kinds(SERVED),
    KeySpec::new(
        "thinking_tokens",
        ValueType::Integer { min: 1, max: MAX_TOKENS },
        Outcome,
        Absent { example: "2048" },
        "The most tokens that the model thinks with, for servers that take such a bound.",
    )
    .of_kinds(SERVED),
    KeySpec::new(
        "thinking_field",
        ValueType::Choice(&[
            "enable_thinking",
            "chat_template_kwargs",
            "thinking",
            "thinking_adaptive",
            "reasoning",
            "reasoning_effort",
            "off",
        ]),
        Process,
        Value("\"off\""),
        "Where the server looks for thinking and thinking_tokens. off: asking for one is an error.",
    )
    .of_kind("openai"),
    KeySpec::new(
        "prompt_cache",
        ValueType::Choice(&["off", "5m", "1h"]),
        Process,
        Value("\"5m\""),
        "How long the server keeps the beginning of a prompt, which holds the skill.",
    )
    .of_kind("anthropic"),
    KeySpec::new(
        "agent",
        ValueType::Choice(&["claude", "codex", "gemini", "command"]),
        Outcome,
        Required { example: "\"claude\"" },
        "The program that plays the model. command: any program, see command.",
    )
    .of_kind("agent"),
    KeySpec::new(
        "command",
        ValueType::Texts,
        Outcome,
        Absent { example: "[\"my-agent\", \"--model\", \"{model}\"]" },
        "The program and its first arguments, where it is not on the path or is none of those that are known.\n\
         {model} stands for the model's name. The prompt comes on its standard input.",
    )
    .of_kind("agent"),
    KeySpec::new(
        "agent_args",
        ValueType::Texts,
        Outcome,
        Absent { example: "[\"--max-turns\", \"20\"]" },
        "Further arguments of the program.",
    )
    .of_kind("agent"),
    KeySpec::new(
        "output",
        ValueType::Choice(&["auto", "text", "claude", "codex", "gemini"]),
        Outcome,
        Value("\"auto\""),
        "How the program's output is read. auto: as the known program prints it, and else as the reply itself.",
    )
    .of_kind("agent"),
    KeySpec::new(
        "sandbox",
        ValueType::Choice(&["read_only", "workspace", "off"]),
        Outcome,
        Value("\"read_only\""),
        "What the program may do, in its own words. read_only: read in its working directory. workspace: also write\n\
         there and run programs. off: anything.",
    )
    .of_kind("agent"),
    KeySpec::new(
        "skill_as",
        ValueType::Choice(&["prompt", "package"]),
        Outcome,
        Value("\"prompt\""),
        "How the program gets the skill. prompt: as a part of the prompt. package: as SKILL.md in the directory\n\
         where it looks for skills.",
    )
    .of_kind("agent"),
    KeySpec::new(
        "pass_env",
        ValueType::Texts,
        Process,
        Absent { example: "[\"ANTHROPIC_API_KEY\"]" },
        "Names of environment variables that the program gets besides those that find programs and directories.",
    )
    .of_kind("agent"),
    KeySpec::new(
        "traces",
        ValueType::Flag,
        Process,
        Value("true"),
        "Whether what the program prints is kept, in agent_traces of the run directory.",
    )
    .of_kind("agent"),
    KeySpec::new(
        "requests_per_minute",
        ValueType::Integer { min: 1, max: MAX_RATE },
        Process,
        Absent { example: "500" },
        "The most requests per minute. Both models of one server share it.",
    )
    .of_kinds(PAID),
    KeySpec::new(
        "tokens_per_minute",
        ValueType::Integer { min: 1, max: MAX_RATE },
        Process,
        Absent { example: "200000" },
        "The most tokens per minute, of prompts and replies. Both models of one server share it.",
    )
    .of_kinds(PAID),
    KeySpec::new(
        "price_input",
        PRICE,
        Process,
        Absent { example: "0.25" },
        "Money per million input tokens, for reports and for budget.money.",
    )
    .of_kinds(PAID),
    KeySpec::new(
        "price_cached",
        PRICE,
        Process,
        Absent { example: "0.025" },
        "Money per million input tokens that the server had in its cache.",
    )
    .of_kinds(PAID),
    KeySpec::new(
        "price_output",
        PRICE,
        Process,
        Absent { example: "2.0" },
        "Money per million output tokens.",
    )
    .of_kinds(PAID),
    KeySpec::new(
        "extra_body",
        ValueType::Body,
        Outcome,
        Absent { example: "{ top_k = 20 }" },
        "More fields of the request, sent as they are.",
    )
    .of_kinds(SERVED),
    KeySpec::new(
        "extra_headers",
        ValueType::Headers,
        Outcome,
        Absent { example: "{ x-title = \"skillrl\" }" },
        "More headers of the request. A header with a key in it is refused: that is what api_key_env is for.",
    )
    .of_kinds(SERVED),
    KeySpec::new(
        "file",
        ValueType::Path,
        Outcome,
        Required { example: "\"rules.json\"" },
        "The file with the replies.",
    )
    .of_kind("scripted"),
    KeySpec::new(
        "sim_seed",
        ValueType::Integer { min: 0, max: MAX_SEED },
        Outcome,
        Value("42"),
        "Decides what the simulated model gets right.",
    )
    .of_kind("simulated"),
];
