//! The engine's typed errors. `py/` maps each variant to a Python class in one exhaustive match.

use std::path::{Path, PathBuf};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A caller's argument is wrong. `hint` says how to fix it; empty where the message already does.
    #[error("{message}")]
    InvalidArgument { message: String, hint: String },
    #[error("vector has dimension {got}, collection {collection:?} has {want}")]
    DimensionMismatch { collection: String, got: usize, want: usize },
    #[error("{what} is {got}, the limit {limit} is {max}")]
    LimitExceeded { limit: &'static str, what: String, got: u64, max: u64 },
    #[error("{what} not found")]
    NotFound { what: String },
    #[error("{what} already exists")]
    AlreadyExists { what: String },
    /// An expected version or state was not the one in force.
    #[error("{message}")]
    VersionConflict { message: String },
    /// Bytes on disk are not what was written.
    #[error("{file}: damaged at offset {offset}: {detail}", file = .file.display())]
    Corruption { file: PathBuf, offset: u64, detail: String },
    #[error("{path}: held by {holder}", path = .path.display())]
    Locked { path: PathBuf, holder: String },
    /// A write or a sync failed earlier on this handle; only reopening helps.
    #[error("the store refuses writes since an earlier failure: {cause}")]
    Poisoned { cause: String },
    #[error("{file}: format {found} is not one this build reads ({supported})", file = .file.display())]
    FormatVersion { file: PathBuf, found: String, supported: String },
    #[error("{path}: no space left: {detail}", path = .path.display())]
    OutOfSpace { path: PathBuf, detail: String },
    #[error("{path}: permission denied: {detail}", path = .path.display())]
    Permission { path: PathBuf, detail: String },
    #[error("{path}: {op} failed: {detail}", path = .path.display())]
    Io { op: &'static str, path: PathBuf, kind: std::io::ErrorKind, detail: String },
    #[error("the database is closed")]
    Closed,
    #[error("the database was opened read-only")]
    ReadOnly,
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    pub fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Error::InvalidArgument { message: message.into(), hint: hint.into() }
    }

    pub fn corrupt(file: impl AsRef<Path>, offset: u64, detail: impl Into<String>) -> Self {
        Error::Corruption { file: file.as_ref().into(), offset, detail: detail.into() }
    }

    /// An operating-system error, sorted into the classes that callers tell apart.
    pub fn io(op: &'static str, path: impl AsRef<Path>, e: &std::io::Error) -> Self {
        use std::io::ErrorKind as K;
        let path: PathBuf = path.as_ref().into();
        let detail = e.to_string();
        match e.kind() {
            K::StorageFull | K::QuotaExceeded => Error::OutOfSpace { path, detail },
            K::PermissionDenied | K::ReadOnlyFilesystem => Error::Permission { path, detail },
            kind => Error::Io { op, path, kind, detail },
        }
    }
}
