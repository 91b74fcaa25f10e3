//! The listing of skills as an agent wrote it.

use crate::command::pattern;
use crate::event::Style;
use regex::Regex;
use std::sync::LazyLock;

static DASHES: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^- ([^\s:()]+(?::[^\s:()]+)?)(?: \(([^)]*)\))?(?:: (.*))?$"));
static FILE_LINES: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^- ([^\s:()]+(?::[^\s:()]+)?)(?:: (.*?))? ?\(file: ([^)]*)\)"));
static ROOTS: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^- `(r\d+)` = `([^`]+)`"));
static TAGS: LazyLock<Regex> = LazyLock::new(|| {
    let tags = r"<name>\s*([^<]+?)\s*</name>\s*(?:<description>\s*([^<]*?)\s*</description>)?\s*(?:<location>\s*([^<]*?)\s*</location>)?";
    pattern(tags)
});
static NAMES_ONLY: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^Additional skills available \(invoke by name\): (.*)$"));

/// A skill that the model was offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The name in the listing.
    pub name: String,
    /// Its description as it was shown; empty where only the name was.
    pub description: String,
    /// Where it lies, where the listing says it.
    pub path: String,
}

/// The skills of a listing, in its order.
pub(crate) fn offers(text: &str, style: Style) -> Vec<Offer> {
    let part = |found: &regex::Captures<'_>, group| {
        found.get(group).map(|group| group.as_str().trim().to_owned()).unwrap_or_default()
    };
    let (listed, name, description, path): (&Regex, _, _, _) = match style {
        Style::Dashes => (&DASHES, 1, 3, None),
        Style::FileLines => (&FILE_LINES, 1, 2, Some(3)),
        Style::Tags => (&TAGS, 1, 2, Some(3)),
        Style::Empty => return Vec::new(),
    };
    let found = listed.captures_iter(text).map(|found| Offer {
        name: part(&found, name),
        description: part(&found, description),
        path: path.map(|path| part(&found, path)).unwrap_or_default(),
    });
    let mut offers: Vec<Offer> = found.collect();
    if style == Style::FileLines {
        for root in ROOTS.captures_iter(text) {
            let (short, long) = (format!("{}/", part(&root, 1)), part(&root, 2));
            for offer in &mut offers {
                if let Some(rest) = offer.path.strip_prefix(&short) {
                    offer.path = format!("{long}/{rest}");
                }
            }
        }
    }
    if style == Style::Tags {
        for line in NAMES_ONLY.captures_iter(text) {
            let names = part(&line, 1);
            let names = names.split(',').map(|name| name.trim().trim_end_matches('.').to_owned());
            offers.extend(names.filter(|name| !name.is_empty()).map(|name| Offer {
                name,
                description: String::new(),
                path: String::new(),
            }));
        }
    }
    offers
}

#[cfg(test)]
mod tests {
    use super::{Offer, offers};
    use crate::event::Style;

    fn offer(name: &str, description: &str, path: &str) -> Offer {
        Offer { name: name.to_owned(), description: description.to_owned(), path: path.to_owned() }
    }

    #[test]
    fn all_styles_of_listings_are_read() {
        let text = "- a: Does a. Use: always.\n- b\n- plug:c: Does c.\n- dir (other): Does d.";
        let names: Vec<_> = offers(text, Style::Dashes);
        let expect = [
            offer("a", "Does a. Use: always.", ""),
            offer("b", "", ""),
            offer("plug:c", "Does c.", ""),
            offer("dir", "Does d.", ""),
        ];
        assert_eq!(names, expect);
        let text = "### Skill roots\n- `r1` = `/p/.agents/skills`\n### Available skills\n- a: Does a. (file: r1/a/SKILL.md)\n";
        assert_eq!(offers(text, Style::FileLines), [offer("a", "Does a.", "/p/.agents/skills/a/SKILL.md")]);
        let text = "<skill>\n <name>a</name>\n <description>Does a.</description>\n</skill>\nAdditional skills available (invoke by name): b, c";
        assert_eq!(
            offers(text, Style::Tags),
            [offer("a", "Does a.", ""), offer("b", "", ""), offer("c", "", "")]
        );
    }
}
