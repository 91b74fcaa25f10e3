//! How many recorded cases a test has compared.

/// Says at its end how many cases were compared, and fails if there were none.
pub(crate) struct Counted {
    what: String,
    n_cases: usize,
}

impl Counted {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), n_cases: 0 }
    }

    pub(crate) fn add(&mut self) {
        self.n_cases += 1;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            println!("{}: {} cases compared", self.what, self.n_cases);
            assert!(self.n_cases > 0, "{} has no cases", self.what);
        }
    }
}
