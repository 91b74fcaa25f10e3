//! The wait that a server asks for, from any of the headers in use.
//!
//! No clock is read: an absolute time counts from the response's own `Date`, so a server whose clock is wrong still
//! says what it means, and an absolute time without a `Date` says nothing. How long a wait is believed is the
//! business of the retry policy.

use crate::transport::HttpResponse;
use serde_json::Value;
use skill_core::python_json;
use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};

/// A plain number from here on is a time in seconds since 1970 (it is 2001), not a wait.
const EPOCH_SECONDS_FROM: f64 = 1e9;
/// A plain number from here on is a time in milliseconds since 1970 (it is 1973).
const EPOCH_MILLISECONDS_FROM: f64 = 1e11;
/// The headers that say what remains of a limit and when it is reset: each pair speaks of one limit.
const LIMITS: [(&str, &str); 7] = [
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
];

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
        let reset = |(remaining, reset): &(&str, &str)| {
            let wait = reset_wait(response, header(response, reset)?)?;
            let remaining = header(response, remaining);
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

/// The wait that a body asks for: Google's `retryDelay`, or the headers that OpenRouter hands on.
pub(super) fn wait_in_body(response: &HttpResponse) -> Option<Duration> {
    let body: Value = python_json::read(&response.text().ok()?).ok()?;
    let outer = body.get(0).unwrap_or(&body);
    let error = outer.get("error")?;
    let google = || {
        let details = error.get("details")?.as_array()?;
        details.iter().find_map(|detail| duration(detail.get("retryDelay")?.as_str()?))
    };
    let open_router = || {
        let headers = error.get("metadata")?.get("headers")?.as_object()?;
        let reset = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-ratelimit-reset"))?.1;
        let text = reset.as_str().map_or_else(|| reset.to_string(), str::to_owned);
        reset_wait(response, text.trim())
    };
    google().or_else(open_router)
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
        Err(_) => duration(text).or_else(|| until(response, instant(text)?)),
    }
}

/// A time of RFC 3339, such as `2026-10-21T07:28:00Z`, as seconds since 1970.
pub(crate) fn instant(text: &str) -> Option<f64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(time.as_duration().as_secs_f64())
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
    // A minute may end in a leap second, which a clock of seconds since 1970 does not have: it is the next minute's
    // first.
    let (text, leap) = match text.contains(":60 ") {
        true => (Cow::Owned(text.replacen(":60 ", ":59 ", 1)), 1.0),
        false => (Cow::Borrowed(text), 0.0),
    };
    let time = httpdate::parse_http_date(&text).ok()?;
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs_f64() + leap)
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

    #[test]
    fn times_of_rfc_3339() {
        #[track_caller]
        fn check(text: &str, expect: Option<f64>) {
            assert_eq!(instant(text), expect, "{text}");
        }
        check("2026-10-21T07:28:00Z", Some(1_792_567_680.0));
        check("2026-10-21t07:28:00.25z", Some(1_792_567_680.25));
        check("2026-10-21T09:28:00+02:00", Some(1_792_567_680.0));
        check("2026-10-21T05:58:00-01:30", Some(1_792_567_680.0));
        check("2026-10-21T07:28:00", None);
        check("2026-13-21T07:28:00Z", None);
        check("2026-10-21T07:28:00.x1Z", None);
        check("2026-10-21T07:28:00+2", None);
        check("T Z", None);
        check("", None);
    }

    #[test]
    fn limits_of_anthropic() {
        let requests = ("anthropic-ratelimit-requests-reset", "2026-10-21T07:28:05Z");
        let input = ("anthropic-ratelimit-input-tokens-reset", "2026-10-21T07:29:00Z");
        check_reset(&[requests], None);
        check_reset(&[DATE, requests], Some(5_000));
        check_reset(&[DATE, requests, input], Some(60_000));
        let used_up = ("anthropic-ratelimit-requests-remaining", "0");
        check_reset(&[DATE, requests, used_up, input], Some(5_000));
        let left = ("anthropic-ratelimit-input-tokens-remaining", "12000");
        check_reset(&[DATE, requests, input, left], Some(5_000));
    }

    #[test]
    fn waits_in_bodies() {
        #[track_caller]
        fn check(body: &str, expect_ms: Option<u64>) {
            let response = HttpResponse { body: body.as_bytes().to_vec(), ..response(&[DATE]) };
            assert_eq!(wait_in_body(&response), expect_ms.map(Duration::from_millis), "{body}");
        }
        let google = r#"{"error": {"code": 429, "details": [{"@type": "x"}, {"retryDelay": "17s"}]}}"#;
        check(google, Some(17_000));
        check(&format!("[{google}]"), Some(17_000));
        let reset = (EPOCH + 3) * 1000;
        check(
            &format!(r#"{{"error": {{"metadata": {{"headers": {{"X-RateLimit-Reset": "{reset}"}}}}}}}}"#),
            Some(3_000),
        );
        check(r#"{"error": {"metadata": {"headers": {"X-RateLimit-Reset": 1.5}}}}"#, Some(1_500));
        check(r#"{"error": {"details": "soon"}}"#, None);
        check("soon", None);
    }
}
