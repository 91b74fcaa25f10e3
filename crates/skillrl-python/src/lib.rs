//! The Python package `skillrl` on the engine of this workspace: see `docs/python.md`.
//!
//! The package itself is in `python/`; this module is its `skillrl._native`, which knows of Python no more than calls,
//! texts and numbers. Without the feature `extension` it is empty.

#[cfg(feature = "extension")]
mod adapter;
#[cfg(feature = "extension")]
mod agent;
#[cfg(feature = "extension")]
mod callback;
#[cfg(feature = "extension")]
mod client;
#[cfg(feature = "extension")]
mod decisions;
#[cfg(feature = "extension")]
mod environment;
#[cfg(feature = "extension")]
mod errors;
#[cfg(feature = "extension")]
mod evaluate;
#[cfg(feature = "extension")]
mod evaluate_file;
#[cfg(feature = "extension")]
mod events;
#[cfg(feature = "extension")]
mod job;
#[cfg(feature = "extension")]
mod json;
#[cfg(feature = "extension")]
mod model;
#[cfg(feature = "extension")]
mod package;
#[cfg(feature = "extension")]
mod pipeline;
#[cfg(feature = "extension")]
mod program;
#[cfg(feature = "extension")]
mod result;
#[cfg(feature = "extension")]
mod table;
#[cfg(feature = "extension")]
mod threads;
#[cfg(feature = "extension")]
mod train;

#[cfg(feature = "extension")]
mod module {
    use pyo3::prelude::*;

    /// What the Python files of the package call.
    #[pymodule]
    fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add_class::<crate::agent::PyAgent>()?;
        module.add_class::<crate::agent::Asked>()?;
        module.add_class::<crate::callback::Done>()?;
        module.add_class::<crate::threads::Job>()?;
        module.add_class::<crate::threads::Threads>()?;
        module.add_class::<crate::model::PyModel>()?;
        module.add_function(wrap_pyfunction!(crate::decisions::apply_patch, module)?)?;
        module.add_function(wrap_pyfunction!(crate::decisions::edit_budget, module)?)?;
        module.add_function(wrap_pyfunction!(crate::decisions::extract_json, module)?)?;
        module.add_function(wrap_pyfunction!(crate::decisions::gate_score, module)?)?;
        module.add_function(wrap_pyfunction!(crate::decisions::mean_score, module)?)?;
        module.add_function(wrap_pyfunction!(crate::decisions::prompt, module)?)?;
        module.add_function(wrap_pyfunction!(crate::decisions::prompt_names, module)?)?;
        module.add_function(wrap_pyfunction!(crate::decisions::skill_hash, module)?)?;
        module.add_function(wrap_pyfunction!(crate::evaluate::evaluate, module)?)?;
        module.add_function(wrap_pyfunction!(crate::evaluate_file::evaluate_file, module)?)?;
        module.add_function(wrap_pyfunction!(crate::package::data_rows, module)?)?;
        module.add_function(wrap_pyfunction!(crate::package::read_traces, module)?)?;
        module.add_function(wrap_pyfunction!(crate::package::skill_texts, module)?)?;
        module.add_function(wrap_pyfunction!(crate::pipeline::run_merge, module)?)?;
        module.add_function(wrap_pyfunction!(crate::pipeline::run_reflect, module)?)?;
        module.add_function(wrap_pyfunction!(crate::pipeline::run_select, module)?)?;
        module.add_function(wrap_pyfunction!(crate::program::program, module)?)?;
        module.add_function(wrap_pyfunction!(crate::result::plain_result, module)?)?;
        module.add_function(wrap_pyfunction!(crate::table::runs_table, module)?)?;
        module.add_function(wrap_pyfunction!(crate::table::spent, module)?)?;
        module.add_function(wrap_pyfunction!(crate::threads::wait_for_threads, module)?)?;
        module.add_function(wrap_pyfunction!(crate::train::train, module)?)?;
        module.add_function(wrap_pyfunction!(crate::train::report, module)?)?;
        module.add_function(wrap_pyfunction!(crate::train::verdict, module)?)?;
        module.add_function(wrap_pyfunction!(crate::train::verdict_line, module)?)?;
        module.add_function(wrap_pyfunction!(crate::train::split, module)?)?;
        Ok(())
    }
}
