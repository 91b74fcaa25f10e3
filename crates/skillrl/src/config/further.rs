//! Further models by their names alone: each is the target with another `model`.

use super::draft::{TARGET, TARGETS};
use super::show::lookup;
use super::{LoadedConfig, ModelConfig, ValueSource, keys, value};
use serde_json::json;

/// Keys of the target that are not those of another model of its server.
const OWN_KEYS: [&str; 5] = ["model", "price_input", "price_output", "price_cached", "price_cache_write"];

impl LoadedConfig {
    /// Overrides that add this model of the target's server as `[models.targets.NAME]`, with the target's settings but for
    /// its prices; `None` unless a server answers for the target.
    pub fn further_target(&self, name: &str, model: &str) -> Option<Vec<String>> {
        let ModelConfig::Served { .. } = self.config.models.target else { return None };
        let config = json!(self.config);
        let is_set =
            |key: &str| matches!(self.origins.get(key), Some(ValueSource::File { .. } | ValueSource::Set));
        let of_target = keys::keys().filter(|(section, _)| section.path == TARGET);
        let kept = of_target.filter(|(section, key)| is_set(&section.path_of(key)));
        let kept = kept.filter(|(_, key)| !OWN_KEYS.contains(&key.name)).filter_map(|(section, key)| {
            let value = lookup(&config, section, key.name).filter(|value| !value.is_null())?;
            Some(format!("{TARGETS}.{name}.{}={}", key.name, value::to_toml(value)))
        });
        Some(kept.chain([format!("{TARGETS}.{name}.model={model}")]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn another_model_has_the_settings_of_the_target_but_for_its_prices() {
        let text = "[env]\nkind = \"qa\"\ndata = \"d\"\n[models]\noptimizer = { kind = \"simulated\" }\n\
                    [models.target]\nmodel = \"m\"\nbase_url = \"http://localhost:1/v1\"\ntemperature = 0.5\n\
                    price_input = 1\nprice_output = 2\nextra_body = { effort = \"low\" }\n";
        let loaded = Config::parse(text, "", &[]).unwrap();
        let overrides = loaded.further_target("other", "4.1").unwrap();
        let with = Config::parse(text, "", &overrides).unwrap();
        let other = with.config.models.targets["other"].served().unwrap();
        let target = loaded.config.models.target.served().unwrap();
        assert_eq!((other.model.as_str(), &other.base_url), ("4.1", &target.base_url));
        assert_eq!((other.temperature, &other.extra_body), (target.temperature, &target.extra_body));
        assert!(!overrides.iter().any(|set| set.contains("price")), "{overrides:?}");
        let capped = format!("{text}[budget]\nmoney = 1\n");
        Config::parse(&capped, "", &[]).unwrap();
        assert!(Config::parse(&capped, "", &overrides).is_err(), "the cap needs its price");
    }
}
