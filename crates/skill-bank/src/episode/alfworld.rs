//! ALFWorld's own types of tasks, as paths and descriptions name them.

/// The types of ALFWorld; a longer name is before a shorter one that begins it.
const TYPES: [&str; 7] = [
    "pick_and_place_simple",
    "pick_and_place",
    "pick_two_obj_and_place",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "look_at_obj_in_light",
];

/// The type that a path of a game names.
pub(super) fn type_in_path(path: &str) -> Option<&'static str> {
    TYPES.into_iter().find(|name| path.contains(name))
}

/// The type that a memory's description names, as in `classified as 'pick_and_place'`.
pub(super) fn type_in_description(description: &str) -> Option<&str> {
    let rest = description.split_once("classified as ")?.1;
    let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    let name = rest.get(1..)?.split_once(quote)?.0;
    (!name.is_empty()).then_some(name)
}
