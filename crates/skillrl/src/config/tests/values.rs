use super::{MINIMAL, Said, lookup, parse};
use crate::config::{Config, TasksScorer};

/// Sets one key by `--set` and compares the JSON of the result.
#[track_caller]
fn check(setting: &str, expect: &str) {
    let loaded = parse(MINIMAL, &[setting]);
    let key = setting.split('=').next().unwrap();
    assert_eq!(lookup(&loaded.config, key).to_string(), expect, "{setting}");
}

/// The sentence about the answer's field names every field that is looked for.
#[test]
fn the_usual_names_of_answers_are_those_of_the_sentence() {
    let (_, key) = crate::config::keys::find("env.answer_field").unwrap();
    let sentence = key.doc().replace('\n', " ");
    for name in skill_envs::tasks::ANSWER_FIELDS {
        assert!(sentence.contains(name), "{name}: {sentence}");
    }
    let (_, kind) = crate::config::keys::find("env.kind").unwrap();
    let formats = skill_envs::tasks::DATA_FORMATS
        .split([',', ' '])
        .filter(|word| !matches!(*word, "" | "or" | "Lines"));
    assert!(formats.clone().count() > 4);
    for format in formats {
        assert!(kind.doc().contains(format), "{format}: {}", kind.doc());
    }
}

/// What the table of scorers says of a scorer is true of the keys.
#[test]
fn scorers_look_at_keys_of_tasks_and_are_named_in_a_sentence() {
    let key = |name: &str| crate::config::keys::find(&format!("env.{name}")).map(|(_, key)| key);
    for scorer in TasksScorer::ALL {
        let (name, spec) = (scorer.as_str(), scorer.spec());
        assert!(key("scorer").unwrap().doc().contains(name), "{name}");
        for looked_at in spec.keys {
            let is_of_tasks = key(looked_at).is_some_and(|key| key.kinds.names().contains(&"tasks"));
            assert!(is_of_tasks, "{name}: {looked_at}");
        }
        assert!(spec.needs.iter().all(|needed| spec.keys.contains(needed)), "{name}: {:?}", spec.needs);
        assert_eq!(spec.is_judged, spec.keys.contains(&"judge"), "{name}");
    }
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
    check("models.target.price_cache_write=0.3125", "0.3125");
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
    check("env.split_ratio=2:1:7", "[2,1,7]");
    check("env.split_ratio=\" 2 : 1 : 7\"", "[2,1,7]");
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
    let mut said = Said::default();
    said.refused("run.dir=");
    said.refused("run.dir=  ");
    said.refused("run.seed=-1");
    said.refused("run.seed=9007199254740992");
    said.refused("run.seed=99999999999999999999999");
    said.refused("run.seed=1.0");
    said.refused("run.seed=forty");
    said.refused("run.seed=");
    said.refused("run.workers=0");
    said.refused("run.workers=4097");
    said.refused("run.workers=\"8\"");
    said.refused("models.target.model=");
    said.refused("models.target.temperature=-0.1");
    said.refused("models.target.temperature=nan");
    said.refused("models.target.temperature=inf");
    said.refused("models.target.temperature=hot");
    said.refused("models.target.top_p=1.1");
    said.refused("models.target.max_tokens=0");
    said.refused("models.target.seed=-5");
    said.refused("models.target.timeout_s=0");
    said.refused("models.target.timeout_s=1.5");
    said.refused("models.target.price_input=-1");
    said.refused("models.target.base_url=localhost:8080");
    said.refused("models.target.base_url=http://");
    said.refused("models.target.base_url=http://a b");
    said.refused("models.target.extra_body=5");
    said.refused("models.target.extra_body=[1]");
    said.refused("models.target.extra_body.x=nan");
    said.refused("models.target.extra_headers=x");
    said.refused("models.target.kind=openia");
    said.refused("models.target.kind=7");
    said.refused("models.target.max_tokens_field=maxtokens");
    said.refused("models.target.response_format=json-schema");
    said.refused("env.kind=alfworl");
    said.refused("env.scorer=em");
    said.refused("env.scorer=EM_F1");
    said.refused("env.split_ratio=[0, 0, 0]");
    said.refused("env.split_ratio=[1, 2]");
    said.refused("env.split_ratio=[1, 2, 3, 4]");
    said.refused("env.split_ratio=[0.2, 0.1, 0.7]");
    said.refused("env.split_ratio=[-1, 1, 1]");
    said.refused("env.split_ratio=2:1");
    said.refused("env.split_ratio=0:0:0");
    said.refused("env.split_ratio=2:1:x");
    said.refused("env.split_ratio=Auto");
    said.refused("env.split_rule=3");
    said.refused("train.epochs=0");
    said.refused("train.batch_size=0");
    said.refused("train.batch_size=true");
    said.refused("train.batch_size=[8]");
    said.refused("train.batch_size={ a = 1 }");
    said.refused("train.batch_size=2024-01-01");
    said.refused("train.minibatch_size=0");
    said.refused("train.merge_batch_size=1");
    said.refused("train.samples=0");
    said.refused("train.accumulation=0");
    said.refused("train.update_mode=rewrite");
    said.refused("train.appendix_limit=201");
    said.refused("train.appendix_source=all");
    said.refused("train.memory_steps=101");
    said.refused("train.edit_budget=0");
    said.refused("train.min_edit_budget=0");
    said.refused("train.schedule=cosin");
    said.refused("gate.metric=sum");
    said.refused("gate.metric=Hard");
    said.refused("gate.mixed_weight=1.5");
    said.refused("gate.mixed_weight=-0.5");
    said.refused("eval.test=1");
    said.refused("eval.test=yes");
    said.refused("skill.initial=");
    said.refused("prompts.dir=");
    said.refused("limits.max_reply_tokens=0");
    let long = "x".repeat(200);
    said.refused(&format!("train.epochs={long}"));
    insta::assert_snapshot!("refused_values", said.text());
}

#[test]
fn edit_budgets_that_do_not_go_together() {
    let text = format!("{MINIMAL}[train]\nedit_budget = 1\n");
    assert_eq!(parse(&text, &[]).config.train.min_edit_budget, 1, "what is left out follows");
    let text = format!("{MINIMAL}[train]\nedit_budget = 3\nmin_edit_budget = 4\n");
    let mut said = Said::default();
    said.add(&text, &[], &["skillrl.toml:9:1", "`train.min_edit_budget` (4)", "`train.edit_budget` (3)"]);
    insta::assert_snapshot!("edit_budgets", said.text());
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
    let mut said = Said::default();
    let names = [
        "skillrl.toml:7:1",
        "`models.target.requests_per_minute` (5)",
        "`models.optimizer.requests_per_minute` (6)",
    ];
    said.add(&two_models(&rate(5), &rate(6), ""), &[], &names);
    insta::assert_snapshot!("one_rate", said.text());
}

#[test]
fn a_cap_on_money_needs_prices() {
    let cap = "[budget]\nmoney = 5.0";
    parse(&two_models("price_input = 1.0", "price_output = 0.0", cap), &[]);
    let mut said = Said::default();
    let names =
        ["skillrl.toml:2:1", "`budget.money`", "`models.optimizer`", "`price_input`", "`price_output`"];
    said.add(&two_models("price_input = 1.0", "", cap), &[], &names);
    insta::assert_snapshot!("prices", said.text());
}

/// A configuration of kind tasks with these lines in its section.
fn tasks(lines: &str) -> String {
    format!("{}{lines}", MINIMAL.replace("[env]\n", "[env]\nkind = \"tasks\"\n"))
}

#[test]
fn what_does_not_go_together_in_tasks() {
    let mut said = Said::default();
    said.add(
        &tasks("split_field = \"a\"\nsplit_ids = \"b\"\n"),
        &[],
        &["skillrl.toml:9:1", "`env.split_field`", "`env.split_ids`"],
    );
    said.add(&tasks("tolerance = 0.1\n"), &[], &["skillrl.toml:8:1", "`env.tolerance`", "`env.scorer`"]);
    said.add(
        &tasks("extract_tag = \"x\"\n"),
        &[],
        &["skillrl.toml:8:1", "`env.extract_tag`", "`env.extract`"],
    );
    said.add(&tasks("extract = \"regex\"\n"), &[], &["skillrl.toml:8:1", "`env.extract_pattern`"]);
    said.add(&tasks("scorer = \"rules\"\n"), &[], &["skillrl.toml:8:1", "`env.rules`", "`env.rules_field`"]);
    said.add(&tasks("scorer = \"command\"\n"), &[], &["skillrl.toml:8:1", "`env.command`"]);
    said.add(
        &tasks("scorer = \"rubric\"\nrubric = \"good\"\n"),
        &[],
        &["skillrl.toml:8:1", "[models.judge]", "`env.judge`"],
    );
    said.add(
        &tasks("scorer = \"rubric\"\nrubric = \"good\"\n[models.judge]\nkind = \"simulated\"\n"),
        &[],
        &["skillrl.toml", "`models.judge.kind`"],
    );
    said.add(
        &tasks("scorer = \"rules\"\nrules = [{ contain = \"x\" }]\n"),
        &[],
        &["skillrl.toml:9:1", "`env.rules`", "`contain`"],
    );
    said.add(&tasks("scorer = \"rules\"\nrules = [\"x\"]\n"), &[], &["skillrl.toml:9:1", "`env.rules`"]);
    said.add(&tasks("scorer = \"command\"\ncommand = []\n"), &[], &["skillrl.toml:9:1", "`env.command`"]);
    let guarded = |name: &str| format!("{}[gate]\nguard = \"{name}\"\n", tasks("rubric = \"good\"\n"));
    said.add(&guarded("exact"), &[], &["skillrl.toml:8:1", "`env.rubric`", "`env.scorer`"]);
    said.add(&guarded("rubric"), &[], &["skillrl.toml:10:1", "[models.judge]", "`env.judge`"]);
    said.add(
        &guarded("command"),
        &["env.scorer=rubric", "env.judge=target"],
        &["skillrl.toml:10:1", "`env.command`"],
    );
    // The second scorer looks at keys of its own.
    assert_eq!(parse(&guarded("rubric"), &["env.judge=target"]).config.gate.guard.as_deref(), Some("rubric"));
    said.add(&tasks("scorrer = \"exact\"\n"), &[], &["skillrl.toml:8:1", "`env.scorrer`", "`env.scorer`"]);
    said.add(
        &format!("{MINIMAL}scorer = \"exact\"\n"),
        &[],
        &["skillrl.toml:7:1", "`env.scorer`", "\"tasks\""],
    );
    said.add(
        &format!("{MINIMAL}pattern = \"x\"\n"),
        &[],
        &["skillrl.toml:7:1", "`env.pattern`", "`env.kind`"],
    );
    insta::assert_snapshot!("tasks_that_do_not_go_together", said.text());
}

#[test]
fn the_default_file_of_tasks_can_be_read() {
    let file = crate::config::default_file(&["env.kind=tasks".to_owned()]).unwrap();
    let config = super::parse(&file, &[]).config;
    assert_eq!(config.env.kind(), "tasks");
    assert!(file.contains("\nscorer = \"em_f1\"\n") && file.contains("\n#rubric = \""), "{file}");
}

/// A target that can be fine-tuned.
const LOCAL: &str = "[models]\ntarget = { kind = \"local\", path = \"m\" }\n\
                     optimizer = { kind = \"simulated\" }\n[env]\ndata = \"data\"\n";

#[test]
fn reasons_need_a_place_and_a_scale_needs_an_adapter() {
    for (text, overrides, named) in [
        (LOCAL, &["sft.reasoning=teacher"][..], ["`sft.reasoning`", "env.think", "reasons"]),
        (LOCAL, &["sft.lora_rank=0", "sft.lora_alpha=8"], ["`sft.lora_alpha`", "`sft.lora_rank`", "0"]),
    ] {
        let found = super::error(text, overrides);
        assert!(named.iter().all(|name| found.contains(name)), "{found}");
    }
    // A policy takes the place of a target on a server.
    assert_eq!(parse(MINIMAL, &["sft.epochs=2"]).config.sft.unwrap().epochs, 2);
}

#[test]
fn fine_tuning_is_no_setting_of_what_is_trained_otherwise() {
    let identity = |overrides: &[&str]| parse(LOCAL, overrides).config.identity_entries();
    assert_eq!(identity(&["sft.epochs=2"]), identity(&[]));
    let recorded = parse(LOCAL, &["sft.epochs=2", "sft.checkpoint_interval=9"]).config.decisive_json();
    assert_eq!((&recorded["sft"]["epochs"], &recorded["sft"]["batch_size"]), (&2.into(), &16.into()));
    assert!(recorded["sft"]["checkpoint_interval"].is_null());
}

#[test]
fn a_group_of_one_is_refused_with_its_reason() {
    for (overrides, named) in [
        (&["rl.group_size=1"][..], ["`rl.group_size`", "compares", "at least 2"]),
        (&["rl.lora_rank=0", "rl.lora_alpha=8"], ["`rl.lora_alpha`", "`rl.lora_rank`", "0"]),
        (&["rl.groups=4"], ["`rl.groups`", "rl.group_size", "unknown"]),
    ] {
        let found = super::error(LOCAL, overrides);
        assert!(named.iter().all(|name| found.contains(name)), "{found}");
    }
}

#[test]
fn reinforcement_learning_is_no_setting_of_what_is_trained_otherwise() {
    let identity = |overrides: &[&str]| parse(LOCAL, overrides).config.identity_entries();
    assert_eq!(identity(&["rl.tasks=2"]), identity(&[]));
    let recorded = parse(MINIMAL, &["rl.tasks=2", "rl.games=9"]).config.decisive_json();
    let found = [&recorded["rl"]["tasks"], &recorded["rl"]["batch_size"], &recorded["rl"]["iterations"]];
    assert_eq!(found, [2, 64, 150].map(serde_json::Value::from).each_ref());
    assert!(recorded["rl"]["games"].is_null());
}

#[test]
fn objectives_that_contradict_each_other_are_refused() {
    let mut said = Said::default();
    said.refused("gate.token_saving=1.2");
    said.refused("gate.token_saving=0");
    let mut both = |overrides: &[&str], names: &[&str]| said.add(MINIMAL, overrides, names);
    both(&["gate.token_saving=0.2", "gate.score_margin=1.5"], &["`gate.score_margin`"]);
    both(&["gate.score_margin=0.01"], &["`gate.score_margin`", "`gate.token_saving`"]);
    both(
        &["gate.token_saving=0.2", "gate.enabled=false"],
        &["`gate.token_saving`", "`gate.enabled = false`"],
    );
    both(
        &["train.mode=bank", "models.teacher.model=m", "gate.token_saving=0.2"],
        &["`gate.token_saving`", "`train.mode`"],
    );
    insta::assert_snapshot!(said.text());
}

#[test]
fn targets_that_cannot_be_asked_are_refused_by_name() {
    let mut said = Said::default();
    let named = "[models.targets.small]\nmodel = \"m\"\n";
    let text = format!("{MINIMAL}\n{named}");
    let mut refused = |overrides: &[&str], names: &[&str]| said.add(&text, overrides, names);
    refused(&["train.targets=[\"target\", \"large\"]"], &["`train.targets`", "\"large\"", "small"]);
    refused(&["train.targets=[\"small\", \"small\"]"], &["`train.targets`", "\"small\" twice"]);
    refused(&["train.targets=[\"small\"]", "run.runner=nats"], &["`train.targets`", "`run.runner`"]);
    refused(&["models.targets.small.temperature=warm"], &["[models.targets.small]", "temperature"]);
    refused(&["train.targets_score=median"], &["train.targets_score", "mean", "worst"]);
    insta::assert_snapshot!(said.text());
    let loaded = Config::parse(&text, "x", &["train.targets=[\"small\"]".to_owned()]).unwrap();
    assert_eq!(loaded.config.models.targets.keys().collect::<Vec<_>>(), ["small"]);
    assert_eq!(loaded.config.train.targets(), ["small"]);
}
