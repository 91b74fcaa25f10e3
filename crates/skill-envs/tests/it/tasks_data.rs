//! Data of the `tasks` environment: formats, fields, splits, and what is wrong with its place.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::files::files;
use crate::said::Said;
use serde_json::json;
use skill_core::RatioSplit;
use skill_envs::score::{ChoiceBy, NumericOptions};
use skill_envs::tasks::{
    Extraction, FieldNames, NamedPrompt, Preset, ScorerConfig, Splitting, TasksConfig, TasksEnv,
};
use skill_envs::{Env, EnvError, Split};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn load(dir: &TempDir, data: &str, change: impl FnOnce(&mut TasksConfig)) -> Result<TasksEnv, String> {
    let mut config = TasksConfig::new(dir.path().join(data));
    change(&mut config);
    TasksEnv::load(&config)
        .map_err(|error| error.to_string().replace(&dir.path().display().to_string(), "DIR"))
}

fn ids(env: &TasksEnv) -> [Vec<&str>; 3] {
    Split::ALL.map(|split| env.items(split).iter().map(|item| item.id.as_str()).collect())
}

/// Loads one file that is split by its field `split`, and compares the error.
#[track_caller]
fn check_error(said: &mut Said, data: (&str, &str), change: impl FnOnce(&mut TasksConfig), names: &[&str]) {
    let dir = files(&[data]);
    let error = load(&dir, data.0, |config| {
        config.splitting = Splitting::Field("split".to_owned());
        change(config);
    });
    said.add(&error.err().unwrap(), names);
}

const CSV: &str =
    "\u{feff}id,question,answer,split\r\na,\"One,\r\nor two?\",1,train\r\nb,Q2,2,VAL\r\nc,Q3,3,test\r\n";

fn scored_by(scorer: ScorerConfig) -> impl FnOnce(&mut TasksConfig) {
    |config| config.settings.scorer = scorer
}

fn by_field(config: &mut TasksConfig) {
    config.splitting = Splitting::Field("split".to_owned());
}

#[test]
fn items_come_from_every_format() {
    let jsonl = "{\"id\": \"a\", \"question\": \"Q1\", \"answer\": 1, \"split\": \"train\"}\n\n\
                 {\"id\": 7, \"question\": \"Q2\", \"answers\": [\"2\", 3], \"split\": \"validation\"}\n\
                 {\"_id\": \"c\", \"question\": \"Q3\", \"answer\": true, \"split\": \"test\"}\n";
    let json = "{\"version\": [1],\n\"data\": [{\"uid\": \"a\", \"question\": \"Q1\", \"answer\": 1, \"split\": \"train\"},\n\
                {\"qid\": 7, \"question\": \"Q2\", \"answer\": 2, \"split\": \"val\"},\
                {\"id\": \"c\", \"question\": \"Q3\", \"answer\": 3, \"split\": \"test\"}]}";
    let dir =
        files(&[("d.csv", CSV), ("d.jsonl", jsonl), ("d.json", json), ("d.tsv", &CSV.replace(',', "\t"))]);
    for (file, second) in [("d.csv", "b"), ("d.jsonl", "7"), ("d.json", "7")] {
        let env = load(&dir, file, by_field).unwrap();
        assert_eq!(ids(&env), [vec!["a"], vec![second], vec!["c"]], "{file}");
    }
    let env = load(&dir, "d.csv", by_field).unwrap();
    assert_eq!(env.items(Split::Train).first().unwrap().data["question"], "One,\r\nor two?");
}

#[test]
fn a_row_without_the_field_of_the_answer_is_unanswered_unless_all_rows_are() {
    let rows: String = (0..12)
        .map(|n| match n % 3 {
            0 => format!("{{\"id\": {n}, \"question\": \"Q{n}\"}}\n"),
            _ => format!("{{\"id\": {n}, \"question\": \"Q{n}\", \"queue\": \"a\"}}\n"),
        })
        .collect();
    let dir = files(&[("d.jsonl", &rows)]);
    let read = |field: &str, is_free: bool| {
        load(&dir, "d.jsonl", |config| {
            config.splitting = Splitting::PartsOrRatio(RatioSplit::default());
            config.fields.answer = Some(field.to_owned());
            if is_free {
                config.settings.scorer = ScorerConfig::Regex { pattern: Some("right".to_owned()) };
            } else {
                config.fields.task_type = Some(field.to_owned());
                config.skip_unanswered = true;
            }
        })
    };
    // One pattern for all items needs no answers, as a judge does not.
    for (is_free, n_items) in [(false, 8), (true, 12)] {
        assert_eq!(ids(&read("queue", is_free).unwrap()).concat().len(), n_items);
        let error = read("queeu", is_free).err().unwrap();
        assert!(
            error.contains("line 1") && error.contains("`queeu`") && error.contains("answer_field"),
            "{error}"
        );
    }
}

#[test]
fn items_without_an_id_are_numbered() {
    let dir = files(&[("rows.csv", "question,answer,split\nA?,1,train\nB?,2,val\nC?,3,test\n")]);
    let env = load(&dir, "rows.csv", by_field).unwrap();
    assert_eq!(ids(&env), [vec!["rows-1"], vec!["rows-2"], vec!["rows-3"]]);
}

/// The cell of a table may be the source of a Python list: each of its strings is a right answer.
#[test]
fn answers_of_docvqa_may_be_python_lists() {
    let csv = "questionId,question,answer,image_path\n\
               1,Q?,\"['p', 'q']\",page.png\n2,Q?,0.10,page.png\n3,Q?,\"['it''s\",page.png\n";
    let dir = files(&[("d.csv", csv), ("page.png", "x")]);
    let config = TasksConfig {
        splitting: Splitting::PartsOrRatio(by_ratio([1, 1, 1])),
        ..Preset::DocVqa.config(dir.path().join("d.csv"))
    };
    let env = TasksEnv::load(&config).unwrap();
    let items: Vec<_> = Split::ALL.into_iter().flat_map(|split| env.items(split)).collect();
    let answer_of = |id: &str| {
        let item = items.iter().find(|item| item.id.as_str() == id).unwrap();
        item.data["answer"].clone()
    };
    assert_eq!(answer_of("1"), json!(["p", "q"]));
    assert_eq!(answer_of("2"), json!("0.10"));
    assert_eq!(answer_of("3"), json!("['it''s"));
}

fn by_ratio(shares: [u32; 3]) -> RatioSplit {
    RatioSplit { ratio: shares.into(), seed: 1, ..RatioSplit::default() }
}

/// Without a ratio each split has its share of each type, which the field of the category names.
#[test]
fn the_automatic_split_is_stratified_by_the_field_of_the_category() {
    let rows = |n_items: usize| -> String {
        let row = |item_idx: usize| {
            let topic = if item_idx.is_multiple_of(10) { "rare" } else { "common" };
            format!("i{item_idx},Q?,1,{topic}\n")
        };
        (0..n_items).map(row).collect()
    };
    for (n_items, sizes, rare) in [(60, [20; 3], [2; 3]), (400, [160, 80, 160], [16, 8, 16])] {
        let data = format!("id,question,answer,topic\n{}", rows(n_items));
        let dir = files(&[("d.csv", &data)]);
        let env = load(&dir, "d.csv", |config| config.fields.task_type = Some("topic".to_owned())).unwrap();
        let count = |split: Split, wanted: &str| {
            env.items(split).iter().filter(|item| item.task_type == wanted).count()
        };
        assert_eq!(Split::ALL.map(|split| env.items(split).len()), sizes);
        assert_eq!(Split::ALL.map(|split| count(split, "rare")), rare);
    }
}

#[test]
fn labels_that_differ_in_case_or_blanks_are_one_also_as_categories() {
    let rows = ["Billing,train", "Billing ,train", "BILLING,val", "Late,val", " Late,test", "Billing,test"];
    let csv = format!("text,queue,split\n{}\n", rows.map(|row| format!("Q,{row}")).join("\n"));
    let dir = files(&[("d.csv", &csv)]);
    let read = |merge_labels: bool| {
        let env = load(&dir, "d.csv", |config| {
            by_field(config);
            let queue = Some("queue".to_owned());
            config.fields = FieldNames { answer: queue.clone(), task_type: queue, ..FieldNames::default() };
            config.merge_labels = merge_labels;
        });
        let env = env.unwrap();
        let items = Split::ALL.into_iter().flat_map(|split| env.items(split));
        items
            .map(|item| format!("{}={}", item.data["queue"].as_str().unwrap(), item.task_type))
            .collect::<Vec<_>>()
    };
    let merged = ["Billing", "Billing", "Billing", "Late", "Late", "Billing"];
    assert_eq!(read(true), merged.map(|label| format!("{label}={label}")));
    assert!(read(false).contains(&"Billing =Billing ".to_owned()));
}

#[test]
fn a_label_counts_as_the_one_that_it_is_folded_into() {
    let rows = ["Billing,train", "Biling,val", "biling ,test", "Late,test"];
    let csv = format!("text,queue,split\n{}\n", rows.map(|row| format!("Q,{row}")).join("\n"));
    let dir = files(&[("d.csv", &csv)]);
    let read = |merges: bool, folds: &[&str]| {
        let env = load(&dir, "d.csv", |config| {
            by_field(config);
            config.fields.answer = Some("queue".to_owned());
            config.merge_labels = merges;
            config.fold_labels = folds.iter().map(|fold| (*fold).to_owned()).collect();
        });
        env.map(|env| {
            let items = Split::ALL.into_iter().flat_map(|split| env.items(split));
            items.map(|item| item.data["queue"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        })
    };
    let folded = ["Billing", "Billing", "Billing", "Late"];
    assert_eq!(read(true, &["Biling=Billing"]).unwrap(), folded);
    assert_eq!(read(false, &["Biling=Billing"]).unwrap(), ["Billing", "Billing", "biling", "Late"]);
    for wrong in [&["Biling"][..], &["=Billing"], &["Late=Late"], &["Late=Biling", "Biling=Billing"]] {
        let error = read(true, wrong).unwrap_err();
        assert!(error.contains('`'), "{error}");
    }
}

#[test]
fn rows_that_repeat_others_count_once_where_that_is_set() {
    let dir = files(&[(
        "d.csv",
        "id,question,answer,split\na,A?,1,train\na,A?,1,train\nb,B?,2,val\nc,C?,3,test\n",
    )]);
    let read = |drops: bool| {
        load(&dir, "d.csv", |config| {
            by_field(config);
            config.drop_duplicates = drops;
        })
    };
    assert_eq!(ids(&read(true).unwrap()), [vec!["a"], vec!["b"], vec!["c"]]);
    assert!(read(false).err().unwrap().contains("`a`"));
}

#[test]
fn of_items_that_ask_the_same_the_split_that_is_measured_last_has_one() {
    let part = |rows: &[(&str, u32)]| {
        let rows: String = rows.iter().map(|(id, n)| format!("{id},Q {n}?,{n}\n")).collect();
        format!("id,question,answer\n{rows}")
    };
    let dir = files(&[
        ("p/train.csv", &part(&[("a", 1), ("b", 2), ("c", 3), ("d", 1)])),
        ("p/val.csv", &part(&[("e", 2), ("f", 4)])),
        ("p/test.csv", &part(&[("g", 3), ("h", 4), ("i", 5)])),
        ("q/train.csv", &part(&[("a", 1)])),
        ("q/val.csv", &part(&[("b", 1)])),
        ("q/test.csv", &part(&[("c", 2)])),
    ]);
    let read = |data: &str, groups: bool| load(&dir, data, |config| config.group_equal_inputs = groups);
    let expect = [vec!["a", "d"], vec!["e"], vec!["g", "h", "i"]];
    assert_eq!(ids(&read("p", true).unwrap()), expect);
    assert_eq!(read("p", false).unwrap().items(Split::Train).len(), 4);
    assert!(read("q", true).err().unwrap().contains("`train`"));
}

#[test]
fn folders_that_datasets_saves_are_refused_by_name() {
    let dir = files(&[
        ("one/dataset_info.json", "{}"),
        ("one/state.json", "{}"),
        ("one/data-00000-of-00001.arrow", "x"),
        ("two/dataset_dict.json", "{}"),
        ("two/train/state.json", "{}"),
    ]);
    for data in ["one", "two"] {
        assert!(load(&dir, data, |_| ()).err().unwrap().contains("`save_to_disk`"), "{data}");
    }
}

#[test]
fn data_may_lack_the_splits_that_are_not_measured() {
    let row = "id,question,answer\na,A?,1\n";
    let dir = files(&[
        ("p/test.csv", row),
        ("q/train.csv", &format!("{row}b,B?,2\nc,C?,3\n")),
        ("q/test.csv", "id,question,answer\nd,D?,4\n"),
    ]);
    let read =
        |data: &str, optional: &[Split]| load(&dir, data, |config| config.optional = optional.to_vec());
    assert!(read("p", &[]).is_err());
    assert_eq!(ids(&read("p", &Split::ALL).unwrap()), [vec![], vec![], vec!["a"]]);
    // Validation items are taken from those to train on, also where there may be none.
    assert!(!read("q", &Split::ALL).unwrap().items(Split::Val).is_empty());
}

#[test]
fn splits_by_directory_ratio_and_id_lists() {
    let row = |id: &str| format!("id,question,answer\n{id},Q {id}?,1\n");
    let (a, b, c) = (row("a"), row("b"), row("c"));
    let dir = files(&[
        ("p/train.csv", &a),
        ("p/val/x.csv", &b),
        ("p/test.csv", &c),
        ("w/one.csv", &a),
        ("w/two.csv", &b),
    ]);
    assert_eq!(ids(&load(&dir, "p", |_| ()).unwrap()), [vec!["a"], vec!["b"], vec!["c"]]);

    // A directory without parts is one data set.
    let ratio = |config: &mut TasksConfig| {
        config.splitting = Splitting::PartsOrRatio(by_ratio([1, 1, 0]));
        config.optional = vec![Split::Test];
    };
    let env = load(&dir, "w", ratio).unwrap();
    assert_eq!(ids(&env).iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 0]);

    let lists = files(&[
        ("all.csv", "id,question,answer\na,A,1\nb,B,1\nc,C,1\nd,D,1\n"),
        ("ids/train.txt", "b\n\n c \n"),
        ("ids/val.json", "[\"d\"]"),
        ("ids/test/items.json", "[{\"id\": \"a\", \"more\": 1}]"),
    ]);
    let by_ids = |config: &mut TasksConfig| config.splitting = Splitting::Ids(lists.path().join("ids"));
    let env = load(&lists, "all.csv", by_ids).unwrap();
    assert_eq!((ids(&env), env.n_unused()), ([vec!["b", "c"], vec!["d"], vec!["a"]], 0));
    std::fs::write(lists.path().join("ids/train.txt"), "b\n").unwrap();
    assert_eq!(load(&lists, "all.csv", by_ids).unwrap().n_unused(), 1);
}

#[test]
fn splits_that_overlap_are_named() {
    let mut said = Said::default();
    let data = ("all.csv", "id,question,answer\na,A,1\nb,B,1\nc,C,1\n");
    let mut check = |lists: [&str; 3], names: &[&str]| {
        let [train, val, test] = lists;
        let dir = files(&[data, ("ids/train.txt", train), ("ids/val.txt", val), ("ids/test.txt", test)]);
        let by_ids = |config: &mut TasksConfig| config.splitting = Splitting::Ids(dir.path().join("ids"));
        said.add(&load(&dir, data.0, by_ids).err().unwrap(), names);
    };
    check(["a\nb", "b\na", "c"], &["DIR/ids", "`train`", "`val`", "`a`", "`b`"]);
    check(["a", "b", "c\na"], &["DIR/ids", "`train`", "`test`", "`a`"]);
    check(["a\nx", "b", "c"], &["DIR/ids/train.txt", "`x`", "DIR/all.csv"]);
    check(["a\n\na", "b", "c"], &["DIR/ids/train.txt", "line 3", "`a`", "line 1"]);
    check(["a", "b", ""], &["DIR/all.csv", "`test`"]);
    let twice = ("d.csv", "id,question,answer,split\na,A,1,train\nb,B,1,val\na,C,1,test\n");
    check_error(&mut said, twice, |_| (), &["DIR/d.csv", "line 4", "`a`", "line 2"]);
    let dir = files(&[data, ("ids/train.txt", "a"), ("ids/val.txt", "b")]);
    let by_ids = |config: &mut TasksConfig| config.splitting = Splitting::Ids(dir.path().join("ids"));
    let error = load(&dir, data.0, by_ids).err().unwrap();
    said.add(&error, &["DIR/ids", "`test`", "test.txt"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn what_is_wrong_with_data_is_named_with_its_place() {
    let mut said = Said::default();
    let csv = |rows: &str| format!("id,question,answer,split\n{rows}");
    let rest = "b,B,1,val\nc,C,1,test\n";
    let mut check = |rows: &str, names: &[&str]| {
        check_error(&mut said, ("d.csv", &csv(rows)), |_| (), names);
    };
    check("a,A,1\n", &["DIR/d.csv", "line 2", "3", "4"]);
    check("a,A,1,dev\n", &["DIR/d.csv", "line 2", "`split`", "\"dev\"", "\"train\"", "\"val\"", "\"test\""]);
    check("b,B,1,val\nc,C,1,test\n", &["DIR/d.csv", "`split`", "`train`"]);
    check(&format!("a,A,,train\n{rest}"), &["DIR/d.csv", "line 2", "`em_f1`", "`answers`"]);
    check(&format!("\"a\nb\",A,1,train\n{rest}"), &["DIR/d.csv", "line 2", "`id`"]);
    check_error(&mut said, ("d.csv", "id,,x\na,b,c\n"), |_| (), &["DIR/d.csv", "line 1", "column 2"]);
    check_error(
        &mut said,
        ("d.csv", "id,question,answer\na,A,1\n"),
        |_| (),
        &["DIR/d.csv", "line 2", "`split`", "`id`", "`question`", "`answer`"],
    );
    check_error(
        &mut said,
        ("d.csv", &csv("a,A,1,train\n")),
        |config| config.fields.answer = Some("gold".to_owned()),
        &["DIR/d.csv", "line 2", "`gold`", "`id`", "`question`", "`answer`", "`split`"],
    );
    check_error(
        &mut said,
        ("d.csv", &csv(&format!("a,A,one,train\n{rest}"))),
        scored_by(ScorerConfig::Numeric(NumericOptions::default())),
        &["DIR/d.csv", "line 2", "`answer`", "\"one\""],
    );
    check_error(
        &mut said,
        ("d.csv", &csv(&format!("a,A,(,train\n{rest}"))),
        scored_by(ScorerConfig::Regex { pattern: None }),
        &["DIR/d.csv", "line 2", "`answer`", "`(`"],
    );
    let fields = ScorerConfig::JsonFields { fields: Vec::new(), tolerance: 0.0, ignore_case: false };
    check_error(
        &mut said,
        ("d.csv", &csv(&format!("a,A,x,train\n{rest}"))),
        scored_by(fields),
        &["DIR/d.csv", "line 2", "`answer`"],
    );
    check_error(
        &mut said,
        ("d.csv", "id,topic,answer,split\na,A,1,train\nb,B,1,val\nc,C,1,test\n"),
        |_| (),
        &["DIR/d.csv", "line 2", "`id`", "`topic`", "`answer`", "`split`", "`prompt`", "`user_prompt`"],
    );
    insta::assert_snapshot!(said.text());
}

#[test]
fn prompts_that_do_not_render_are_named() {
    let mut said = Said::default();
    let prompt = |source: &str| {
        let source = source.to_owned();
        |config: &mut TasksConfig| {
            config.settings.prompt = Some(NamedPrompt { name: "mine.md".to_owned(), source });
        }
    };
    let data = ("d.csv", CSV);
    check_error(
        &mut said,
        data,
        prompt("{% block system %}{{ skill }}{% endblock %}\n{% block user %}{{ questoin }}{% endblock %}"),
        &["`mine.md`", "line 2", "`questoin`", "`id`", "`question`", "`answer`", "`split`"],
    );
    check_error(
        &mut said,
        data,
        prompt("{% block system %}x{% endblock %}{% block user %}{{ question }}{% endblock %}"),
        &["`mine.md`", "`{{ skill }}`"],
    );
    check_error(
        &mut said,
        (
            "d.jsonl",
            "{\"q\": \"A\", \"answer\": 1, \"split\": \"train\"}\n{\"p\": \"B\", \"answer\": 1, \"split\": \"val\"}\n{\"q\": \"C\", \"answer\": 1, \"split\": \"test\"}\n",
        ),
        prompt("{% block system %}{{ skill }}{% endblock %}{% block user %}{{ q }}{% endblock %}"),
        &["DIR/d.jsonl", "line 2", "`mine.md`", "line 1", "`q`", "`p`", "`answer`", "`split`"],
    );
    insta::assert_snapshot!(said.text());
}

#[test]
fn choices_have_a_right_one() {
    let mut said = Said::default();
    let by = || scored_by(ScorerConfig::Choice { by: ChoiceBy::Either });
    let jsonl = |choices: &str, answer: &str| {
        format!(
            "{{\"id\": \"a\", \"question\": \"Q\", \"choices\": {choices}, \"answer\": {answer}, \"split\": \"train\"}}\n\
             {{\"id\": \"b\", \"question\": \"R\", \"options\": {{\"x\": \"1\", \"y\": \"2\"}}, \"answer\": \"y\", \"split\": \"val\"}}\n\
             {{\"id\": \"c\", \"question\": \"S\", \"choices\": \"[\\\"1\\\", \\\"2\\\"]\", \"answer\": {{\"label\": \"B\"}}, \"split\": \"test\"}}\n"
        )
    };
    for answer in ["\"B\"", "\"b)\"", "\"two\"", "[\"B\"]", "{\"text\": \"two\"}"] {
        let dir = files(&[("d.jsonl", &jsonl("[\"one\", \"two\"]", answer))]);
        let env = load(&dir, "d.jsonl", |config| {
            by_field(config);
            by()(config);
        })
        .unwrap();
        assert_eq!(env.reference_reply(env.items(Split::Train).first().unwrap()).as_deref(), Some("B"));
    }
    let wrong = jsonl("[\"one\", \"two\"]", "2");
    check_error(&mut said, ("d.jsonl", &wrong), by(), &["DIR/d.jsonl", "line 1", "`answer`", "2"]);
    check_error(
        &mut said,
        ("d.jsonl", &jsonl("[\"one\"]", "\"A\"")),
        by(),
        &["DIR/d.jsonl", "line 1", "`choices`"],
    );
    insta::assert_snapshot!(said.text());
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let mut said = Said::default();
    let mut check = |change: fn(&mut TasksConfig), names: &[&str]| {
        check_error(&mut said, ("d.csv", CSV), change, names);
    };
    check(|config| config.settings.max_tokens = Some(0), &["`max_tokens`", "0", "1"]);
    check(
        |config| config.settings.extraction = Extraction::Regex { pattern: "(".to_owned() },
        &["`extract_pattern`", "`(`"],
    );
    check(
        |config| config.settings.scorer = ScorerConfig::Regex { pattern: Some("[".to_owned()) },
        &["`pattern`", "`[`"],
    );
    check(
        |config| config.settings.scorer = ScorerConfig::Anls { threshold: 2.0 },
        &["`anls_threshold`", "0", "1"],
    );
    check(
        |config| config.settings.scorer = ScorerConfig::Rules { rules: vec![json!({"max_word": 3})] },
        &["1", "`rules`", "`max_word`"],
    );
    check(
        |config| config.settings.scorer = ScorerConfig::Rules { rules: vec![json!({"tool_called": "find"})] },
        &["DIR/d.csv", "line 2", "`tool_called`", "`tools`"],
    );
    check(
        |config| config.settings.scorer = ScorerConfig::Rules { rules: Vec::new() },
        &["DIR/d.csv", "line 2", "`rules`"],
    );
    check(
        |config| config.fields = FieldNames { images: Some("question".to_owned()), ..FieldNames::default() },
        &["DIR/d.csv", "line 2", "`question`"],
    );
    insta::assert_snapshot!(said.text());
}

/// The files of benchmarks in the shapes that their users have.
#[test]
fn presets_read_the_files_of_their_benchmarks() {
    #[track_caller]
    fn check(preset: Preset, file: &str, text: &str, expect: (&str, &str, &str)) {
        let dir = files(&[(file, text), ("page.png", "x")]);
        let mut config = preset.config(dir.path().join(file));
        config.splitting = Splitting::PartsOrRatio(by_ratio([1, 0, 0]));
        let data = TasksEnv::load(&config);
        // One item cannot fill three splits; a list of ids that names it three times cannot be either.
        let error = data.err().unwrap();
        assert!(
            matches!(&error, EnvError::BadData { message, .. } if message.contains("`val`")),
            "{preset:?}: {error:?}"
        );
        let three = dir.path().join("three");
        std::fs::create_dir_all(&three).unwrap();
        std::fs::copy(dir.path().join("page.png"), three.join("page.png")).unwrap();
        let extension = Path::new(file).extension().unwrap().to_str().unwrap();
        for (number, split) in ["train", "val", "test"].iter().enumerate() {
            let text = text.replace("ID", &format!("ID{number}"));
            std::fs::write(three.join(format!("{split}.{extension}")), text).unwrap();
        }
        let mut config = preset.config(PathBuf::from(&three));
        config.image_dir = Some(three.clone());
        let env = TasksEnv::load(&config).unwrap_or_else(|error| panic!("{preset:?}: {error}"));
        let item = env.items(Split::Train).first().unwrap();
        let reply = env.reference_reply(item).unwrap();
        assert_eq!((item.id.as_str(), item.task_type.as_str(), reply.as_str()), expect, "{preset:?}");
    }
    let answer = "Here is my answer.\n<answer>X</answer>";
    check(
        Preset::SearchQa,
        "x.jsonl",
        r#"{"key": "ID", "question": "Q", "context": "[DOC] a [DOC] b", "answers": ["X"]}"#,
        ("ID0", "", answer),
    );
    check(
        Preset::HotpotQa,
        "x.json",
        r#"[{"_id": "ID", "question": "Q", "answer": "X", "type": "bridge", "context": [["T", ["s1.", " s2."]]]}]"#,
        ("ID0", "bridge", answer),
    );
    check(
        Preset::OfficeQa,
        "x.csv",
        "uid,question,ground_truth,difficulty,source_files\nID,Q,X,hard,a.txt\n",
        ("ID0", "hard", answer),
    );
    check(
        Preset::DocVqa,
        "x.json",
        r#"{"data": [{"questionId": "ID", "question": "Q", "image": "page.png", "answers": ["X"]}]}"#,
        ("ID0", "", answer),
    );
    check(
        Preset::LiveMath,
        "x.json",
        r#"[{"month": "2025ID", "no": 3, "theorem_type": ["bound"], "mcq": {"question": "Q", "choices": [{"label": "A", "text": "one"}, {"label": "B", "text": "two"}], "correct_choice": {"label": "B", "text": "two"}}}]"#,
        ("2025ID0:3", "bound", "Here is my answer.\n<answer>A</answer>"),
    );
}
