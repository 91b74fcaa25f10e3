//! Games played greedily by a decoder, many at a time.

use crate::model::{END, role_token};
use crate::rows::message_tokens;
use anyhow::Result;
use skill_envs::alfworld::Play;
use skill_llm::Role;
use skill_sim::demonstrations::{Demonstration, EpisodePrompt};
use skill_train::model::{Adapters, Cache, Continued, Decoder};
use skill_train::tokenizer::{JsonTokenizer, TokenCodec as _};
use std::sync::Arc;

/// The longest reply in tokens.
const MAX_REPLY_TOKENS: usize = 16;

/// A game under way.
struct Seat {
    play: Play,
    cache: Cache,
    /// Tokens that the decoder has not read.
    unread: Vec<u32>,
    reply: Vec<u32>,
}

/// How many of these games the decoder wins in at most so many turns.
///
/// It is shown what the agent loop shows, and no list of possible commands.
pub(crate) fn games_won(
    model: &Decoder,
    tokenizer: &JsonTokenizer,
    prompt: &EpisodePrompt,
    games: &[Demonstration],
    max_turns: usize,
) -> Result<usize> {
    let mut seats = Vec::with_capacity(games.len());
    for demonstration in games {
        let mut play = Play::new(Arc::clone(&demonstration.game));
        let observation = play.reset().observation.to_owned();
        let mut unread = Vec::new();
        for message in prompt.opening(demonstration.task_type, &demonstration.game, &observation)? {
            unread.extend(message_tokens(tokenizer, &message)?);
        }
        seats.push(Seat { play, cache: Cache::default(), unread, reply: Vec::new() });
    }
    let mut n_won = 0;
    for _ in 0..max_turns {
        for seat in &mut seats {
            seat.unread.push(role_token(Role::Assistant));
        }
        reply(model, &mut seats)?;
        let mut going_on = Vec::with_capacity(seats.len());
        for mut seat in seats {
            let text = tokenizer.decode(&std::mem::take(&mut seat.reply), false)?;
            // Whatever is not an action does nothing.
            let turn = seat.play.step(EpisodePrompt::command(&text).unwrap_or_default());
            if turn.won {
                n_won += 1;
                continue;
            }
            if let Some(message) = prompt.later(turn.observation)? {
                seat.unread.extend(message_tokens(tokenizer, &message)?);
            }
            if seat.cache.n_tokens() + seat.unread.len() + MAX_REPLY_TOKENS + 2 < model.config().max_positions
            {
                going_on.push(seat);
            }
        }
        seats = going_on;
    }
    Ok(n_won)
}

/// Lets the decoder write a reply in every game, the most probable token each time.
fn reply(model: &Decoder, seats: &mut [Seat]) -> Result<()> {
    let mut writing: Vec<&mut Seat> = seats.iter_mut().collect();
    while !writing.is_empty() {
        let mut rows: Vec<Continued<'_>> = writing
            .iter_mut()
            .map(|seat| {
                let Seat { cache, unread, .. } = &mut **seat;
                Continued { cache, tokens: unread }
            })
            .collect();
        let logits = model.extend(&mut rows, Adapters::On)?;
        let mut going_on = Vec::with_capacity(writing.len());
        for (seat, logits) in writing.into_iter().zip(logits.chunks_exact(model.config().vocab_size)) {
            let best = logits.iter().zip(0_u32..).max_by(|(a, _), (b, _)| a.total_cmp(b));
            let token = best.map_or(END, |(_, token)| token);
            seat.reply.push(token);
            seat.unread = vec![token];
            if token == END {
                continue;
            }
            if seat.reply.len() < MAX_REPLY_TOKENS {
                going_on.push(seat);
            } else {
                // A reply that is cut off is ended for it.
                seat.unread.push(END);
            }
        }
        writing = going_on;
    }
    Ok(())
}
