//! What is said about files and configurations that cannot be used.

use crate::recorded::config as recorded_config;
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
        said(Shop::load(&self.config).unwrap_err(), self.directory.path())
    }
}

fn said(error: skill_envs::EnvError, directory: &Path) -> String {
    assert!(!error.hint().is_empty() && !error.is_retryable());
    error.to_string().replace(&format!("{}/", directory.display()), "")
}

#[track_caller]
fn check_products(products: &str, expect: &str) {
    assert_eq!(Files::new(products, ATTRIBUTES, INSTRUCTIONS).error(), expect);
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
    check_products(
        &changed(r#""pricing": "$5""#, r#""pricing": "5.00""#),
        "products.json, element 1 (line 1): product B000000001 `pricing` (\"5.00\") has no `$`; \
         a price is written like `$9.99` or `$5.00 - $10.00`",
    );
    check_products(
        &changed(r#""pricing": "$5""#, r#""pricing": "$5 - $""#),
        "products.json, element 1 (line 1): product B000000001 `pricing` (\"$5 - $\") has a `$` that no number follows",
    );
    check_products(
        &changed(r#""pricing": "$5""#, r#""pricing": 5"#),
        "products.json, element 1 (line 1): product B000000001 has a number for `pricing`; expected a string",
    );
    check_products(
        &changed(r#""name": "Tin Cup", "#, ""),
        "products.json, element 1 (line 1): product B000000001 has no `name`",
    );
    check_products(
        &changed(r#""query": "cup""#, r#""query": ["cup"]"#),
        "products.json, element 1 (line 1): product B000000001 has a list for `query`; expected a string",
    );
    check_products(
        &changed(r#"["Blue"]"#, r#"[1]"#),
        "products.json, element 1 (line 1): product B000000001 has something else than a string or a list of strings \
         for `small_description`",
    );
    check_products(
        &changed(r#"[{"value": "Red"}]"#, r#"["Red"]"#),
        "products.json, element 1 (line 1): product B000000001 has an option `Color` that is no list of objects with \
         a `value`",
    );
    check_products(
        &changed(r#"{"Color": [{"value": "Red"}]}"#, r#""Red""#),
        "products.json, element 1 (line 1): product B000000001 has a string for `customization_options`; \
         expected an object",
    );
    check_products(
        &format!("[{PRODUCT},\n\n  {{\"name\": \"Tin Cup\"}}]"),
        "products.json, element 2 (line 5): has no `asin`",
    );
    check_products(
        &format!("[{PRODUCT},\n{{\"asin\": 7}}]"),
        "products.json, element 2 (line 4): `asin` is a number; expected a string",
    );
}

#[test]
fn product_files_that_are_no_list_of_products_are_named_with_the_line() {
    check_products("", "products.json, line 1: EOF while parsing a value at column 0");
    check_products(
        &format!("[{PRODUCT},\n{{\"asin\": \"B0"),
        "products.json, element 2 (line 4): EOF while parsing a string at column 12",
    );
    check_products(
        &format!("[{PRODUCT} {PRODUCT}]"),
        "products.json, element 2 (line 3): expected `,` or `]` at column 96",
    );
    check_products(&format!("[{PRODUCT}] x"), "products.json, line 3: trailing characters at column 97");
    check_products(ATTRIBUTES, "products.json, line 1: invalid type: map, expected an array at column 1");
    check_products("[]", "products.json: holds no product that can be used");
    check_products(&changed("B000000001", "nan"), "products.json: holds no product that can be used");
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
fn check_others(attributes: &str, instructions: &str, expect: &str) {
    assert_eq!(Files::new(&format!("[{PRODUCT}]"), attributes, instructions).error(), expect);
}

#[test]
fn instructions_that_cannot_be_used_are_named_with_their_line() {
    check_others(
        "[]",
        INSTRUCTIONS,
        "attributes.json, line 1: invalid type: sequence, expected an object at column 1",
    );
    check_others(
        "{\n\"B1\": 3}",
        INSTRUCTIONS,
        "attributes.json, line 2: `B1` is a number; expected an object",
    );
    check_others(
        r#"{"B1": {"attributes": "soft"}}"#,
        INSTRUCTIONS,
        "attributes.json, line 1: `B1` has something else than a list of strings for `attributes`",
    );
    check_others(
        ATTRIBUTES,
        r#"{"B1": {}}"#,
        "instructions.json, line 1: `B1` is an object; expected a list of instructions",
    );
    check_others(
        ATTRIBUTES,
        r#"{"B1": [{"instruction": "a", "instruction_attributes": ["b"]}]}"#,
        "instructions.json, line 1: `B1` has an instruction 1 that has no `instruction_options`",
    );
    check_others(
        ATTRIBUTES,
        r#"{"B1": [{"instruction": "a", "instruction_attributes": "b", "instruction_options": []}]}"#,
        "instructions.json, line 1: `B1` has an instruction 1 that has no list of strings for `instruction_attributes`",
    );
    check_others(
        ATTRIBUTES,
        r#"{"B1": [{"instruction": "a", "instruction_attributes": ["b"], "instruction_options": [1]}]}"#,
        "instructions.json, line 1: `B1` has an instruction 1 that has wrong `instruction_options`: options are a list \
         of strings or an object of strings",
    );
    check_others(
        ATTRIBUTES,
        r#"{"B1": [{"instruction": "a", "instruction_attributes": ["b"], "instruction_options": []}]}"#,
        "instructions.json: holds no instruction for any of the shop's products",
    );
}

#[test]
fn a_synthetic_instruction_needs_attributes() {
    let attributes = ATTRIBUTES
        .replace(r#""instruction_attributes": ["light weight"]"#, r#""instruction_attributes": []"#);
    let mut files = Files::new(&format!("[{PRODUCT}]"), &attributes, INSTRUCTIONS);
    files.config.goal_kind = GoalKind::Synthetic;
    assert_eq!(
        files.error(),
        "attributes.json: `B000000001` has an instruction without `instruction_attributes`"
    );
}

#[test]
fn instructions_for_products_that_are_missing_are_left_out_or_refused() {
    let more = INSTRUCTIONS.replacen('{', r#"{"B000000009": [], "#, 1);
    let mut files = Files::new(&format!("[{PRODUCT}]"), ATTRIBUTES, &more);
    assert_eq!(Shop::load(&files.config).unwrap().goals().len(), 1);
    files.config.missing_products = MissingProducts::Error;
    assert_eq!(
        files.error(),
        "instructions.json: has instructions for 1 products that the shop does not have, such as B000000009"
    );
}

#[track_caller]
fn check_goals(goals: &str, expect: &str) {
    assert_eq!(Files::good().with("goals.json", goals).error(), expect);
}

#[test]
fn given_goals_that_cannot_be_used_are_named_with_their_place() {
    let changed = |from: &str, to: &str| {
        assert!(GOAL.contains(from), "{from}");
        format!("[{GOAL},\n{}]", GOAL.replace(from, to))
    };
    check_goals("[]", "goals.json: holds no goal");
    check_goals(
        &changed("B000000001", "B000000002"),
        "goals.json, element 2 (line 4): the goal is for product B000000002, which the shop does not have",
    );
    check_goals(
        &changed(r#"["light weight"]"#, "[]"),
        "goals.json, element 2 (line 4): the goal for product B000000001 names no attribute",
    );
    check_goals(
        &changed(r#""price_upper": 10"#, r#""price_upper": 0"#),
        "goals.json, element 2 (line 4): the goal for product B000000001 has a bound on the price that is not above 0",
    );
    check_goals(
        &changed(r#""price_upper": 10"#, r#""price_upper": 10, "weight": -1"#),
        "goals.json, element 2 (line 4): the goal for product B000000001 has a weight that is negative or no number",
    );
    check_goals(
        &changed(r#""goal_options": []"#, r#""goal_options": "red""#),
        "goals.json, element 2 (line 4): its options are a list of strings or an object of strings",
    );
    check_goals(
        &changed(r#""query": "cup", "#, ""),
        "goals.json, element 2 (line 6): missing field `query` at column 40",
    );
}

#[test]
fn given_prices_and_nouns_are_checked() {
    assert_eq!(
        Files::good().with("prices.json", "{}").error(),
        "prices.json: has no price for product B000000001"
    );
    assert_eq!(
        Files::good().with("prices.json", r#"{"B000000001": "$5"}"#).error(),
        "prices.json, line 1: `B000000001` is not a number"
    );
    assert_eq!(
        Files::good().with("nouns.json", r#"{"Tin Cup": "cup"}"#).error(),
        "nouns.json, line 1: `Tin Cup` is not a list of strings"
    );
}

#[track_caller]
fn check_config(change: impl FnOnce(&mut WebshopConfig), expect: &str) {
    let mut files = Files::good();
    change(&mut files.config);
    let error = WebshopWorld::load(&files.config).unwrap_err();
    assert_eq!(said(error, files.directory.path()), expect);
}

#[test]
fn configurations_that_do_not_fit_are_refused() {
    check_config(
        |config| config.products = None,
        "`attributes` and `instructions` need `products` beside them",
    );
    check_config(
        |config| config.attributes = None,
        "`products` needs `attributes` beside it, the file of attributes (items_ins_v2*.json)",
    );
    check_config(
        |config| config.instructions = None,
        "goals of people need `instructions`, their file (items_human_ins.json); or set `goal_kind` to \"synthetic\", \
         or give `goals`",
    );
    check_config(|config| config.n_products = Some(0), "`n_products` must be above 0");
    check_config(
        |_| {},
        "the split `train` takes the goals from 1500 to 1, but there are 1; give other `ranges`, or a `split_ratio`",
    );
    check_config(
        |config| config.split_ratio = Some([1, 1, 1].into()),
        "there are 1 goals, and none of them for the split `val`; change `split_ratio` or take more goals",
    );
    check_config(
        |config| config.split_ratio = Some([1, 0, 1].into()),
        "every weight of `split_ratio` must be above 0",
    );
    check_config(
        |config| {
            config.split_ratio = Some([1, 1, 1].into());
            config.ranges = Some(SplitRanges::default());
        },
        "give `ranges` or `split_ratio`, not both",
    );
    check_config(|config| config.products = Some("nowhere.json".into()), "cannot read nowhere.json");
}

#[track_caller]
fn check_ranges(
    train: (usize, Option<usize>),
    val: (usize, Option<usize>),
    test: (usize, Option<usize>),
    expect: &str,
) {
    let range = |(start, end)| GoalRange { start, end };
    let ranges = SplitRanges { train: range(train), val: range(val), test: range(test) };
    let config = WebshopConfig { ranges: Some(ranges), ..recorded_config() };
    let said = match config.split_goals(&[""; 84]) {
        Ok(splits) => format!("{:?}", splits.map(|places| places.len())),
        Err(error) => error.to_string(),
    };
    assert_eq!(said, expect);
}

#[test]
fn ranges_do_not_overlap() {
    check_ranges((30, None), (10, Some(30)), (0, Some(10)), "[54, 20, 10]");
    check_ranges(
        (0, Some(84)),
        (84, None),
        (0, Some(1)),
        "the split `val` takes the goals from 84 to 84, but there are 84; give other `ranges`, or a `split_ratio`",
    );
    check_ranges(
        (20, None),
        (10, Some(30)),
        (0, Some(10)),
        "the splits `val` and `train` overlap: both have the goal of place 20",
    );
    check_ranges(
        (20, Some(30)),
        (0, None),
        (40, Some(50)),
        "the splits `val` and `train` overlap: both have the goal of place 20",
    );
    check_ranges(
        (20, Some(30)),
        (0, Some(10)),
        (5, Some(4)),
        "the split `test` takes the goals from 5 to 4, but there are 84; give other `ranges`, or a `split_ratio`",
    );
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
