//! Requests that are refused.

use crate::wire::{ErrorCode, Fault};
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Map, Value, json};

/// A request that is refused, as FastAPI shows it.
pub(crate) struct Rejection {
    status: StatusCode,
    detail: Value,
}

/// The answer to a request.
pub(crate) type Answer = Result<Json<Value>, Rejection>;

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "detail": self.detail }))).into_response()
    }
}

pub(crate) fn refused(status: StatusCode, detail: Value) -> Rejection {
    Rejection { status, detail }
}

/// A fault as FastAPI shows it: the fields that are wrong, else a sentence.
impl From<Fault> for Rejection {
    fn from(fault: Fault) -> Self {
        let status = match fault.code {
            ErrorCode::InvalidJson | ErrorCode::UnknownType | ErrorCode::ValidationError => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            ErrorCode::CapacityReached => StatusCode::SERVICE_UNAVAILABLE,
            ErrorCode::ExecutionError | ErrorCode::FactoryError | ErrorCode::SessionError => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        let detail = if fault.errors.is_empty() { json!(fault.message) } else { json!(fault.errors) };
        refused(status, detail)
    }
}

/// The fields of a body; no body is an empty object.
pub(crate) fn fields(body: &Bytes) -> Result<Map<String, Value>, Rejection> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(refused(StatusCode::UNPROCESSABLE_ENTITY, json!("the body is not a JSON object"))),
        Err(error) => {
            Err(refused(StatusCode::UNPROCESSABLE_ENTITY, json!(format!("the body is not JSON: {error}"))))
        }
    }
}
