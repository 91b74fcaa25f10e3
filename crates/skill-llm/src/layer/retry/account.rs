//! Limits of the account behind an agent's program: when they are over.
//!
//! Programs tell the time in words. It is read where it means one moment: seconds since 1970, a span, or a time of day
//! in UTC. A time of day in another zone, or in none, is not guessed: the program is asked again and again instead.

use crate::error::{ErrorClass, LlmError};
use crate::http::is_account_limit;
use jiff::civil::{Date, Time};
use jiff::tz::Offset;
use jiff::{Span, Timestamp};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Between two attempts where no moment is told.
pub(super) const POLL: Duration = Duration::from_secs(15 * 60);
/// Clocks differ, and limits end when they like.
const MARGIN: Duration = Duration::from_secs(30);
/// A limit that lasts longer is not believed.
const LONGEST: Duration = Duration::from_secs(40 * 24 * 60 * 60);

/// How long to wait before a program is asked again whose account has reached a limit; `None` for other errors, and for
/// an account without money, which no wait helps.
pub(super) fn wait(error: &LlmError, now: SystemTime) -> Option<Duration> {
    match error {
        LlmError::Program { class: ErrorClass::QuotaExhausted, message, .. } => {
            is_account_limit(&message.to_lowercase()).then(|| wait_of(message, now))
        }
        _ => None,
    }
}

/// How long to wait by the words of a program whose account has reached a limit.
pub(crate) fn wait_of(message: &str, now: SystemTime) -> Duration {
    match until_reset(&message.to_lowercase(), now) {
        Some(wait) if wait <= LONGEST => wait.saturating_add(MARGIN),
        Some(_) | None => POLL,
    }
}

/// The time until the moment that a message in lower case tells.
fn until_reset(message: &str, now: SystemTime) -> Option<Duration> {
    let seconds = now.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let until = |moment: u64| Some(Duration::from_secs(moment.saturating_sub(seconds)));
    if let Some((_, moment)) = message.rsplit_once('|') {
        let digits: String = moment.chars().take_while(char::is_ascii_digit).collect();
        return until(digits.parse().ok()?);
    }
    // As the service behind Codex says it in JSON.
    for (field, is_span) in [("\"resets_in_seconds\":", true), ("\"resets_at\":", false)] {
        let told = message.split_once(field).map(|(_, told)| told.trim_start());
        let digits = told.map(|told| told.chars().take_while(char::is_ascii_digit).collect::<String>());
        if let Some(number) = digits.and_then(|digits| digits.parse().ok()) {
            return if is_span { Some(Duration::from_secs(number)) } else { until(number) };
        }
    }
    let spans =
        ["reset after ", "resets after ", "resets in ", "reset in ", "try again in ", "try again after "];
    if let Some(told) = spans.iter().find_map(|words| Some(message.split_once(words)?.1)) {
        return span(told);
    }
    let told = message.split_once("resets ").map(|(_, told)| told.strip_prefix("at ").unwrap_or(told))?;
    let told = ["(utc)", "(gmt)", " utc", " gmt"].iter().find_map(|zone| Some(told.split_once(zone)?.0))?;
    let now = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    let moment = moment(told, now)?;
    until(u64::try_from(moment.as_second()).ok()?)
}

/// A span such as `3h20m`, `2h 5m` or `3 days 4 hours`.
fn span(told: &str) -> Option<Duration> {
    let mut total = 0_u64;
    let mut rest = told.trim_start();
    while rest.starts_with(|first: char| first.is_ascii_digit()) {
        let (digits, behind) = rest.split_at(rest.find(|next: char| !next.is_ascii_digit())?);
        let behind = behind.trim_start();
        let end = behind.find(|next: char| !next.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let seconds = match unit {
            "d" | "day" | "days" => 86_400,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600,
            "m" | "min" | "mins" | "minute" | "minutes" => 60,
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            _ => return None,
        };
        total = total.saturating_add(digits.parse::<u64>().ok()?.saturating_mul(seconds));
        rest = behind.trim_start_matches([' ', ',']);
    }
    (total > 0).then(|| Duration::from_secs(total))
}

/// The next moment of a time of day, with or without a date before it, such as `3pm`, `15:30` or `oct 8 at 9am`.
fn moment(told: &str, now: Timestamp) -> Option<Timestamp> {
    let words: Vec<&str> = told.split([' ', ',']).filter(|word| !word.is_empty() && *word != "at").collect();
    let today = Offset::UTC.to_datetime(now).date();
    match words.as_slice() {
        [time] => {
            let time = time_of_day(time)?;
            let first = Offset::UTC.to_timestamp(today.to_datetime(time)).ok()?;
            if first > now { Some(first) } else { first.checked_add(Span::new().hours(24)).ok() }
        }
        [month, day, time] => {
            let months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
            let month = months.iter().position(|name| month.starts_with(name))?;
            let month = i8::try_from(month + 1).ok()?;
            let (day, time) = (day.parse().ok()?, time_of_day(time)?);
            let of_year = |year| {
                let date = Date::new(year, month, day).ok()?;
                Offset::UTC.to_timestamp(date.to_datetime(time)).ok()
            };
            of_year(today.year()).filter(|moment| *moment > now).or_else(|| of_year(today.year() + 1))
        }
        _ => None,
    }
}

/// A time such as `3pm`, `9:30am` or `15:30`.
fn time_of_day(told: &str) -> Option<Time> {
    let (told, half) = match (told.strip_suffix("am"), told.strip_suffix("pm")) {
        (Some(told), _) => (told, Some(0)),
        (None, Some(told)) => (told, Some(12)),
        (None, None) => (told, None),
    };
    let (hour, minute) = told.split_once(':').unwrap_or((told, "0"));
    let (hour, minute): (i8, i8) = (hour.parse().ok()?, minute.parse().ok()?);
    let hour = match half {
        Some(half) if (1..=12).contains(&hour) => hour % 12 + half,
        Some(_) => return None,
        None => hour,
    };
    Time::new(hour, minute, 0, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600;

    /// What a message comes to on 26 November 2026, 12:00 UTC.
    #[track_caller]
    fn check(message: &str, expect: Option<u64>) {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_694_400);
        let found = until_reset(&message.to_lowercase(), now);
        assert_eq!(found.map(|wait| wait.as_secs()), expect, "{message}");
    }

    #[test]
    fn moments_are_read_where_they_mean_one() {
        check("usage limit reached|1795698000", Some(HOUR));
        check("usage limit reached|1795690000", Some(0));
        check("You have hit your limit \u{b7} resets 3pm (UTC)", Some(3 * HOUR));
        check("limit reached \u{2219} resets 9:30am (UTC)", Some(21 * HOUR + HOUR / 2));
        check("resets at 12:00 UTC", Some(24 * HOUR));
        check("The usage limit has been reached\",\"resets_at\":1795698000,\"x\":1", Some(HOUR));
        check("usage_limit_reached\",\"resets_at\":1,\"resets_in_seconds\":13872}", Some(13872));
        check("weekly usage limit reached. It will reset in 5 days 10 hours.", Some(130 * HOUR));
        check("resets 12am (UTC)", Some(12 * HOUR));
        check("resets Nov 28 at 9am (UTC)", Some(45 * HOUR));
        check("resets Oct 8, 9am (UTC)", Some((316 * 24 - 3) * HOUR));
        check("Your quota will reset after 3h20m.", Some(3 * HOUR + HOUR / 3));
        check("try again in 3 days 4 hours 5 minutes.", Some(76 * HOUR + 300));
        for unknown in [
            "resets 3pm",
            "resets 5pm (Europe/Berlin)",
            "resets 25:00 UTC",
            "resets soon",
            "resets 13pm (UTC)",
            "",
        ] {
            check(unknown, None);
        }
    }

    #[test]
    fn only_limits_of_an_account_are_waited_for() {
        let in_2_hours = Duration::from_secs(2 * HOUR) + MARGIN;
        for (class, message, expect) in [
            (ErrorClass::QuotaExhausted, "weekly limit, resets in 2h", Some(in_2_hours)),
            (ErrorClass::QuotaExhausted, "weekly limit, resets 3pm", Some(POLL)),
            (ErrorClass::QuotaExhausted, "usage limit|9000000000", Some(POLL)),
            (ErrorClass::QuotaExhausted, "Credit balance is too low", None),
            (ErrorClass::RateLimited, "rate limit, resets in 2h", None),
        ] {
            let error = LlmError::Program { program: "agent".to_owned(), class, message: message.to_owned() };
            assert_eq!(wait(&error, UNIX_EPOCH), expect, "{class:?}: {message}");
        }
    }
}
