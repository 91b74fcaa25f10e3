//! The household: how a skill speaks of its habits, what agents do wrong there, and the rules that repair it.

pub(crate) mod player;

use crate::habits::{Habit, Pattern, Sense};
use crate::played::{Lessons, Played};
use skill_envs::alfworld::HouseholdHabit;
use std::collections::BTreeSet;

const PLACES: &[&str] = &[
    "place",
    "receptacle",
    "location",
    "room",
    "container",
    "furniture",
    "spot",
    "shelf",
    "shelves",
    "drawer",
    "cabinet",
];
const SEARCHING: &[&str] = &["search", "visit", "look", "check", "go ", "go on", "try", "explore", "examine"];

impl Habit for HouseholdHabit {
    const ALL: &'static [Self] = Self::ALL;

    fn patterns(self) -> &'static [Pattern] {
        match self {
            Self::OpenClosed => &[
                Pattern { deeds: &["open ", "opened", "unlock"], about: &[], sense: Sense::For },
                Pattern {
                    deeds: &["look inside", "look into", "see inside"],
                    about: &[&["closed", "shut"]],
                    sense: Sense::For,
                },
                Pattern { deeds: &["leave", "keep"], about: &[&["closed", "shut"]], sense: Sense::Against },
                Pattern { deeds: &["opening"], about: &[&["cost", "waste"]], sense: Sense::Against },
            ],
            Self::SearchEverywhere => &[
                Pattern {
                    deeds: &[
                        "every",
                        "all ",
                        "each",
                        "whole room",
                        "one after the other",
                        "one by one",
                        "systematic",
                        "next one",
                        "new place",
                        "everywhere",
                    ],
                    about: &[PLACES, SEARCHING],
                    sense: Sense::For,
                },
                Pattern {
                    deeds: &["yet", "twice", "been", "visited", "seen", "same", "circles", "go back"],
                    about: &[PLACES],
                    sense: Sense::ForWhereForbidden,
                },
                Pattern {
                    deeds: &[
                        "few",
                        "nearest",
                        "first three",
                        "first two",
                        "likeliest",
                        "two or three",
                        "give up",
                    ],
                    about: &[PLACES],
                    sense: Sense::Against,
                },
            ],
            Self::Heat => &[Pattern { deeds: &["heat", "hot", "warm"], about: &[], sense: Sense::For }],
            Self::Cool => &[Pattern { deeds: &["cool", "cold", "chill"], about: &[], sense: Sense::For }],
            Self::Clean => &[Pattern { deeds: &["clean", "wash", "rinse"], about: &[], sense: Sense::For }],
            Self::UseLamp => &[
                Pattern {
                    deeds: &["lamp", "desklamp", "light"],
                    about: &[&["use", "using", "turn", "switch", "light it", "toggle", "touch", "bother"]],
                    sense: Sense::For,
                },
                Pattern {
                    deeds: &["leave", "ignore", "stay away"],
                    about: &[&["lamp", "desklamp", "light"]],
                    sense: Sense::Against,
                },
            ],
            Self::FetchBoth => &[
                Pattern {
                    deeds: &["two", "both", "second"],
                    about: &[&["fetch", "bring", "find", "get", "take", "put", "place", "carry", "look"]],
                    sense: Sense::For,
                },
                Pattern {
                    deeds: &["one object", "one is enough", "a single", "one thing", "one of them"],
                    about: &[&["enough", "suffice", "will do"]],
                    sense: Sense::Against,
                },
            ],
        }
    }
}

impl Lessons for HouseholdHabit {
    const HARMFUL: &'static [&'static str] = &[
        "Leave closed doors and drawers closed: opening them costs turns.",
        "Search only the nearest places, then look at them again.",
        "Do not heat, cool or clean anything: put it down as soon as you have it.",
        "One object is enough, whatever the task says.",
        "Leave lamps alone: daylight is enough.",
    ];

    fn name(self) -> &'static str {
        match self {
            Self::OpenClosed => "closed receptacle never opened",
            Self::SearchEverywhere => "went round in circles",
            Self::Heat => "not heated",
            Self::Cool => "not cooled",
            Self::Clean => "not cleaned",
            Self::UseLamp => "lamp not used",
            Self::FetchBoth => "second object not fetched",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::OpenClosed => "the agent stood before something closed and went on without a look inside",
            Self::SearchEverywhere => {
                "the agent went back to places it knew while others had not been searched"
            }
            Self::Heat => "the agent put the object down before it was hot",
            Self::Cool => "the agent put the object down before it was cool",
            Self::Clean => "the agent put the object down before it was clean",
            Self::UseLamp => "the agent had the object in its hand and never used the lamp",
            Self::FetchBoth => "the agent stopped after the first of two objects",
        }
    }

    fn phrasings(self) -> &'static [&'static str] {
        match self {
            Self::OpenClosed => &[
                "When a receptacle is closed, open it and look inside before you go on.",
                "Open closed drawers, cabinets and other receptacles: what you need may be in there.",
                "Never leave a closed receptacle before you have opened it.",
            ],
            Self::SearchEverywhere => &[
                "Search every place in the room once, one after the other, until you have found the object.",
                "Go on to a place where you have not been yet; do not search the same place twice.",
            ],
            Self::Heat => &[
                "If the task asks for something hot, heat it with the microwave before you put it down.",
                "Take what must be hot to the microwave and heat it there first.",
            ],
            Self::Cool => &[
                "If the task asks for something cool, cool it with the fridge before you put it down.",
                "Take what must be cool to the fridge and cool it there first.",
            ],
            Self::Clean => &[
                "If the task asks for something clean, clean it with the sinkbasin before you put it down.",
                "Take what must be clean to the sinkbasin and wash it there first.",
            ],
            Self::UseLamp => &[
                "To look at an object under a lamp, carry it to the lamp and use the lamp.",
                "With the object in your hand, go to the desklamp and turn it on by using it.",
            ],
            Self::FetchBoth => &[
                "If the task asks for two objects, put the first one down, then fetch the second.",
                "Count what is asked for: where it is two, bring both before you stop.",
            ],
        }
    }

    fn is_in(played: &Played) -> bool {
        played.opening.contains("Your task is to: ") && !played.steps.iter().any(|step| step.did("click["))
    }

    fn diagnose(played: &Played) -> Vec<Self> {
        let task = played.opening.rsplit_once("Your task is to: ").map_or("", |(_, task)| task);
        let words: BTreeSet<&str> = task.split(|c: char| !c.is_alphanumeric()).collect();
        let says = |word: &str| words.contains(word);
        let n_done = |verbs: &[&str]| {
            let is_one = |verb: &&str| played.steps.iter().any(|step| step.did(verb));
            verbs.iter().filter(|verb| is_one(verb)).count()
        };
        let n_taken = played.steps.iter().filter(|step| step.is_taking(&words)).count();
        let has_put = n_done(&["put ", "move "]) > 0;
        let is_light = says("lamp") || says("desklamp");
        let lamp_is_seen = played.steps.iter().any(|step| step.seen.contains("desklamp"));

        let mut findings = Vec::new();
        let n_wanted = if says("two") { 2 } else { 1 };
        if n_taken < n_wanted || is_light && !lamp_is_seen {
            findings.extend(unfinished_search(played, says("two") && has_put));
        }
        let treatments = [
            (Self::Heat, ["hot", "heat"], "heat "),
            (Self::Cool, ["cool", "cold"], "cool "),
            (Self::Clean, ["clean", "rinsed"], "clean "),
        ];
        for (habit, asked, verb) in treatments {
            if asked.iter().any(|word| says(word)) && has_put && n_done(&[verb]) == 0 {
                findings.push(habit);
            }
        }
        if is_light && n_taken > 0 && n_done(&["use ", "toggle "]) == 0 {
            findings.push(Self::UseLamp);
        }
        findings
    }

    fn practised(played: &Played) -> Vec<Self> {
        const MANY_PLACES: usize = 5;
        let did = |verbs: &[&str]| played.steps.iter().any(|step| verbs.iter().any(|verb| step.did(verb)));
        let gone_to: BTreeSet<&str> =
            played.steps.iter().filter_map(|step| step.action.strip_prefix("go to ")).collect();
        let n_taken = played.steps.iter().filter(|step| step.did("take ")).count();
        let shown = [
            (Self::OpenClosed, did(&["open "])),
            (Self::SearchEverywhere, gone_to.len() > MANY_PLACES),
            (Self::Heat, did(&["heat "])),
            (Self::Cool, did(&["cool "])),
            (Self::Clean, did(&["clean "])),
            (Self::UseLamp, did(&["use ", "toggle "])),
            (Self::FetchBoth, n_taken > 1),
        ];
        shown.into_iter().filter_map(|(habit, is_shown)| is_shown.then_some(habit)).collect()
    }
}

/// Why an object was not found; `one_is_put` where it is the second one.
fn unfinished_search(played: &Played, one_is_put: bool) -> Vec<HouseholdHabit> {
    if one_is_put {
        let after = played.steps.iter().rev().take_while(|step| !step.did("put ") && !step.did("move "));
        if !after.into_iter().any(|step| step.did("go to ")) {
            return vec![HouseholdHabit::FetchBoth];
        }
    }
    let gone_to: BTreeSet<&str> =
        played.steps.iter().filter_map(|step| step.action.strip_prefix("go to ")).collect();
    let left_closed = gone_to.iter().any(|place| {
        let is_closed = format!("The {place} is closed.");
        let open = format!("open {place}");
        played.steps.iter().any(|step| step.seen.contains(&is_closed))
            && !played.steps.iter().any(|step| step.action == open)
    });
    let room = played.opening.split("Your task is to: ").next().unwrap_or_default();
    let n_places = room.split_once("you see ").map_or(0, |(_, list)| list.split(", ").count());
    let mut findings = Vec::new();
    findings.extend(left_closed.then_some(HouseholdHabit::OpenClosed));
    findings.extend((gone_to.len() < n_places).then_some(HouseholdHabit::SearchEverywhere));
    findings
}
