//! The predicates of the domain.

use skill_core::NamedEnum;

skill_core::named_enum! {
    /// What can be true of one or two things, by its name in the domain.
    #[derive(PartialOrd, Ord)]
    pub(super) enum Predicate {
        AtLocation = "atLocation",
        ReceptacleAtLocation = "receptacleAtLocation",
        ObjectAtLocation = "objectAtLocation",
        Openable = "openable",
        Opened = "opened",
        InReceptacle = "inReceptacle",
        IsReceptacleObject = "isReceptacleObject",
        InReceptacleObject = "inReceptacleObject",
        IsReceptacleObjectFull = "isReceptacleObjectFull",
        WasInReceptacle = "wasInReceptacle",
        Checked = "checked",
        Examined = "examined",
        ReceptacleType = "receptacleType",
        CanContain = "canContain",
        ObjectType = "objectType",
        Holds = "holds",
        HoldsAny = "holdsAny",
        HoldsAnyReceptacleObject = "holdsAnyReceptacleObject",
        Full = "full",
        IsClean = "isClean",
        Cleanable = "cleanable",
        IsHot = "isHot",
        Heatable = "heatable",
        IsCool = "isCool",
        Coolable = "coolable",
        Pickupable = "pickupable",
        Moveable = "moveable",
        Toggleable = "toggleable",
        IsOn = "isOn",
        IsToggled = "isToggled",
        Sliceable = "sliceable",
        IsSliced = "isSliced",
    }
}

impl Predicate {
    /// Whether it is about two things.
    pub(super) fn takes_two(self) -> bool {
        matches!(
            self,
            Self::AtLocation
                | Self::ReceptacleAtLocation
                | Self::ObjectAtLocation
                | Self::InReceptacle
                | Self::InReceptacleObject
                | Self::WasInReceptacle
                | Self::ReceptacleType
                | Self::CanContain
                | Self::ObjectType
                | Self::Holds
        )
    }

    /// The known name that is nearest to this one, if any is near.
    pub(super) fn nearest(name: &str) -> Option<&'static str> {
        let wanted: String = name.chars().take(64).map(|character| character.to_ascii_lowercase()).collect();
        let distance = |known: &str| strsim::levenshtein(&wanted, &known.to_ascii_lowercase());
        let (near, known) = Self::NAMES.iter().map(|known| (distance(known), *known)).min()?;
        (near * 3 <= known.len()).then_some(known)
    }
}

/// The value of this name, in any case. One pass over the table: reading a file asks for thousands of names.
///
/// `all` holds every value, in the order of the enum.
pub(super) fn in_any_case<T: NamedEnum>(all: &[T], name: &str) -> Option<T> {
    let place = T::NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))?;
    all.get(place).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_case() {
        for predicate in Predicate::ALL {
            assert_eq!(in_any_case(&Predicate::ALL, &predicate.as_str().to_uppercase()), Some(predicate));
        }
    }
}
