//! What is said about files and configurations that cannot be used.

use crate::recorded::config as recorded_config;
use crate::said::Said;
use skill_envs::webshop::{
    GoalKind, GoalRange, MissingProducts, Shop, SplitRanges, WebshopConfig, WebshopWorld,
};
use std::fs;
use std::path::Path;

const PRODUCT: &str = r#"{"asin": "B000000001", "name": "Tin Cup", "full_description": "A cup.",
  "small_description": ["Blue"], "pricing": "$5", "category": "garden", "query": "cup",
  "product_category": "Home › Cups", "customization_options": {"Color": [{"value": "Red"}]}}"#;
const ATTRIBUTES: &str = r#"{"B000000001": {"attributes": ["light weight"], "instruction": "Find me a cup",
  "instruction_attributes": ["light weight"]}}"#;
const INSTRUCTIONS: &str = r#"{"B000000001": [{"instruction": "a cup", "instruction_attributes": ["light weight"],
  "instruction_options": ["red"]}]}"#;
const GOAL: &str = r#"{"asin": "B000000001", "category": "garden", "query": "cup", "name": "Tin Cup",
  "product_category": "Home › Cups", "instruction_text": "a cup", "attributes": ["light weight"],
  "price_upper": 10, "goal_options": []}"#;

/// The three files, and what a test adds to them, in a directory of their own.
struct Files {
    directory: tempfile::TempDir,
    config: WebshopConfig,
}

impl Files {
    fn new(products: &str, attributes: &str, instructions: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let config = WebshopConfig::new(
            write("products.json", products),
            write("attributes.json", attributes),
            write("instructions.json", instructions),
        );
        Self { directory, config }
    }

    fn good() -> Self {
        Self::new(&format!("[{PRODUCT}]"), ATTRIBUTES, INSTRUCTIONS)
    }

    fn with(mut self, name: &str, text: &str) -> Self {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        match name {
            "goals.json" => self.config.goals = Some(path),
            "prices.json" => self.config.prices = Some(path),
            "nouns.json" => self.config.nouns = Some(path),
            other => panic!("no key for {other}"),
        }
        self
    }

    /// What loading says, with the directory taken out of it.
    fn error(&self) -> String {
        shown(Shop::load(&self.config).unwrap_err(), self.directory.path())
    }
}

fn shown(error: skill_envs::EnvError, directory: &Path) -> String {
    assert!(!error.hint().is_empty() && !error.is_retryable());
    error.to_string().replace(&format!("{}/", directory.display()), "")
}

#[track_caller]
fn check_products(said: &mut Said, products: &str, names: &[&str]) {
    said.add(&Files::new(products, ATTRIBUTES, INSTRUCTIONS).error(), names);
}

#[test]
fn the_files_that_the_cases_are_made_from_are_good() {
    let files = Files::good()
        .with("goals.json", &format!("[{GOAL}]"))
        .with("prices.json", r#"{"B000000001": 4.5}"#)
        .with("nouns.json", r#"{"Tin Cup": ["cup"]}"#);
    let shop = Shop::load(&files.config).unwrap();
    assert_eq!((shop.goals().len(), shop.price(0)), (1, 4.5));
}

/// The product with one of its fields written otherwise; the field is given with its old value.
fn changed(from: &str, to: &str) -> String {
    assert!(PRODUCT.contains(from), "{from}");
    format!("[{}]", PRODUCT.replace(from, to))
}

#[test]
fn products_that_cannot_be_used_are_named_with_their_place() {
    let mut said = Said::default();
    check_products(
        &mut said,
        &changed(r#""pricing": "$5""#, r#""pricing": "5.00""#),
        &[
            "products.json",
            "element 1",
            "line 1",
            "B000000001",
            "`pricing`",
            "\"5.00\"",
            "`$`",
            "`$9.99`",
            "`$5.00 - $10.00`",
        ],
    );
    check_products(
        &mut said,
        &changed(r#""pricing": "$5""#, r#""pricing": "$5 - $""#),
        &["products.json", "element 1", "line 1", "B000000001", "`pricing`", "\"$5 - $\"", "`$`"],
    );
    check_products(
        &mut said,
        &changed(r#""pricing": "$5""#, r#""pricing": 5"#),
        &["products.json", "element 1", "line 1", "B000000001", "`pricing`"],
    );
    check_products(
        &mut said,
        &changed(r#""name": "Tin Cup", "#, ""),
        &["products.json", "element 1", "line 1", "B000000001", "`name`"],
    );
    check_products(
        &mut said,
        &changed(r#""query": "cup""#, r#""query": ["cup"]"#),
        &["products.json", "element 1", "line 1", "B000000001", "`query`"],
    );
    check_products(
        &mut said,
        &changed(r#"["Blue"]"#, r#"[1]"#),
        &["products.json", "element 1", "line 1", "B000000001", "`small_description`"],
    );
    check_products(
        &mut said,
        &changed(r#"[{"value": "Red"}]"#, r#"["Red"]"#),
        &["products.json", "element 1", "line 1", "B000000001", "`Color`", "`value`"],
    );
    check_products(
        &mut said,
        &changed(r#"{"Color": [{"value": "Red"}]}"#, r#""Red""#),
        &["products.json", "element 1", "line 1", "B000000001", "`customization_options`"],
    );
    check_products(
        &mut said,
        &format!("[{PRODUCT},\n\n  {{\"name\": \"Tin Cup\"}}]"),
        &["products.json", "element 2", "line 5", "`asin`"],
    );
    check_products(
        &mut said,
        &format!("[{PRODUCT},\n{{\"asin\": 7}}]"),
        &["products.json", "element 2", "line 4", "`asin`"],
    );
    insta::assert_snapshot!(said.text());
}

#[test]
fn product_files_that_are_no_list_of_products_are_named_with_the_line() {
    let mut said = Said::default();
    check_products(&mut said, "", &["products.json", "line 1", "0"]);
    check_products(
        &mut said,
        &format!("[{PRODUCT},\n{{\"asin\": \"B0"),
        &["products.json", "element 2", "line 4", "12"],
    );
    check_products(
        &mut said,
        &format!("[{PRODUCT} {PRODUCT}]"),
        &["products.json", "element 2", "line 3", "`,`", "`]`", "96"],
    );
    check_products(&mut said, &format!("[{PRODUCT}] x"), &["products.json", "line 3", "97"]);
    check_products(&mut said, ATTRIBUTES, &["products.json", "line 1"]);
    check_products(&mut said, "[]", &["products.json"]);
    check_products(&mut said, &changed("B000000001", "nan"), &["products.json"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn entries_that_the_original_drops_are_dropped() {
    let other = PRODUCT.replace("Tin Cup", "Second Cup");
    let long = PRODUCT.replace("B000000001", "B0000000012");
    let files = Files::new(&format!("[{PRODUCT}, {other}, {long}]"), ATTRIBUTES, INSTRUCTIONS);
    let shop = Shop::load(&files.config).unwrap();
    assert_eq!(shop.catalogue().len(), 1);
    assert_eq!(shop.catalogue().get("B000000001").unwrap().title, "Tin Cup");
}

#[test]
fn a_product_without_a_price_costs_a_hundred_dollars() {
    for pricing in [r#""pricing": """#, r#""pricing": null"#, r#""list_price": NaN"#] {
        let files = Files::new(&changed(r#""pricing": "$5""#, pricing), ATTRIBUTES, INSTRUCTIONS);
        let shop = Shop::load(&files.config).unwrap();
        assert_eq!(
            (shop.price(0), shop.catalogue().products()[0].price.to_string()),
            (100.0, "$100.0".into())
        );
    }
}

#[test]
fn products_behind_the_limit_are_not_even_read() {
    let mut files = Files::new(&format!("[{PRODUCT}, {{\"broken"), ATTRIBUTES, INSTRUCTIONS);
    assert!(Shop::load(&files.config).is_err());
    files.config.n_products = Some(1);
    assert_eq!(Shop::load(&files.config).unwrap().catalogue().len(), 1);
}

#[track_caller]
fn check_others(said: &mut Said, attributes: &str, instructions: &str, names: &[&str]) {
    said.add(&Files::new(&format!("[{PRODUCT}]"), attributes, instructions).error(), names);
}

#[test]
fn instructions_that_cannot_be_used_are_named_with_their_line() {
    let mut said = Said::default();
    check_others(&mut said, "[]", INSTRUCTIONS, &["attributes.json", "line 1"]);
    check_others(&mut said, "{\n\"B1\": 3}", INSTRUCTIONS, &["attributes.json", "line 2", "`B1`"]);
    check_others(
        &mut said,
        r#"{"B1": {"attributes": "soft"}}"#,
        INSTRUCTIONS,
        &["attributes.json", "line 1", "`B1`", "`attributes`"],
    );
    check_others(&mut said, ATTRIBUTES, r#"{"B1": {}}"#, &["instructions.json", "line 1", "`B1`"]);
    check_others(
        &mut said,
        ATTRIBUTES,
        r#"{"B1": [{"instruction": "a", "instruction_attributes": ["b"]}]}"#,
        &["instructions.json", "line 1", "`B1`", "`instruction_options`"],
    );
    check_others(
        &mut said,
        ATTRIBUTES,
        r#"{"B1": [{"instruction": "a", "instruction_attributes": "b", "instruction_options": []}]}"#,
        &["instructions.json", "line 1", "`B1`", "`instruction_attributes`"],
    );
    check_others(
        &mut said,
        ATTRIBUTES,
        r#"{"B1": [{"instruction": "a", "instruction_attributes": ["b"], "instruction_options": [1]}]}"#,
        &["instructions.json", "line 1", "`B1`", "`instruction_options`"],
    );
    check_others(
        &mut said,
        ATTRIBUTES,
        r#"{"B1": [{"instruction": "a", "instruction_attributes": ["b"], "instruction_options": []}]}"#,
        &["instructions.json"],
    );
    insta::assert_snapshot!(said.text());
}

#[test]
fn a_synthetic_instruction_needs_attributes() {
    let mut said = Said::default();
    let attributes = ATTRIBUTES
        .replace(r#""instruction_attributes": ["light weight"]"#, r#""instruction_attributes": []"#);
    let mut files = Files::new(&format!("[{PRODUCT}]"), &attributes, INSTRUCTIONS);
    files.config.goal_kind = GoalKind::Synthetic;
    said.add(&files.error(), &["attributes.json", "`B000000001`", "`instruction_attributes`"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn instructions_for_products_that_are_missing_are_left_out_or_refused() {
    let mut said = Said::default();
    let more = INSTRUCTIONS.replacen('{', r#"{"B000000009": [], "#, 1);
    let mut files = Files::new(&format!("[{PRODUCT}]"), ATTRIBUTES, &more);
    assert_eq!(Shop::load(&files.config).unwrap().goals().len(), 1);
    files.config.missing_products = MissingProducts::Error;
    said.add(&files.error(), &["instructions.json", "1", "B000000009"]);
    insta::assert_snapshot!(said.text());
}

#[track_caller]
fn check_goals(said: &mut Said, goals: &str, names: &[&str]) {
    said.add(&Files::good().with("goals.json", goals).error(), names);
}

#[test]
fn given_goals_that_cannot_be_used_are_named_with_their_place() {
    let mut said = Said::default();
    let changed = |from: &str, to: &str| {
        assert!(GOAL.contains(from), "{from}");
        format!("[{GOAL},\n{}]", GOAL.replace(from, to))
    };
    check_goals(&mut said, "[]", &["goals.json"]);
    check_goals(
        &mut said,
        &changed("B000000001", "B000000002"),
        &["goals.json", "element 2", "line 4", "B000000002"],
    );
    check_goals(
        &mut said,
        &changed(r#"["light weight"]"#, "[]"),
        &["goals.json", "element 2", "line 4", "B000000001"],
    );
    check_goals(
        &mut said,
        &changed(r#""price_upper": 10"#, r#""price_upper": 0"#),
        &["goals.json", "element 2", "line 4", "B000000001"],
    );
    check_goals(
        &mut said,
        &changed(r#""price_upper": 10"#, r#""price_upper": 10, "weight": -1"#),
        &["goals.json", "element 2", "line 4", "B000000001"],
    );
    check_goals(
        &mut said,
        &changed(r#""goal_options": []"#, r#""goal_options": "red""#),
        &["goals.json", "element 2", "line 4"],
    );
    check_goals(
        &mut said,
        &changed(r#""query": "cup", "#, ""),
        &["goals.json", "element 2", "line 6", "`query`", "40"],
    );
    insta::assert_snapshot!(said.text());
}

#[test]
fn given_prices_and_nouns_are_checked() {
    let mut said = Said::default();
    said.add(&Files::good().with("prices.json", "{}").error(), &["prices.json", "B000000001"]);
    said.add(
        &Files::good().with("prices.json", r#"{"B000000001": "$5"}"#).error(),
        &["prices.json", "line 1", "`B000000001`"],
    );
    said.add(
        &Files::good().with("nouns.json", r#"{"Tin Cup": "cup"}"#).error(),
        &["nouns.json", "line 1", "`Tin Cup`"],
    );
    insta::assert_snapshot!(said.text());
}

#[track_caller]
fn check_config(said: &mut Said, change: impl FnOnce(&mut WebshopConfig), names: &[&str]) {
    let mut files = Files::good();
    change(&mut files.config);
    let error = WebshopWorld::load(&files.config).unwrap_err();
    said.add(&shown(error, files.directory.path()), names);
}

#[test]
fn configurations_that_do_not_fit_are_refused() {
    let mut said = Said::default();
    check_config(
        &mut said,
        |config| config.products = None,
        &["`attributes`", "`instructions`", "`products`"],
    );
    check_config(&mut said, |config| config.attributes = None, &["`products`", "`attributes`"]);
    check_config(
        &mut said,
        |config| config.instructions = None,
        &["`instructions`", "items_human_ins.json", "`goal_kind`", "\"synthetic\"", "`goals`"],
    );
    check_config(&mut said, |config| config.n_products = Some(0), &["`n_products`", "0"]);
    check_config(&mut said, |_| {}, &["`train`", "1500", "`ranges`", "`split_ratio`"]);
    check_config(
        &mut said,
        |config| config.split_ratio = Some([1, 1, 1].into()),
        &["1", "`val`", "`split_ratio`"],
    );
    check_config(&mut said, |config| config.split_ratio = Some([1, 0, 1].into()), &["`split_ratio`", "0"]);
    check_config(
        &mut said,
        |config| {
            config.split_ratio = Some([1, 1, 1].into());
            config.ranges = Some(SplitRanges::default());
        },
        &["`ranges`", "`split_ratio`"],
    );
    check_config(&mut said, |config| config.products = Some("nowhere.json".into()), &["nowhere.json"]);
    insta::assert_snapshot!(said.text());
}

#[track_caller]
fn check_ranges(
    said: &mut Said,
    train: (usize, Option<usize>),
    val: (usize, Option<usize>),
    test: (usize, Option<usize>),
    names: &[&str],
) {
    let range = |(start, end)| GoalRange { start, end };
    let ranges = SplitRanges { train: range(train), val: range(val), test: range(test) };
    let config = WebshopConfig { ranges: Some(ranges), ..recorded_config() };
    said.add(&config.split_goals(&[""; 84]).unwrap_err().to_string(), names);
}

#[test]
fn ranges_do_not_overlap() {
    let mut said = Said::default();
    let range = |start, end| GoalRange { start, end };
    let ranges = SplitRanges { train: range(30, None), val: range(10, Some(30)), test: range(0, Some(10)) };
    let config = WebshopConfig { ranges: Some(ranges), ..recorded_config() };
    assert_eq!(config.split_goals(&[""; 84]).unwrap().map(|places| places.len()), [54, 20, 10].into());
    check_ranges(
        &mut said,
        (0, Some(84)),
        (84, None),
        (0, Some(1)),
        &["`val`", "84", "`ranges`", "`split_ratio`"],
    );
    check_ranges(&mut said, (20, None), (10, Some(30)), (0, Some(10)), &["`val`", "`train`", "20"]);
    check_ranges(&mut said, (20, Some(30)), (0, None), (40, Some(50)), &["`val`", "`train`", "20"]);
    check_ranges(
        &mut said,
        (20, Some(30)),
        (0, Some(10)),
        (5, Some(4)),
        &["`test`", "5", "4", "84", "`ranges`", "`split_ratio`"],
    );
    insta::assert_snapshot!(said.text());
}

#[test]
fn unknown_keys_are_refused() {
    let read = |text: &str| serde_json::from_str::<WebshopConfig>(text).map_err(|error| error.to_string());
    assert_eq!(read("{}").unwrap(), WebshopConfig::default());
    assert_eq!(
        read(r#"{"observation": "text_rich"}"#).unwrap().observation.to_owned(),
        skill_envs::webshop::ObservationForm::TextRich
    );
    assert!(read(r#"{"product": "x"}"#).unwrap_err().starts_with("unknown field `product`"));
    let ranges = r#"{"ranges": {"train": {"start": 3}, "val": {"start": 1, "end": 3}, "test": {"start": 0, "end": 1}}}"#;
    assert_eq!(read(ranges).unwrap().ranges.unwrap().train, GoalRange { start: 3, end: None });
}
