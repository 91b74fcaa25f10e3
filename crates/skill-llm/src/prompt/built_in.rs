//! Prompts whose texts are built into the crate that uses them.

/// Declares the names of a crate's prompts and what holds a template for each: one line adds a prompt.
///
/// The text of `NAME` is `prompts/NAME.md` of the crate; the file with the declaration is in a folder of its `src`.
#[macro_export]
macro_rules! prompts {
    (
        $(#[$names_meta:meta])*
        pub enum $names:ident;

        $(#[$templates_meta:meta])*
        $visibility:vis struct $templates:ident;

        $($(#[$meta:meta])* $variant:ident = $name:ident,)+
    ) => {
        $(#[$names_meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $names {
            $($(#[$meta])* $variant,)+
        }

        impl $names {
            /// All prompts, in this order.
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$variant),+];

            /// The name of the prompt; its file is `NAME.md`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($name),)+
                }
            }

            /// The text that is built in.
            pub fn embedded_source(self) -> &'static str {
                match self {
                    $(Self::$variant => include_str!(concat!("../../prompts/", stringify!($name), ".md")),)+
                }
            }

            /// The prompt of this name.
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|prompt| prompt.as_str() == name)
            }
        }

        $(#[$templates_meta])*
        #[derive(Debug, Clone)]
        $visibility struct $templates {
            $($name: $crate::PromptTemplate,)+
        }

        impl $templates {
            /// Those that are built in.
            ///
            /// # Errors
            ///
            /// None in a released version: a test renders all of them.
            $visibility fn embedded() -> Result<Self, $crate::PromptError> {
                let template = |name: $names| $crate::PromptTemplate::parse(name.as_str(), name.embedded_source());
                Ok(Self { $($name: template($names::$variant)?,)+ })
            }

            /// The template of a prompt.
            $visibility fn template(&self, name: $names) -> &$crate::PromptTemplate {
                match name {
                    $($names::$variant => &self.$name,)+
                }
            }

            pub(super) fn template_mut(&mut self, name: $names) -> &mut $crate::PromptTemplate {
                match name {
                    $($names::$variant => &mut self.$name,)+
                }
            }
        }
    };
}
