//! Replies whose text as a whole was changed on its way: escaped for HTML, quoted, written with the signs of another
//! language. Only where nothing can be read in a text as it is, the texts that it may have been are tried.

/// The quotation marks of other languages, which may stand for JSON's.
const QUOTES: [char; 8] = ['«', '»', '„', '“', '”', '‟', '「', '」'];

/// The texts that a reply may have been, with what is said of each; few, and each made in one pass.
pub(super) fn mended(text: &str) -> Vec<(String, &'static str)> {
    let mut mended = Vec::new();
    if text.contains("&quot;") {
        mended.push((without_entities(text), "the reply was escaped for HTML"));
    }
    if let Some(inner) = unquoted(text) {
        mended.push((inner, "the lines of the reply were quoted"));
    }
    if text.contains(|char| QUOTES.contains(&char) || matches!(char, '｛' | '［' | '：' | '，')) {
        mended.push((with_ascii_signs(text), "the signs of another language were read as JSON's"));
    }
    if text.contains("\\n") {
        mended.push((
            with_line_breaks(text),
            "escaped line breaks between the members were read as white space",
        ));
    }
    if text.contains("({")
        || text.contains(": (")
        || ["r\"", "r'", "f\"", "b\""].iter().any(|start| text.contains(start))
    {
        mended.push((without_python(text), "prefixes of strings and tuples of Python were read as JSON's"));
    }
    mended
}

fn without_entities(text: &str) -> String {
    text.replace("&quot;", "\"")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

/// The text without the sign of a quotation at the start of each line.
fn unquoted(text: &str) -> Option<String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let inner: Option<Vec<&str>> = lines.map(|line| line.trim_start().strip_prefix('>')).collect();
    inner.filter(|lines| !lines.is_empty()).map(|lines| lines.join("\n"))
}

/// What is next to a character but for spaces: only there a sign of another language is taken for JSON's.
fn with_ascii_signs(text: &str) -> String {
    let wide = |char: char| match char {
        '｛' => '{',
        '｝' => '}',
        '［' => '[',
        '］' => ']',
        _ => char,
    };
    let is_quote = |char: char| char == '"' || QUOTES.contains(&char);
    let chars: Vec<char> = text.chars().map(wide).collect();
    // For each place the nearest character before and behind it that is not a space.
    let mut before = Vec::with_capacity(chars.len());
    let mut last = '{';
    for char in &chars {
        before.push(last);
        if !char.is_whitespace() {
            last = *char;
        }
    }
    let mut next = '}';
    let mut mended: Vec<char> = Vec::with_capacity(chars.len());
    for (char, before) in chars.iter().zip(before).rev() {
        mended.push(match char {
            '：' if is_quote(before) => ':',
            '，' if is_quote(before) || matches!(before, '}' | ']') => ',',
            quote if QUOTES.contains(quote) => {
                let opens = matches!(before, '{' | '[' | ',' | ':' | '，' | '：');
                let closes = matches!(next, '}' | ']' | ',' | ':' | '，' | '：');
                if opens || closes { '"' } else { *quote }
            }
            _ => *char,
        });
        if !char.is_whitespace() {
            next = *char;
        }
    }
    mended.iter().rev().collect()
}

/// The text with spaces for `\n` and `\t` where they are between members and brackets.
fn with_line_breaks(text: &str) -> String {
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (head, tail) = rest.split_at(at);
        mended.push_str(head);
        let is_break = tail.starts_with("\\n") || tail.starts_with("\\t");
        let follows_sign = mended.trim_end().ends_with(['{', '[', ',', '}', ']', '"']);
        let behind = tail.get(2..).unwrap_or_default().trim_start();
        let stands_before_sign = behind.is_empty() || behind.starts_with(['"', '{', '[', '}', ']', '\\']);
        let length = if is_break { 2 } else { 1 };
        if is_break && follows_sign && stands_before_sign {
            mended.push(' ');
        } else {
            mended.push_str(tail.get(..length).unwrap_or_default());
        }
        rest = tail.get(length..).unwrap_or_default();
    }
    mended.push_str(rest);
    mended
}

/// The text with lists for tuples, and strings without their prefixes; what is raw in a string is escaped.
fn without_python(text: &str) -> String {
    let mut mended = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    // The quote that ends a raw string.
    let mut raw = None;
    let mut last = '{';
    while let Some(char) = chars.next() {
        let next = chars.peek().copied();
        match (char, next) {
            ('\\', _) if raw.is_some() => mended.push_str("\\\\"),
            ('r' | 'f' | 'b' | 'u', Some(quote @ ('"' | '\'')))
                if matches!(last, '{' | '[' | '(' | ',' | ':') =>
            {
                mended.push(quote);
                raw = (char == 'r').then_some(quote);
                chars.next();
                last = quote;
                continue;
            }
            ('(', Some('{')) if matches!(last, ':' | ',') => mended.push('['),
            (')', _) if matches!(last, ',' | '}') => mended.push(']'),
            _ => {
                if raw == Some(char) {
                    raw = None;
                }
                mended.push(char);
            }
        }
        if !char.is_whitespace() {
            last = char;
        }
    }
    mended
}
