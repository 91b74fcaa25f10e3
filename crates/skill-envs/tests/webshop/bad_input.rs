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

    fn of_products(products: &str) -> Self {
        Self::new(products, ATTRIBUTES, INSTRUCTIONS)
    }

    fn good() -> Self {
        Self::of_products(&format!("[{PRODUCT}]"))
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
    let mut check_field = |from: &str, to: &str, names: &[&str]| {
        let place = ["products.json", "element 1", "line 1", "B000000001"];
        said.add(&Files::of_products(&changed(from, to)).error(), &[&place[..], names].concat());
    };
    check_field(
        r#""pricing": "$5""#,
        r#""pricing": "5.00""#,
        &["`pricing`", "\"5.00\"", "`$`", "`$9.99`", "`$5.00 - $10.00`"],
    );
    check_field(r#""pricing": "$5""#, r#""pricing": "$5 - $""#, &["`pricing`", "\"$5 - $\"", "`$`"]);
    check_field(r#""pricing": "$5""#, r#""pricing": 5"#, &["`pricing`"]);
    check_field(r#""name": "Tin Cup", "#, "", &["`name`"]);
    check_field(r#""query": "cup""#, r#""query": ["cup"]"#, &["`query`"]);
    check_field(r#"["Blue"]"#, r#"[1]"#, &["`small_description`"]);
    check_field(r#"[{"value": "Red"}]"#, r#"["Red"]"#, &["`Color`", "`value`"]);
    check_field(r#"{"Color": [{"value": "Red"}]}"#, r#""Red""#, &["`customization_options`"]);
    let mut check = |products: &str, names: &[&str]| said.add(&Files::of_products(products).error(), names);
    check(
        &format!("[{PRODUCT},\n\n  {{\"name\": \"Tin Cup\"}}]"),
        &["products.json", "element 2", "line 5", "`asin`"],
    );
    check(&format!("[{PRODUCT},\n{{\"asin\": 7}}]"), &["products.json", "element 2", "line 4", "`asin`"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn product_files_that_are_no_list_of_products_are_named_with_the_line() {
    let mut said = Said::default();
    let mut check = |products: &str, names: &[&str]| said.add(&Files::of_products(products).error(), names);
    check("", &["products.json", "line 1", "0"]);
    check(&format!("[{PRODUCT},\n{{\"asin\": \"B0"), &["products.json", "element 2", "line 4", "12"]);
    check(&format!("[{PRODUCT} {PRODUCT}]"), &["products.json", "element 2", "line 3", "`,`", "`]`", "96"]);
    check(&format!("[{PRODUCT}] x"), &["products.json", "line 3", "97"]);
    check(ATTRIBUTES, &["products.json", "line 1"]);
    check("[]", &["products.json"]);
    check(&changed("B000000001", "nan"), &["products.json"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn entries_that_the_original_drops_are_dropped() {
    let other = PRODUCT.replace("Tin Cup", "Second Cup");
    let long = PRODUCT.replace("B000000001", "B0000000012");
    let files = Files::of_products(&format!("[{PRODUCT}, {other}, {long}]"));
    let shop = Shop::load(&files.config).unwrap();
    assert_eq!(shop.catalogue().len(), 1);
    assert_eq!(shop.catalogue().get("B000000001").unwrap().title, "Tin Cup");
}

#[test]
fn a_product_without_a_price_costs_a_hundred_dollars() {
    for pricing in [r#""pricing": """#, r#""pricing": null"#, r#""list_price": NaN"#] {
        let files = Files::of_products(&changed(r#""pricing": "$5""#, pricing));
        let shop = Shop::load(&files.config).unwrap();
        assert_eq!(
            (shop.price(0), shop.catalogue().products()[0].price.to_string()),
            (100.0, "$100.0".into())
        );
    }
}

#[test]
fn products_behind_the_limit_are_not_even_read() {
    let mut files = Files::of_products(&format!("[{PRODUCT}, {{\"broken"));
    assert!(Shop::load(&files.config).is_err());
    files.config.n_products = Some(1);
    assert_eq!(Shop::load(&files.config).unwrap().catalogue().len(), 1);
}

#[test]
fn instructions_that_cannot_be_used_are_named_with_their_line() {
    let mut said = Said::default();
    let mut check = |attributes: &str, instructions: &str, names: &[&str]| {
        said.add(&Files::new(&format!("[{PRODUCT}]"), attributes, instructions).error(), names);
    };
    check("[]", INSTRUCTIONS, &["attributes.json", "line 1"]);
    check("{\n\"B1\": 3}", INSTRUCTIONS, &["attributes.json", "line 2", "`B1`"]);
    check(
        r#"{"B1": {"attributes": "soft"}}"#,
        INSTRUCTIONS,
        &["attributes.json", "line 1", "`B1`", "`attributes`"],
    );
    check(ATTRIBUTES, r#"{"B1": {}}"#, &["instructions.json", "line 1", "`B1`"]);
    check(
        ATTRIBUTES,
        r#"{"B1": [{"instruction": "a", "instruction_attributes": ["b"]}]}"#,
        &["instructions.json", "line 1", "`B1`", "`instruction_options`"],
    );
    check(
        ATTRIBUTES,
        r#"{"B1": [{"instruction": "a", "instruction_attributes": "b", "instruction_options": []}]}"#,
        &["instructions.json", "line 1", "`B1`", "`instruction_attributes`"],
    );
    check(
        ATTRIBUTES,
        r#"{"B1": [{"instruction": "a", "instruction_attributes": ["b"], "instruction_options": [1]}]}"#,
        &["instructions.json", "line 1", "`B1`", "`instruction_options`"],
    );
    check(
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

#[test]
fn given_goals_that_cannot_be_used_are_named_with_their_place() {
    let mut said = Said::default();
    let changed = |from: &str, to: &str| {
        assert!(GOAL.contains(from), "{from}");
        format!("[{GOAL},\n{}]", GOAL.replace(from, to))
    };
    let mut check = |goals: &str, names: &[&str]| {
        said.add(&Files::good().with("goals.json", goals).error(), names);
    };
    check("[]", &["goals.json"]);
    check(&changed("B000000001", "B000000002"), &["goals.json", "element 2", "line 4", "B000000002"]);
    check(&changed(r#"["light weight"]"#, "[]"), &["goals.json", "element 2", "line 4", "B000000001"]);
    check(
        &changed(r#""price_upper": 10"#, r#""price_upper": 0"#),
        &["goals.json", "element 2", "line 4", "B000000001"],
    );
    check(
        &changed(r#""price_upper": 10"#, r#""price_upper": 10, "weight": -1"#),
        &["goals.json", "element 2", "line 4", "B000000001"],
    );
    check(
        &changed(r#""goal_options": []"#, r#""goal_options": "red""#),
        &["goals.json", "element 2", "line 4"],
    );
    check(&changed(r#""query": "cup", "#, ""), &["goals.json", "element 2", "line 6", "`query`", "40"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn given_prices_and_nouns_are_checked() {
    let mut said = Said::default();
    let mut check = |name: &str, text: &str, names: &[&str]| {
        said.add(&Files::good().with(name, text).error(), &[&[name][..], names].concat());
    };
    check("prices.json", "{}", &["B000000001"]);
    check("prices.json", r#"{"B000000001": "$5"}"#, &["line 1", "`B000000001`"]);
    check("nouns.json", r#"{"Tin Cup": "cup"}"#, &["line 1", "`Tin Cup`"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn configurations_that_do_not_fit_are_refused() {
    let mut said = Said::default();
    let mut check = |change: fn(&mut WebshopConfig), names: &[&str]| {
        let mut files = Files::good();
        change(&mut files.config);
        let Err(error) = WebshopWorld::load(&files.config) else { panic!("taken; expected {names:?}") };
        said.add(&shown(error, files.directory.path()), names);
    };
    check(|config| config.products = None, &["`attributes`", "`instructions`", "`products`"]);
    check(|config| config.attributes = None, &["`products`", "`attributes`"]);
    check(
        |config| config.instructions = None,
        &["`instructions`", "items_human_ins.json", "`goal_kind`", "\"synthetic\"", "`goals`"],
    );
    check(|config| config.n_products = Some(0), &["`n_products`", "0"]);
    check(|_| {}, &["`train`", "1500", "`ranges`", "`split_ratio`"]);
    check(|config| config.split_ratio = Some([1, 1, 1].into()), &["1", "`val`", "`split_ratio`"]);
    check(|config| config.split_ratio = Some([1, 0, 1].into()), &["`split_ratio`", "0"]);
    check(
        |config| {
            config.split_ratio = Some([1, 1, 1].into());
            config.ranges = Some(SplitRanges::default());
        },
        &["`ranges`", "`split_ratio`"],
    );
    check(|config| config.products = Some("nowhere.json".into()), &["nowhere.json"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn ranges_do_not_overlap() {
    type Range = (usize, Option<usize>);
    let split = |train: Range, val: Range, test: Range| {
        let [train, val, test] = [train, val, test].map(|(start, end)| GoalRange { start, end });
        let ranges = Some(SplitRanges { train, val, test });
        WebshopConfig { ranges, ..recorded_config() }.split_goals(&[""; 84])
    };
    let lengths = split((30, None), (10, Some(30)), (0, Some(10))).unwrap().map(|places| places.len());
    assert_eq!(lengths, [54, 20, 10].into());

    let mut said = Said::default();
    let mut check = |train, val, test, names: &[&str]| {
        let Err(error) = split(train, val, test) else { panic!("{train:?} {val:?} {test:?} is taken") };
        said.add(&error.to_string(), names);
    };
    check((0, Some(84)), (84, None), (0, Some(1)), &["`val`", "84", "`ranges`", "`split_ratio`"]);
    check((20, None), (10, Some(30)), (0, Some(10)), &["`val`", "`train`", "20"]);
    check((20, Some(30)), (0, None), (40, Some(50)), &["`val`", "`train`", "20"]);
    check(
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
