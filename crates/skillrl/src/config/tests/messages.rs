use super::{MINIMAL, error};
use crate::config::Config;

/// Adds one line to a file, in a section of its own, and compares the message without its place.
#[track_caller]
fn unknown(key: &str, expect: &str) {
    let message = error(MINIMAL, &[&format!("{key}=1")]);
    assert_eq!(message, format!("--set: unknown key `{key}`; {expect}"));
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
        assert_eq!(error(&text, &[]), format!("skillrl.toml:{place}: unknown key `{key}`; {expect}"));
    }
}

#[test]
fn unknown_keys_name_the_nearest() {
    unknown("train.batchsize", "did you mean `train.batch_size`?");
    unknown("train.batch-size", "did you mean `train.batch_size`?");
    unknown("train.BATCH_SIZE", "did you mean `train.batch_size`?");
    unknown("train.batch", "did you mean `train.batch_size`?");
    unknown("train.mini_batch_size", "did you mean `train.minibatch_size`?");
    unknown("train.epoch", "did you mean `train.epochs`?");
    unknown("train.num_epochs", "did you mean `train.epochs`?");
    unknown("train.edit_budged", "did you mean `train.edit_budget`?");
    unknown("train.shedule", "did you mean `train.schedule`?");
    unknown("train.metric", "`metric` belongs to [gate]");
    unknown("train.workers", "`workers` belongs to [run]");
    unknown("train.seed", "`seed` belongs to [run], [models.target], [models.optimizer] or [models.judge]");
    unknown("train.mixed_weigth", "did you mean `gate.mixed_weight`?");
    unknown("run.worker", "did you mean `run.workers`?");
    unknown("run.epochs", "`epochs` belongs to [train]");
    unknown("run.model", "`model` belongs to [models.target], [models.optimizer] or [models.judge]");
    unknown("gate.metrics", "did you mean `gate.metric`?");
    unknown("gate.weight", "did you mean `gate.mixed_weight`?");
    unknown(
        "gate.zzz",
        "valid are enabled, metric, mixed_weight, mode, standard_errors, alpha, spend_alpha, \
         max_losses, selection_repeats, early_stop",
    );
    unknown("eval.dir", "`dir` belongs to [run] or [prompts]");
    unknown("env.ratio", "did you mean `env.split_ratio`?");
    unknown("env.dat", "did you mean `env.data`?");
    unknown("env.score", "did you mean `env.scorer`?");
    unknown("models.target.temprature", "did you mean `models.target.temperature`?");
    unknown("models.target.url", "did you mean `models.target.base_url`?");
    unknown("models.target.baseurl", "did you mean `models.target.base_url`?");
    unknown("models.target.api_key", "did you mean `models.target.api_key_env`?");
    unknown("models.target.timeout", "did you mean `models.target.timeout_s`?");
    unknown("models.target.flaw_rate", "`flaw_rate` belongs to [models.optimizer]");
    unknown("models.optimizer.flawrate", "did you mean `models.optimizer.flaw_rate`?");
    unknown("models.model", "`model` belongs to [models.target], [models.optimizer] or [models.judge]");
    unknown("target.model", "did you mean `models.target.model`?");
    unknown("model.target.model", "did you mean `models.target.model`?");
    unknown("trian.epochs", "did you mean `train.epochs`?");
    unknown("training.epochs", "did you mean `train.epochs`?");
    unknown("gates.metrik", "did you mean `gate.metric`?");
    unknown("batch_size", "`batch_size` belongs to [train]");
    unknown("seed", "`seed` belongs to [run], [models.target], [models.optimizer] or [models.judge]");
    unknown("train.batch_size.x", "did you mean `train.batch_size`?");
}

#[track_caller]
fn file(text: &str, expect: &str) {
    assert_eq!(error(text, &[]), expect);
}

#[test]
fn wrong_sections() {
    let with = |text: &str| format!("{text}\n{MINIMAL}");
    file(&with("[trian]\nepochs = 1"), "skillrl.toml:1:2: unknown section [trian]; did you mean [train]?");
    file(
        &with("[target]\nmodel = \"x\""),
        "skillrl.toml:1:2: unknown section [target]; did you mean [models.target]?",
    );
    file(
        &with("[model.target]\nmodel = \"x\""),
        "skillrl.toml:1:8: unknown section [model.target]; did you mean [models.target]?",
    );
    file(
        &with("[zzz]"),
        "skillrl.toml:1:2: unknown section [zzz]; valid are [run], [models.target], [models.optimizer], [models.judge], [env], \
         [skill], [train], [gate], [eval], [prompts], [limits], [retry], [budget]",
    );
    file(&with("train = 5"), "skillrl.toml:1:1: `train` is a section with keys of its own, not a value");
    file(
        &with("[[train]]\nepochs = 1"),
        "skillrl.toml:1:3: `train` is a section with keys of its own, not a value",
    );
    file(
        &with("batch_size = 5"),
        "skillrl.toml:1:1: unknown key `batch_size`; `batch_size` belongs to [train]",
    );
    file(
        &with("\"train.epochs\" = 5"),
        "skillrl.toml:1:1: unknown key `\"train.epochs\"`; did you mean `train.epochs`?",
    );
    assert_eq!(error(MINIMAL, &["train=5"]), "--set: `train` is a section with keys of its own, not a value");
    assert_eq!(error(MINIMAL, &["train.epochs"]), "--set: `train.epochs` does not have the form KEY=VALUE");
    assert_eq!(error(MINIMAL, &["=5"]), "--set: `=5` does not have the form KEY=VALUE");
}

#[test]
fn missing_keys() {
    file(
        "",
        "skillrl.toml: `models.target.model` is missing\n\
         skillrl.toml: `models.optimizer.model` is missing\n\
         skillrl.toml: `env.data` is missing",
    );
    file(
        "[models.target]\nkind = \"scripted\"\n[models.optimizer]\nkind = \"simulated\"\n[env]\n",
        "skillrl.toml:1:9: `models.target.file` is missing\nskillrl.toml:5:2: `env.data` is missing",
    );
}

#[test]
fn keys_of_other_kinds() {
    file(
        &MINIMAL.replace("model = \"small\"", "model = \"small\"\nfile = \"r.json\""),
        "skillrl.toml:3:1: `models.target.file` belongs to kind \"scripted\", but `models.target.kind` is \"openai\"",
    );
    assert_eq!(
        error(MINIMAL, &["models.optimizer.kind=simulated", "models.optimizer.temperature=1"]),
        "skillrl.toml:4:1: `models.optimizer.model` belongs to kind \"openai\", \"anthropic\", \
         \"responses\" or \"agent\", but `models.optimizer.kind` is \"simulated\"\n\
         --set: `models.optimizer.temperature` belongs to kind \"openai\", \"anthropic\" or \"responses\", but \
         `models.optimizer.kind` is \"simulated\""
    );
    // Of a wrong kind nothing can be said but that it is wrong.
    file(
        &MINIMAL.replace("model = \"small\"", "kind = \"gpt\"\nfile = \"x\""),
        "skillrl.toml:2:1: `models.target.kind` takes \"openai\", \"anthropic\", \"responses\", \"agent\", \"scripted\" or \"simulated\", not \"gpt\"",
    );
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
