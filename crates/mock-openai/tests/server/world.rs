//! The scripted world as skillrl sees it.

use crate::client::start;
use mock_openai::workload::{DataSize, Workload, answer, question, write_data};
use mock_openai::{MockServer, Replies, ServerConfig};
use skill_core::{ItemId, SkillDoc};
use skill_envs::qa::{QaConfig, QaEnv};
use skill_envs::{Env as _, RolloutCtx, Split};
use skill_llm::{OpenAiChat, OpenAiConfig, ReqwestTransport};
use std::path::Path;
use std::sync::Arc;

/// A model of the server, which a proxy cannot come between.
pub(crate) fn model(config: OpenAiConfig) -> Arc<OpenAiChat> {
    Arc::new(OpenAiChat::with_transport(config, Arc::new(ReqwestTransport::direct().unwrap())).unwrap())
}

pub(crate) async fn play(workload: Workload) -> MockServer {
    start(ServerConfig { replies: Replies::Workload(workload), ..ServerConfig::default() }).await
}

pub(crate) fn env(dir: &Path, size: &DataSize) -> QaEnv {
    write_data(dir, size).unwrap();
    QaEnv::load(&QaConfig::new(dir)).unwrap()
}

#[test]
fn the_data_is_what_the_environment_reads() {
    let dir = tempfile::tempdir().unwrap();
    let env = env(dir.path(), &DataSize { train: 5, val: 3, test: 2, context_bytes: 5_000 });
    assert_eq!(Split::ALL.map(|split| env.items(split).len()), [5, 3, 2]);
    let item = env.question(&ItemId::new("train-4")).unwrap();
    assert_eq!((&item.question, &item.answers), (&question("train-4"), &vec![answer("train-4")]));
    assert!((5_000..5_050).contains(&item.context.len()), "{}", item.context.len());
    assert!(item.context.starts_with("<item id=\"train-4\">\n"));
    let other = env.question(&ItemId::new("train-3")).unwrap();
    assert_ne!(item.context.replace("train-4", "train-3"), other.context, "each item has a text of its own");
}

#[test]
fn the_shortest_context_still_names_the_item() {
    let dir = tempfile::tempdir().unwrap();
    let env = env(dir.path(), &DataSize { train: 1, val: 1, test: 1, context_bytes: 0 });
    assert_eq!(env.question(&ItemId::new("val-0")).unwrap().context, "<item id=\"val-0\">\n</item>");
}

#[tokio::test]
async fn a_rollout_is_right_where_the_world_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let env = env(dir.path(), &DataSize { train: 1, val: 100, test: 1, context_bytes: 500 });
    let workload = Workload { accuracy_step: 0.2, ..Workload::default() };
    let server = play(workload).await;
    let target = model(OpenAiConfig::new(server.base_url(), "target"));
    for (skill, n_better) in [("", 0), ("# Skill\n\n- BETTER-1: look twice.", 1)] {
        let skill = SkillDoc::from(skill);
        for item in env.items(Split::Val) {
            let result = env.rollout(item, &skill, target.as_ref(), &RolloutCtx::default()).await.unwrap();
            assert_eq!(result.is_success(), workload.is_right(item.id.as_str(), n_better, 0), "{}", item.id);
        }
    }
    let stats = server.stats();
    assert_eq!((stats.requests, stats.answered, stats.distinct_bodies, stats.repeated), (200, 200, 200, 0));
}
