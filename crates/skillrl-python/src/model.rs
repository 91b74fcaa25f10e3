//! A model behind an address, for calls outside of a run.

use crate::agent::{Said, request, said};
use crate::errors::{model_error, run_error};
use crate::job::settings;
use crate::train::TICK;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use skillrl::config::ModelRole;
use skillrl::engine::Engine;
use skillrl::llm::{ApiKey, CallCtx, CallPlace, ChatModel};
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// The model that the section `models.target` of these settings, as JSON, describes: with retries, without a journal.
pub(crate) fn native(py: Python<'_>, sections: &str, api_key: Option<&str>) -> PyResult<Arc<dyn ChatModel>> {
    let loaded = settings(py, sections)?;
    let mut engine = Engine::new(&loaded);
    if let Some(key) = api_key {
        let key = ApiKey::new(key).map_err(|error| model_error(py, &error))?;
        engine = engine.with_key(ModelRole::Target, key);
    }
    engine.model(ModelRole::Target).map_err(|error| run_error(py, &error, None))
}

/// A model with retries and without a journal; see `skillrl.llm.OpenAIChatClient`.
#[pyclass(frozen, name = "Model", module = "skillrl._native")]
pub(crate) struct PyModel {
    model: Arc<dyn ChatModel>,
    runtime: Runtime,
}

#[pymethods]
impl PyModel {
    /// The model that the section `models.target` of these settings, as JSON, describes.
    #[new]
    #[pyo3(signature = (sections, api_key=None))]
    fn new(py: Python<'_>, sections: &str, api_key: Option<&str>) -> PyResult<Self> {
        let model = native(py, sections, api_key)?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime
            .map_err(|error| PyRuntimeError::new_err(format!("the engine cannot be started: {error}")))?;
        Ok(Self { model, runtime })
    }

    /// Asks, and waits for the reply without holding the interpreter's lock; Ctrl-C cancels the call.
    #[pyo3(signature = (messages, max_tokens=None, temperature=None, further=None))]
    fn chat(
        &self,
        py: Python<'_>,
        messages: Vec<(String, String)>,
        max_tokens: Option<u32>,
        temperature: Option<f64>,
        further: Option<&str>,
    ) -> PyResult<Said> {
        let request = request(messages, max_tokens, temperature, further)?;
        let call = CallCtx::new(CallPlace::new("chat"));
        let (model, asked, of_call) = (Arc::clone(&self.model), request.clone(), call.clone());
        let mut asking = self.runtime.spawn(async move { model.chat(&asked, &of_call).await });
        let reply = loop {
            let tick = async { tokio::time::timeout(TICK, &mut asking).await };
            match py.detach(|| self.runtime.block_on(tick)) {
                Ok(reply) => break reply,
                // Ctrl-C ends the call, which may be waiting for its next attempt.
                Err(_) => py.check_signals().inspect_err(|_| call.cancel.cancel())?,
            }
        };
        let reply = reply.map_err(|error| PyRuntimeError::new_err(format!("the call ended: {error}")))?;
        reply.map(|reply| said(&reply, &request)).map_err(|error| model_error(py, &error))
    }
}
