//! Errors of the plugin layer.

use crate::discover::Platform;
use crate::dtype::ElementType;
use crate::plugin::ApiVersion;
use std::fmt;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The code that called this crate passed something invalid.
    Caller,
    /// The machine's set-up: a plugin is missing, unreadable, too old or cannot start.
    Installation,
    /// The plugin refused or failed the call.
    Plugin,
}

/// Status codes of the PJRT interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The operation was cancelled.
    Cancelled,
    /// Unknown error.
    Unknown,
    /// An argument is invalid whatever the state.
    InvalidArgument,
    /// The deadline passed.
    DeadlineExceeded,
    /// Something was not found.
    NotFound,
    /// Something exists already.
    AlreadyExists,
    /// The caller may not do this.
    PermissionDenied,
    /// Memory or another resource ran out.
    ResourceExhausted,
    /// The state does not allow the operation.
    FailedPrecondition,
    /// The operation was aborted.
    Aborted,
    /// A position is out of range.
    OutOfRange,
    /// The plugin does not implement this.
    Unimplemented,
    /// An internal invariant of the plugin broke.
    Internal,
    /// The service is unavailable.
    Unavailable,
    /// Data was lost or is corrupt.
    DataLoss,
    /// The caller is not authenticated.
    Unauthenticated,
    /// A number this crate does not know.
    Other(u32),
}

impl ErrorCode {
    const NAMED: [(Self, &'static str); 16] = [
        (Self::Cancelled, "CANCELLED"),
        (Self::Unknown, "UNKNOWN"),
        (Self::InvalidArgument, "INVALID_ARGUMENT"),
        (Self::DeadlineExceeded, "DEADLINE_EXCEEDED"),
        (Self::NotFound, "NOT_FOUND"),
        (Self::AlreadyExists, "ALREADY_EXISTS"),
        (Self::PermissionDenied, "PERMISSION_DENIED"),
        (Self::ResourceExhausted, "RESOURCE_EXHAUSTED"),
        (Self::FailedPrecondition, "FAILED_PRECONDITION"),
        (Self::Aborted, "ABORTED"),
        (Self::OutOfRange, "OUT_OF_RANGE"),
        (Self::Unimplemented, "UNIMPLEMENTED"),
        (Self::Internal, "INTERNAL"),
        (Self::Unavailable, "UNAVAILABLE"),
        (Self::DataLoss, "DATA_LOSS"),
        (Self::Unauthenticated, "UNAUTHENTICATED"),
    ];

    /// The code for a number of the C interface.
    #[must_use]
    pub fn from_raw(raw: u32) -> Self {
        match raw {
            1..=16 => Self::NAMED[raw as usize - 1].0,
            other => Self::Other(other),
        }
    }

    /// The number in the C interface.
    #[must_use]
    pub fn to_raw(self) -> u32 {
        match self {
            Self::Other(raw) => raw,
            named => Self::NAMED.iter().zip(1..).find(|((code, _), _)| *code == named).map_or(2, |(_, raw)| raw),
        }
    }

    /// The upper-case name used by the C interface, `"OTHER"` for an unknown number.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(code, _)| *code == self).map_or("OTHER", |(_, name)| name)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(raw) => write!(formatter, "code {raw}"),
            named => formatter.write_str(named.name()),
        }
    }
}

/// An error of the plugin layer; the message says what failed and, where it helps, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plugin file does not exist.
    #[error("PJRT plugin {} does not exist", path.display())]
    PluginFileMissing {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The dynamic loader refused the file.
    #[error("PJRT plugin {} cannot be loaded: {message}", path.display())]
    PluginLoad {
        /// The file.
        path: PathBuf,
        /// The loader's message.
        message: String,
    },
    /// The library has no usable `GetPjrtApi`.
    #[error("{} is not a PJRT plugin: {reason}", path.display())]
    NotAPlugin {
        /// The file.
        path: PathBuf,
        /// What is missing.
        reason: &'static str,
    },
    /// The plugin's interface is older than this crate supports, or of another major version.
    #[error("PJRT plugin {} has API {found}; this program needs {needed} or a newer minor version", path.display())]
    ApiVersion {
        /// The file.
        path: PathBuf,
        /// Version of the plugin.
        found: ApiVersion,
        /// Oldest accepted version.
        needed: ApiVersion,
    },
    /// `PJRT_Plugin_Initialize` failed.
    #[error("PJRT plugin {} failed to initialise: {source}", path.display())]
    PluginInitialization {
        /// The file.
        path: PathBuf,
        /// What the plugin said.
        source: Box<Error>,
    },
    /// No plugin for the platform was found.
    #[error("no PJRT plugin for {platform} found; searched {}; {advice}", searched_list(searched))]
    PluginNotFound {
        /// The platform.
        platform: Platform,
        /// Every path that was tried, in order.
        searched: Vec<PathBuf>,
        /// What to install or set.
        advice: &'static str,
    },
    /// The plugin's function table does not hold the function.
    #[error("the PJRT plugin does not provide {function}")]
    Unimplemented {
        /// C name of the function.
        function: &'static str,
    },
    /// A call returned an error, at once or through its event.
    #[error("{function}: {code}: {message}")]
    Plugin {
        /// C name of the function that was called.
        function: &'static str,
        /// Status code.
        code: ErrorCode,
        /// The plugin's text.
        message: String,
    },
    /// The plugin's interface version is older than the element type.
    #[error("the PJRT plugin has API {found} and does not know element type {element_type}")]
    UnsupportedElementType {
        /// The type.
        element_type: ElementType,
        /// Version of the plugin.
        found: ApiVersion,
    },
    /// A plugin answered with something the interface does not allow.
    #[error("{function}: the plugin's answer is invalid: {what}")]
    InvalidAnswer {
        /// C name of the function that was called.
        function: &'static str,
        /// What is wrong.
        what: String,
    },
    /// A topology name that no plugin call is made for.
    #[error("unknown topology {name:?}; accepted: {accepted}")]
    UnknownTopology {
        /// The name.
        name: String,
        /// Accepted families and sizes.
        accepted: &'static str,
    },
    /// The plugin refused a topology name of an accepted form.
    #[error("the plugin refused topology {name:?} ({source}); accepted: {accepted}")]
    TopologyRefused {
        /// The name.
        name: String,
        /// Accepted families and sizes.
        accepted: &'static str,
        /// What the plugin said.
        source: Box<Error>,
    },
    /// The caller's argument is invalid.
    #[error("{function}: {message}")]
    InvalidArgument {
        /// The function of this crate.
        function: &'static str,
        /// What is wrong with which argument.
        message: String,
    },
}

fn searched_list(paths: &[PathBuf]) -> String {
    if paths.is_empty() {
        return "nowhere (no search directory given)".to_owned();
    }
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl Error {
    /// The status code if a plugin call failed.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Plugin { code, .. } => Some(*code),
            Self::Unimplemented { .. } | Self::UnsupportedElementType { .. } => Some(ErrorCode::Unimplemented),
            Self::PluginInitialization { source, .. } | Self::TopologyRefused { source, .. } => source.code(),
            _ => None,
        }
    }

    /// The device or the host ran out of memory (or of another resource).
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        self.code() == Some(ErrorCode::ResourceExhausted)
    }

    /// The plugin does not provide the function or the feature.
    #[must_use]
    pub fn is_unimplemented(&self) -> bool {
        self.code() == Some(ErrorCode::Unimplemented)
    }

    /// The program or an argument was refused as invalid.
    #[must_use]
    pub fn is_invalid_argument(&self) -> bool {
        matches!(self, Self::InvalidArgument { .. }) || self.code() == Some(ErrorCode::InvalidArgument)
    }

    /// Trying again later may succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::Unavailable | ErrorCode::DeadlineExceeded | ErrorCode::Aborted | ErrorCode::Cancelled))
    }

    /// Whose fault it is.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::PluginFileMissing { .. }
            | Self::PluginLoad { .. }
            | Self::NotAPlugin { .. }
            | Self::ApiVersion { .. }
            | Self::PluginInitialization { .. }
            | Self::PluginNotFound { .. } => Fault::Installation,
            Self::UnknownTopology { .. } | Self::TopologyRefused { .. } | Self::InvalidArgument { .. } => Fault::Caller,
            Self::Unimplemented { .. } | Self::UnsupportedElementType { .. } | Self::Plugin { .. } | Self::InvalidAnswer { .. } => {
                Fault::Plugin
            }
        }
    }
}
