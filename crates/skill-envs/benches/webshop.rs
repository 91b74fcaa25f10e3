//! How fast the shop is where its speed is promised: `cargo bench -p skill-envs --features webshop`.
//!
//! - [`load`]: 1,000 products are indexed in under 1 s, and read from their files;
//! - [`play`]: a search takes less than 1 ms, and so does every other step;
//! - [`memory`]: an idle episode holds less than 50 kB; the column `max alloc` says how much.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a benchmark fails by panicking")]

use divan::AllocProfiler;

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const N_PRODUCTS: usize = 1000;

/// From texts and files to a shop.
mod load {
    use super::N_PRODUCTS;
    use divan::Bencher;
    use skill_envs::webshop::{
        ATTRIBUTES_FILE, Bundled, INSTRUCTIONS_FILE, PRODUCTS_FILE, Product, SearchIndex, Shop, WebshopConfig,
    };

    #[divan::bench]
    fn index_1000_products(bencher: Bencher<'_, '_>) {
        let config = WebshopConfig { n_products: Some(N_PRODUCTS), ..WebshopConfig::default() };
        let shop = Shop::load(&config).unwrap();
        let texts: Vec<String> = shop.catalogue().products().iter().map(Product::indexed_text).collect();
        bencher.bench(|| SearchIndex::new(&texts));
    }

    /// Files, prices, goals and index.
    #[divan::bench]
    fn files_of_1000_products(bencher: Bencher<'_, '_>) {
        let directory = tempfile::tempdir().unwrap();
        Bundled::new(N_PRODUCTS, 0).write(directory.path()).unwrap();
        let file = |name: &str| directory.path().join(name);
        let config = WebshopConfig::new(file(PRODUCTS_FILE), file(ATTRIBUTES_FILE), file(INSTRUCTIONS_FILE));
        bencher.bench(|| Shop::load(&config).unwrap());
    }
}

/// Steps of a visit.
mod play {
    use super::memory::{opened, shop};
    use divan::{Bencher, black_box};
    use skill_envs::webshop::{ObservationForm, Session, WebshopConfig, WebshopWorld};
    use std::sync::Arc;

    /// The instruction itself, as an agent searches that does not know better.
    #[divan::bench(args = [1, 5, 25])]
    fn search(bencher: Bencher<'_, '_>, n_words: usize) {
        let shop = shop();
        let words: Vec<&str> = shop.goals()[7].instruction.split(' ').cycle().take(n_words).collect();
        let query = words.join(" ");
        bencher.bench(|| shop.search(black_box(&query)).len());
    }

    /// One page forward and what is seen there, with everything that can be clicked.
    #[divan::bench(args = [ObservationForm::Text, ObservationForm::TextRich])]
    fn step_to_an_item(bencher: Bencher<'_, '_>, observation: ObservationForm) {
        let config =
            WebshopConfig { observation, split_ratio: Some([1, 1, 1].into()), ..WebshopConfig::default() };
        let world = WebshopWorld::new(Arc::clone(shop()), &config).unwrap();
        let mut episode = world.play(7).unwrap();
        let search = format!("search[{}]", shop().goals()[7].name);
        let click = format!("click[{}]", shop().goals()[7].asin);
        bencher.bench_local(|| {
            episode.begin();
            episode.act(&search);
            episode.act(&click)
        });
    }

    #[divan::bench]
    fn buy(bencher: Bencher<'_, '_>) {
        bencher.with_inputs(opened).bench_refs(|visit: &mut Session| visit.act("click[buy now]"));
    }
}

/// What an episode holds while its agent thinks.
mod memory {
    use super::N_PRODUCTS;
    use divan::Bencher;
    use skill_envs::webshop::{Session, Shop, WebshopConfig, WebshopEpisode, WebshopWorld};
    use std::sync::{Arc, LazyLock};

    static SHOP: LazyLock<Arc<Shop>> = LazyLock::new(|| {
        let config = WebshopConfig { n_products: Some(N_PRODUCTS), ..WebshopConfig::default() };
        Arc::new(Shop::load(&config).unwrap())
    });

    pub(super) fn shop() -> &'static Arc<Shop> {
        &SHOP
    }

    /// A visit on the page of its product.
    pub(super) fn opened() -> Session {
        let mut visit = Session::start(Arc::clone(shop()), "visit", 7).unwrap();
        visit.act(&format!("search[{}]", shop().goals()[7].name));
        visit.act(&format!("click[{}]", shop().goals()[7].asin));
        visit
    }

    /// A copy of an episode that keeps two earlier pages and actions, so that nothing but the episode is counted.
    #[divan::bench]
    fn idle_episode(bencher: Bencher<'_, '_>) {
        let config = WebshopConfig {
            previous_observations: 2,
            previous_actions: 2,
            split_ratio: Some([1, 1, 1].into()),
            ..WebshopConfig::default()
        };
        let world = WebshopWorld::new(Arc::clone(shop()), &config).unwrap();
        let mut episode = world.play(7).unwrap();
        episode.begin();
        episode.act(&format!("search[{}]", shop().goals()[7].instruction));
        bencher.bench_local(|| -> WebshopEpisode { episode.clone() });
    }
}
