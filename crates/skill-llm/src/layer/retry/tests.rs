use super::*;
use crate::attempt::AttemptOutcome;
use crate::call::CallPlace;
use crate::chat::{ChatReply, ChatRequest, Message, ModelId};
use crate::scripted::ScriptedModel;
use async_trait::async_trait;
use skill_core::Usage;
use std::collections::VecDeque;

const SECOND: Duration = Duration::from_secs(1);

fn provider() -> String {
    "p".to_owned()
}

fn limited(retry_after: Option<Duration>) -> LlmError {
    LlmError::RateLimited { provider: provider(), status: 429, message: "slow".into(), retry_after }
}

fn down() -> LlmError {
    LlmError::ServerError { provider: provider(), status: 500, message: "down".into(), retry_after: None }
}

fn request() -> ChatRequest {
    ChatRequest::new(vec![Message::user("well?")])
}

/// A model that fails in this order and then replies.
fn failing(errors: Vec<LlmError>) -> Arc<dyn ChatModel> {
    let errors = Mutex::new(VecDeque::from(errors));
    Arc::new(ScriptedModel::from_fn("failing", move |_, _| match errors.lock().pop_front() {
        Some(error) => Err(error),
        None => Ok(ChatReply::text("yes", Usage::default())),
    }))
}

fn retried(errors: Vec<LlmError>, policy: RetryPolicy) -> Retried {
    Retried::new(failing(errors), policy, Arc::default())
}

/// What a call comes to, how many attempts it took, and after how many whole milliseconds.
async fn outcome(model: &Retried, call: &CallCtx) -> (Result<String, LlmError>, usize, u128) {
    let begun = Instant::now();
    let reply = model.chat(&request(), call).await.map(|reply| reply.text);
    (reply, call.attempts.len(), begun.elapsed().as_millis())
}

#[tokio::test(start_paused = true)]
async fn no_limit_is_a_duration_that_no_clock_reaches() {
    let longest = Duration::MAX;
    let policy = RetryPolicy {
        first_delay: longest,
        max_delay: longest,
        call_timeout: longest,
        max_server_wait: longest,
        ..RetryPolicy::default()
    };
    let once = RetryPolicy { first_delay: SECOND, max_delay: longest, ..policy };
    assert!(outcome(&retried(vec![down(), down()], once), &CallCtx::default()).await.0.is_ok());
    // A wait that is longer than any run is no retry.
    let (reply, attempts, _) =
        outcome(&retried(vec![limited(Some(longest))], policy), &CallCtx::default()).await;
    assert!(matches!(reply, Err(LlmError::GaveUp { why: GiveUpReason::Deadline, .. })), "{reply:?}");
    assert_eq!(attempts, 1);
    for place in 0..8 {
        // Only here to be had: no wait is longer than a clock can show.
        assert!(policy.delay(&place.to_string(), 9) < longest);
    }
}

#[cfg(feature = "process")]
#[tokio::test(start_paused = true)]
async fn a_limit_of_an_account_is_waited_for_where_that_is_wanted() {
    let limit = |message: &str| LlmError::Program {
        program: "agent".to_owned(),
        class: ErrorClass::QuotaExhausted,
        message: message.to_owned(),
    };
    let told = || limit("reports an error: weekly limit reached, resets in 2h");
    let waiting = RetryPolicy { wait_for_account: true, max_attempts: 2, ..RetryPolicy::default() };
    let (reply, attempts, took) = outcome(&retried(vec![told()], waiting), &CallCtx::default()).await;
    assert_eq!((reply.is_ok(), attempts), (true, 2));
    assert_eq!(took, (2 * 3_600 + 30) * 1_000);
    // However often it is asked for: neither the attempts nor the time of a call are used up.
    let vague = || limit("session limit reached, resets 3pm");
    let (reply, attempts, took) =
        outcome(&retried((0..5).map(|_| vague()).collect(), waiting), &CallCtx::default()).await;
    assert_eq!((reply.is_ok(), attempts, took), (true, 6, 5 * 15 * 60 * 1_000));
    // Without the setting, for an account without money, and where the caller's time would pass, it is the end.
    let (reply, attempts, took) =
        outcome(&retried(vec![told()], RetryPolicy::default()), &CallCtx::default()).await;
    assert_eq!((reply.is_err(), attempts, took), (true, 1, 0));
    let poor = limit("reports an error: Credit balance is too low");
    assert!(outcome(&retried(vec![poor], waiting), &CallCtx::default()).await.0.is_err());
    let short = CallCtx { deadline: Some(Instant::now() + SECOND), ..CallCtx::default() };
    assert!(outcome(&retried(vec![told()], waiting), &short).await.0.is_err());
}

#[tokio::test(start_paused = true)]
async fn classes_decide_what_is_tried_again() {
    #[track_caller]
    fn check(error: &LlmError, outcome: (Result<String, LlmError>, usize, u128), again: bool) {
        let (reply, attempts, _) = outcome;
        assert_eq!((reply.is_ok(), attempts), if again { (true, 2) } else { (false, 1) }, "{error:?}");
        if let Err(unchanged) = reply {
            assert_eq!(format!("{unchanged:?}"), format!("{error:?}"));
        }
    }
    let (status, message) = (400, String::new);
    let cases = [
        (limited(None), true),
        (down(), true),
        (LlmError::Timeout { provider: provider(), after: SECOND }, true),
        (LlmError::Connection { provider: provider(), message: message() }, true),
        (LlmError::Truncated { provider: provider(), message: message() }, true),
        (LlmError::Unreachable { provider: provider(), message: message() }, true),
        (LlmError::InvalidReply { provider: provider(), message: message() }, true),
        (LlmError::NoContent { provider: provider(), message: message() }, true),
        (LlmError::QuotaExhausted { provider: provider(), status, message: message() }, false),
        (LlmError::Authentication { provider: provider(), status, message: message() }, false),
        (LlmError::BadRequest { provider: provider(), status, message: message() }, false),
        (LlmError::ContextTooLong { provider: provider(), status, message: message() }, false),
        (LlmError::Refused { provider: provider(), status, message: message() }, false),
        (
            LlmError::BudgetExhausted {
                what: "calls",
                spent: message().into(),
                cap: message().into(),
                next: None,
                failed: None,
            },
            false,
        ),
        (LlmError::Journal { message: message() }, false),
        (LlmError::NotRecorded { place: message() }, false),
        (LlmError::Cancelled, false),
        (LlmError::MissingKey { provider: provider(), variable: message() }, false),
        (LlmError::Configuration { message: message() }, false),
    ];
    for (error, again) in cases {
        let model = retried(vec![error.clone()], RetryPolicy::default());
        check(&error, outcome(&model, &CallCtx::default()).await, again);
    }
}

#[track_caller]
fn assert_gave_up(error: LlmError, expect: GiveUpReason, expect_attempts: u32) {
    match error {
        LlmError::GaveUp { attempts, why, last, .. } => {
            assert_eq!((why, attempts), (expect, expect_attempts), "{last}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn no_attempt_is_left_after_the_last() {
    let (reply, attempts, millis) =
        outcome(&retried(vec![down(); 8], RetryPolicy::default()), &CallCtx::default()).await;
    assert_eq!(attempts, 8);
    assert_gave_up(reply.unwrap_err(), GiveUpReason::Attempts, 8);
    // 0.5 + 1 + 2 + 4 + 8 + 16 + 32 seconds, spread by a half.
    assert!((31_750..=95_250).contains(&millis), "{millis}");
    let (reply, attempts, _) =
        outcome(&retried(vec![down(); 7], RetryPolicy::default()), &CallCtx::default()).await;
    assert_eq!((reply.unwrap(), attempts), ("yes".to_owned(), 8));
}

#[tokio::test(start_paused = true)]
async fn a_single_attempt_gives_the_plain_error() {
    for max_attempts in [0, 1] {
        let policy = RetryPolicy { max_attempts, ..RetryPolicy::default() };
        let (reply, attempts, millis) = outcome(&retried(vec![down()], policy), &CallCtx::default()).await;
        assert!(matches!(reply, Err(LlmError::ServerError { .. })), "{reply:?}");
        assert_eq!((attempts, millis), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_server_asks_is_waited_and_a_little_more() {
    for asked in [SECOND / 5, SECOND * 7, SECOND * 600] {
        let model = retried(vec![limited(Some(asked))], RetryPolicy::default());
        let (reply, attempts, millis) = outcome(&model, &CallCtx::default()).await;
        assert_eq!((reply.unwrap(), attempts), ("yes".to_owned(), 2));
        let most = asked + asked.mul_f64(SERVER_WAIT_JITTER).min(MAX_SERVER_WAIT_JITTER);
        assert!((asked.as_millis()..=most.as_millis() + 1).contains(&millis), "{asked:?}: {millis}");
    }
    let no_wish = retried(vec![limited(Some(Duration::ZERO))], RetryPolicy::default());
    assert!(outcome(&no_wish, &CallCtx::default()).await.2 >= 250);
    let too_long = retried(vec![limited(Some(SECOND * 601))], RetryPolicy::default());
    let (reply, attempts, millis) = outcome(&too_long, &CallCtx::default()).await;
    let error = reply.unwrap_err();
    let a_little = retried(vec![limited(Some(SECOND * 600 + SECOND / 4))], RetryPolicy::default());
    let error_of_a_little = outcome(&a_little, &CallCtx::default()).await.0.unwrap_err();
    let why = GiveUpReason::ServerWait { asked_s: 601, allowed_s: 600 };
    assert_gave_up(error, why, 1);
    assert_gave_up(error_of_a_little, why, 1);
    assert_eq!((attempts, millis), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_call_before_a_wait_that_would_pass_it() {
    let call = CallCtx { deadline: Some(Instant::now() + SECOND * 3), ..CallCtx::default() };
    let (reply, _, millis) =
        outcome(&retried(vec![limited(Some(SECOND * 5))], RetryPolicy::default()), &call).await;
    assert_gave_up(reply.unwrap_err(), GiveUpReason::Deadline, 1);
    assert_eq!(millis, 0);
    let policy = RetryPolicy { call_timeout: SECOND * 3, ..RetryPolicy::default() };
    let (reply, attempts, millis) = outcome(&retried(vec![down(); 9], policy), &CallCtx::default()).await;
    assert_gave_up(reply.unwrap_err(), GiveUpReason::Deadline, u32::try_from(attempts).unwrap());
    assert!(millis < 3_000 && attempts > 1, "{millis} {attempts}");
}

#[tokio::test(start_paused = true)]
async fn the_inner_call_knows_the_deadline() {
    let inner = ScriptedModel::from_fn("asks", |_, call| {
        Ok(ChatReply::text(format!("{:?}", call.time_left()), Usage::default()))
    });
    let policy = RetryPolicy { call_timeout: SECOND * 9, ..RetryPolicy::default() };
    let model = Retried::new(Arc::new(inner), policy, Arc::default());
    assert_eq!(outcome(&model, &CallCtx::default()).await.0.unwrap(), "Some(9s)");
    let call = CallCtx { deadline: Some(Instant::now() + SECOND), ..CallCtx::default() };
    assert_eq!(outcome(&model, &call).await.0.unwrap(), "Some(1s)");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_again_after_a_halt() {
    let model = retried(vec![limited(Some(20 * SECOND)), down()], RetryPolicy::default());
    let call = CallCtx::new(CallPlace::new("p"));
    let halt = call.halt.clone();
    tokio::spawn(async move {
        tokio::time::sleep(SECOND).await;
        halt.cancel();
    });
    let (reply, attempts, elapsed) = outcome(&model, &call).await;
    assert!(matches!(reply, Err(LlmError::Cancelled)), "{reply:?}");
    assert_eq!((attempts, elapsed), (1, 1_000), "what was tried is known");
    // What is sent the first time is waited for.
    let healthy = retried(Vec::new(), RetryPolicy::default());
    assert_eq!(outcome(&healthy, &call.child("next")).await.0.unwrap(), "yes");
}

#[tokio::test(start_paused = true)]
async fn cancellation_ends_a_wait_at_once() {
    let (model, call) =
        (retried(vec![limited(Some(SECOND * 60))], RetryPolicy::default()), CallCtx::default());
    let cancel = call.cancel.clone();
    let (ended, ()) = tokio::join!(outcome(&model, &call), async {
        tokio::time::sleep(SECOND).await;
        cancel.cancel();
    });
    assert!(matches!(ended.0, Err(LlmError::Cancelled)), "{ended:?}");
    assert_eq!((ended.1, ended.2), (1, 1_000));
    let (reply, attempts, _) = outcome(&model, &call).await;
    assert!(matches!(reply, Err(LlmError::Cancelled)), "{reply:?}");
    assert_eq!(attempts, 1, "a cancelled call sends nothing");
}

#[test]
fn waits_repeat_by_seed_place_and_attempt() {
    let policy = RetryPolicy { seed: 7, ..RetryPolicy::default() };
    let other = RetryPolicy { seed: 8, ..policy };
    let delay = policy.delay("step 1", 1);
    assert_eq!(delay, policy.delay("step 1", 1));
    assert_ne!(delay, policy.delay("step 2", 1));
    assert_ne!(delay, other.delay("step 1", 1));
    for failures in 1..100 {
        let planned = 0.5 * 2_f64.powi(failures - 1);
        let planned = planned.min(60.0);
        let waited = policy.delay("step 1", u32::try_from(failures).unwrap()).as_secs_f64();
        assert!((planned * 0.5..=planned * 1.5).contains(&waited), "{failures}: {waited}");
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_are_recorded_with_their_waits() {
    struct Slow;
    #[async_trait]
    impl ChatModel for Slow {
        fn id(&self) -> &ModelId {
            static ID: std::sync::OnceLock<ModelId> = std::sync::OnceLock::new();
            ID.get_or_init(|| ModelId::new("p", "slow"))
        }
        async fn chat(&self, _: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
            tokio::time::sleep(SECOND * 2).await;
            call.attempts.add_wait(SECOND * 2);
            tokio::time::sleep(SECOND * 3).await;
            match call.time_left().unwrap() > SECOND * 1_790 {
                true => Err(limited(Some(SECOND * 10))),
                false => Ok(ChatReply::text("yes", Usage { output: 5, ..Usage::default() })),
            }
        }
    }
    let (model, call) =
        (Retried::new(Arc::new(Slow), RetryPolicy::default(), Arc::default()), CallCtx::default());
    call.attempts.add_wait(SECOND);
    model.chat(&request(), &call).await.unwrap();
    let attempts = call.attempts.attempts();
    let [first, second] = attempts.as_slice() else { panic!("{attempts:?}") };
    assert_eq!((first.waited, first.took), (SECOND * 3, SECOND * 3));
    assert!(matches!(first.outcome, AttemptOutcome::Failed { class: ErrorClass::RateLimited, .. }));
    assert_eq!(second.took, SECOND * 3);
    assert!(second.waited >= SECOND * 12 && second.waited < SECOND * 14, "{second:?}");
    assert_eq!(second.outcome, AttemptOutcome::Reply(Usage { output: 5, ..Usage::default() }));
    assert_eq!(call.attempts.take_wait(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_sent_is_no_attempt() {
    let inner = ScriptedModel::from_fn("unsent", |_, call| {
        call.attempts.note_unsent();
        call.attempts.add_wait(SECOND);
        Err(LlmError::BudgetExhausted {
            what: "calls",
            spent: "1".into(),
            cap: "1".into(),
            next: None,
            failed: None,
        })
    });
    let (model, call) =
        (Retried::new(Arc::new(inner), RetryPolicy::default(), Arc::default()), CallCtx::default());
    model.chat(&request(), &call).await.unwrap_err();
    assert_eq!((call.attempts.len(), call.attempts.take_wait()), (0, SECOND));
}

/// A thousand calls at once of a provider that is down until then, and how many requests it saw.
async fn crowd(up_after: Duration, config: RetryBudgetConfig) -> (Vec<Result<String, LlmError>>, usize) {
    let (sent, begun) = (Arc::new(Mutex::new(0_usize)), Instant::now());
    let counted = Arc::clone(&sent);
    let inner = Arc::new(ScriptedModel::from_fn("down", move |_, _| {
        *counted.lock() += 1;
        if begun.elapsed() < up_after { Err(down()) } else { Ok(ChatReply::text("yes", Usage::default())) }
    }));
    let budget = Arc::new(RetryBudget::new(config));
    let mut calls = tokio::task::JoinSet::new();
    for call_idx in 0..1_000 {
        let model = Retried::new(Arc::clone(&inner) as _, RetryPolicy::default(), Arc::clone(&budget));
        let call = CallCtx::new(CallPlace::new(format!("call {call_idx}")));
        calls.spawn(async move { outcome(&model, &call).await.0 });
    }
    let replies = calls.join_all().await;
    let sent = *sent.lock();
    (replies, sent)
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_down_sees_a_bounded_number_of_requests() {
    let (replies, sent) = crowd(SECOND * 100_000, RetryBudgetConfig::default()).await;
    for reply in replies {
        let Err(LlmError::GaveUp { why, .. }) = reply else { panic!("{reply:?}") };
        assert!(matches!(why, GiveUpReason::RetryBudget | GiveUpReason::Attempts), "{why:?}");
    }
    // The calls themselves, the budget, and a probe per second of the 96 s that the attempts of a call can take.
    assert!((1_500..=1_600).contains(&sent), "{sent}");
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_costs_no_call() {
    for seconds in [1, 5, 15] {
        let (replies, sent) = crowd(SECOND * seconds, RetryBudgetConfig::default()).await;
        let failed = replies.iter().filter(|reply| reply.is_err()).count();
        assert_eq!(failed, 0, "{seconds} s, {sent} requests");
    }
}

#[tokio::test(start_paused = true)]
async fn rate_limits_take_nothing_from_the_budget() {
    let budget =
        Arc::new(RetryBudget::new(RetryBudgetConfig { capacity: 3, per_reply: 0.5, per_second: 0.0 }));
    let chat = async |errors| {
        let model = Retried::new(failing(errors), RetryPolicy::default(), Arc::clone(&budget));
        (outcome(&model, &CallCtx::default()).await.0.is_ok(), budget.left())
    };
    let limits = || vec![limited(None), limited(Some(SECOND)), limited(None), limited(None), limited(None)];
    assert_eq!(chat(limits()).await, (true, 3));
    assert_eq!(chat(vec![down(); 3]).await, (true, 3), "a call that gets its reply gives back what it took");
    assert_eq!(chat(vec![down(); 8]).await, (false, 0));
    assert_eq!(chat(vec![down()]).await, (false, 0));
    assert_eq!(chat(limits()).await, (true, 0), "half a retry for the reply");
    assert_eq!(chat(vec![]).await, (true, 1));
    assert_eq!(chat(vec![down()]).await, (true, 1));
}

/// Anyone who looks on sees what is retried, from the first failure to the end of the call.
#[tokio::test(start_paused = true)]
async fn what_is_tried_again_is_there_to_be_seen() {
    let budget = Arc::new(RetryBudget::default());
    let errors = vec![down(), limited(Some(40 * SECOND)), down()];
    let model = Arc::new(Retried::new(failing(errors), RetryPolicy::default(), Arc::clone(&budget)));
    assert_eq!(budget.trouble(), None);
    let call = tokio::spawn({
        let model = Arc::clone(&model);
        async move { model.chat(&request(), &CallCtx::default()).await }
    });
    tokio::time::sleep(SECOND / 10).await;
    let (count, trouble) = budget.trouble().unwrap();
    assert_eq!((count, trouble.turn, trouble.max_turns), (1, 2, 8));
    assert!(trouble.message.contains("HTTP 500") && trouble.wait().unwrap() < SECOND, "{trouble}");
    assert!(trouble.to_string().contains("attempt 2 of 8"), "{trouble}");
    tokio::time::sleep(5 * SECOND).await;
    let (_, trouble) = budget.trouble().unwrap();
    assert!(trouble.wait().unwrap() > 30 * SECOND, "what the server asks for: {trouble}");
    // A rate limit with a stated wait is not an attempt of the eight.
    assert_eq!((trouble.turn, trouble.max_turns), (3, 9), "{trouble}");
    assert!(trouble.message.contains("slow"), "{trouble}");
    call.await.unwrap().unwrap();
    assert_eq!(budget.trouble(), None);
}

fn nowhere() -> LlmError {
    LlmError::Unreachable { provider: provider(), message: "connection refused".into() }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_never_reached_is_given_up_within_seconds() {
    let model = retried(vec![nowhere(); 99], RetryPolicy::default());
    let (reply, attempts, millis) = outcome(&model, &CallCtx::default()).await;
    let error = reply.unwrap_err();
    assert_gave_up(error, GiveUpReason::NeverReached, 3);
    assert_eq!(attempts, 3);
    assert!(millis <= 2_000, "{millis}");
    // However long the waits of the policy are.
    let policy = RetryPolicy { first_delay: 60 * SECOND, ..RetryPolicy::default() };
    let (_, _, millis) = outcome(&retried(vec![nowhere(); 99], policy), &CallCtx::default()).await;
    assert!(millis <= 2_000, "{millis}");
    // A policy of fewer attempts is kept.
    let policy = RetryPolicy { max_attempts: 2, ..RetryPolicy::default() };
    let (reply, ..) = outcome(&retried(vec![nowhere(); 99], policy), &CallCtx::default()).await;
    assert_gave_up(reply.unwrap_err(), GiveUpReason::Attempts, 2);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_a_server_that_was_reached_has_all_attempts() {
    let broke = LlmError::Connection { provider: provider(), message: "reset".into() };
    // Replies, failures and connections that broke all show that there is a server.
    for shown in [None, Some(down()), Some(limited(None)), Some(broke)] {
        let budget = Arc::new(RetryBudget::default());
        let first = Retried::new(
            failing(shown.clone().into_iter().collect()),
            RetryPolicy::default(),
            Arc::clone(&budget),
        );
        outcome(&first, &CallCtx::default()).await.0.unwrap();
        let model = Retried::new(failing(vec![nowhere(); 99]), RetryPolicy::default(), budget);
        let (reply, attempts, millis) = outcome(&model, &CallCtx::default()).await;
        assert_gave_up(reply.unwrap_err(), GiveUpReason::Attempts, 8);
        assert_eq!(attempts, 8, "{shown:?}");
        assert!(millis >= 31_000, "{millis}");
    }
}

#[tokio::test(start_paused = true)]
async fn stated_waits_use_up_no_attempts() {
    let mut errors = vec![limited(Some(SECOND)); 20];
    errors.extend(vec![down(); 7]);
    let (reply, attempts, _) = outcome(&retried(errors, RetryPolicy::default()), &CallCtx::default()).await;
    assert_eq!((reply.unwrap(), attempts), ("yes".to_owned(), 28));
    // Without a stated wait a rate limit is a failure like others.
    let model = retried(vec![limited(None); 8], RetryPolicy::default());
    assert_gave_up(outcome(&model, &CallCtx::default()).await.0.unwrap_err(), GiveUpReason::Attempts, 8);
    // A single attempt stays one.
    let policy = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let (reply, attempts, _) =
        outcome(&retried(vec![limited(Some(SECOND))], policy), &CallCtx::default()).await;
    assert!(matches!(reply, Err(LlmError::RateLimited { .. })), "{reply:?}");
    assert_eq!(attempts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_always_limits_is_given_up_at_the_deadline_and_not_flooded() {
    for asked in [SECOND / 1_000, SECOND] {
        let model = retried(vec![limited(Some(asked)); 100_000], RetryPolicy::default());
        let (reply, attempts, millis) = outcome(&model, &CallCtx::default()).await;
        assert_gave_up(reply.unwrap_err(), GiveUpReason::Deadline, u32::try_from(attempts).unwrap());
        assert!(millis <= 30 * 60 * 1_000, "{millis}");
        assert!((20..200).contains(&attempts), "{attempts}");
    }
}
