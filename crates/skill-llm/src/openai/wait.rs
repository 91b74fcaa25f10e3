//! The wait that a server asks for, from any of the headers in use.
//!
//! No clock is read: an absolute time counts from the response's own `Date`, so a server whose clock is wrong still
//! says what it means, and an absolute time without a `Date` says nothing. How long a wait is believed is the
//! business of the retry policy.

use crate::transport::HttpResponse;
use std::time::Duration;

/// A plain number from here on is a time in seconds since 1970 (it is 2001), not a wait.
const EPOCH_SECONDS_FROM: f64 = 1e9;
/// A plain number from here on is a time in milliseconds since 1970 (it is 1973).
const EPOCH_MILLISECONDS_FROM: f64 = 1e11;
const SECONDS_PER_DAY: i64 = 86_400;
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
/// What `x-ratelimit-remaining` and `x-ratelimit-reset` end in: each pair speaks of one limit.
const LIMITS: [&str; 3] = ["-requests", "-tokens", ""];

/// The wait that a failing server asks for: `retry-after-ms`, else `Retry-After` in seconds or as a date.
pub(super) fn retry_after(response: &HttpResponse) -> Option<Duration> {
    let milliseconds = || header(response, "retry-after-ms")?.parse::<f64>().ok().and_then(milliseconds);
    let seconds = || header(response, "retry-after")?.parse::<f64>().ok().and_then(seconds);
    let date = || until(response, http_date(header(response, "retry-after")?)?);
    milliseconds().or_else(seconds).or_else(date)
}

/// The wait that a limiting server asks for: [`retry_after`], else until the limit that is used up is reset.
///
/// Where no limit says that it is used up, the longest wait of those that do not say what remains counts.
pub(super) fn rate_limit_wait(response: &HttpResponse) -> Option<Duration> {
    retry_after(response).or_else(|| {
        let reset = |limit: &&str| {
            let wait = reset_wait(response, header(response, &format!("x-ratelimit-reset{limit}"))?)?;
            let remaining = header(response, &format!("x-ratelimit-remaining{limit}"));
            Some((wait, remaining.and_then(|text| text.parse::<f64>().ok())))
        };
        let resets: Vec<(Duration, Option<f64>)> = LIMITS.iter().filter_map(reset).collect();
        let longest =
            |resets: &mut dyn Iterator<Item = &(Duration, Option<f64>)>| resets.map(|(wait, _)| *wait).max();
        let used_up =
            longest(&mut resets.iter().filter(|(_, remaining)| remaining.is_some_and(|n| n <= 0.0)));
        used_up.or_else(|| longest(&mut resets.iter().filter(|(_, remaining)| remaining.is_none())))
    })
}

fn header<'a>(response: &'a HttpResponse, name: &str) -> Option<&'a str> {
    response.header(name).map(str::trim)
}

fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

fn milliseconds(milliseconds: f64) -> Option<Duration> {
    seconds(milliseconds / 1000.0)
}

/// From the response's `Date` until this time, in seconds since 1970; zero if it has passed.
fn until(response: &HttpResponse, time: f64) -> Option<Duration> {
    let now = http_date(header(response, "date")?)?;
    seconds((time - now).max(0.0))
}

/// A reset: a duration with units, seconds, or a time since 1970.
fn reset_wait(response: &HttpResponse, text: &str) -> Option<Duration> {
    match text.parse::<f64>() {
        Ok(number) if number >= EPOCH_MILLISECONDS_FROM => until(response, number / 1000.0),
        Ok(number) if number >= EPOCH_SECONDS_FROM => until(response, number),
        Ok(number) => seconds(number),
        Err(_) => duration(text),
    }
}

/// A duration such as `1h2m3.5s` or `20ms`, as Go writes them.
fn duration(text: &str) -> Option<Duration> {
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let unit_at = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at_checked(unit_at)?;
        let next = after.find(|letter: char| letter.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(next)?;
        let unit = match unit {
            "d" => 86_400.0,
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * unit;
        rest = after;
    }
    if text.is_empty() { None } else { seconds(total) }
}

/// An HTTP date in any of the three forms of RFC 9110, section 5.6.7, as seconds since 1970.
fn http_date(text: &str) -> Option<f64> {
    let words: Vec<&str> = text.split([' ', ',', '-']).filter(|word| !word.is_empty()).collect();
    let (day, month, year, time) = match words.as_slice() {
        // Sun, 06 Nov 1994 08:49:37 GMT, or Sunday, 06-Nov-94 08:49:37 GMT.
        [_, day, month, year, time, zone] if zone.eq_ignore_ascii_case("gmt") => (day, month, year, time),
        // Sun Nov  6 08:49:37 1994.
        [_, month, day, time, year] => (day, month, year, time),
        _ => return None,
    };
    let day = day.parse::<i64>().ok().filter(|day| (1..=31).contains(day))?;
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))?;
    let year = match (year.len(), year.parse::<i64>().ok()?) {
        // No server meant the last century when this was written.
        (2, year) => 2000 + year,
        (4, year) => year,
        _ => return None,
    };
    let clock: Vec<i64> = time.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hour, minute, second] = clock.as_slice() else { return None };
    if !((0..24).contains(hour) && (0..60).contains(minute) && (0..=60).contains(second)) {
        return None;
    }
    let days = days_since_1970(year, i64::try_from(month).ok()? + 1, day);
    let seconds = i32::try_from(hour * 3_600 + minute * 60 + second).ok()?;
    // Both are small enough to be exact.
    Some(
        f64::from(i32::try_from(days).ok()?) * f64::from(i32::try_from(SECONDS_PER_DAY).ok()?)
            + f64::from(seconds),
    )
}

/// Days of the Gregorian calendar: Howard Hinnant, "chrono-compatible low-level date algorithms", `days_from_civil`.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // The year begins in March, so that a leap day is its last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: (&str, &str) = ("Date", "Wed, 21 Oct 2026 07:28:00 GMT");
    /// `DATE` in seconds since 1970.
    const EPOCH: i64 = 1_792_567_680;

    fn response(headers: &[(&str, &str)]) -> HttpResponse {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        HttpResponse { headers, ..HttpResponse::default() }
    }

    #[track_caller]
    fn check_wait(headers: &[(&str, &str)], expect_ms: Option<u64>) {
        let expect = expect_ms.map(Duration::from_millis);
        assert_eq!(retry_after(&response(headers)), expect, "{headers:?}");
        assert_eq!(rate_limit_wait(&response(headers)), expect, "{headers:?}");
    }

    #[test]
    fn the_wait_is_read_from_the_headers() {
        check_wait(&[], None);
        check_wait(&[("Retry-After", "20")], Some(20_000));
        check_wait(&[("retry-after", " 1.5 ")], Some(1_500));
        check_wait(&[("retry-after", "0")], Some(0));
        check_wait(&[("retry-after-ms", "250"), ("retry-after", "1")], Some(250));
        check_wait(&[("retry-after-ms", "soon"), ("retry-after", "1")], Some(1_000));
        check_wait(&[("retry-after", "-1")], None);
        check_wait(&[("retry-after", "1e300")], None);
        check_wait(&[("retry-after", "NaN")], None);
        check_wait(&[("retry-after", "inf")], None);
        check_wait(&[("retry-after", "")], None);
    }

    #[test]
    fn a_date_counts_from_the_date_of_the_response() {
        check_wait(&[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")], None);
        check_wait(&[DATE, ("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT")], Some(30_000));
        check_wait(&[DATE, ("retry-after", "Wednesday, 21-Oct-26 07:29:00 GMT")], Some(60_000));
        check_wait(&[DATE, ("retry-after", "Wed Oct 21 08:28:00 2026")], Some(3_600_000));
        check_wait(&[DATE, ("retry-after", "Thu, 22 Oct 2026 07:28:00 GMT")], Some(86_400_000));
        check_wait(&[DATE, ("retry-after", "Wed, 21 Oct 2026 07:27:59 GMT")], Some(0));
        check_wait(&[DATE, ("retry-after", "Wed, 21 Oct 2026 07:28:30 CET")], None);
        check_wait(&[DATE, ("retry-after", "Wed, 21 Okt 2026 07:28:30 GMT")], None);
        check_wait(&[DATE, ("retry-after", "Wed, 32 Oct 2026 07:28:30 GMT")], None);
        check_wait(&[DATE, ("retry-after", "Wed, 21 Oct 2026 24:00:00 GMT")], None);
        check_wait(&[DATE, ("retry-after", "Wed, 21 Oct 2026 07:60:00 GMT")], None);
        check_wait(&[("Date", "today"), ("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT")], None);
    }

    #[track_caller]
    fn check_date(text: &str, expect: Option<i64>) {
        let found = http_date(text).map(|seconds| format!("{seconds}"));
        assert_eq!(found, expect.map(|seconds| seconds.to_string()), "{text}");
    }

    #[test]
    fn dates() {
        check_date(DATE.1, Some(EPOCH));
        check_date("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check_date("Sun Nov  6 08:49:37 1994", Some(784_111_777));
        check_date("Thu, 01 Jan 1970 00:00:00 GMT", Some(0));
        check_date("Tue, 29 Feb 2000 12:00:00 GMT", Some(951_825_600));
        check_date("Thu, 29 Feb 2024 00:00:00 GMT", Some(1_709_164_800));
        check_date("Fri, 01 Mar 2024 00:00:00 GMT", Some(1_709_251_200));
        check_date("Sat, 31 Dec 2022 23:59:60 GMT", Some(1_672_531_200));
        check_date("Thu, 01 Jan 99999999999999999999 00:00:00 GMT", None);
        check_date("", None);
    }

    #[track_caller]
    fn check_reset(headers: &[(&str, &str)], expect_ms: Option<u64>) {
        assert_eq!(retry_after(&response(headers)), None, "a failing server asks for nothing: {headers:?}");
        let wait = rate_limit_wait(&response(headers));
        assert_eq!(wait, expect_ms.map(Duration::from_millis), "{headers:?}");
    }

    #[test]
    fn the_limit_that_is_used_up_counts() {
        let requests = ("X-RateLimit-Reset-Requests", "1s");
        let tokens = ("x-ratelimit-reset-tokens", "6m0s");
        check_reset(&[requests], Some(1_000));
        check_reset(&[requests, tokens], Some(360_000));
        check_reset(&[requests, tokens, ("x-ratelimit-remaining-requests", "0")], Some(1_000));
        check_reset(&[requests, tokens, ("x-ratelimit-remaining-tokens", "0")], Some(360_000));
        check_reset(
            &[
                requests,
                tokens,
                ("x-ratelimit-remaining-tokens", "0"),
                ("x-ratelimit-remaining-requests", "0"),
            ],
            Some(360_000),
        );
        check_reset(&[requests, tokens, ("x-ratelimit-remaining-tokens", "70")], Some(1_000));
        check_reset(
            &[
                requests,
                tokens,
                ("x-ratelimit-remaining-tokens", "70"),
                ("x-ratelimit-remaining-requests", "7"),
            ],
            None,
        );
        check_reset(&[("x-ratelimit-reset", "3"), ("x-ratelimit-remaining", "0")], Some(3_000));
        let asked = rate_limit_wait(&response(&[requests, ("retry-after", "7")]));
        assert_eq!(asked, Some(Duration::from_secs(7)));
    }

    #[track_caller]
    fn check_form(text: &str, expect_ms: Option<u64>) {
        check_reset(&[DATE, ("x-ratelimit-reset", text)], expect_ms);
    }

    #[test]
    fn resets_in_the_forms_seen_in_the_wild() {
        check_form("1s", Some(1_000));
        check_form("6m0s", Some(360_000));
        check_form("20ms", Some(20));
        check_form("1h2m3.5s", Some(3_723_500));
        check_form("1d", Some(86_400_000));
        check_form("2m59.56s", Some(179_560));
        check_form("500000us", Some(500));
        check_form("500000µs", Some(500));
        check_form("0s", Some(0));
        check_form("12", Some(12_000));
        check_form("0.25", Some(250));
        check_form(&format!("{}", EPOCH + 42), Some(42_000));
        check_form(&format!("{}", (EPOCH + 42) * 1_000 + 500), Some(42_500));
        check_form(&format!("{}", EPOCH - 1), Some(0));
        check_form("", None);
        check_form("soon", None);
        check_form("s", None);
        check_form("1", Some(1_000));
        check_form("1 s", None);
        check_form("1.2.3s", None);
        check_form("-5", None);
        check_form("NaN", None);
        check_form("inf", None);
        check_form("9999999999999999999999999999d", None);
        check_reset(&[("x-ratelimit-reset", "1792567722")], None);
    }
}
