//! Amendments: a world and simulated models, as if the file had said so.

use crate::config::ValueSource;
use crate::config::recorded::recorded_overrides;
use crate::config::{
    Amendments, Config, ConfigError, EnvConfig, EnvKind, LoadedConfig, ModelConfig, OptimizerUse,
    ProblemKind, TrainMode, world_text,
};
use skill_bank::retrieve::RetrievalMode;
use skill_envs::choices::Rooms;

const SERVED: &str = "[models.target]\nmodel = \"m\"\nbase_url = \"http://localhost/v1\"\n\
    [models.optimizer]\nkind = \"simulated\"\nsim_seed = 9\n[models.teacher]\nmodel = \"t\"\n\
    [models.embedding]\nmodel = \"e\"\n[retrieval]\nmode = \"embedding\"\n\
    [env]\nkind = \"alfworld\"\nmax_train = 5\n";
const MOCK: Amendments = Amendments {
    env: None,
    simulates_models: true,
    trains_weights: false,
    all_phases: false,
    optimizer: OptimizerUse::Edits,
};

fn amended(text: &str, overrides: &[&str], amendments: Amendments) -> Result<LoadedConfig, ConfigError> {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Config::parse_amended(text, "skillrl.toml", &overrides, amendments)
}

/// The keys that conflicts of a refused configuration are about.
#[track_caller]
fn assert_conflict(text: &str, overrides: &[&str], amendments: Amendments, key: &str) {
    let error = amended(text, overrides, amendments).unwrap_err();
    let is_about_key = |kind: &ProblemKind| match kind {
        ProblemKind::Conflict { message } => message.contains(&format!("`{key}`")),
        ProblemKind::OtherKind { key: named, .. } => named == key,
        _ => false,
    };
    assert!(error.problems().iter().any(|problem| is_about_key(&problem.kind)), "{key}: {error}");
}

fn sim_seed(model: &ModelConfig) -> Option<u64> {
    match model {
        ModelConfig::Simulated(simulated) => Some(simulated.sim_seed),
        _ => None,
    }
}

#[test]
fn all_models_become_simulated_and_nothing_else_changes() {
    let loaded = amended(SERVED, &["env.max_val=3"], MOCK).unwrap();
    let models = &loaded.config.models;
    assert_eq!(sim_seed(&models.optimizer), Some(9), "a simulated model keeps its settings");
    assert!(sim_seed(&models.target).is_some() && models.teacher.as_ref().and_then(sim_seed).is_some());
    assert!(models.embedding.is_none() && models.judge.is_none());
    let retrieval = loaded.config.retrieval.as_ref().unwrap();
    assert_eq!(retrieval.mode, RetrievalMode::Template, "nothing can be embedded");
    let EnvConfig::Alfworld(env) = &loaded.config.env else { panic!("another world") };
    assert_eq!((env.max_train, env.max_val), (Some(5), Some(3)));

    // Models that are not there are not added, but for those that every configuration has.
    let alone = amended("[env]\nkind = \"webshop\"\n", &["models.target.sim_seed=4"], MOCK).unwrap();
    assert_eq!(sim_seed(&alone.config.models.target), Some(4), "overrides come after");
    assert!(alone.config.models.teacher.is_none());
}

/// Token limits of a target that is replaced do not apply to the decoder that replaces it.
#[test]
fn limits_of_a_target_go_with_it() {
    let limits =
        "[sft]\nmax_tokens = 8000\n[rl]\nmax_prompt_tokens = 6000\nmax_reply_tokens = 1024\niterations = 7\n";
    let of_decoder = Amendments { trains_weights: true, ..MOCK };
    let found_with = |text: &str, limits: &str, overrides: &[&str]| {
        let loaded = amended(&format!("{text}{limits}"), overrides, of_decoder).unwrap();
        let (sft, rl) = (loaded.config.sft.unwrap(), loaded.config.rl.unwrap());
        assert_eq!(rl.iterations, 7, "other settings stay");
        (sft.max_tokens, rl.max_prompt_tokens, rl.max_reply_tokens)
    };
    let found = |text: &str, overrides: &[&str]| found_with(text, limits, overrides);
    let replaced = found(SERVED, &[]);
    assert_eq!(replaced, (1024, 1000, 24));
    // A limit that the decoder has room for is kept.
    let small =
        |key: &str, value: u64| limits.replace(key, &format!("{} = {value}", key.split(' ').next().unwrap()));
    assert_eq!(found_with(SERVED, &small("max_reply_tokens = 1024", 8), &[]), (1024, 1000, 8));
    assert_eq!(found_with(SERVED, &small("max_prompt_tokens = 6000", 300), &[]), (1024, 300, 24));
    assert_eq!(found_with(SERVED, &small("max_tokens = 8000", 512), &[]), (512, 1000, 24));
    assert_eq!(found(SERVED, &["rl.max_reply_tokens=30"]), (1024, 1000, 30), "overrides come after");
    let simulated = "[models.target]\nkind = \"simulated\"\n[env]\nkind = \"alfworld\"\n";
    assert_eq!(found(simulated, &[]), (8000, 6000, 1024), "limits of a simulated model");
}

/// A run keeps the text, and is replayed with what it makes.
#[test]
fn the_text_that_is_kept_is_the_amended_one() {
    let loaded = amended(SERVED, &["env.max_val=3"], MOCK).unwrap();
    assert!(!loaded.source_text.contains("http") && !loaded.source_text.contains("max_val"));
    let overrides = recorded_overrides(&loaded.source_text, &loaded.config.decisive_json());
    assert_eq!(overrides, ["env.max_val=3"]);
    let again = Config::parse(&loaded.source_text, "config.toml", &overrides).unwrap();
    assert_eq!(again.config, loaded.config);

    let unchanged = amended(SERVED, &[], Amendments::default()).unwrap();
    assert_eq!(unchanged.source_text, SERVED);
}

#[test]
fn a_world_is_assumed_where_none_is_named() {
    for kind in [EnvKind::Alfworld, EnvKind::Webshop] {
        let amendments = Amendments { env: Some(kind), ..MOCK };
        for text in ["", &world_text(kind, true)] {
            assert_eq!(amended(text, &[], amendments).unwrap().config.env.env_kind(), kind);
        }
        let loaded = amended(&world_text(kind, true), &[], amendments).unwrap();
        assert_eq!(loaded.config.train.mode, TrainMode::Bank);
        // Without models there is nobody to ask.
        let error =
            amended(&world_text(kind, false), &[], Amendments { env: Some(kind), ..Amendments::default() });
        let error = error.unwrap_err();
        let is_missing = |kind: &ProblemKind| matches!(kind, ProblemKind::Missing { key, .. } if key == "models.target.model");
        assert!(error.problems().iter().any(|problem| is_missing(&problem.kind)), "{error}");
    }
}

#[test]
fn amendments_that_contradict_the_configuration_are_refused_by_key() {
    let shop = Amendments { env: Some(EnvKind::Webshop), ..Amendments::default() };
    assert_conflict(SERVED, &[], shop, "env.kind");
    assert_conflict("[env]\nkind = \"exec\"\nprogram = [\"p\"]\n", &[], MOCK, "env.kind");
    assert_conflict(
        SERVED,
        &["models.target.kind=openai", "models.target.model=m"],
        MOCK,
        "models.target.kind",
    );
    assert_conflict(SERVED, &["models.target.model=m"], MOCK, "models.target.model");
    // Faults of what is replaced are faults all the same.
    let error = amended(&SERVED.replace("base_url", "base_ur"), &[], MOCK).unwrap_err();
    assert!(error.to_string().contains("models.target.base_ur"), "{error}");
}

/// What a small decoder learns with is set where a simulated target stands for it, and a person has the last word.
#[test]
fn a_simulated_target_of_weights_has_the_settings_of_the_decoder() {
    let rooms = |loaded: &LoadedConfig| match &loaded.config.env {
        EnvConfig::Alfworld(env) => env.rooms,
        _ => panic!("another world"),
    };
    let text = "[env]\nkind = \"alfworld\"\nmax_test = 7\n";
    let plain = amended(text, &[], MOCK).unwrap();
    assert_eq!((rooms(&plain), plain.config.sft.is_some()), (Rooms::Full, false));
    let policy = Amendments { trains_weights: true, ..MOCK };
    let loaded = amended(text, &["sft.epochs=9"], policy).unwrap();
    let EnvConfig::Alfworld(env) = &loaded.config.env else { panic!("another world") };
    assert_eq!((env.rooms, env.max_test, env.think), (Rooms::Small, Some(7), false));
    let (sft, rl) = (loaded.config.sft.as_ref().unwrap(), loaded.config.rl.as_ref().unwrap());
    assert_eq!((sft.epochs, sft.lora_rank, rl.lora_rank), (9, 0, 0));
    assert!(sft.mistakes > 0.0);
    assert_eq!(loaded.origins["sft.batch_size"], ValueSource::Preset);
    // A run is read back as it was.
    let overrides = recorded_overrides(&loaded.source_text, &loaded.config.decisive_json());
    let again = Config::parse_amended(&loaded.source_text, "config.toml", &overrides, policy).unwrap();
    assert_eq!(again.config, loaded.config);
    // Nothing is said of a model on a server, and the shop has no such decoder.
    let served = Amendments { trains_weights: true, ..Amendments::default() };
    assert!(amended(SERVED, &[], served).unwrap().config.sft.is_none());
    let shop = Amendments { env: Some(EnvKind::Webshop), ..policy };
    assert!(amended("", &[], shop).unwrap().config.sft.is_none());
}

#[test]
fn an_optimizer_is_left_out_where_nothing_asks_it() {
    let text = |mode: &str, more: &str| {
        format!(
            "[models.target]\nmodel = \"m\"\n[env]\nkind = \"alfworld\"\n[train]\nmode = \"{mode}\"\n{more}"
        )
    };
    let teacher = "[models.teacher]\nmodel = \"t\"\n";
    let check = |text: &str, optimizer: OptimizerUse, is_read: bool| {
        let found = amended(text, &[], Amendments { optimizer, ..Amendments::default() });
        assert_eq!(found.is_ok(), is_read, "{optimizer:?}: {text}");
    };
    use OptimizerUse::{Edits, Nothing, Teaching};
    for (mode, more, use_of, is_read) in [
        ("document", "", Edits, false),
        ("document", "", Nothing, true),
        ("document", "", Teaching, true),
        ("bank", "", Teaching, false),
        ("bank", teacher, Teaching, true),
        ("bank", teacher, Edits, false),
        ("bank", "", Nothing, true),
    ] {
        check(&text(mode, more), use_of, is_read);
    }
}
