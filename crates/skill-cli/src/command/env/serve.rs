//! `skillrl env serve`: environments for other trainers.

#[cfg(not(feature = "openenv"))]
pub(crate) fn serve(_: &crate::args::EnvServeArgs) -> crate::Result {
    Err(crate::command::not_built_in("the server of environments"))
}

#[cfg(feature = "openenv")]
pub(crate) use served::serve;

#[cfg(feature = "openenv")]
mod served {
    use crate::args::EnvServeArgs;
    use crate::command::{CommandError, block_on, print, say};
    use crate::error::CliError;
    use crate::served;
    use skill_openenv::{EnvOptions, EnvServer, Limits, ServedBank, SkillOptions, TeacherOptions};
    use skillrl::call_cache::CallCache;
    use skillrl::config::{LoadedConfig, ModelRole};
    use skillrl::engine::Engine;
    use skillrl::envs::{World, WorldEnv};
    use skillrl::pipeline::StopSignal;
    use skillrl::pipeline::bank::outside::{OutsideBank, RESULTS_FILE};
    use skillrl::pipeline::bank_dir::is_bank;
    use skillrl::{prompts, skills, trainer, world};
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    pub(crate) fn serve(args: &EnvServeArgs) -> crate::Result {
        let token = served::token(args.listen, args.token_env.as_deref(), served::TOKEN)?;
        let loaded = super::super::play::configuration(&args.config, None)?;
        let mut engine = Engine::new(&loaded);
        let world = world(&loaded, &mut engine)?;
        // Held until the server ends.
        let kept = args.bank.as_deref().filter(|bank| is_bank(bank));
        let kept = kept.map(|bank| CallCache::beside(&bank.join(RESULTS_FILE))).transpose()?;
        let (skills, teacher) = match args.bank.as_deref() {
            Some(bank) => bank_of(&loaded, &mut engine, &world, bank, kept.as_ref())?,
            None => (None, None),
        };
        let frame = match skills::configured_skill(&loaded.config.skill)? {
            Some(skill) => Some(skill),
            None => world.initial_skill(),
        };
        let options = EnvOptions {
            description: format!("The environment {} of skillrl, with its tasks", world.name()),
            listen: args.listen,
            token: token.clone(),
            limits: Limits {
                sessions: args.max_sessions,
                message_bytes: args.max_message_bytes,
                messages_per_second: args.max_rate,
                idle: Duration::from_secs(args.idle_s),
                ..Limits::default()
            },
            max_steps: world::max_turns(&loaded.config.env),
            skills: SkillOptions { frame, bank: skills },
            teacher,
            ..EnvOptions::on_loopback(world)
        };
        let stop = StopSignal::default();
        let until = stop.soon.clone();
        block_on(stop, "stopping", async move {
            let server = EnvServer::bind(options)
                .await
                .map_err(|error| CommandError::of(&error).with_hint(error.hint()))?;
            // Written out at once: a program that starts this one waits for it.
            print(&format!("{}\n", server.url()))?;
            if let Some(token) = &token {
                say(&format!("clients send `Authorization: Bearer {}`", token.as_str()));
            }
            say("serving over OpenEnv's protocol; Ctrl-C ends the server");
            server.run(until).await;
            Ok::<(), CliError>(())
        })??;
        drop(kept);
        Ok(())
    }

    fn world(loaded: &LoadedConfig, engine: &mut Engine<'_>) -> crate::Result<Arc<dyn World>> {
        Ok(world::playable(loaded, engine.judge()?)?.ok_or_else(|| {
            let kind = loaded.config.env.kind();
            CommandError::new(format!(
                "the environment `{kind}` runs its own agent, so it cannot be played from outside"
            ))
            .with_hint(concat!("let the program take steps: see ", skillrl::core::book_page!(env_protocol)))
        })?)
    }

    /// The bank with what selects its skills, and its teacher, if one is to be had.
    fn bank_of(
        loaded: &LoadedConfig,
        engine: &mut Engine<'_>,
        world: &Arc<dyn World>,
        path: &Path,
        kept: Option<&CallCache>,
    ) -> crate::Result<(Option<ServedBank>, Option<TeacherOptions>)> {
        let env = WorldEnv::new(Arc::clone(world), Default::default(), None).map_err(skillrl::Error::Env)?;
        let (settings, seed) = (trainer::bank_settings(&loaded.config), loaded.config.run.seed);
        let bank = OutsideBank::open(path, Arc::new(env), settings, seed).map_err(|error| {
            CommandError::of(&error)
                .with_hint("name a bank's directory: `skillrl bank import` makes one of other files")
        })?;
        let embedding = engine.retrieval_model()?;
        let retrieval = skills::retrieval(loaded.config.retrieval.as_ref(), embedding.as_deref())?;
        let teacher = teacher(loaded, engine, kept)?;
        Ok((Some(ServedBank { bank, retrieval, embedding }), teacher))
    }

    /// The teacher, whose replies are kept beside the results of the bank: an evolution that fails halfway, or whose server
    /// dies, pays for none of them again.
    fn teacher(
        loaded: &LoadedConfig,
        engine: &mut Engine<'_>,
        kept: Option<&CallCache>,
    ) -> crate::Result<Option<TeacherOptions>> {
        let model = match engine.model(ModelRole::Teacher) {
            Ok(model) => model,
            Err(error) => {
                let error = skillrl::llm::error::with_causes(&error);
                let warning = "warning: no skill will be proposed, since the teacher is missing";
                say(&format!("{warning}: {error}"));
                return Ok(None);
            }
        };
        // Nothing is proposed for a bank of another system.
        let model = match kept {
            Some(kept) => {
                kept.count_spent(engine);
                kept.chat(model)
            }
            None => model,
        };
        let prompts = prompts::of_teacher(&loaded.config.prompts)?;
        let max_reply_tokens = loaded.config.limits.max_reply_tokens;
        Ok(Some(TeacherOptions { model, prompts, max_reply_tokens }))
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use skillrl::bank::Bank;
        use skillrl::llm::journal::{CallFilter, JournalReader};
        use skillrl::llm::{CallCtx, CallPlace, ChatRequest, Message};

        /// Asks the teacher of a server that is started for this; returns the replies that are kept then.
        async fn ask(config: &Path, bank: &Path) -> u64 {
            let loaded = skillrl::config::Config::load(config, &[]).unwrap();
            let kept = CallCache::beside(&bank.join(RESULTS_FILE)).unwrap();
            let teacher = teacher(&loaded, &mut Engine::new(&loaded), Some(&kept)).unwrap().unwrap();
            let call = CallCtx::new(CallPlace::new("round 1"));
            let request = ChatRequest::new(vec![Message::user("What failed?")]);
            assert_eq!(teacher.model.chat(&request, &call).await.unwrap().text, "Look first.");
            kept.journal.flush().await.unwrap();
            JournalReader::open(kept.journal.path()).unwrap().count(&CallFilter::default()).unwrap()
        }

        #[tokio::test]
        async fn a_reply_of_the_teacher_is_kept_for_the_next_server() {
            let dir = tempfile::tempdir().unwrap();
            let path = |name: &str| dir.path().join(name);
            let config = "[models]\ntarget = { kind = \"simulated\" }\n\
                 optimizer = { kind = \"simulated\" }\n\
                 teacher = { kind = \"scripted\", file = \"replies.json\" }\n\
                 [env]\nkind = \"alfworld\"\nmax_train = 2\nmax_val = 1\nmax_test = 1\n";
            std::fs::write(path("skillrl.toml"), config).unwrap();
            drop(skillrl::pipeline::bank_dir::BankDir::create(&path("bank"), Bank::new(), None).unwrap());
            let replies = r#"{ "version": 1, "rules": [], "otherwise": { "reply": "Look first." } }"#;
            std::fs::write(path("replies.json"), replies).unwrap();
            for _ in 0..2 {
                assert_eq!(ask(&path("skillrl.toml"), &path("bank")).await, 1);
            }
        }
    }
}
