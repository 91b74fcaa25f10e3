//! The six kinds of task.

use std::fmt;

skill_core::named_enum! {
    /// What a game asks for.
    #[derive(PartialOrd, Ord)]
    pub enum TaskType {
        /// Put an object in or on a receptacle.
        PickAndPlace = "pick_and_place_simple",
        /// Hold an object where a lamp is lit.
        LookInLight = "look_at_obj_in_light",
        /// Clean an object, then place it.
        CleanAndPlace = "pick_clean_then_place_in_recep",
        /// Heat an object, then place it.
        HeatAndPlace = "pick_heat_then_place_in_recep",
        /// Cool an object, then place it.
        CoolAndPlace = "pick_cool_then_place_in_recep",
        /// Place two objects of a kind in one receptacle.
        PickTwoAndPlace = "pick_two_obj_and_place",
    }
}

impl fmt::Display for TaskType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
