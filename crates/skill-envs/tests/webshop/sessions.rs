//! Recorded sessions, played again step by step.

use crate::recorded::{HUMAN, HUMAN_WITH_ATTRIBUTES, KNOWN_NOUNS, SYNTHETIC, config, difference};
use serde_json::{Value, json};
use skill_envs::webshop::{ObservationForm, Reward, Session, Shop, WebshopConfig, WebshopWorld};
use std::sync::Arc;

pub(crate) fn differences(file: &Value) -> Vec<String> {
    let mut failures = Vec::new();
    for (group, value) in file.as_object().unwrap() {
        match group.as_str() {
            "meta" => failures.extend(meta(value)),
            "servers" => failures.extend(servers(value)),
            "sessions" => failures.extend(value.as_array().unwrap().iter().flat_map(session)),
            other => failures.push(format!("sessions.json: nobody reads the group `{other}`")),
        }
    }
    failures
}

fn meta(meta: &Value) -> Option<String> {
    let ours = json!({
        "base_url": "http://127.0.0.1:3000",
        "prices_and_price_upper_seed": config().seed,
        "goal_shuffle_seed": 233,
        "search_return_n": 50,
        "product_window": 10,
    });
    difference("meta", &ours, meta)
}

fn shop(server: &str, show_attributes: bool) -> &'static Arc<Shop> {
    match (server, show_attributes) {
        ("human", false) => &HUMAN,
        ("human", true) => &HUMAN_WITH_ATTRIBUTES,
        ("synthetic", false) => &SYNTHETIC,
        other => panic!("no shop for {other:?}"),
    }
}

/// Goals, prices and weights as they come out of the files with the recording's seed.
fn servers(servers: &Value) -> Vec<String> {
    let mut failures = Vec::new();
    for (name, server) in servers.as_object().unwrap() {
        let shop = shop(name, false);
        let prices: serde_json::Map<String, Value> = shop
            .catalogue()
            .products()
            .iter()
            .enumerate()
            .map(|(place, product)| (product.asin.clone(), shop.price(place).into()))
            .collect();
        for (what, recorded) in server.as_object().unwrap() {
            match what.as_str() {
                "goals" => {
                    assert_eq!(recorded.as_array().unwrap().len(), shop.goals().len());
                    for (place, recorded) in recorded.as_array().unwrap().iter().enumerate() {
                        failures.extend(goal_difference(
                            &format!("{name}: goal {place}"),
                            shop,
                            place,
                            recorded,
                        ));
                    }
                }
                "product_prices" => {
                    failures.extend(difference(
                        &format!("{name}: prices"),
                        &Value::Object(prices.clone()),
                        recorded,
                    ));
                }
                "weights" => {
                    for (goal, recorded) in shop.goals().iter().zip(recorded.as_array().unwrap()) {
                        let recorded = recorded.as_f64().unwrap();
                        if (goal.weight - recorded).abs() > 1e-15 {
                            failures.push(format!("{name}: weight {} for {recorded}", goal.weight));
                        }
                    }
                }
                other => failures.push(format!("nobody reads `{other}` of a server")),
            }
        }
    }
    failures
}

fn goal_difference(what: &str, shop: &Shop, place: usize, recorded: &Value) -> Option<String> {
    let goal = &shop.goals()[place];
    let mut recorded = recorded.clone();
    // The last digit of a weight depends on the order of a sum.
    recorded["weight"] = Value::Null;
    recorded["price_upper"] = recorded["price_upper"].as_f64().unwrap().into();
    let ours = json!({
        "asin": goal.asin,
        "category": goal.category,
        "query": goal.query,
        "name": goal.name,
        "product_category": goal.product_category,
        "instruction_text": goal.instruction,
        "attributes": goal.attributes,
        "price_upper": goal.price_upper,
        "goal_options": goal.options.to_json(),
        "weight": null,
    });
    difference(what, &ours, &recorded)
}

fn session(recorded: &Value) -> Vec<String> {
    let shop = shop(recorded["server"].as_str().unwrap(), recorded["show_attrs"].as_bool().unwrap());
    let name = match &recorded["session"] {
        Value::Number(number) => number.to_string(),
        other => other.as_str().unwrap().to_owned(),
    };
    let goal = usize::try_from(recorded["goal_index"].as_u64().unwrap()).unwrap();
    let what = format!("{} {name} ({})", recorded["server"], recorded["policy"]);
    let mut failures = Vec::new();
    failures.extend(goal_difference(&what, shop, goal, &recorded["goal"]));
    let mut session = Session::start(Arc::clone(shop), &name, goal).unwrap();
    let instruction = format!("Instruction: {}", session.instruction());
    failures.extend(difference(&what, &instruction.into(), &recorded["instruction_text"]));
    failures.extend(page_difference(&what, &session, &recorded["reset"]));
    for (number, step) in recorded["steps"].as_array().unwrap().iter().enumerate() {
        let action = step["action"].as_str().unwrap();
        let what = format!("{what}, step {number}, {action:?}");
        if let Some(error) = step.get("error") {
            failures.extend(error_difference(&what, &mut session, action, error));
            break;
        }
        let outcome = session.act(action);
        // What does nothing is told from what does by the type of its reward.
        let understood = !step["reward"].is_i64();
        let ours = json!([outcome.understood, outcome.reward, outcome.done]);
        let reward = step["reward"].as_f64().unwrap();
        failures.extend(difference(&what, &ours, &json!([understood, reward, step["done"]])));
        failures.extend(page_difference(&what, &session, step));
        if let Some(search) = step.get("search") {
            failures.extend(search_difference(&what, shop, search));
        }
        if let Some(purchase) = step.get("purchase") {
            failures.extend(purchase_difference(&what, &session, purchase));
        }
    }
    failures.extend(windows(&what, shop, goal, recorded));
    failures
}

fn page_difference(what: &str, session: &Session, recorded: &Value) -> Vec<String> {
    let ours = [
        ("obs_text", session.text().into()),
        ("obs_text_rich", session.text_rich().into()),
        ("url", session.url().into()),
        (
            "available",
            json!({ "has_search_bar": session.has_search_bar(), "clickables": session.clickables() }),
        ),
    ];
    ours.iter()
        .filter_map(|(field, ours)| difference(&format!("{what}: {field}"), ours, &recorded[field]))
        .collect()
}

/// What raised an exception there means nothing here, and changes nothing.
fn error_difference(what: &str, session: &mut Session, action: &str, error: &Value) -> Option<String> {
    println!("{what}: differs on purpose: it means nothing here, and raised {error} there");
    let before = session.text_rich();
    let outcome = session.act(action);
    let is_ignored = !outcome.understood && outcome.reward == 0.0 && !outcome.done;
    (!is_ignored || session.text_rich() != before).then(|| format!("{what}: is not ignored: {outcome:?}"))
}

/// Rankings are equal; scores are the recorded ones but for the rounding and the nudging of ties there.
pub(crate) fn search_difference(what: &str, shop: &Shop, search: &Value) -> Vec<String> {
    let found = shop.search(search["query"].as_str().unwrap());
    let recorded = search["hits"].as_array().unwrap();
    let asins = |hits: Vec<&str>| json!(hits);
    let mut failures = Vec::new();
    failures.extend(difference(
        &format!("{what}: ranking"),
        &asins(found.iter().map(|(product, _)| product.asin.as_str()).collect()),
        &asins(recorded.iter().map(|hit| hit[0].as_str().unwrap()).collect()),
    ));
    for ((product, score), recorded) in found.iter().zip(recorded) {
        let recorded = recorded[1].as_f64().unwrap();
        if (f64::from(*score) - recorded).abs() > 0.0002 {
            failures.push(format!("{what}: {} has {score} for {recorded}", product.asin));
        }
    }
    failures
}

fn purchase_difference(what: &str, session: &Session, recorded: &Value) -> Option<String> {
    let purchase = session.purchase().unwrap();
    let name = &HUMAN.catalogue().get(&purchase.asin).unwrap().title;
    let names = [name, &session.goal().unwrap().name];
    let mut ours = json!({
        "asin": purchase.asin,
        "options": purchase.options,
        "price": purchase.price,
        "reward": purchase.reward.total(),
        "verbose_info": info(&purchase.reward),
    });
    let mut recorded = recorded.clone();
    let what = format!("{what}: purchase");
    if let Some(found) = leave_out_untagged(&what, names, &mut ours, &mut recorded, "verbose_info") {
        return Some(found);
    }
    difference(&what, &ours, &recorded)
}

/// Pairs of a bought name and a goal's of which the recording has the nouns of one at most, and where nouns by rule
/// give another share in common than the recording's tagger did: what was bought, what was wanted.
///
/// Of these the share, the type and the total are not compared; everything else is. Nothing recorded enters ours.
const UNTAGGED: [(&str, &str); 3] = [
    (
        "Polwick Long Sleeve Men's Linen Shirt with Chest Pocket",
        "Larkmoor <b>Slim</b> Oxford Shirt & Tie Set \"Gift\" — Men's",
    ),
    (
        "QUESTREL Sulfate Free Scalp Scrub for Damaged & Dry Hair",
        "QUESTREL Mid-Century Farmhouse Bedside Lamp with USB Ports",
    ),
    (
        "Hazelgrip Dimmable Bedside Lamp (LED Bulb Included)",
        "Hazelgrip Mid-Century Table Lamp with Linen Shade",
    ),
];

/// Takes what depends on unknown nouns out of both sides of a comparison, where [`UNTAGGED`] has the names; the error
/// says what is wrong with that list.
pub(crate) fn leave_out_untagged(
    what: &str,
    names: [&String; 2],
    ours: &mut Value,
    recorded: &mut Value,
    info: &str,
) -> Option<String> {
    let is_listed = UNTAGGED.iter().any(|(bought, wanted)| names[0] == bought && names[1] == wanted);
    let is_known = names.iter().all(|name| KNOWN_NOUNS.contains_key(*name));
    let is_same = ours[info]["title_score"] == recorded[info]["title_score"];
    if !is_listed {
        return None;
    }
    if is_known || is_same {
        return Some(format!("{what}: {names:?} can be compared, and stands among what cannot"));
    }
    for side in [ours, recorded] {
        side["reward"] = Value::Null;
        for part in ["title_score", "r_type"] {
            side[info][part] = Value::Null;
        }
    }
    None
}

/// The parts of a reward under the names that the original gives them.
pub(crate) fn info(reward: &Reward) -> Value {
    let mut info = json!({
        "r_type": reward.kind.factor(),
        "r_att": reward.attributes.share(),
        "w_att": reward.attribute_weight(),
        "query_match": reward.kind.query_match,
        "category_match": reward.kind.category_match,
        "title_score": reward.kind.title_score,
    });
    if let Some(share) = reward.options.share() {
        info["r_option"] = share.into();
        info["w_option"] = reward.option_weight().into();
    }
    info["r_price"] = reward.is_price_met.into();
    info["w_price"] = reward.price_weight().into();
    info
}

/// The states with earlier pages and actions, where a session has them.
fn windows(what: &str, shop: &Arc<Shop>, goal: usize, recorded: &Value) -> Vec<String> {
    let kwargs = recorded["env_kwargs"].as_object().unwrap();
    let number = |name: &str| kwargs.get(name).map_or(0, |n| usize::try_from(n.as_u64().unwrap()).unwrap());
    if kwargs.is_empty() {
        return Vec::new();
    }
    let config = WebshopConfig {
        observation: ObservationForm::TextRich,
        previous_observations: number("num_prev_obs"),
        previous_actions: number("num_prev_actions"),
        split_ratio: Some([1, 1, 1].into()),
        ..config()
    };
    let mut episode = WebshopWorld::new(Arc::clone(shop), &config).unwrap().play(goal).unwrap();
    episode.begin();
    let steps = recorded["steps"].as_array().unwrap();
    let failures = steps.iter().filter_map(|step| {
        let seen = episode.act(step["action"].as_str().unwrap());
        difference(&format!("{what}: state"), &seen.text.into(), &step["state_returned"])
    });
    failures.collect()
}
