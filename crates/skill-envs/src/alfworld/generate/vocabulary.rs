//! Classes of objects and receptacles, and which may be in which: the facts of ALFRED's world.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Where a class of receptacle stands in for a table.
const TABLE_TOP: &str = "AlarmClock Apple BaseballBat BasketBall Book Bowl Box Bread ButterKnife Candle CD CellPhone \
                         Cloth CreditCard Cup DishSponge Egg Fork Glassbottle HandTowel Kettle KeyChain Knife Ladle \
                         Laptop Lettuce Mug Newspaper Pan PaperTowel Pen Pencil PepperShaker Plate Pot Potato \
                         RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle Statue TennisRacket \
                         TissueBox ToiletPaper ToiletPaperRoll Tomato Vase Watch WateringCan WineBottle";
const SEAT: &str =
    "BasketBall Book Box CellPhone Cloth CreditCard KeyChain Laptop Newspaper Pillow RemoteControl";

/// What each class of receptacle takes.
const CONTENTS: [(&str, &str); 30] = [
    ("ArmChair", SEAT),
    ("BathtubBasin", "Cloth DishSponge HandTowel SoapBar"),
    ("Bed", "BaseballBat BasketBall Book CellPhone Laptop Newspaper Pillow TennisRacket"),
    (
        "Cabinet",
        "Book Bowl Box Candle CD Cloth Cup DishSponge Glassbottle HandTowel Kettle Ladle Mug Newspaper Pan \
         PepperShaker Plate Plunger Pot SaltShaker SoapBar SoapBottle SprayBottle TissueBox ToiletPaper \
         ToiletPaperRoll Vase WateringCan WineBottle",
    ),
    (
        "Cart",
        "Candle Cloth DishSponge HandTowel Mug PaperTowel Plunger SoapBar SoapBottle SprayBottle Statue TissueBox \
         ToiletPaper ToiletPaperRoll Vase",
    ),
    ("CoffeeMachine", "Mug"),
    ("CoffeeTable", TABLE_TOP),
    ("CounterTop", TABLE_TOP),
    (
        "Desk",
        "AlarmClock BasketBall Book Bowl Box Candle CD CellPhone Cloth CreditCard Cup Glassbottle KeyChain Laptop \
         Mug Newspaper Pen Pencil Plate RemoteControl SoapBottle SprayBottle Statue TennisRacket TissueBox \
         ToiletPaper ToiletPaperRoll Vase Watch WateringCan WineBottle",
    ),
    ("DiningTable", TABLE_TOP),
    (
        "Drawer",
        "Book ButterKnife Candle CD CellPhone Cloth CreditCard DishSponge Fork HandTowel KeyChain Knife Ladle \
         Newspaper Pen Pencil PepperShaker RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle \
         TissueBox ToiletPaper ToiletPaperRoll Watch WateringCan",
    ),
    (
        "Dresser",
        "AlarmClock BasketBall Book Bowl Box Candle CD CellPhone Cloth CreditCard Cup Glassbottle KeyChain Laptop \
         Mug Newspaper Pen Pencil Plate RemoteControl SprayBottle Statue TennisRacket TissueBox ToiletPaper \
         ToiletPaperRoll Vase Watch WateringCan WineBottle",
    ),
    ("Fridge", "Apple Bowl Bread Cup Egg Glassbottle Lettuce Mug Pan Plate Pot Potato Tomato WineBottle"),
    (
        "GarbageCan",
        "Apple Bread CD Cloth DishSponge Egg HandTowel Lettuce Newspaper PaperTowel Pen Pencil Potato SoapBar \
         SoapBottle SprayBottle TissueBox ToiletPaper ToiletPaperRoll Tomato WineBottle",
    ),
    ("HandTowelHolder", "HandTowel"),
    ("LaundryHamper", "Cloth"),
    ("Microwave", "Apple Bowl Bread Cup Egg Glassbottle Mug Plate Potato Tomato"),
    ("Ottoman", SEAT),
    ("Safe", "CD CellPhone CreditCard KeyChain Statue Vase Watch"),
    (
        "Shelf",
        "AlarmClock Book Bowl Box Candle CD CellPhone Cloth CreditCard Cup DishSponge Glassbottle HandTowel Kettle \
         KeyChain Mug Newspaper PaperTowel Pen Pencil PepperShaker Plate Pot RemoteControl SaltShaker SoapBar \
         SoapBottle SprayBottle Statue TissueBox ToiletPaper ToiletPaperRoll Vase Watch WateringCan WineBottle",
    ),
    ("SideTable", TABLE_TOP),
    (
        "SinkBasin",
        "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Glassbottle HandTowel Kettle Knife Ladle Lettuce Mug \
         Pan Plate Pot Potato SoapBar Spatula Spoon Tomato",
    ),
    ("Sofa", SEAT),
    ("StoveBurner", "Kettle Pan Pot"),
    (
        "Toilet",
        "Candle Cloth DishSponge HandTowel Newspaper PaperTowel SoapBar SoapBottle SprayBottle TissueBox ToiletPaper \
         ToiletPaperRoll",
    ),
    ("ToiletPaperHanger", "ToiletPaper ToiletPaperRoll"),
    ("Toaster", ""),
    ("TowelHolder", "Towel"),
    ("TVStand", "TissueBox"),
    ("Bathtub", ""),
];

const OPENABLE: &str = "Cabinet Drawer Fridge Microwave Safe";
const CLEANABLE: &str = "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Kettle Knife Ladle Lettuce Mug Pan Plate \
                         Pot Potato SoapBar Spatula Spoon Tomato";
const HEATABLE: &str = "Apple Bread Cup Egg Mug Plate Potato Tomato";
const COOLABLE: &str = "Apple Bowl Bread Cup Egg Lettuce Mug Pan Plate Pot Potato Tomato WineBottle";
const SLICEABLE: &str = "Apple Bread Egg Lettuce Potato Tomato";

/// Where a lamp may stand; it is not an object that is carried.
const LAMP_PLACES: &str = "CoffeeTable Desk Dresser SideTable";

/// The class of the lamps of generated rooms.
pub(super) const LAMP: &str = "DeskLamp";

/// Whether a receptacle of a class takes an object of a class.
pub(super) fn takes(receptacle: &str, object: &str) -> bool {
    // Rooms ask this thousands of times.
    static PAIRS: LazyLock<HashSet<(&str, &str)>> = LazyLock::new(|| {
        let pairs = |(class, contents): (&'static str, &'static str)| {
            contents.split_ascii_whitespace().map(move |object| (class, object))
        };
        CONTENTS.into_iter().flat_map(pairs).collect()
    });
    PAIRS.contains(&(receptacle, object))
}

/// Whether a lamp may are based on a receptacle of this class.
pub(super) fn takes_lamp(receptacle: &str) -> bool {
    is_among(LAMP_PLACES, receptacle)
}

pub(super) fn is_openable(receptacle: &str) -> bool {
    is_among(OPENABLE, receptacle)
}

pub(super) fn is_cleanable(object: &str) -> bool {
    is_among(CLEANABLE, object)
}

pub(super) fn is_heatable(object: &str) -> bool {
    is_among(HEATABLE, object)
}

pub(super) fn is_coolable(object: &str) -> bool {
    is_among(COOLABLE, object)
}

pub(super) fn is_sliceable(object: &str) -> bool {
    is_among(SLICEABLE, object)
}

fn is_among(classes: &str, class: &str) -> bool {
    classes.split_ascii_whitespace().any(|known| known == class)
}

/// A kind of room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoomKind {
    /// Where food is heated and cooled.
    Kitchen,
    /// Where lamps stand.
    Bedroom,
    /// Where cloths are cleaned.
    Bathroom,
    /// Where lamps stand too.
    LivingRoom,
}

impl RoomKind {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Kitchen, Self::Bedroom, Self::Bathroom, Self::LivingRoom];

    /// Classes of receptacles with the fewest and the most that a room of this kind has.
    pub(super) fn receptacles(self) -> &'static [(&'static str, u64, u64)] {
        match self {
            Self::Kitchen => &[
                ("Cabinet", 4, 10),
                ("CoffeeMachine", 1, 1),
                ("CounterTop", 1, 3),
                ("DiningTable", 0, 1),
                ("Drawer", 2, 6),
                ("Fridge", 1, 1),
                ("GarbageCan", 1, 1),
                ("Microwave", 1, 1),
                ("Shelf", 0, 3),
                ("SideTable", 0, 1),
                ("SinkBasin", 1, 1),
                ("StoveBurner", 2, 4),
                ("Toaster", 1, 1),
            ],
            Self::Bedroom => &[
                ("ArmChair", 0, 1),
                ("Bed", 1, 1),
                ("Desk", 1, 2),
                ("Drawer", 2, 7),
                ("Dresser", 0, 1),
                ("GarbageCan", 1, 1),
                ("LaundryHamper", 0, 1),
                ("Safe", 0, 1),
                ("Shelf", 1, 6),
                ("SideTable", 1, 2),
            ],
            Self::Bathroom => &[
                ("BathtubBasin", 0, 1),
                ("Cabinet", 2, 4),
                ("Cart", 0, 1),
                ("CounterTop", 1, 1),
                ("Drawer", 0, 4),
                ("GarbageCan", 1, 1),
                ("HandTowelHolder", 1, 2),
                ("Shelf", 0, 2),
                ("SinkBasin", 1, 2),
                ("Toilet", 1, 1),
                ("ToiletPaperHanger", 1, 1),
                ("TowelHolder", 1, 1),
            ],
            Self::LivingRoom => &[
                ("ArmChair", 1, 2),
                ("Cabinet", 0, 4),
                ("CoffeeTable", 1, 1),
                ("DiningTable", 0, 1),
                ("Drawer", 0, 4),
                ("Dresser", 0, 1),
                ("GarbageCan", 1, 1),
                ("Ottoman", 0, 1),
                ("Safe", 0, 1),
                ("Shelf", 0, 4),
                ("SideTable", 1, 2),
                ("Sofa", 1, 1),
                ("TVStand", 1, 1),
            ],
        }
    }

    /// Classes of objects that may be in a room of this kind.
    pub(super) fn objects(self) -> impl Iterator<Item = &'static str> {
        let classes = match self {
            Self::Kitchen => {
                "Apple Book Bowl Bread ButterKnife CellPhone CreditCard Cup DishSponge Egg Fork Glassbottle Kettle \
                 Knife Ladle Lettuce Mug Pan PaperTowel PepperShaker Plate Pot Potato SaltShaker SoapBottle Spatula \
                 Spoon Statue Tomato Vase WineBottle"
            }
            Self::Bedroom => {
                "AlarmClock BaseballBat BasketBall Book Bowl Box CD CellPhone Cloth CreditCard KeyChain Laptop Mug \
                 Pen Pencil Pillow Statue TennisRacket TissueBox Vase Watch"
            }
            Self::Bathroom => {
                "Candle Cloth DishSponge HandTowel PaperTowel Plunger SoapBar SoapBottle SprayBottle TissueBox \
                 ToiletPaper ToiletPaperRoll Towel"
            }
            Self::LivingRoom => {
                "Book Bowl Box Candle CellPhone CreditCard KeyChain Laptop Newspaper Pen Pillow Plate RemoteControl \
                 Statue TissueBox Vase Watch WateringCan"
            }
        };
        classes.split_ascii_whitespace()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_of_a_room_is_known_and_has_a_place() {
        for room in RoomKind::ALL {
            for (receptacle, least, most) in room.receptacles() {
                assert!(CONTENTS.iter().any(|(class, _)| class == receptacle), "{receptacle}");
                assert!(least <= most, "{receptacle}");
            }
            for object in room.objects() {
                let certain = room.receptacles().iter().filter(|(_, least, _)| *least > 0);
                assert!(certain.map(|(class, ..)| class).any(|class| takes(class, object)), "{object}");
            }
        }
    }
}
