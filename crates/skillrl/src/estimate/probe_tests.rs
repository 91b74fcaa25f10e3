//! What the probe finds in environments of several kinds.

use super::*;
use async_trait::async_trait;
use serde_json::Value;
use skill_core::ItemId;
use skill_envs::{EnvError, SkillSource};
use skill_llm::ToolSpec;

/// How the agent of the environment talks.
#[derive(Clone, Copy)]
enum Talk {
    /// One call, which names a bound on the reply.
    Once { max_tokens: Option<u32> },
    /// So many calls, each with the whole conversation.
    Turns(usize),
    /// So many calls at most, which a reply without a call of a tool ends.
    Tools(usize),
    /// One call; without an answer the environment fails.
    Failing,
    /// No call at all.
    Silent,
}

struct TestEnv {
    items: Vec<Item>,
    talk: Talk,
}

impl TestEnv {
    fn new(n_items: usize, talk: Talk) -> Self {
        let items = (0..n_items).map(|number| Item::new(format!("i{number}"), Value::Null)).collect();
        Self { items, talk }
    }
}

#[async_trait]
impl Env for TestEnv {
    fn name(&self) -> &str {
        "test"
    }

    fn items(&self, _split: Split) -> &[Item] {
        &self.items
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let (skill, ctx) = ctx.show(source, item, "").await?;
        let mut messages = vec![Message::system(skill.agent_view()), Message::user("x".repeat(100))];
        let n_calls = match self.talk {
            Talk::Once { .. } | Talk::Failing => 1,
            Talk::Turns(n_turns) | Talk::Tools(n_turns) => n_turns,
            Talk::Silent => 0,
        };
        for _ in 0..n_calls {
            let mut request = ChatRequest::new(messages.clone());
            if let Talk::Once { max_tokens } = self.talk {
                request.sampling.max_tokens = max_tokens;
            }
            if let Talk::Tools(_) = self.talk {
                let (name, description) = ("look".to_owned(), String::new());
                let tool = ToolSpec { name, description, parameters: Value::Null };
                request.tools = vec![tool];
            }
            let reply = target.chat(&request, &ctx.call).await?;
            if matches!(self.talk, Talk::Tools(_)) && reply.tool_calls.iter().all(|call| call.name == "look")
            {
                break;
            }
            messages.push(Message::assistant(reply.text));
            messages.push(Message::user("y".repeat(10)));
        }
        if let Talk::Failing = self.talk {
            return Err(EnvError::Configuration { message: "no answer".to_owned() });
        }
        Ok(RolloutResult::new(ItemId::from(item.id.as_str()), 0.0, 0.0))
    }
}

async fn probed(n_items: usize, talk: Talk, max_target_tokens: Option<u32>) -> Probe {
    let (env, prompts) = (TestEnv::new(n_items, talk), PromptLibrary::embedded().unwrap());
    let (skill, settings) = (SkillDoc::new("s".repeat(50)), TrainSettings::default());
    probe(&env, &prompts, &skill, &settings, max_target_tokens).await.unwrap()
}

#[tokio::test]
async fn one_call_is_known_exactly() {
    let found = probed(7, Talk::Once { max_tokens: None }, None).await;
    let expect = SplitProbe {
        n_items: 7,
        calls_per_item: Span::exactly(1),
        messages_per_call: Span::exactly(2),
        bytes_per_item: Span::exactly(150),
    };
    assert_eq!(found.splits, [expect; 3]);
    assert!(found.analyst_bytes.low > 1000 && found.trajectory_bytes.low > 0);
    assert!(
        found.merge_bytes.high > found.merge_bytes.low && found.ranking_bytes.high > found.ranking_bytes.low
    );
}

#[tokio::test]
async fn several_calls_are_a_range() {
    let found = probed(7, Talk::Turns(3), None).await.splits[0];
    assert_eq!(found.calls_per_item, Span { low: 1, high: 3 });
    assert_eq!(found.messages_per_call, Span { low: 2, high: 6 });
    assert_eq!(found.bytes_per_item, Span { low: 150, high: 150 + 160 + 170 });
}

#[tokio::test]
async fn an_agent_with_tools_may_use_all_its_turns_and_never_runs_one() {
    let found = probed(7, Talk::Tools(4), None).await.splits[0];
    assert_eq!(found.calls_per_item, Span { low: 1, high: 4 });
}

#[tokio::test]
async fn an_environment_that_fails_without_an_answer_is_known_by_what_it_asked() {
    let found = probed(7, Talk::Failing, None).await;
    assert_eq!(found.splits[0].bytes_per_item, Span::exactly(150));
    assert!(found.trajectory_bytes.low > 100, "the question stands in the trajectory: {found:?}");
    assert_eq!(probed(7, Talk::Silent, None).await.splits[0].calls_per_item, Span::exactly(0));
}

#[tokio::test]
async fn replies_are_bounded_by_the_request_or_else_by_the_model() {
    for (request, model, expect) in [
        (None, None, None),
        (Some(64), None, Some(64)),
        (Some(64), Some(9), Some(64)),
        (None, Some(9), Some(9)),
    ] {
        let found = probed(2, Talk::Once { max_tokens: request }, model).await;
        assert_eq!(found.max_target_tokens, expect, "{request:?} {model:?}");
    }
}

#[tokio::test]
async fn of_many_items_some_are_looked_at_and_all_are_counted() {
    let items: Vec<Item> = (0..1001).map(|number| Item::new(format!("i{number}"), Value::Null)).collect();
    let probed_ids: Vec<&str> = sample(&items).map(|item| item.id.as_str()).collect();
    assert!(probed_ids.len() <= PROBED_ITEMS && probed_ids.len() > PROBED_ITEMS / 2);
    assert_eq!((probed_ids[0], probed_ids[1]), ("i0", "i6"));
    assert_eq!(probed(1001, Talk::Once { max_tokens: None }, None).await.splits[1].n_items, 1001);
    assert_eq!(probed(0, Talk::Once { max_tokens: None }, None).await.splits[1], SplitProbe::default());
}
