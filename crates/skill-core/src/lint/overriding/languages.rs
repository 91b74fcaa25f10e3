//! The order to ignore earlier instructions in French, German, Spanish, Italian, Portuguese, Dutch, Chinese and Japanese.

use super::super::words;
use super::folded;

/// How many words behind the verb the instructions and what qualifies them may stand.
const REACH: usize = 7;

/// How verbs begin that mean to ignore or to forget, without accents.
const VERBS: [&str; 16] = [
    "ignor",
    "oublie",
    "negligez",
    "vergiss",
    "vergesst",
    "missacht",
    "olvid",
    "desatiend",
    "descart",
    "esquec",
    "dimentic",
    "tralasci",
    "negeer",
    "vergeet",
    "desconsider",
    "scord",
];
/// How words begin that mean instructions.
const OBJECTS: [&str; 15] = [
    "instruc",
    "istruzion",
    "consigne",
    "directive",
    "directiva",
    "direttiv",
    "anweisung",
    "vorgabe",
    "regel",
    "regle",
    "regla",
    "regol",
    "regra",
    "aanwijzing",
    "opdracht",
];
/// How words begin that mean earlier, all or of the system; none is English.
const QUALIFIERS: [&str; 21] = [
    "precedent",
    "anterieur",
    "anterior",
    "dessus",
    "toutes",
    "tous",
    "vorherig",
    "bisherig",
    "obig",
    "vorangehend",
    "alle",
    "previas",
    "previos",
    "todas",
    "todos",
    "tutte",
    "tutti",
    "vorige",
    "eerdere",
    "systeme",
    "sistema",
];
/// What turns the order around.
const NEGATIONS: [&str; 18] = [
    "ne",
    "jamais",
    "pas",
    "nie",
    "niemals",
    "nicht",
    "keine",
    "keinesfalls",
    "no",
    "nunca",
    "jamas",
    "non",
    "mai",
    "nao",
    "niet",
    "nooit",
    "geen",
    "never",
];
/// Verbs, qualifiers and objects of languages without spaces, and what turns the order around.
const UNSPACED: [[&[&str]; 4]; 2] = [
    [
        &["忽略", "无视", "忘记", "不理会"],
        &["之前", "以上", "先前", "上述", "所有"],
        &["指令", "指示", "说明", "规则"],
        &["不要忽略", "不得", "切勿", "请勿", "不能"],
    ],
    [
        &["無視", "忘れ"],
        &["以前", "これまで", "上記", "すべて", "全て"],
        &["指示", "命令", "ルール"],
        &["しない", "してはいけ", "せず", "するな", "しては"],
    ],
];

/// The words of an order, in a folded text (without accents).
pub(super) fn order(content: &str) -> Option<String> {
    content.split_inclusive(['.', '!', '?', ';', '。', '！']).find_map(|sentence| {
        if let Some(said) = unspaced(sentence) {
            return Some(said);
        }
        let words: Vec<String> = words(sentence).collect();
        (0..words.len()).find_map(|at| spaced(&words, at))
    })
}

fn spaced(words: &[String], at: usize) -> Option<String> {
    let begins = |word: &String, among: &[&str]| among.iter().any(|stem| word.starts_with(stem));
    if !begins(words.get(at)?, &VERBS) {
        return None;
    }
    let end = (at + 1 + REACH).min(words.len());
    let around = words.get(at.saturating_sub(3)..(at + 3).min(words.len()))?;
    let after = words.get(at + 1..end)?;
    let object = after.iter().position(|word| begins(word, &OBJECTS))?;
    let is_qualified = after.iter().any(|word| begins(word, &QUALIFIERS));
    let is_negated = around.iter().any(|word| NEGATIONS.contains(&word.as_str()));
    (is_qualified && !is_negated).then(|| words.get(at..=at + 1 + object).unwrap_or_default().join(" "))
}

fn unspaced(sentence: &str) -> Option<String> {
    if sentence.is_ascii() {
        return None;
    }
    let holds = |among: &&[&str]| among.iter().any(|part| sentence.contains(&folded(part)));
    UNSPACED.iter().find_map(|[verbs, qualifiers, objects, negations]| {
        let is_order = [verbs, qualifiers, objects].into_iter().all(holds) && !holds(negations);
        is_order.then(|| sentence.trim().chars().take(60).collect())
    })
}
