//! From `[env]` with `kind = "webshop"` to its shop.

use crate::config::{ConfigPath, GoalSplit, WebshopConfig};
use crate::error::Error;
use skill_envs::World;
use skill_envs::webshop::{self, WebshopWorld};
use std::sync::Arc;

/// The shop with its goals.
pub(super) fn world(asked: &WebshopConfig) -> Result<Arc<dyn World>, Error> {
    let path = |path: &Option<ConfigPath>| path.as_ref().map(ConfigPath::to_path);
    let by_ratio = asked.goal_split == GoalSplit::Ratio || asked.products.is_none();
    let config = webshop::WebshopConfig {
        products: path(&asked.products),
        attributes: path(&asked.attributes),
        instructions: path(&asked.instructions),
        n_products: asked.max_products,
        goal_kind: asked.goal_kind,
        goals: path(&asked.goals),
        prices: path(&asked.prices),
        nouns: path(&asked.nouns),
        missing_products: asked.missing_products,
        seed: asked.shop_seed,
        show_attributes: asked.show_attributes,
        observation: asked.observation,
        previous_observations: asked.previous_observations,
        previous_actions: asked.previous_actions,
        ranges: None,
        split_ratio: by_ratio.then_some(asked.split_ratio),
        split_rule: asked.split_rule,
        split_seed: asked.split_seed,
        limits: [asked.max_train, asked.max_val, asked.max_test],
    };
    Ok(Arc::new(WebshopWorld::load(&config).map_err(Error::Env)?))
}
