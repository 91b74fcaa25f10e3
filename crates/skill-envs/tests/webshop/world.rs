//! The shop as a world, on the products that are made up.

use crate::recorded::HUMAN;
use proptest::prelude::*;
use serde_json::Value;
use skill_envs::webshop::{
    ATTRIBUTES_FILE, Bundled, GoalKind, GoalOptions, INSTRUCTIONS_FILE, ObservationForm, PRODUCTS_FILE,
    Session, Shop, WebshopConfig, WebshopWorld,
};
use skill_envs::{Split, World as _};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

static BUNDLED: LazyLock<Arc<Shop>> =
    LazyLock::new(|| Arc::new(Shop::load(&WebshopConfig::default()).unwrap()));

#[test]
fn the_made_up_shop_is_large_and_varied() {
    let products = BUNDLED.catalogue().products();
    assert!(products.len() >= 500, "{}", products.len());
    assert!(BUNDLED.goals().len() >= 500, "{}", BUNDLED.goals().len());
    println!("{} products, {} goals", products.len(), BUNDLED.goals().len());
    let count = |values: BTreeSet<&str>| values.len();
    assert_eq!(count(products.iter().map(|product| product.category.as_str()).collect()), 5);
    assert!(count(products.iter().map(|product| product.query.as_str()).collect()) >= 25);
    assert!(
        count(products.iter().map(|product| product.title.as_str()).collect()) >= products.len() * 95 / 100
    );
    assert!(products.iter().any(|product| product.price.numbers().len() == 2));
    assert!(products.iter().any(|product| product.options.len() < 2));
}

/// Finds and buys what a goal was written for, in the way of a player who knows it.
fn buy(shop: &Arc<Shop>, goal: usize) -> (usize, f64) {
    let mut visit = Session::start(Arc::clone(shop), "expert", goal).unwrap();
    let wanted = shop.goals()[goal].clone();
    let mut actions = vec![format!("search[{}]", wanted.name)];
    let asin = wanted.asin.to_lowercase();
    let mut n_pages = 1;
    visit.act(&actions[0]);
    while !visit.clickables().contains(&asin) && n_pages < 5 {
        assert!(visit.act("click[next >]").understood);
        n_pages += 1;
    }
    actions.push(format!("click[{}]", wanted.asin));
    match &wanted.options {
        GoalOptions::Values(values) => actions.extend(values.iter().map(|value| format!("click[{value}]"))),
        GoalOptions::Named(pairs) => actions.extend(pairs.iter().map(|(_, value)| format!("click[{value}]"))),
    }
    actions.push("click[buy now]".to_owned());
    for action in &actions[1..actions.len() - 1] {
        assert!(visit.act(action).understood, "goal {goal}: {action} at {}", visit.url());
    }
    let bought = visit.act("click[buy now]");
    assert!(bought.done);
    (n_pages, bought.reward)
}

#[test]
fn an_expert_reaches_every_made_up_goal() {
    let mut pages = [0; 6];
    for goal in 0..BUNDLED.goals().len() {
        let (n_pages, reward) = buy(&BUNDLED, goal);
        pages[n_pages] += 1;
        assert_eq!(reward, 1.0, "goal {goal}: {:?}", BUNDLED.goals()[goal]);
    }
    assert!(pages[1] > BUNDLED.goals().len() * 9 / 10, "pages until it is found: {pages:?}");
    let config =
        WebshopConfig { goal_kind: GoalKind::Synthetic, n_products: Some(60), ..WebshopConfig::default() };
    let synthetic = Arc::new(Shop::load(&config).unwrap());
    for goal in 0..synthetic.goals().len() {
        assert_eq!(buy(&synthetic, goal).1, 1.0, "goal {goal}: {:?}", synthetic.goals()[goal]);
    }
}

#[test]
fn what_is_made_up_is_the_same_when_it_is_written_and_read() {
    let bundled = Bundled::new(90, 11);
    assert_eq!(bundled, Bundled::new(90, 11));
    assert_ne!(bundled, Bundled::new(90, 12));
    let directory = tempfile::tempdir().unwrap();
    bundled.write(directory.path()).unwrap();
    let file = |name: &str| directory.path().join(name);
    let read = WebshopConfig {
        seed: 11,
        ..WebshopConfig::new(file(PRODUCTS_FILE), file(ATTRIBUTES_FILE), file(INSTRUCTIONS_FILE))
    };
    let made = WebshopConfig { n_products: Some(90), seed: 11, ..WebshopConfig::default() };
    let (read, made) = (Shop::load(&read).unwrap(), Shop::load(&made).unwrap());
    assert_eq!(read.catalogue().products(), made.catalogue().products());
    assert_eq!(read.goals(), made.goals());
    assert_eq!(read.fingerprint(), made.fingerprint());
}

#[test]
fn items_are_the_goals_and_belong_to_one_split() {
    let world = WebshopWorld::load(&WebshopConfig::default()).unwrap();
    let mut ids = BTreeSet::new();
    let mut n_items = 0;
    for split in Split::ALL {
        let items = world.items(split);
        assert!(!items.is_empty());
        n_items += items.len();
        ids.extend(items.iter().map(|item| item.id.clone()));
        for item in items {
            let goal = &world.shop().goals()[usize::try_from(item.data["goal"].as_u64().unwrap()).unwrap()];
            assert_eq!(item.data["instruction"], goal.instruction);
            assert_eq!(item.task_type, goal.category);
        }
    }
    assert_eq!((ids.len(), n_items), (world.shop().goals().len(), n_items));
    assert_eq!(ids.len(), n_items);
}

#[tokio::test]
async fn an_episode_tells_what_can_be_done_and_when_it_is_won() {
    let config = WebshopConfig { split_ratio: Some([1, 1, 1].into()), ..WebshopConfig::default() };
    let world = WebshopWorld::new(Arc::clone(&BUNDLED), &config).unwrap();
    let item = &world.items(Split::Test)[0];
    let wanted = &BUNDLED.goals()[usize::try_from(item.data["goal"].as_u64().unwrap()).unwrap()];
    let mut episode = world.episode(item).unwrap();
    for _ in 0..2 {
        let seen = episode.reset().await.unwrap();
        assert_eq!(seen.admissible.as_deref(), Some(&["search[<your query>]".to_owned()][..]));
        assert_eq!(
            seen.text,
            format!("WebShop [SEP] Instruction: [SEP] {} [SEP] Search", wanted.instruction)
        );
        assert_eq!(episode.task(), Some(wanted.instruction.as_str()));
        let seen = episode.step("I would look for it first.").await.unwrap();
        assert!(!seen.understood && !seen.done && seen.reward == 0.0);
        let seen = episode.step(&format!("search[{}]", wanted.name)).await.unwrap();
        let listed = format!("click[{}]", wanted.asin.to_lowercase());
        assert!(seen.understood && seen.admissible.unwrap().contains(&listed));
        let seen = episode.step(&listed).await.unwrap();
        assert!(seen.admissible.unwrap().contains(&"click[buy now]".to_owned()));
        let GoalOptions::Values(values) = &wanted.options else { panic!("goals of people have values") };
        for value in values {
            episode.step(&format!("click[{value}]")).await.unwrap();
        }
        let seen = episode.step("click[Buy Now]").await.unwrap();
        assert!(seen.done && seen.won && seen.reward == 1.0, "{seen:?}");
    }
}

#[test]
fn the_words_of_actions_may_be_in_any_case() {
    let world = WebshopWorld::new(Arc::clone(&BUNDLED), &WebshopConfig::default()).unwrap();
    let seen = |actions: &[&str]| {
        let mut visit = world.play(0).unwrap();
        visit.begin();
        let seen: Vec<_> = actions.iter().map(|action| visit.act(action)).collect();
        (
            seen.iter().all(|seen| seen.understood),
            seen.last().unwrap().text.clone(),
            visit.session().url().to_owned(),
        )
    };
    let (_, _, url) = seen(&["search[red shoes]"]);
    for action in ["Search[red shoes]", "SEARCH[Red Shoes]", "search [red shoes]"] {
        let found = seen(&[action]);
        assert_eq!((found.0, found.2.as_str()), (true, url.as_str()), "{action}");
    }
    let back = seen(&["search[red shoes]", "click[back to search]"]);
    for action in ["Click[Back to Search]", "CLICK[back to search]"] {
        let found = seen(&["search[red shoes]", action]);
        assert_eq!((found.0, found.2), (true, back.2.clone()), "{action}");
    }
    for action in ["Find[red shoes]", "researched[red shoes]", "red shoes"] {
        assert!(!seen(&[action]).0, "{action}");
    }
}

#[test]
fn another_shop_has_other_settings() {
    let settings = |config: WebshopConfig| {
        let config = WebshopConfig { n_products: Some(60), ..config };
        WebshopWorld::load(&config).unwrap().settings()
    };
    let plain = settings(WebshopConfig::default());
    assert_eq!(plain, settings(WebshopConfig::default()));
    assert_ne!(plain, settings(WebshopConfig { seed: 1, ..WebshopConfig::default() }));
    assert_ne!(plain, settings(WebshopConfig { show_attributes: true, ..WebshopConfig::default() }));
    let rich = WebshopConfig { observation: ObservationForm::TextRich, ..WebshopConfig::default() };
    assert_ne!(plain, settings(rich));
}

#[test]
fn an_item_of_another_world_is_refused() {
    let config = WebshopConfig { split_ratio: Some([1, 1, 1].into()), ..WebshopConfig::default() };
    let world = WebshopWorld::new(Arc::clone(&BUNDLED), &config).unwrap();
    for data in [Value::Null, serde_json::json!({ "goal": 1_000_000 }), serde_json::json!({ "goal": "1" })] {
        assert!(world.episode(&skill_envs::Item::new("other", data)).is_err());
    }
    assert!(Session::start(Arc::clone(&BUNDLED), "x", BUNDLED.goals().len()).is_none());
}

#[test]
fn random_products_differ_between_draws_and_repeat_with_the_seed() {
    let shown = || {
        let mut visit = Session::start(Arc::clone(&BUNDLED), "x", 5).unwrap();
        [(); 3].map(|()| {
            visit.act("search[<r>]");
            assert!(visit.text().contains("Page 1 (Total results: 50)"));
            visit.text()
        })
    };
    let [first, second, third] = shown();
    assert!(first != second && second != third);
    assert_eq!([first, second, third], shown());
}

/// Actions that mean something on some page, and some that never do.
fn action() -> impl Strategy<Value = String> {
    let asins = HUMAN.catalogue().products().iter().map(|product| product.asin.clone()).collect::<Vec<_>>();
    prop_oneof![
        prop::sample::select(vec![
            "click[next >]",
            "click[< prev]",
            "click[back to search]",
            "click[buy now]",
            "click[description]",
            "click[features]",
            "click[reviews]",
            "click[attributes]",
            "click[search]",
            "search[<r>]",
            "search[<c>]",
            "search[<c> beauty]",
            "search[<q> shampoo]",
            "search[item_page search_results]",
            "search[\"red\" tea]",
        ])
        .prop_map(str::to_owned),
        prop::sample::select(asins).prop_map(|asin| format!("click[{asin}]")),
        "(search|click)\\[.{0,12}\\]",
        ".{0,20}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_actions_can_be_taken(actions in prop::collection::vec(action(), 0..40), first_click in 0_usize..20) {
        let mut visit = Session::start(Arc::clone(&HUMAN), "x", 1).unwrap();
        for action in &actions {
            let (text, url) = (visit.text_rich(), visit.url().to_owned());
            let clickables = visit.clickables();
            let outcome = visit.act(action);
            prop_assert!((0.0..=1.0).contains(&outcome.reward));
            if !outcome.understood {
                prop_assert_eq!((visit.text_rich(), visit.url()), (text, url.as_str()));
                let offered = |text: &String| text != "search" && *action == format!("click[{text}]");
                prop_assert_eq!(clickables.iter().find(|text| offered(text)), None);
            }
            // A click on what is offered is always understood.
            let clickables = visit.clickables();
            if let Some(text) = clickables.get(first_click).filter(|text| *text != "search" && !text.is_empty()) {
                let click = format!("click[{text}]");
                prop_assert!(visit.act(&click).understood, "{}", click);
            }
        }
    }
}
