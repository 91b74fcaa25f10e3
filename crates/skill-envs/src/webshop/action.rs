//! What an agent writes, taken apart.

/// An action: a name and, in brackets, an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action<'a> {
    /// What comes before the bracket; the whole text where there is no argument.
    pub name: &'a str,
    /// What is in the brackets.
    pub argument: Option<&'a str>,
}

impl<'a> Action<'a> {
    /// Takes a text apart as the regular expression `(.+)\[(.+)\]` does from its start.
    ///
    /// It is greedy: the argument begins after the last `[` of the first line that has something before it and a
    /// closed, filled bracket behind it, and ends before the last `]` of the line.
    pub fn parse(text: &'a str) -> Self {
        let whole = Self { name: text, argument: None };
        let line = text.split('\n').next().unwrap_or(text);
        let Some((inside, _)) = line.rsplit_once(']') else {
            return whole;
        };
        // The last `]` closes the last `[` that has a character on both of its sides.
        let mut before = inside;
        while let Some((name, _)) = before.rsplit_once('[') {
            let argument = inside.get(name.len() + 1..).unwrap_or_default();
            if !name.is_empty() && !argument.is_empty() {
                return Self { name, argument: Some(argument) };
            }
            before = name;
        }
        whole
    }
}
