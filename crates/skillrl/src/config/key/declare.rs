//! The declaration of settings: [`settings!`] for a section, [`kinds!`] for a section whose `kind` decides which keys
//! it has.
//!
//! A row holds all that is known about a key: its sentences, name and type, what it takes, its default, whether it
//! decides results, and where its value goes in the settings of the crate that uses it. The struct, the table of keys
//! and with it the schema, the page and the default file, the conversion and the list of paths are made from the row.

use crate::config::key::{KeyDefault, KeySpec, ValueType};
use crate::config::path::ConfigPath;
use serde::Serialize;
use serde_json::Value;
use skill_core::NamedEnum;
use std::any::Any;
use std::time::Duration;

/// A key that decides results: a run cannot be continued with another value.
pub(in crate::config) const fn decisive(value: ValueType, default: KeyDefault) -> KeySpec {
    KeySpec::new(value, super::Effect::Result, default)
}

/// A key that limits the length of a run; it may change on resume.
pub(in crate::config) const fn length(value: ValueType, default: KeyDefault) -> KeySpec {
    KeySpec::new(value, super::Effect::Length, default)
}

/// A key that may differ between the processes of one run.
pub(in crate::config) const fn process(value: ValueType, default: KeyDefault) -> KeySpec {
    KeySpec::new(value, super::Effect::Process, default)
}

/// A whole number, both bounds included.
pub(in crate::config) const fn integer(min: u64, max: u64) -> ValueType {
    ValueType::Integer { min, max }
}

/// A number, both bounds included.
pub(in crate::config) const fn number(min: f64, max: f64) -> ValueType {
    ValueType::Number { min, max }
}

/// One of the names of an enum.
pub(in crate::config) const fn choice<T: NamedEnum>() -> ValueType {
    ValueType::Choice(T::NAMES)
}

/// Two lists of words as one.
#[expect(clippy::indexing_slicing, reason = "the compiler evaluates it, and refuses a wrong length")]
pub(in crate::config) const fn joined<const N: usize>(
    first: &[&'static str],
    second: &[&'static str],
) -> [&'static str; N] {
    assert!(first.len() + second.len() == N, "the length is not that of both lists");
    let mut all = [""; N];
    let mut index = 0;
    while index < N {
        all[index] = if index < first.len() { first[index] } else { second[index - first.len()] };
        index += 1;
    }
    all
}

/// A section with rows that name a setting of another crate.
pub(crate) trait Fill<Target> {
    /// Sets these.
    fn fill(&self, target: &mut Target);
}

/// From the value of a key to the setting of another crate.
pub(crate) trait Carry<To> {
    /// The setting.
    fn carry(&self) -> To;
}

impl<T: Clone> Carry<T> for T {
    fn carry(&self) -> T {
        self.clone()
    }
}

impl Carry<usize> for u32 {
    fn carry(&self) -> usize {
        usize::try_from(*self).unwrap_or(usize::MAX)
    }
}

impl Carry<Option<u32>> for u32 {
    fn carry(&self) -> Option<u32> {
        Some(*self)
    }
}

impl Carry<Option<usize>> for Option<u32> {
    fn carry(&self) -> Option<usize> {
        self.as_ref().map(Carry::carry)
    }
}

impl<T: Clone> Carry<Vec<T>> for Option<Vec<T>> {
    fn carry(&self) -> Vec<T> {
        self.clone().unwrap_or_default()
    }
}

/// Seconds; more than a [`Duration`] holds are as many as it holds.
impl Carry<Duration> for f64 {
    fn carry(&self) -> Duration {
        Duration::try_from_secs_f64(*self).unwrap_or(Duration::MAX)
    }
}

impl Carry<Option<Duration>> for Option<f64> {
    fn carry(&self) -> Option<Duration> {
        self.as_ref().map(Carry::carry)
    }
}

/// True if a key has no value: such a key is not written.
pub(in crate::config) fn is_absent(value: &impl Serialize) -> bool {
    match serde_json::to_value(value) {
        Ok(Value::Null) => true,
        Ok(Value::Array(values)) => values.is_empty(),
        Ok(Value::Object(fields)) => fields.is_empty(),
        // Texts that are set are never empty.
        Ok(Value::String(text)) => text.is_empty(),
        Ok(Value::Bool(_) | Value::Number(_)) | Err(_) => false,
    }
}

/// The path in a field, if its type is one of a path.
pub(in crate::config) fn path_in(field: &mut dyn Any) -> Option<&mut ConfigPath> {
    if field.is::<ConfigPath>() {
        field.downcast_mut()
    } else {
        field.downcast_mut::<Option<ConfigPath>>()?.as_mut()
    }
}

/// The lines of a doc comment as one text.
macro_rules! doc_of {
    ($([doc = $line:literal])+ $([serde $($serde:tt)*])*) => {
        concat!($($line, "\n"),+)
    };
}

/// The struct of some keys: `Name { rows }`, or `Name for Target { rows }` which is [`Fill`].
macro_rules! settings_struct {
    (
        $(#[$($meta:tt)*])*
        $name:ident $(with $sub:ident: $sub_type:ident)? for $target:ty {
            $($(#[$($attr:tt)*])* $key:ident: $type:ty = $spec:expr $(=> $($to:ident).+)?;)*
        }
    ) => {
        $crate::config::key::declare::settings_struct! {
            $(#[$($meta)*])*
            $name $(with $sub: $sub_type)? { $($(#[$($attr)*])* $key: $type = $spec;)* }
        }

        impl $crate::config::key::declare::Fill<$target> for $name {
            fn fill(&self, target: &mut $target) {
                $($(target.$($to).+ = $crate::config::key::declare::Carry::carry(&self.$key);)?)*
            }
        }
    };
    (
        $(#[$($meta:tt)*])*
        $name:ident $(with $sub:ident: $sub_type:ident)? {
            $($(#[$($attr:tt)*])* $key:ident: $type:ty = $spec:expr;)*
        }
    ) => {
        $(#[$($meta)*])*
        #[derive(Debug, Clone, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(
                $(#[$($attr)*])*
                #[serde(skip_serializing_if = "crate::config::key::declare::is_absent")]
                pub $key: $type,
            )*
            $(
                /// The section inside this one, where it is given.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $sub: Option<$sub_type>,
            )?
        }

        impl $name {
            /// Visits the paths that are set, each with its key.
            pub(in crate::config) fn visit_paths(
                &mut self,
                section: &str,
                visit: &mut dyn FnMut(&str, &mut $crate::config::path::ConfigPath),
            ) {
                $(
                    if let Some(path) = $crate::config::key::declare::path_in(&mut self.$key) {
                        visit(&format!("{section}.{}", stringify!($key)), path);
                    }
                )*
                $(
                    if let Some(inside) = &mut self.$sub {
                        inside.visit_paths(&format!("{section}.{}", stringify!($sub)), visit);
                    }
                )?
            }
        }
    };
}

/// A section without kinds: its struct, and its keys as `Name::KEYS`; `with` names a section inside it.
macro_rules! settings {
    (
        $(#[$($meta:tt)*])*
        $name:ident $(with $sub:ident: $sub_type:ident)? $(for $target:ty)? {
            $($(#[$($attr:tt)*])* $key:ident: $type:ty = $spec:expr $(=> $($to:ident).+)?;)*
        }
    ) => {
        $crate::config::key::declare::settings_struct! {
            $(#[$($meta)*])*
            $name $(with $sub: $sub_type)? $(for $target)? {
                $($(#[$($attr)*])* $key: $type = $spec $(=> $($to).+)?;)*
            }
        }

        impl $name {
            /// The keys, in the order of the file.
            pub(in crate::config) const KEYS: &'static [$crate::config::key::KeySpec] = &[
                $($spec.named(stringify!($key), $crate::config::key::declare::doc_of!($([$($attr)*])*)),)*
            ];
        }
    };
}

/// The keys of a section with kinds: a struct for each name under `structs`, and one table of all keys.
///
/// Groups follow in the order of the file; `[a b] of KINDS { rows }` declares keys of the structs that are named `a` and
/// `b`, which configurations of `KINDS` have.
macro_rules! kinds {
    ($(#[$($meta:tt)*])* const $table:ident; structs $structs:tt $($rows:tt)*) => {
        $crate::config::key::declare::kinds_with! {
            ($) $(#[$($meta)*])* const $table; structs $structs rows { $($rows)* }
        }
    };
}

/// [`kinds!`] with a dollar sign, which the macros need that it defines: one for each struct, which collects the rows
/// of the groups that name the struct.
macro_rules! kinds_with {
    (
        ($d:tt)
        $(#[$($table_meta:tt)*])*
        const $table:ident;
        structs { $($of:ident => { $($head:tt)* })+ }
        rows $rows:tt
    ) => {
        $(
            macro_rules! $of {
                (@ [$d($d taken:tt)*] {
                    [$of $d($d more:ident)*] of $d kinds:ident { $d($d row:tt)* } $d($d rest:tt)*
                }) => {
                    $of! { @ [$d($d taken)* $d($d row)*] { $d($d rest)* } }
                };
                (@ $d taken:tt { [$d other:ident $d($d more:ident)*] of $d kinds:ident $d row:tt $d($d rest:tt)* }) => {
                    $of! { @ $d taken { [$d($d more)*] of $d kinds $d row $d($d rest)* } }
                };
                (@ $d taken:tt { [] of $d kinds:ident $d row:tt $d($d rest:tt)* }) => {
                    $of! { @ $d taken { $d($d rest)* } }
                };
                (@ [$d($d taken:tt)*] {}) => {
                    $crate::config::key::declare::settings_struct! { $($head)* { $d($d taken)* } }
                };
            }
            $of! { @ [] $rows }
        )+
        $crate::config::key::declare::kinds_table! { $(#[$($table_meta)*])* const $table; $rows }
    };
}

/// The table of [`kinds!`].
macro_rules! kinds_table {
    (
        $(#[$($meta:tt)*])*
        const $table:ident;
        {
            $(
                [$($of:ident)+] of $kinds:ident {
                    $($(#[$($attr:tt)*])* $key:ident: $type:ty = $spec:expr $(=> $($to:ident).+)?;)*
                }
            )+
        }
    ) => {
        $(#[$($meta)*])*
        pub(in crate::config) const $table: &[$crate::config::key::KeySpec] = &[
            $($(
                $spec
                    .named(stringify!($key), $crate::config::key::declare::doc_of!($([$($attr)*])*))
                    .of_kinds($kinds),
            )*)+
        ];
    };
}

pub(in crate::config) use {doc_of, kinds, kinds_table, kinds_with, settings, settings_struct};
