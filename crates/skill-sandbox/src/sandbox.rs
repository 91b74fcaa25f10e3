//! Which sandbox there is.

use crate::container::ContainerConfig;
use crate::stage::Base;
use std::path::PathBuf;
use std::sync::Arc;

/// Which sandbox is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Choice {
    /// `bwrap` on Linux; elsewhere none.
    #[default]
    Auto,
    /// This `bwrap`, with these limits or none.
    Bubblewrap {
        /// Its program.
        path: PathBuf,
        /// How memory and processes are limited; none for the first way that works.
        limiting: Option<Limiting>,
    },
    /// A container for each program.
    Container(ContainerConfig),
    /// None: the program runs as this user, with the user's files and network, and only time and output are limited.
    Off,
}

/// How memory and processes are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limiting {
    /// By a cgroup of each program.
    Cgroup,
    /// By resource limits of a user who is not root, and by a monitor.
    Rlimits,
    /// By the container engine.
    Engine,
    /// Not at all.
    Nothing,
}

impl Limiting {
    /// The name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Rlimits => "rlimits",
            Self::Engine => "engine",
            Self::Nothing => "nothing",
        }
    }
}

/// A sandbox that has been tried. Clones share it.
#[derive(Debug, Clone)]
pub struct Sandbox {
    pub(crate) kind: Kind,
    pub(crate) base: Arc<Base>,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    #[cfg(target_os = "linux")]
    Bubblewrap(Bubblewrap),
    Container(ContainerConfig),
    Off,
}

#[cfg(target_os = "linux")]
#[derive(Debug, Clone)]
pub(crate) struct Bubblewrap {
    pub(crate) path: PathBuf,
    /// Where cgroups are made; none for resource limits.
    pub(crate) cgroups: Option<crate::cgroup::Place>,
    /// This process is root's, and programs get a user without rights.
    pub(crate) drops_root: bool,
}

impl Sandbox {
    /// The kind of sandbox in records: `bwrap`, `off`, or the image of the containers.
    pub fn name(&self) -> &str {
        match &self.kind {
            #[cfg(target_os = "linux")]
            Kind::Bubblewrap(_) => "bwrap",
            Kind::Container(config) => &config.image,
            Kind::Off => "off",
        }
    }

    /// How memory and processes are limited.
    pub fn limiting(&self) -> Limiting {
        match &self.kind {
            #[cfg(target_os = "linux")]
            Kind::Bubblewrap(Bubblewrap { cgroups: Some(_), .. }) => Limiting::Cgroup,
            #[cfg(target_os = "linux")]
            Kind::Bubblewrap(_) => Limiting::Rlimits,
            Kind::Container(_) => Limiting::Engine,
            Kind::Off => Limiting::Nothing,
        }
    }

    /// True if programs run as a user other than the one of this process, who reads what everybody may read.
    pub(crate) fn is_other_user(&self) -> bool {
        match &self.kind {
            #[cfg(target_os = "linux")]
            Kind::Bubblewrap(bubblewrap) => bubblewrap.drops_root,
            Kind::Container(_) => true,
            Kind::Off => false,
        }
    }
}
