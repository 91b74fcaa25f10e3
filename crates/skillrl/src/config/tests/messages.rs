use super::{MINIMAL, Said, error};
use crate::config::Config;

/// Adds one line to a file, in a section of its own: the message names the key, and what may have been meant.
#[track_caller]
fn unknown(key: &str, meant: &[&str]) {
    let check = |message: &str, place: &str| {
        let key = format!("`{key}`");
        for name in [place, &key].iter().chain(meant) {
            assert!(message.contains(name), "{name} is not named in: {message}");
        }
    };
    check(&error(MINIMAL, &[&format!("{key}=1")]), "--set:");
    // A file says the same; its last segment stands in the section before it.
    if let Some((section, name)) = key.rsplit_once('.')
        && crate::config::keys::section(section).is_some()
    {
        let line = MINIMAL.lines().position(|line| line == format!("[{section}]"));
        let (text, place) = match line {
            Some(line) => {
                let header = format!("[{section}]\n");
                (MINIMAL.replace(&header, &format!("{header}{name} = 1\n")), format!("{}:1", line + 2))
            }
            None => (format!("{MINIMAL}[{section}]\n{name} = 1\n"), "8:1".to_owned()),
        };
        check(&error(&text, &[]), &format!("skillrl.toml:{place}:"));
    }
}

#[test]
fn unknown_keys_name_the_nearest() {
    unknown("train.batchsize", &["`train.batch_size`"]);
    unknown("train.batch-size", &["`train.batch_size`"]);
    unknown("train.BATCH_SIZE", &["`train.batch_size`"]);
    unknown("train.batch", &["`train.batch_size`"]);
    unknown("train.mini_batch_size", &["`train.minibatch_size`"]);
    unknown("train.epoch", &["`train.epochs`"]);
    unknown("train.num_epochs", &["`train.epochs`"]);
    unknown("train.edit_budged", &["`train.edit_budget`"]);
    unknown("train.shedule", &["`train.schedule`"]);
    unknown("train.metric", &["`metric`", "[gate]"]);
    unknown("train.workers", &["`workers`", "[run]"]);
    unknown("train.seed", &["`seed`", "[run]", "[models.target]", "[models.optimizer]", "[models.judge]"]);
    unknown("train.mixed_weigth", &["`gate.mixed_weight`"]);
    unknown("run.worker", &["`run.workers`"]);
    unknown("run.epochs", &["`epochs`", "[train]"]);
    unknown("run.model", &["`model`", "[models.target]", "[models.optimizer]", "[models.judge]"]);
    unknown("gate.metrics", &["`gate.metric`"]);
    unknown("gate.weight", &["`gate.mixed_weight`"]);
    unknown(
        "gate.zzz",
        &[
            "enabled",
            "metric",
            "mixed_weight",
            "mode",
            "standard_errors",
            "alpha",
            "spend_alpha",
            "max_losses",
            "selection_repeats",
            "early_stop",
        ],
    );
    unknown("eval.dir", &["`dir`", "[run]", "[prompts]"]);
    unknown("env.ratio", &["`env.split_ratio`"]);
    unknown("env.dat", &["`env.data`"]);
    unknown("env.score", &["`env.scorer`"]);
    unknown("models.target.temprature", &["`models.target.temperature`"]);
    unknown("models.target.url", &["`models.target.base_url`"]);
    unknown("models.target.baseurl", &["`models.target.base_url`"]);
    unknown("models.target.api_key", &["`models.target.api_key_env`"]);
    unknown("models.target.timeout", &["`models.target.timeout_s`"]);
    unknown("models.target.flaw_rate", &["`flaw_rate`", "[models.optimizer]"]);
    unknown("models.optimizer.flawrate", &["`models.optimizer.flaw_rate`"]);
    unknown("models.model", &["`model`", "[models.target]", "[models.optimizer]", "[models.judge]"]);
    unknown("target.model", &["`models.target.model`"]);
    unknown("model.target.model", &["`models.target.model`"]);
    unknown("trian.epochs", &["`train.epochs`"]);
    unknown("training.epochs", &["`train.epochs`"]);
    unknown("gates.metrik", &["`gate.metric`"]);
    unknown("batch_size", &["`batch_size`", "[train]"]);
    unknown("seed", &["`seed`", "[run]", "[models.target]", "[models.optimizer]", "[models.judge]"]);
    unknown("train.batch_size.x", &["`train.batch_size`"]);
}

#[test]
fn wrong_sections() {
    let mut said = Said::default();
    let with = |text: &str| format!("{text}\n{MINIMAL}");
    said.add(&with("[trian]\nepochs = 1"), &[], &["skillrl.toml:1:2", "[trian]", "[train]"]);
    said.add(&with("[target]\nmodel = \"x\""), &[], &["skillrl.toml:1:2", "[target]", "[models.target]"]);
    said.add(
        &with("[model.target]\nmodel = \"x\""),
        &[],
        &["skillrl.toml:1:8", "[model.target]", "[models.target]"],
    );
    said.add(
        &with("[zzz]"),
        &[],
        &["skillrl.toml:1:2", "[zzz]", "[run]", "[models.target]", "[models.optimizer]"],
    );
    said.add(&with("train = 5"), &[], &["skillrl.toml:1:1", "`train`"]);
    said.add(&with("[[train]]\nepochs = 1"), &[], &["skillrl.toml:1:3", "`train`"]);
    said.add(&with("batch_size = 5"), &[], &["skillrl.toml:1:1", "`batch_size`", "[train]"]);
    said.add(
        &with("\"train.epochs\" = 5"),
        &[],
        &["skillrl.toml:1:1", "`\"train.epochs\"`", "`train.epochs`"],
    );
    said.add(MINIMAL, &["train=5"], &["--set", "`train`"]);
    said.add(MINIMAL, &["train.epochs"], &["--set", "`train.epochs`"]);
    said.add(MINIMAL, &["=5"], &["--set", "`=5`"]);
    insta::assert_snapshot!("wrong_sections", said.text());
}

#[test]
fn missing_keys() {
    let mut said = Said::default();
    said.add("", &[], &["skillrl.toml", "`models.target.model`", "`models.optimizer.model`", "`env.data`"]);
    said.add(
        "[models.target]\nkind = \"scripted\"\n[models.optimizer]\nkind = \"simulated\"\n[env]\n",
        &[],
        &["skillrl.toml:1:9", "skillrl.toml:5:2", "`models.target.file`", "`env.data`"],
    );
    insta::assert_snapshot!("missing_keys", said.text());
}

#[test]
fn keys_of_other_kinds() {
    let mut said = Said::default();
    said.add(
        &MINIMAL.replace("model = \"small\"", "model = \"small\"\nfile = \"r.json\""),
        &[],
        &["skillrl.toml:3:1", "`models.target.file`", "`models.target.kind`"],
    );
    said.add(
        MINIMAL,
        &["models.optimizer.kind=simulated", "models.optimizer.temperature=1"],
        &[
            "skillrl.toml:4:1",
            "--set",
            "`models.optimizer.model`",
            "`models.optimizer.kind`",
            "`models.optimizer.temperature`",
        ],
    );
    // Of a wrong kind nothing can be said but that it is wrong.
    said.add(
        &MINIMAL.replace("model = \"small\"", "kind = \"gpt\"\nfile = \"x\""),
        &[],
        &["skillrl.toml:2:1", "`models.target.kind`"],
    );
    insta::assert_snapshot!("keys_of_other_kinds", said.text());
}

#[test]
fn all_problems_with_their_hints() {
    let text = "[models.target]\nmodel = \"\"\n  temprature = 1\napi_key_env = \"sk-x\"\n[models.optimizer]\n\
                kind = \"simulated\"\nmodel = \"x\"\n[envs]\ndata = 3\n[train]\nepochs = 0\nmetric = \"soft\"\n";
    let error =
        Config::parse(text, "skillrl.toml", &["foo".to_owned(), "gate.metric=sort".to_owned()]).unwrap_err();
    let lines: Vec<String> = error
        .problems()
        .iter()
        .map(|problem| format!("{problem}\n  hint: {}", problem.kind.hint()))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
    assert_eq!(error.hint(), error.problems()[0].kind.hint());
    assert_eq!(error.to_string().lines().count(), error.problems().len());
}

#[test]
fn text_that_is_not_toml() {
    let cases = [
        "[train",
        "[train]\nepochs = ",
        "[train]\nepochs = 1\nepochs = 2",
        "[train]\n[train]",
        "[train]\nschedule = cosine",
        "a = \"x",
        "= 1",
        "é é",
    ];
    let messages: Vec<String> =
        cases.iter().map(|text| format!("{text:?}\n  {}", error(text, &[]))).collect();
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn the_policy_is_the_target_by_another_name() {
    let of_policy = MINIMAL.replace("[models.target]", "[models.policy]");
    let parsed = Config::parse(&of_policy, "skillrl.toml", &[]).unwrap().config;
    assert_eq!(
        parsed.models.target,
        Config::parse(MINIMAL, "skillrl.toml", &[]).unwrap().config.models.target
    );
    let set = ["models.policy.model=other".to_owned()];
    let changed = Config::parse(MINIMAL, "skillrl.toml", &set).unwrap().config;
    assert_ne!(changed.models.target, parsed.models.target);
    let both = format!("{MINIMAL}[models.policy]\nmodel = \"other\"\n");
    let message = error(&both, &[]);
    assert!(message.contains("[models.policy]") && message.contains("[models.target]"), "{message}");
}
