//! Dates for templates that say what day it is.

const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const SECONDS_OF_A_DAY: i64 = 86_400;

/// `strftime` for a moment in UTC, with the directives that chat templates use.
///
/// `Err` names a directive that is not known.
pub(super) fn format(seconds_since_1970: i64, format: &str) -> Result<String, String> {
    let days = seconds_since_1970.div_euclid(SECONDS_OF_A_DAY);
    let second = seconds_since_1970.rem_euclid(SECONDS_OF_A_DAY);
    let (year, month, day) = civil(days);
    let name = |names: &[&'static str], place: i64| -> &'static str {
        usize::try_from(place).ok().and_then(|place| names.get(place)).copied().unwrap_or_default()
    };
    let (weekday, month_name) = (name(&DAYS, days.rem_euclid(7)), name(&MONTHS, month - 1));
    let short = |name: &str| name.chars().take(3).collect::<String>();
    let mut written = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            written.push(character);
            continue;
        }
        let text = match characters.next() {
            Some('Y') => format!("{year:04}"),
            Some('y') => format!("{:02}", year.rem_euclid(100)),
            Some('m') => format!("{month:02}"),
            Some('d') => format!("{day:02}"),
            Some('e') => format!("{day:2}"),
            Some('B') => month_name.to_owned(),
            Some('b') => short(month_name),
            Some('A') => weekday.to_owned(),
            Some('a') => short(weekday),
            Some('H') => format!("{:02}", second / 3_600),
            Some('M') => format!("{:02}", second / 60 % 60),
            Some('S') => format!("{:02}", second % 60),
            Some('-') => match characters.next() {
                Some('d') => day.to_string(),
                Some('m') => month.to_string(),
                other => return Err(format!("strftime_now does not know %-{}", other.unwrap_or_default())),
            },
            Some('%') => "%".to_owned(),
            other => return Err(format!("strftime_now does not know %{}", other.unwrap_or_default())),
        };
        written.push_str(&text);
    }
    Ok(written)
}

/// Year, month and day in the Gregorian calendar of a day counted from 1970-01-01.
///
/// From H. Hinnant, "chrono-Compatible Low-Level Date Algorithms".
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    #[track_caller]
    fn check(seconds: i64, format: &str, expect: &str) {
        assert_eq!(super::format(seconds, format).as_deref(), Ok(expect));
    }

    #[test]
    fn dates_are_those_of_strftime() {
        check(0, "%A %d %B %Y, %H:%M:%S", "Thursday 01 January 1970, 00:00:00");
        check(951_782_400, "%d %b %Y", "29 Feb 2000");
        check(1_721_952_000, "%d %b %Y", "26 Jul 2024");
        check(1_735_689_599, "%Y-%m-%d %H:%M:%S %a", "2024-12-31 23:59:59 Tue");
        check(1_772_323_200, "%-d.%-m.%y %e %%", "1.3.26  1 %");
        assert!(super::format(0, "%Q").is_err());
    }
}
