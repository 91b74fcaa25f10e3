//! Enums whose values have names, as settings and records hold them.
//!
//! [`named_enum!`](crate::named_enum) declares such an enum once: the names serve serde, messages and the checks of a
//! configuration.

/// An enum without data whose values have names.
pub trait NamedEnum: Copy + 'static {
    /// The names, in the order of the enum.
    const NAMES: &'static [&'static str];
}

/// Declares an enum without data whose values have names; the crate that uses it depends on `serde`.
///
/// ```
/// skill_core::named_enum! {
///     /// When a lamp is lit.
///     #[derive(Default)]
///     pub enum Lamp {
///         /// Always.
///         On = "on",
///         /// Never.
///         #[default]
///         Off = "off",
///     }
/// }
///
/// use skill_core::NamedEnum;
///
/// assert_eq!(Lamp::NAMES, ["on", "off"]);
/// assert_eq!(Lamp::parse("on"), Some(Lamp::On));
/// assert_eq!(Lamp::default().as_str(), "off");
/// assert_eq!(serde_json::to_string(&Lamp::ALL).unwrap(), r#"["on","off"]"#);
/// ```
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ::serde::Serialize, ::serde::Deserialize)]
        $visibility enum $name {
            $($(#[$variant_meta])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// All values, in this order.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The name used in configurations and files.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// The value of this name.
            pub fn parse(name: &str) -> ::core::option::Option<Self> {
                Self::ALL.into_iter().find(|value| value.as_str() == name)
            }
        }

        impl $crate::NamedEnum for $name {
            const NAMES: &'static [&'static str] = &[$($word),+];
        }
    };
}
