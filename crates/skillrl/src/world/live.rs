//! Worlds on servers, where the build has them.

use super::Around;
use crate::config::ConfigPath;
use crate::error::Error;
use skill_envs::World;
use std::sync::Arc;

#[cfg(feature = "live")]
pub(super) use skill_envs::live::LiveKind;

/// What is played on the servers.
#[cfg(not(feature = "live"))]
#[derive(Debug, Clone, Copy)]
pub(super) enum LiveKind {
    Alfworld,
    Webshop,
}

/// How many episodes train, val and test have where no list names their tasks: as many as games are generated here.
#[cfg(feature = "live")]
const UNLISTED: [usize; 3] = [36, 18, 36];

/// A world on servers; without addresses, on the one that usually serves it.
#[cfg(feature = "live")]
pub(super) fn live(
    kind: LiveKind,
    servers: &[String],
    (tasks, timeout_s): (Option<&ConfigPath>, u64),
    limits: [Option<usize>; 3],
    around: &Around<'_>,
) -> Result<Arc<dyn World>, Error> {
    use super::wrong;
    use skill_envs::live::{LiveConfig, LiveWorld};
    use skill_envs::{Split, tasks as data};
    use skill_llm::ReqwestTransport;
    use skill_llm::transport::ScrubbedTransport;
    let mut config = LiveConfig {
        kind,
        servers: servers.to_vec(),
        tasks: Default::default(),
        unlisted: [0; 3],
        timeout_s: timeout_s as f64,
    };
    match tasks {
        Some(lists) => {
            let lists = lists.to_path();
            let optional: &[Split] = if around.test_is_optional { &[Split::Test] } else { &[] };
            let tasks = data::read_split_ids(&lists, optional).map_err(Error::Env)?;
            let tasks = tasks.map(|ids| ids.iter().map(|id| id.as_str().to_owned()).collect());
            config.tasks = [tasks.train, tasks.val, tasks.test];
        }
        None => {
            let [train, val, test] = limits;
            let [of_train, of_val, of_test] = UNLISTED;
            config.unlisted = [train.unwrap_or(of_train), val.unwrap_or(of_val), test.unwrap_or(of_test)];
            tracing::warn!(
                "without `env.server_tasks` the server chooses the task of each episode: splits may share tasks, and \
                 scores of two skills are of other tasks"
            );
        }
    }
    let transport =
        ReqwestTransport::new().map_err(|error| wrong(format!("no HTTP client can be made: {error}")))?;
    let transport = Arc::new(ScrubbedTransport::new(Arc::new(transport), around.secrets.clone()));
    Ok(Arc::new(LiveWorld::with_transport(&config, transport).map_err(Error::Env)?))
}

/// Refuses the world: this build has none on servers.
#[cfg(not(feature = "live"))]
pub(super) fn live(
    kind: LiveKind,
    _: &[String],
    _: (Option<&ConfigPath>, u64),
    _: [Option<usize>; 3],
    _: &Around<'_>,
) -> Result<Arc<dyn World>, Error> {
    let world = match kind {
        LiveKind::Alfworld => "alfworld",
        LiveKind::Webshop => "webshop",
    };
    let what = format!("`env.servers` of `env.kind = \"{world}\"`");
    Err(Error::LeftOut { what, feature: "live" })
}

#[cfg(all(test, not(feature = "live")))]
mod tests {
    use crate::config::Config;
    use crate::error::Error;
    use crate::world::environment;

    #[test]
    fn left_out_servers_name_their_feature() {
        let text = "[models]\ntarget = { kind = \"simulated\" }\noptimizer = { kind = \"simulated\" }\n\
                    [env]\nkind = \"webshop\"\nservers = [\"http://localhost:3001\"]\nserver_tasks = \"t\"\n";
        let loaded = Config::parse(text, "skillrl.toml", &[]).unwrap();
        let Err(error) = environment(&loaded, None) else { panic!("a world was made") };
        let Error::LeftOut { what, feature } = &error else { panic!("{error:?}") };
        assert!(what.starts_with("`env.servers` "), "{what}");
        assert_eq!(*feature, "live");
    }
}
