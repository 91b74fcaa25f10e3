//! Whether a workbook has in the answer's cells what the gold workbook has.

use super::position::{CellRange, is_same_name, resolve};
use super::xlsx::{Area, Cell, Cells, Value, Workbook, XlsxError, place_name};
use crate::choices::Compare;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most wrong cells that are listed.
pub const MAX_LISTED: usize = 20;

/// The right answer of a case.
#[derive(Debug, Clone)]
pub struct Gold {
    sheets: Vec<GoldSheet>,
    parts: Vec<(String, Area)>,
}

#[derive(Debug, Clone)]
struct GoldSheet {
    name: String,
    areas: Vec<Area>,
    cells: Cells,
}

/// Why a task cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GoldError {
    /// The gold workbook cannot be read.
    #[error("the gold workbook {0}")]
    Workbook(#[source] XlsxError),
    /// The position means nothing.
    #[error("{0}")]
    Position(String),
}

/// What an agent's workbook has in these cells.
#[derive(Debug, Clone)]
pub struct Got {
    /// For each sheet of the gold one: its index in the workbook, and its cells.
    sheets: Vec<Option<(usize, Cells)>>,
}

/// A cell that is wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct WrongCell {
    /// Sheet and cell, such as `Sheet1!D2`.
    pub place: String,
    /// What the gold workbook has.
    pub expected: Value,
    /// What the agent's has.
    pub got: Value,
    /// The formula that gives it, if any.
    pub formula: Option<String>,
}

/// The verdict on a workbook.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorkbookComparison {
    /// All cells are right.
    pub is_right: bool,
    /// The first wrong cells, at most [`MAX_LISTED`].
    pub wrong: Vec<WrongCell>,
    /// All wrong cells.
    pub n_wrong: usize,
    /// The right cells that have a value.
    pub n_right: usize,
    /// Sheets of the answer that the workbook lacks.
    pub missing_sheets: Vec<String>,
    /// Formulas in the answer whose value nobody has calculated.
    pub n_uncalculated: usize,
    /// The workbook cannot be judged as it is, which is the agent's fault.
    pub unreadable: Option<String>,
}

impl Gold {
    /// Reads the right answer at this position.
    ///
    /// # Errors
    ///
    /// A workbook that cannot be read, or a position that is not in it: the task is at fault.
    pub fn read(bytes: Arc<[u8]>, position: &str, answer_sheet: Option<&str>) -> Result<Self, GoldError> {
        let mut workbook = Workbook::open(bytes).map_err(GoldError::Workbook)?;
        let parts = resolve(position, answer_sheet, workbook.sheets()).map_err(GoldError::Position)?;
        let name =
            |sheet: usize| workbook.sheets().get(sheet).map(|sheet| sheet.name.clone()).unwrap_or_default();
        let named = parts.iter().map(|part| (name(part.sheet), part.area)).collect();
        let indices: BTreeSet<usize> = parts.iter().map(|part| part.sheet).collect();
        let mut sheets: Vec<GoldSheet> = indices
            .iter()
            .map(|index| GoldSheet { name: name(*index), areas: areas(&parts, *index), cells: Cells::new() })
            .collect();
        for (sheet, index) in sheets.iter_mut().zip(&indices) {
            sheet.cells = workbook.cells(*index, &sheet.areas).map_err(GoldError::Workbook)?;
        }
        Ok(Self { sheets, parts: named })
    }

    /// Sheets and ranges that are compared, as people write them.
    pub fn position(&self) -> String {
        let parts = self.parts.iter().map(|(sheet, area)| format!("{sheet}!{}", area.name()));
        parts.collect::<Vec<_>>().join(", ")
    }

    /// The parts of the position: names of sheets, and their cells.
    pub fn parts(&self) -> &[(String, Area)] {
        &self.parts
    }

    /// True if neither the gold workbook nor the input has anything in these cells, so that they say nothing of an answer.
    ///
    /// # Errors
    ///
    /// An input that cannot be read.
    pub(crate) fn lacks_an_answer(&self, input: Arc<[u8]>) -> Result<bool, XlsxError> {
        let is_empty = self.sheets.iter().all(|sheet| sheet.cells.is_empty());
        Ok(is_empty && self.read_answer(input, Compare::Strict)?.is_empty())
    }

    /// Reads what a workbook has in the answer's cells.
    ///
    /// # Errors
    ///
    /// A workbook that cannot be read.
    pub fn read_answer(&self, bytes: Arc<[u8]>, compare: Compare) -> Result<Got, XlsxError> {
        let mut workbook = Workbook::open(bytes)?;
        let mut sheets = Vec::new();
        for sheet in &self.sheets {
            let exact = workbook.sheets().iter().position(|other| other.name == sheet.name);
            let loose = || workbook.sheets().iter().position(|other| is_same_name(&other.name, &sheet.name));
            let index = match compare {
                Compare::Official => exact,
                Compare::Strict => exact.or_else(loose),
            };
            sheets.push(match index {
                Some(index) => Some((index, workbook.cells(index, &sheet.areas)?)),
                None => None,
            });
        }
        Ok(Got { sheets })
    }

    /// Compares an answer with the gold one.
    pub fn judge(&self, got: &Got, compare: Compare) -> WorkbookComparison {
        let mut verdict = WorkbookComparison::default();
        for (sheet, found) in self.sheets.iter().zip(&got.sheets) {
            let Some((_, cells)) = found else {
                verdict.missing_sheets.push(sheet.name.clone());
                continue;
            };
            sheet.judge(cells, compare, &mut verdict);
            if verdict.unreadable.is_some() {
                break;
            }
        }
        verdict.is_right =
            verdict.n_wrong == 0 && verdict.missing_sheets.is_empty() && verdict.unreadable.is_none();
        verdict
    }
}

fn areas(parts: &[CellRange], sheet: usize) -> Vec<Area> {
    parts.iter().filter(|part| part.sheet == sheet).map(|part| part.area).collect()
}

impl GoldSheet {
    fn judge(&self, cells: &Cells, compare: Compare, verdict: &mut WorkbookComparison) {
        let empty = Cell::empty();
        let places: BTreeSet<(u32, u32)> = self.cells.keys().chain(cells.keys()).copied().collect();
        for place in places {
            let (gold, got) = (self.cells.get(&place).unwrap_or(&empty), cells.get(&place).unwrap_or(&empty));
            if got.is_uncalculated() {
                verdict.n_uncalculated += 1;
            }
            match compare.is_equal(gold, got) {
                Ok(true) => verdict.n_right += 1,
                Ok(false) => {
                    verdict.n_wrong += 1;
                    if verdict.wrong.len() < MAX_LISTED {
                        verdict.wrong.push(WrongCell {
                            place: format!("{}!{}", self.name, place_name(place)),
                            expected: gold.value.clone(),
                            got: got.value.clone(),
                            formula: got.formula.as_deref().map(|formula| format!("={formula}")),
                        });
                    }
                }
                Err(raised) => {
                    verdict.unreadable = Some(raised.to_string());
                    return;
                }
            }
        }
    }
}

impl Got {
    /// True if the answer has formulas, whose values are those of a calculation.
    pub fn has_formulas(&self) -> bool {
        self.sheets.iter().flatten().any(|(_, cells)| cells.values().any(|cell| cell.has_formula))
    }

    fn is_empty(&self) -> bool {
        self.sheets.iter().flatten().all(|(_, cells)| cells.is_empty())
    }

    /// Takes the values of formulas, and of cells that only a calculation fills, from the same workbook calculated
    /// elsewhere; all other values stay what they are, since a program changes more than formulas when it saves.
    ///
    /// # Errors
    ///
    /// A calculated workbook that cannot be read.
    pub fn calculate(&mut self, gold: &Gold, bytes: Arc<[u8]>) -> Result<(), XlsxError> {
        let mut workbook = Workbook::open(bytes)?;
        for (sheet, found) in gold.sheets.iter().zip(&mut self.sheets) {
            let Some((index, cells)) = found else { continue };
            // By position: names can change.
            for (place, calculated) in workbook.cells(*index, &sheet.areas)? {
                let own = cells.get(&place);
                let is_taken = own.is_none_or(|cell| cell.has_formula);
                if is_taken {
                    let formula = own.and_then(|cell| cell.formula.clone());
                    cells.insert(place, Cell { has_formula: false, formula, ..calculated });
                }
            }
            // What the calculation left empty is empty.
            for cell in cells.values_mut().filter(|cell| cell.has_formula) {
                *cell = Cell { has_formula: false, value: Value::Empty, number: None, ..cell.clone() };
            }
        }
        Ok(())
    }
}

impl WorkbookComparison {
    /// The verdict on something that is no workbook.
    pub fn unreadable(why: impl ToString) -> Self {
        Self { unreadable: Some(why.to_string()), ..Self::default() }
    }

    /// What is wrong, for those who may know the right values.
    pub fn reason(&self) -> String {
        self.described(true)
    }

    /// What is wrong, without the right values: for the agent.
    pub fn feedback(&self) -> String {
        self.described(false)
    }

    fn described(&self, shows_expected: bool) -> String {
        if let Some(why) = &self.unreadable {
            return format!("the output workbook {why}");
        }
        let mut lines: Vec<String> =
            self.missing_sheets.iter().map(|name| format!("the sheet {name:?} is missing")).collect();
        for cell in &self.wrong {
            let formula =
                cell.formula.as_deref().map(|formula| format!(" (from {formula})")).unwrap_or_default();
            let expected =
                if shows_expected { format!(", expected {}", cell.expected) } else { String::new() };
            lines.push(format!("{}: got {}{formula}{expected}", cell.place, cell.got));
        }
        let n_more = self.n_wrong.saturating_sub(self.wrong.len());
        if n_more > 0 {
            lines.push(format!("{n_more} more cells are wrong"));
        }
        if self.n_uncalculated > 0 {
            lines.push(format!("{} cells hold formulas without a stored value", self.n_uncalculated));
        }
        if self.n_wrong > 0 && self.n_right > 0 {
            lines.push(format!("{} other cells are right", self.n_right));
        }
        lines.join("\n")
    }
}
