//! Units that are converted, and the words and letters that multiply a number.

/// Units that can be converted: name, dimension, factor to the dimension's base.
const UNITS: &[(&[&str], &str, f64)] = &[
    (&["%", "percent", "pct"], "share", 0.01),
    (&["mm", "millimeter", "millimeters", "millimetre", "millimetres"], "length", 0.001),
    (&["cm", "centimeter", "centimeters", "centimetre", "centimetres"], "length", 0.01),
    (&["m", "meter", "meters", "metre", "metres"], "length", 1.0),
    (&["km", "kilometer", "kilometers", "kilometre", "kilometres"], "length", 1000.0),
    (&["in", "inch", "inches"], "length", 0.0254),
    (&["ft", "foot", "feet"], "length", 0.3048),
    (&["mi", "mile", "miles"], "length", 1609.344),
    (&["mg", "milligram", "milligrams"], "mass", 0.000_001),
    (&["g", "gram", "grams"], "mass", 0.001),
    (&["kg", "kilogram", "kilograms"], "mass", 1.0),
    (&["t", "ton", "tons", "tonne", "tonnes"], "mass", 1000.0),
    (&["lb", "lbs", "pound", "pounds"], "mass", 0.453_592_37),
    (&["ms", "millisecond", "milliseconds"], "time", 0.001),
    (&["s", "sec", "second", "seconds"], "time", 1.0),
    (&["min", "minute", "minutes"], "time", 60.0),
    (&["h", "hr", "hour", "hours"], "time", 3600.0),
    (&["day", "days"], "time", 86_400.0),
    (&["ml", "milliliter", "milliliters", "millilitre", "millilitres"], "volume", 0.001),
    (&["l", "liter", "liters", "litre", "litres"], "volume", 1.0),
    (&["$", "usd", "dollar", "dollars"], "usd", 1.0),
    (&["€", "eur", "euro", "euros"], "eur", 1.0),
    (&["£", "gbp"], "gbp", 1.0),
    (&["¥", "jpy", "yen"], "jpy", 1.0),
];

/// Letters that multiply a number directly before them: a small `m` is a metre, and `300 K` is a temperature.
const LETTERS: [(&str, f64); 5] = [("k", 1e3), ("K", 1e3), ("M", 1e6), ("B", 1e9), ("T", 1e12)];
/// Those of them that are units as well.
pub(super) const UNIT_LETTERS: [&str; 3] = ["k", "K", "T"];

/// Words that multiply the number before them.
const MAGNITUDES: &[(&[&str], f64)] = &[
    (&["thousand", "thousands", "tausend"], 1e3),
    (&["lakh", "lakhs"], 1e5),
    (&["million", "millions", "mn", "mln", "mio", "millionen", "millones"], 1e6),
    (&["crore", "crores"], 1e7),
    (
        &[
            "billion",
            "billions",
            "bn",
            "mrd",
            "mia",
            "mld",
            "milliarde",
            "milliarden",
            "milliard",
            "milliards",
        ],
        1e9,
    ),
    (&["trillion", "trillions", "tn", "trn"], 1e12),
];

pub(super) fn unit(name: &str) -> Option<(&'static str, f64)> {
    let found = UNITS.iter().find(|(names, _, _)| names.contains(&name));
    found.map(|(_, dimension, factor)| (*dimension, *factor))
}

pub(super) fn is_currency_word(word: &str) -> bool {
    let word = word.to_lowercase();
    unit(&word).is_some_and(|(dimension, _)| matches!(dimension, "usd" | "eur" | "gbp" | "jpy"))
        && word.chars().count() > 1
}

/// True for a unit that can be converted, or a word that multiplies.
pub(super) fn is_known_unit(word: &str) -> bool {
    unit(word).is_some() || word == "k" || MAGNITUDES.iter().any(|(names, _)| names.contains(&word))
}

pub(super) fn with_magnitude(value: f64, tail: &str) -> (f64, &str) {
    let trimmed = tail.trim_start();
    let word_end = trimmed.find(|letter: char| !letter.is_alphabetic()).unwrap_or(trimmed.len());
    let (word, rest) = trimmed.split_at(word_end);
    let letter = LETTERS.iter().find(|(letter, _)| *letter == word && trimmed.len() == tail.len());
    if let Some((_, factor)) = letter {
        return (value * factor, rest);
    }
    let word = word.to_lowercase();
    match MAGNITUDES.iter().find(|(names, _)| names.contains(&word.as_str())) {
        // `Mrd.` and `Mio.` are short.
        Some((_, factor)) => (value * factor, rest.strip_prefix(". ").unwrap_or(rest)),
        None => (value, tail),
    }
}
