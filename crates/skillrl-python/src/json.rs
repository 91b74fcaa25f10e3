//! JSON, in which values pass between the engine and the package.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Values from JSON that the package itself has written.
pub(crate) fn read<T: DeserializeOwned>(what: &str, json: &str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| PyValueError::new_err(format!("{what}: {error}")))
}

/// A value as JSON.
pub(crate) fn written(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The value of an object, as `skillrl._data.as_json` writes it.
pub(crate) fn of_object(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Some(value) = plain(object, MAX_DEPTH) {
        return Ok(value);
    }
    let json: String = object.py().import("skillrl._data")?.call_method1("as_json", (object,))?.extract()?;
    read("an item", &json)
}

/// Deeper ones are left to Python, which names one that holds itself.
const MAX_DEPTH: usize = 32;

/// The value of an object that needs no conversion that is Python's.
fn plain(object: &Bound<'_, PyAny>, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    if object.is_none() {
        return Some(Value::Null);
    }
    if let Ok(text) = object.cast_exact::<PyString>() {
        // A lone surrogate has no UTF-8.
        return Some(text.to_str().ok()?.into());
    }
    if let Ok(fields) = object.cast_exact::<PyDict>() {
        let mut map = Map::new();
        for (name, value) in fields.iter() {
            let name = name.cast_into_exact::<PyString>().ok()?.to_str().ok()?.to_owned();
            map.insert(name, plain(&value, depth)?);
        }
        return Some(map.into());
    }
    if let Ok(values) = object.cast_exact::<PyList>() {
        return values.iter().map(|value| plain(&value, depth)).collect();
    }
    if object.is_exact_instance_of::<PyBool>() {
        return Some(object.extract::<bool>().ok()?.into());
    }
    if object.is_exact_instance_of::<PyInt>() {
        return Some(object.extract::<i64>().ok()?.into());
    }
    // One that is not finite has no JSON.
    let number: f64 =
        if object.is_exact_instance_of::<PyFloat>() { object.extract().ok()? } else { return None };
    number.is_finite().then(|| number.into())
}
