//! Reads problems in PDDL, as far as the data set's use it.
//!
//! The text is read once, from front to back; names are folded to lower case, as PDDL wants it.
//! What a problem means is the business of [`super::build`].

use super::error::{GameError, TextPlace};
use super::predicate::{Predicate, in_any_case};
use super::token::{Fault, Reading, Token, Tokens, described, fault, unexpected};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The longest problem that is read, in bytes.
pub(crate) const MAX_PROBLEM_BYTES: usize = 4 << 20;
/// The most names that a problem declares.
const MAX_NAMES: usize = 8192;
/// How deep a goal is nested at most.
const MAX_DEPTH: usize = 64;

skill_core::named_enum! {
    /// The PDDL type of a declared name.
    #[derive(PartialOrd, Ord)]
    pub(super) enum Kind {
        Agent = "agent",
        Location = "location",
        Receptacle = "receptacle",
        Object = "object",
        ReceptacleType = "rtype",
        ObjectType = "otype",
    }
}

/// The number of a declared name, in the order of declaration.
pub(super) type NameIdx = u16;

/// One thing that is true at the start; where a predicate takes one argument, the second is the first again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fact {
    pub(super) predicate: Predicate,
    pub(super) first: NameIdx,
    pub(super) second: NameIdx,
}

/// What must be true in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Formula {
    And(Vec<Formula>),
    Or(Vec<Formula>),
    Not(Box<Formula>),
    Exists(Vec<(VariableIdx, Kind)>, Box<Formula>),
    Forall(Vec<(VariableIdx, Kind)>, Box<Formula>),
    /// The second term of a predicate that takes one is the first again.
    Atom(Predicate, Term, Term),
    Equal(Term, Term),
}

/// The number of a variable; every quantifier has its own.
pub(super) type VariableIdx = u16;

/// A name or a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Term {
    Name(NameIdx),
    Variable(VariableIdx),
}

/// A problem as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// The names in lower case, each with what it is.
    pub(super) names: Vec<(String, Kind)>,
    /// What is true at the start, in the order of the text.
    pub(super) facts: Vec<Fact>,
    pub(super) goal: Formula,
    /// How many variables the goal has.
    pub(super) n_variables: usize,
}

/// Reads a problem.
///
/// # Errors
///
/// Whatever is no PDDL, or is not in the domain; with its place.
pub(super) fn read_problem(text: &str) -> Result<Problem, GameError> {
    if text.len() > MAX_PROBLEM_BYTES {
        let message = format!("is longer than {MAX_PROBLEM_BYTES} bytes");
        return Err(GameError::Room { message });
    }
    let mut reader = Reader {
        tokens: Tokens::new(text),
        lowered: String::new(),
        numbers: HashMap::default(),
        names: Vec::new(),
        variables: Vec::new(),
        n_variables: 0,
    };
    reader.problem().map_err(|Fault { offset, message }| GameError::Problem {
        place: TextPlace::of(text, offset),
        message,
    })
}

struct Reader<'a> {
    tokens: Tokens<'a>,
    /// Room for one name in lower case.
    lowered: String,
    numbers: HashMap<String, NameIdx, BuildHasherDefault<NameHasher>>,
    names: Vec<(String, Kind)>,
    /// The variables that are in scope, the innermost last.
    variables: Vec<(&'a str, VariableIdx)>,
    n_variables: usize,
}

impl<'a> Reader<'a> {
    fn problem(&mut self) -> Reading<Problem> {
        self.tokens.expect_open("`(define ..)`")?;
        self.tokens.expect_word("define")?;
        self.tokens.expect_open("`(problem NAME)`")?;
        self.tokens.expect_word("problem")?;
        self.tokens.word("the problem's name")?;
        self.tokens.expect_close()?;
        let (mut facts, mut goal) = (None, None);
        loop {
            let offset = self.tokens.offset();
            match self.tokens.next() {
                Token::Open => {}
                Token::Close => break,
                other => return Err(unexpected(offset, other, "a section or `)`")),
            }
            let (offset, section) = self.tokens.word("a section such as `:init`")?;
            match section.to_ascii_lowercase().as_str() {
                ":domain" => {
                    self.tokens.expect_word("alfred")?;
                    self.tokens.expect_close()?;
                }
                ":objects" => self.objects()?,
                ":init" => facts = Some(self.facts()?),
                ":goal" => {
                    goal = Some(self.formula(0)?);
                    self.tokens.expect_close()?;
                }
                ":metric" | ":requirements" => self.tokens.skip_list()?,
                _ => {
                    let message = format!(
                        "unknown section `{section}`; expected :domain, :objects, :init, :goal or :metric"
                    );
                    return Err(Fault { offset, message });
                }
            }
        }
        let offset = self.tokens.offset();
        if self.tokens.next() != Token::End {
            return Err(fault(offset, "text after the problem's end"));
        }
        let missing = |section: &str| fault(offset, &format!("the problem has no section `{section}`"));
        let facts = facts.ok_or_else(|| missing(":init"))?;
        let goal = goal.ok_or_else(|| missing(":goal"))?;
        Ok(Problem { names: std::mem::take(&mut self.names), facts, goal, n_variables: self.n_variables })
    }

    /// Declared names up to the section's end.
    fn objects(&mut self) -> Reading<()> {
        let mut untyped: Vec<(usize, &'a str)> = Vec::new();
        loop {
            let offset = self.tokens.offset();
            match self.tokens.next() {
                Token::Close => break,
                Token::Word("-") => {
                    let (offset, name) = self.tokens.word("a type")?;
                    let kind = self.kind(offset, name)?;
                    for (offset, name) in untyped.drain(..) {
                        self.declare(offset, name, kind)?;
                    }
                }
                Token::Word(name) => untyped.push((offset, name)),
                other => return Err(unexpected(offset, other, "a name")),
            }
        }
        for (offset, name) in untyped {
            self.declare(offset, name, Kind::Object)?;
        }
        Ok(())
    }

    fn kind(&self, offset: usize, name: &str) -> Reading<Kind> {
        in_any_case(&Kind::ALL, name).ok_or_else(|| Fault {
            offset,
            message: format!(
                "unknown type `{name}`; the domain has agent, location, receptacle, object, rtype and otype"
            ),
        })
    }

    /// A name may be declared twice as the same thing: the data set's own generator does that with the first location.
    fn declare(&mut self, offset: usize, name: &str, kind: Kind) -> Reading<()> {
        if let Some(number) = self.number(name) {
            return match self.names.get(usize::from(number)) {
                Some((_, declared)) if *declared == kind => Ok(()),
                _ => Err(fault(offset, &format!("`{name}` is declared with two types"))),
            };
        }
        if self.names.len() >= MAX_NAMES {
            return Err(fault(offset, &format!("more than {MAX_NAMES} names")));
        }
        let number = NameIdx::try_from(self.names.len()).unwrap_or(NameIdx::MAX);
        let name = name.to_ascii_lowercase();
        self.numbers.insert(name.clone(), number);
        self.names.push((name, kind));
        Ok(())
    }

    fn number(&mut self, name: &str) -> Option<NameIdx> {
        self.lowered.clear();
        self.lowered.push_str(name);
        self.lowered.make_ascii_lowercase();
        self.numbers.get(self.lowered.as_str()).copied()
    }

    /// What is true at the start, up to the section's end.
    fn facts(&mut self) -> Reading<Vec<Fact>> {
        // A fact takes about as many bytes as two names.
        let mut facts = Vec::with_capacity(self.tokens.len() / 64);
        loop {
            let offset = self.tokens.offset();
            match self.tokens.next() {
                Token::Close => return Ok(facts),
                Token::Open => {}
                other => return Err(unexpected(offset, other, "a fact or `)`")),
            }
            let (offset, word) = self.tokens.word("a predicate")?;
            if word == "=" {
                self.tokens.expect_open("a function such as `(total-cost)`")?;
                self.tokens.skip_list()?;
                self.tokens.word("a number")?;
                self.tokens.expect_close()?;
                continue;
            }
            let predicate = predicate(offset, word)?;
            let first = self.name()?;
            let second = if predicate.takes_two() { self.name()? } else { first };
            self.expect_arguments_end(predicate)?;
            facts.push(Fact { predicate, first, second });
        }
    }

    fn name(&mut self) -> Reading<NameIdx> {
        let (offset, name) = self.tokens.word("a name")?;
        self.number(name).ok_or_else(|| fault(offset, &format!("`{name}` is not among the objects")))
    }

    fn formula(&mut self, depth: usize) -> Reading<Formula> {
        let offset = self.tokens.offset();
        if depth > MAX_DEPTH {
            return Err(fault(offset, &format!("nested more than {MAX_DEPTH} deep")));
        }
        self.tokens.expect_open("a condition")?;
        let (offset, word) = self.tokens.word("a condition")?;
        match word.to_ascii_lowercase().as_str() {
            "and" => Ok(Formula::And(self.formulas(depth)?)),
            "or" => Ok(Formula::Or(self.formulas(depth)?)),
            "not" => {
                let inner = self.formula(depth + 1)?;
                self.tokens.expect_close()?;
                Ok(Formula::Not(Box::new(inner)))
            }
            "imply" => {
                let (premise, conclusion) = (self.formula(depth + 1)?, self.formula(depth + 1)?);
                self.tokens.expect_close()?;
                Ok(Formula::Or(vec![Formula::Not(Box::new(premise)), conclusion]))
            }
            quantifier @ ("exists" | "forall") => {
                let n_outer = self.variables.len();
                let variables = self.quantified()?;
                let inner = Box::new(self.formula(depth + 1)?);
                self.tokens.expect_close()?;
                self.variables.truncate(n_outer);
                let is_exists = quantifier == "exists";
                Ok(if is_exists {
                    Formula::Exists(variables, inner)
                } else {
                    Formula::Forall(variables, inner)
                })
            }
            "=" => {
                let (left, right) = (self.term()?, self.term()?);
                self.tokens.expect_close()?;
                Ok(Formula::Equal(left, right))
            }
            _ => {
                let predicate = predicate(offset, word)?;
                let first = self.term()?;
                let second = if predicate.takes_two() { self.term()? } else { first };
                self.expect_arguments_end(predicate)?;
                Ok(Formula::Atom(predicate, first, second))
            }
        }
    }

    fn formulas(&mut self, depth: usize) -> Reading<Vec<Formula>> {
        let mut formulas = Vec::new();
        loop {
            let offset = self.tokens.offset();
            match self.tokens.peek() {
                Token::Open => formulas.push(self.formula(depth + 1)?),
                Token::Close => {
                    self.tokens.next();
                    return Ok(formulas);
                }
                other => return Err(unexpected(offset, other, "a condition or `)`")),
            }
        }
    }

    /// The variables of a quantifier, which are in scope from here on.
    fn quantified(&mut self) -> Reading<Vec<(VariableIdx, Kind)>> {
        self.tokens.expect_open("the quantifier's variables")?;
        let (mut typed, mut untyped) = (Vec::new(), Vec::new());
        loop {
            let offset = self.tokens.offset();
            match self.tokens.next() {
                Token::Close => break,
                Token::Word("-") => {
                    let (offset, name) = self.tokens.word("a type")?;
                    let kind = self.kind(offset, name)?;
                    typed.extend(untyped.drain(..).map(|variable| (variable, kind)));
                }
                Token::Word(name) if name.starts_with('?') => {
                    let variable = VariableIdx::try_from(self.n_variables)
                        .map_err(|_| fault(offset, "too many variables"))?;
                    self.n_variables += 1;
                    self.variables.push((name, variable));
                    untyped.push(variable);
                }
                other => return Err(unexpected(offset, other, "a variable such as `?o`")),
            }
        }
        typed.extend(untyped.into_iter().map(|variable| (variable, Kind::Object)));
        Ok(typed)
    }

    fn term(&mut self) -> Reading<Term> {
        let (offset, word) = self.tokens.word("a name or a variable")?;
        if word.starts_with('?') {
            let known = self.variables.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case(word));
            return match known {
                Some((_, variable)) => Ok(Term::Variable(*variable)),
                None => Err(fault(offset, &format!("no quantifier binds `{word}`"))),
            };
        }
        match self.number(word) {
            Some(number) => Ok(Term::Name(number)),
            None => Err(fault(offset, &format!("`{word}` is not among the objects"))),
        }
    }

    fn expect_arguments_end(&mut self, predicate: Predicate) -> Reading<()> {
        let offset = self.tokens.offset();
        match self.tokens.next() {
            Token::Close => Ok(()),
            other => {
                let n_arguments = if predicate.takes_two() { "two arguments" } else { "one argument" };
                let message =
                    format!("{}, after the {n_arguments} of `{}`", described(other), predicate.as_str());
                Err(Fault { offset, message })
            }
        }
    }
}

fn predicate(offset: usize, word: &str) -> Reading<Predicate> {
    in_any_case(&Predicate::ALL, word).ok_or_else(|| {
        let near =
            Predicate::nearest(word).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
        Fault { offset, message: format!("unknown predicate `{word}`{near}") }
    })
}

/// A quick hash for the names of one file, which come in some ten thousand look-ups; a file that is made to be slow
/// has at most [`MAX_NAMES`] names to be slow with.
#[derive(Default)]
struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let word = <[u8; 8]>::try_from(chunk).map_or(0, u64::from_le_bytes);
            self.mix(word);
        }
        let mut tail = [0_u8; 8];
        for (place, byte) in tail.iter_mut().zip(chunks.remainder()) {
            *place = *byte;
        }
        self.mix(u64::from_le_bytes(tail) ^ bytes.len() as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl NameHasher {
    fn mix(&mut self, word: u64) {
        let mixed = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}
