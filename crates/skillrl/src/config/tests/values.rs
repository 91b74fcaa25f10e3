use super::{error, lookup, parse};

/// Sets one key by `--set` and compares the JSON of the result.
#[track_caller]
fn check(setting: &str, expect: &str) {
    let loaded = parse(super::MINIMAL, &[setting]);
    let key = setting.split('=').next().unwrap();
    assert_eq!(lookup(&loaded.config, key).to_string(), expect, "{setting}");
}

/// Sets one key by `--set` and looks for the end of the message.
#[track_caller]
fn refused(setting: &str, expect: &str) {
    let message = error(super::MINIMAL, &[setting]);
    let key = setting.split('=').next().unwrap();
    assert_eq!(message, format!("--set: `{key}` {expect}"), "{setting}");
}

#[test]
fn values_that_are_taken() {
    check("run.dir=runs/x", r#""runs/x""#);
    check("run.dir=20240101", r#""20240101""#);
    check("run.dir=true", r#""true""#);
    check("run.dir='a b'", r#""a b""#);
    check("run.dir=C:\\runs\\x", r#""C:\\runs\\x""#);
    check("run.dir=a=b", r#""a=b""#);
    check("run.dir= a", r#"" a""#);
    check("run.seed=0", "0");
    check("gate.mode=no_regression", r#""no_regression""#);
    check("gate.standard_errors=2", "2.0");
    check("gate.alpha=0.01", "0.01");
    check("gate.spend_alpha=true", "true");
    check("gate.max_losses=3", "3");
    check("gate.selection_repeats=4", "4");
    check("eval.fresh=false", "false");
    check("run.seed=0x2a", "42");
    check("run.seed=1_000", "1000");
    check("run.seed= 7 ", "7");
    check("run.seed=9007199254740991", "9007199254740991");
    check("run.workers=1", "1");
    check("run.workers=4096", "4096");
    check("models.target.model=4.1", r#""4.1""#);
    check("models.target.model=true", r#""true""#);
    check("models.target.model=null", r#""null""#);
    check("models.target.model=[1]", r#""[1]""#);
    check("models.target.model=2024-01-01", r#""2024-01-01""#);
    check("models.target.model=\"4.1\"", r#""4.1""#);
    check("models.target.model=\"4.1", r#""\"4.1""#);
    check("models.target.model=Qwen/Qwen2.5-0.5B-Instruct", r#""Qwen/Qwen2.5-0.5B-Instruct""#);
    check("models.optimizer.model=a=b", r#""a=b""#);
    check("models.target.base_url=http://localhost:8080/v1", r#""http://localhost:8080/v1""#);
    check("models.target.base_url=http://[::1]:8080/v1", r#""http://[::1]:8080/v1""#);
    check("models.target.base_url=HTTPS://host", r#""HTTPS://host""#);
    check(
        "models.target.base_url=https://host/v1?api-version=2024-10-21",
        r#""https://host/v1?api-version=2024-10-21""#,
    );
    check("models.target.api_key_env=", "null");
    check("models.target.api_key_env=OPENAI_API_KEY", r#""OPENAI_API_KEY""#);
    check("models.target.api_key_env=_key2", r#""_key2""#);
    check("models.target.temperature=0", "0.0");
    check("models.target.temperature=-0.0", "0.0");
    check("models.target.temperature=0.7", "0.7");
    check("models.target.temperature=2", "2.0");
    check("models.target.price_output=3000000000", "3000000000.0");
    check("models.target.temperature=1e-3", "0.001");
    check("models.target.top_p=1", "1.0");
    check("models.target.top_p=0.95", "0.95");
    check("models.target.max_tokens=1", "1");
    check("models.target.seed=5", "5");
    check("models.target.timeout_s=86400", "86400");
    check("models.target.max_tokens_field=max_completion_tokens", r#""max_completion_tokens""#);
    check("models.target.response_format=off", r#""off""#);
    check("models.target.price_input=0", "0.0");
    check("models.target.price_cached=0.025", "0.025");
    check("models.target.price_output=2000", "2000.0");
    check("models.target.extra_body={ a = 1, b = [true, 1.5, \"x\"] }", r#"{"a":1,"b":[true,1.5,"x"]}"#);
    check("models.target.extra_body.reasoning_effort=low", r#""low""#);
    check("models.target.extra_body.top_k=20", "20");
    check("models.target.extra_body.provider.order=[\"a\"]", r#"["a"]"#);
    check("models.target.extra_body.since=2024-01-01", r#""2024-01-01""#);
    check("models.target.extra_body.max_tokens_per_turn=5", "5");
    check("models.target.extra_headers.x-title=7", r#""7""#);
    check(
        "models.target.extra_headers={ http-referer = \"https://x.y\" }",
        r#"{"http-referer":"https://x.y"}"#,
    );
    check("env.data=other.jsonl", r#""other.jsonl""#);
    check("env.split_ratio=[8, 1, 1]", "[8,1,1]");
    check("env.split_ratio=[1,0,0]", "[1,0,0]");
    check("env.split_ratio=auto", r#""auto""#);
    check("env.split_rule=1", "1");
    check("env.split_seed=7", "7");
    check("env.scorer=contains", r#""contains""#);
    check("env.scorer=\"contains\"", r#""contains""#);
    check("env.max_tokens=32", "32");
    check("skill.initial=skill.md", r#""skill.md""#);
    check("train.epochs=1", "1");
    check("train.batch_size=8", "8");
    check("train.accumulation=3", "3");
    check("train.samples=4", "4");
    check("train.minibatch_size=1", "1");
    check("train.merge_batch_size=2", "2");
    check("train.edit_budget=2", "2");
    check("train.min_edit_budget=4", "4");
    check("train.schedule=constant", r#""constant""#);
    check("train.schedule=linear", r#""linear""#);
    check("train.schedule=autonomous", r#""autonomous""#);
    check("train.failure_only=true", "true");
    check("train.update_mode=full_rewrite_minibatch", r#""full_rewrite_minibatch""#);
    check("train.skill_aware=true", "true");
    check("train.appendix_source=failure_only", r#""failure_only""#);
    check("train.appendix_limit=12", "12");
    check("train.memory_steps=0", "0");
    check("train.memory_chars=500", "500");
    check("train.slow_update=force", r#""force""#);
    check("train.slow_update=off", r#""off""#);
    check("train.slow_update_samples=5", "5");
    check("train.pair_policy=changed", r#""changed""#);
    check("train.meta_skill=false", "false");
    check("gate.enabled=false", "false");
    check("train.max_skill_tokens=0", "0");
    check("train.max_skill_tokens=500", "500");
    check("train.anchors=exact", r#""exact""#);
    check("train.drop_duplicates=false", "false");
    check("gate.metric=soft", r#""soft""#);
    check("gate.metric=mixed", r#""mixed""#);
    check("gate.mixed_weight=0", "0.0");
    check("gate.mixed_weight=1", "1.0");
    check("eval.test=false", "false");
    check("prompts.dir=prompts", r#""prompts""#);
    check("limits.max_reply_tokens=1", "1");
}

#[test]
fn values_that_are_refused() {
    const SEED: &str = "takes a whole number from 0 to 9007199254740991";
    const COUNT: &str = "takes a whole number from 1 to 1000000";
    const TOKENS: &str = "takes a whole number from 1 to 10000000";
    refused("run.dir=", "takes a path that is not empty, not \"\"");
    refused("run.dir=  ", "takes a path that is not empty, not \"  \"");
    refused("run.seed=-1", &format!("{SEED}, not -1"));
    refused("run.seed=9007199254740992", &format!("{SEED}, not 9007199254740992"));
    refused("run.seed=99999999999999999999999", &format!("{SEED}, not 99999999999999999999999"));
    refused("run.seed=1.0", &format!("{SEED}, not 1.0"));
    refused("run.seed=forty", &format!("{SEED}, not \"forty\""));
    refused("run.seed=", &format!("{SEED}, not \"\""));
    refused("run.workers=0", "takes a whole number from 1 to 4096, not 0");
    refused("run.workers=4097", "takes a whole number from 1 to 4096, not 4097");
    refused("run.workers=\"8\"", "takes a whole number from 1 to 4096, not \"8\"");
    refused("models.target.model=", "takes a text that is not empty, not \"\"");
    refused("models.target.temperature=-0.1", "takes a number of at least 0, not -0.1");
    refused("models.target.temperature=nan", "takes a number of at least 0, not nan");
    refused("models.target.temperature=inf", "takes a number of at least 0, not inf");
    refused("models.target.temperature=hot", "takes a number of at least 0, not \"hot\"");
    refused("models.target.top_p=1.1", "takes a number from 0 to 1, not 1.1");
    refused("models.target.max_tokens=0", &format!("{TOKENS}, not 0"));
    refused("models.target.seed=-5", &format!("{SEED}, not -5"));
    refused("models.target.timeout_s=0", "takes a whole number from 1 to 86400, not 0");
    refused("models.target.timeout_s=1.5", "takes a whole number from 1 to 86400, not 1.5");
    refused("models.target.price_input=-1", "takes a number of at least 0, not -1");
    refused(
        "models.target.base_url=localhost:8080",
        "takes an address that starts with http:// or https://, not this text",
    );
    refused(
        "models.target.base_url=http://",
        "takes an address that starts with http:// or https://, not this text",
    );
    refused(
        "models.target.base_url=http://a b",
        "takes an address that starts with http:// or https://, not this text",
    );
    refused("models.target.extra_body=5", "takes a table, like { reasoning_effort = \"low\" }, not 5");
    refused(
        "models.target.extra_body=[1]",
        "takes a table, like { reasoning_effort = \"low\" }, not an array",
    );
    refused("models.target.extra_body.x=nan", "takes a finite number, not nan");
    refused(
        "models.target.extra_headers=x",
        "takes a table of texts, like { x-title = \"skillrl\" }, not this text",
    );
    refused(
        "models.target.kind=openia",
        "takes \"openai\", \"anthropic\", \"responses\", \"agent\", \"scripted\" or \"simulated\", not \"openia\"; did you mean \"openai\"?",
    );
    refused(
        "models.target.kind=7",
        "takes \"openai\", \"anthropic\", \"responses\", \"agent\", \"scripted\" or \"simulated\", not \"7\"",
    );
    refused(
        "models.target.max_tokens_field=maxtokens",
        "takes \"auto\", \"max_tokens\" or \"max_completion_tokens\", not \"maxtokens\"; did you mean \"max_tokens\"?",
    );
    refused(
        "models.target.response_format=json-schema",
        "takes \"json_schema\", \"json_object_schema\", \"json_object\", \"tool\" or \"off\", not \"json-schema\"; did you mean \"json_schema\"?",
    );
    const SCORERS: &str = "\"em_f1\", \"contains\", \"exact\", \"choice\", \"numeric\", \"anls\", \"regex\", \"json_fields\", \"rules\", \"rubric\", \"command\" or \"officeqa\"";
    refused(
        "env.kind=alfworl",
        "takes \"qa\", \"tasks\", \"alfworld\", \"webshop\" or \"exec\", not \"alfworl\"; did you mean \"alfworld\"?",
    );
    refused("env.scorer=em", &format!("takes {SCORERS}, not \"em\""));
    refused("env.scorer=EM_F1", &format!("takes {SCORERS}, not \"EM_F1\"; did you mean \"em_f1\"?"));
    const RATIO: &str = "takes \"auto\", or three whole numbers for train, val and test that are not all 0, like [2, 1, 7], not";
    refused("env.split_ratio=[0, 0, 0]", &format!("{RATIO} [0, 0, 0]"));
    refused("env.split_ratio=[1, 2]", &format!("{RATIO} [1, 2]"));
    refused("env.split_ratio=[1, 2, 3, 4]", &format!("{RATIO} [1, 2, 3, 4]"));
    refused("env.split_ratio=[0.2, 0.1, 0.7]", &format!("{RATIO} [0.2, 0.1, 0.7]"));
    refused("env.split_ratio=[-1, 1, 1]", &format!("{RATIO} [-1, 1, 1]"));
    refused("env.split_ratio=2:1:7", &format!("{RATIO} \"2:1:7\""));
    refused("env.split_ratio=Auto", &format!("{RATIO} \"Auto\""));
    refused("env.split_rule=3", "takes a whole number from 1 to 2, not 3");
    refused("train.epochs=0", &format!("{COUNT}, not 0"));
    refused("train.batch_size=0", &format!("{COUNT}, not 0"));
    refused("train.batch_size=true", &format!("{COUNT}, not true"));
    refused("train.batch_size=[8]", &format!("{COUNT}, not [8]"));
    refused("train.batch_size={ a = 1 }", &format!("{COUNT}, not a table"));
    refused("train.batch_size=2024-01-01", &format!("{COUNT}, not 2024-01-01"));
    refused("train.minibatch_size=0", &format!("{COUNT}, not 0"));
    refused("train.merge_batch_size=1", "takes a whole number from 2 to 1000000, not 1");
    refused("train.samples=0", "takes a whole number from 1 to 1000, not 0");
    refused("train.accumulation=0", "takes a whole number from 1 to 1000, not 0");
    refused(
        "train.update_mode=rewrite",
        "takes \"patch\", \"rewrite_from_suggestions\" or \"full_rewrite_minibatch\", not \"rewrite\"; did you mean \"full_rewrite_minibatch\"?",
    );
    refused("train.appendix_limit=201", "takes a whole number from 0 to 200, not 201");
    refused("train.appendix_source=all", "takes \"both\" or \"failure_only\", not \"all\"");
    refused("train.memory_steps=101", "takes a whole number from 0 to 100, not 101");
    refused("train.edit_budget=0", "takes a whole number from 1 to 1000, not 0");
    refused("train.min_edit_budget=0", "takes a whole number from 1 to 1000, not 0");
    refused(
        "train.schedule=cosin",
        "takes \"constant\", \"linear\", \"cosine\" or \"autonomous\", not \"cosin\"; did you mean \"cosine\"?",
    );
    refused("gate.metric=sum", "takes \"hard\", \"soft\" or \"mixed\", not \"sum\"");
    refused(
        "gate.metric=Hard",
        "takes \"hard\", \"soft\" or \"mixed\", not \"Hard\"; did you mean \"hard\"?",
    );
    refused("gate.mixed_weight=1.5", "takes a number from 0 to 1, not 1.5");
    refused("gate.mixed_weight=-0.5", "takes a number from 0 to 1, not -0.5");
    refused("eval.test=1", "takes true or false, not 1");
    refused("eval.test=yes", "takes true or false, not \"yes\"");
    refused("skill.initial=", "takes a path that is not empty, not \"\"");
    refused("prompts.dir=", "takes a path that is not empty, not \"\"");
    refused("limits.max_reply_tokens=0", &format!("{TOKENS}, not 0"));
    let long = "x".repeat(200);
    refused(&format!("train.epochs={long}"), &format!("{COUNT}, not \"{}...", "x".repeat(59)));
}

#[test]
fn edit_budgets_that_do_not_go_together() {
    let text = format!("{}[train]\nedit_budget = 1\n", super::MINIMAL);
    assert_eq!(parse(&text, &[]).config.train.min_edit_budget, 1, "what is left out follows");
    let text = format!("{}[train]\nedit_budget = 3\nmin_edit_budget = 4\n", super::MINIMAL);
    assert_eq!(
        error(&text, &[]),
        "skillrl.toml:9:1: `train.min_edit_budget` (4) is above `train.edit_budget` (3); it takes at most 3"
    );
    parse(&text, &["train.edit_budget=4"]);
}

fn two_models(target: &str, optimizer: &str, rest: &str) -> String {
    format!(
        "{rest}\n[models.target]\nmodel = \"a\"\n{target}\n[models.optimizer]\nmodel = \"b\"\n{optimizer}\n\
         [env]\nkind = \"qa\"\ndata = \"d\"\n"
    )
}

#[test]
fn a_server_has_one_rate() {
    let rate = |rate: u32| format!("requests_per_minute = {rate}");
    parse(&two_models(&rate(5), "", ""), &[]);
    parse(&two_models(&rate(5), &rate(5), ""), &[]);
    let elsewhere = format!("{}\nbase_url = \"http://other/v1\"", rate(6));
    parse(&two_models(&rate(5), &elsewhere, ""), &[]);
    assert_eq!(
        error(&two_models(&rate(5), &rate(6), ""), &[]),
        "skillrl.toml:7:1: `models.target.requests_per_minute` (5) and `models.optimizer.requests_per_minute` (6) \
         are of one server, which has one rate; set it for one of them"
    );
}

#[test]
fn a_cap_on_money_needs_prices() {
    let cap = "[budget]\nmoney = 5.0";
    parse(&two_models("price_input = 1.0", "price_output = 0.0", cap), &[]);
    assert_eq!(
        error(&two_models("price_input = 1.0", "", cap), &[]),
        "skillrl.toml:2:1: `budget.money` needs prices: `models.optimizer` has neither `price_input` nor `price_output`"
    );
}

/// A configuration of kind tasks with these lines in its section.
#[track_caller]
fn tasks(lines: &str, expect: &str) {
    let text = format!("{}{lines}", super::MINIMAL.replace("[env]\n", "[env]\nkind = \"tasks\"\n"));
    assert_eq!(super::error(&text, &[]), expect);
}

#[test]
fn what_does_not_go_together_in_tasks() {
    tasks(
        "split_field = \"a\"\nsplit_ids = \"b\"\n",
        "skillrl.toml:9:1: `env.split_field` and `env.split_ids` are given, and only one of them can count",
    );
    tasks(
        "tolerance = 0.1\n",
        "skillrl.toml:8:1: `env.tolerance` belongs to the scorer \"numeric\" or \"json_fields\", but `env.scorer` is \"em_f1\"",
    );
    tasks(
        "extract_tag = \"x\"\n",
        "skillrl.toml:8:1: `env.extract_tag` belongs to the extraction \"last_tag\", but `env.extract` is \"whole\"",
    );
    tasks("extract = \"regex\"\n", "skillrl.toml:8:1: the extraction \"regex\" needs `env.extract_pattern`");
    tasks(
        "scorer = \"rules\"\n",
        "skillrl.toml:8:1: the scorer \"rules\" needs `env.rules` or `env.rules_field`",
    );
    tasks("scorer = \"command\"\n", "skillrl.toml:8:1: the scorer \"command\" needs `env.command`");
    tasks(
        "scorer = \"rubric\"\nrubric = \"good\"\n",
        "skillrl.toml:8:1: the scorer \"rubric\" needs a judge: there is no section [models.judge], and `env.judge` \
         names neither the optimizer nor the target",
    );
    tasks(
        "scorer = \"rubric\"\nrubric = \"good\"\n[models.judge]\nkind = \"simulated\"\n",
        "skillrl.toml: `models.judge.kind` is \"simulated\", and no simulated model can grade",
    );
    tasks(
        "scorer = \"rules\"\nrules = [{ contain = \"x\" }]\n",
        "skillrl.toml:9:1: `env.rules`: there is no rule `contain`; the rules are contains, not_contains, matches, \
         not_matches, section, min_chars, max_chars, min_words, max_words, tool_called, tool_not_called",
    );
    tasks(
        "scorer = \"rules\"\nrules = [\"x\"]\n",
        "skillrl.toml:9:1: `env.rules` takes a list of tables, like [{ contains = \"Berlin\" }, { max_words = 100 }], not [\"x\"]",
    );
    tasks(
        "scorer = \"command\"\ncommand = []\n",
        "skillrl.toml:9:1: `env.command` takes a list of texts that are not empty, like [\"one\", \"two\"], not []",
    );
    tasks("scorrer = \"exact\"\n", "skillrl.toml:8:1: unknown key `env.scorrer`; did you mean `env.scorer`?");
    assert_eq!(
        super::error(&format!("{}scorer = \"exact\"\n", super::MINIMAL), &[]),
        "skillrl.toml:7:1: `env.scorer` is \"exact\", and kind \"qa\" has \"em_f1\" or \"contains\"; kind \"tasks\" has \
         the others"
    );
    assert_eq!(
        super::error(&format!("{}pattern = \"x\"\n", super::MINIMAL), &[]),
        "skillrl.toml:7:1: `env.pattern` belongs to kind \"tasks\", but `env.kind` is \"qa\""
    );
}

#[test]
fn the_default_file_of_tasks_can_be_read() {
    let file = crate::config::default_file(&["env.kind=tasks".to_owned()]).unwrap();
    let config = super::parse(&file, &[]).config;
    assert_eq!(config.env.kind(), "tasks");
    assert!(file.contains("\nscorer = \"em_f1\"\n") && file.contains("\n#rubric = \""), "{file}");
}
