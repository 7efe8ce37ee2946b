//! Engine errors as Python exceptions: one exhaustive match from variant to class name and context.

use crate::error::Error;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The Python exception for an engine error. The classes live in `kektordb.errors`.
pub(super) fn to_py(py: Python<'_>, e: &Error) -> PyErr {
    build(py, e).unwrap_or_else(|failed| failed)
}

fn build(py: Python<'_>, e: &Error) -> PyResult<PyErr> {
    let context = PyDict::new(py);
    let mut hint = String::new();
    let put = |k: &str, v: String| context.set_item(k, v);
    let class = match e {
        Error::InvalidArgument { hint: h, .. } => {
            hint.clone_from(h);
            "InvalidArgumentError"
        }
        Error::DimensionMismatch { collection, got, want } => {
            put("collection", collection.clone())?;
            put("got", got.to_string())?;
            put("want", want.to_string())?;
            "DimensionMismatchError"
        }
        Error::LimitExceeded { limit, max, .. } => {
            put("limit", (*limit).to_string())?;
            put("max", max.to_string())?;
            "LimitExceededError"
        }
        Error::NotFound { .. } => "NotFoundError",
        Error::AlreadyExists { .. } => "AlreadyExistsError",
        Error::VersionConflict { .. } => {
            hint = "read it again and repeat the change".into();
            "VersionConflictError"
        }
        Error::Corruption { file, offset, .. } => {
            put("file", file.display().to_string())?;
            put("offset", offset.to_string())?;
            hint = "nothing was changed; open a backup, or salvage what verifies with kektordb.open(..., recovery=\"salvage\")"
                .into();
            "CorruptionError"
        }
        Error::Locked { path, holder } => {
            put("path", path.display().to_string())?;
            put("holder", holder.clone())?;
            hint = "close it there, or open with read_only=True".into();
            "LockedError"
        }
        Error::Poisoned { .. } => {
            hint = "reads still work; close and open the database again".into();
            "PoisonedError"
        }
        Error::FormatVersion { file, .. } => {
            put("file", file.display().to_string())?;
            hint = "open it with the version that wrote it, or a newer one".into();
            "FormatVersionError"
        }
        Error::OutOfSpace { path, .. } => {
            put("path", path.display().to_string())?;
            hint = "nothing acknowledged is lost; free space and open the database again".into();
            "OutOfSpaceError"
        }
        Error::Permission { path, .. } => {
            put("path", path.display().to_string())?;
            "StorageError"
        }
        Error::Io { path, op, .. } => {
            put("path", path.display().to_string())?;
            put("operation", (*op).to_string())?;
            "StorageError"
        }
        Error::Closed => {
            hint = "open it again with kektordb.open(path)".into();
            "ClosedError"
        }
        Error::ReadOnly => "PermissionDeniedError",
        Error::Internal(_) => "InternalError",
    };
    context.set_item("hint", hint)?;
    let class = py.import("kektordb.errors")?.getattr(class)?;
    let value = class.call((e.to_string(),), Some(&context))?;
    Ok(PyErr::from_value(value))
}

/// Runs `f` without the GIL and maps its error.
pub(super) fn detached<T: Send>(
    py: Python<'_>,
    f: impl FnOnce() -> crate::error::Result<T> + Send,
) -> PyResult<T> {
    py.detach(f).map_err(|e| to_py(py, &e))
}
