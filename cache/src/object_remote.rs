//! A remote in an object store: S3, Google Cloud Storage, HTTP, or a mounted folder.
//!
//! Requests run on a runtime of their own thread, so that callers need none and may have one. A remote that fails
//! several times in a row is not asked again by this process: a job must not wait for a dead server at every compile.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt, ObjectStoreScheme, RetryConfig};
use tokio::runtime::Runtime;
use url::Url;

use crate::directory::Trust;
use crate::entry::MAX_ENTRY_BYTES;
use crate::remote::{Remote, RemoteError};

const ACCEPTED: &str = "s3://bucket/prefix, gs://bucket/prefix, https://host/prefix or file:///folder";
const CONNECT_LIMIT: &str = "5 seconds";
const REQUEST_LIMIT: &str = "60 seconds";
/// One operation with its retries takes no longer than this.
const OPERATION_LIMIT: Duration = Duration::from_secs(90);
const RETRY_LIMIT: Duration = Duration::from_secs(10);
const RETRIES: usize = 2;
/// Failures in a row after which the remote is not asked again.
const FAILURES: u32 = 3;

/// A [`Remote`] in an object store.
#[derive(Debug)]
pub struct ObjectRemote {
    name: String,
    store: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    /// Taken only when dropped.
    runtime: Option<Runtime>,
    /// A forked child has the runtime's memory without its threads.
    process: u32,
    failures: AtomicU32,
}

impl ObjectRemote {
    /// Opens the remote at a URL: `s3://bucket/prefix`, `gs://bucket/prefix`, `https://host/prefix` or
    /// `file:///folder`. Nothing is fetched.
    ///
    /// `options` configure the client by the `object_store` crate's names (`aws_region`, `google_service_account`,
    /// `timeout`, `allow_http`...), in any case; unknown ones are ignored, so the process's environment can be passed.
    ///
    /// # Errors
    /// [`RemoteError`] for a URL that is not of these forms, options that do not fit together, or a folder that others
    /// can write.
    pub fn open(url: &str, options: impl IntoIterator<Item = (String, String)>) -> Result<Self, RemoteError> {
        let failed = |reason: String| RemoteError { remote: shown(url), reason };
        let parsed = Url::parse(url).map_err(|error| failed(format!("{error}; expected {ACCEPTED}")))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(failed("credentials belong in the options, not in the URL".to_owned()));
        }
        let (scheme, prefix) =
            ObjectStoreScheme::parse(&parsed).map_err(|_| failed(format!("unknown kind of URL; expected {ACCEPTED}")))?;
        let defaults = [("connect_timeout", CONNECT_LIMIT), ("timeout", REQUEST_LIMIT)];
        let options: Vec<(String, String)> = defaults
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter()
            .chain(options.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)))
            .collect();
        let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_LIMIT, ..RetryConfig::default() };
        macro_rules! build {
            ($builder:expr, $url:expr) => {{
                let mut builder = $builder.with_url($url).with_retry(retry);
                for (name, value) in &options {
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                Arc::new(builder.build().map_err(|error| failed(error.to_string()))?) as Arc<dyn ObjectStore>
            }};
        }
        let store: Arc<dyn ObjectStore> = match scheme {
            ObjectStoreScheme::AmazonS3 => build!(AmazonS3Builder::new(), url),
            ObjectStoreScheme::GoogleCloudStorage => build!(GoogleCloudStorageBuilder::new(), url),
            ObjectStoreScheme::Http => build!(HttpBuilder::new(), &parsed[..url::Position::BeforePath]),
            ObjectStoreScheme::Local => {
                let folder = parsed.to_file_path().map_err(|()| failed(format!("not a folder; expected {ACCEPTED}")))?;
                Trust::UserOrRoot.check_directory(&folder).map_err(|error| failed(error.to_string()))?;
                Arc::new(LocalFileSystem::new())
            }
            _ => return Err(failed(format!("this kind of store is not supported; expected {ACCEPTED}"))),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("clutch-remote")
            .enable_all()
            .build()
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self { name: shown(url), store, prefix, runtime: Some(runtime), process: std::process::id(), failures: AtomicU32::new(0) })
    }

    fn failed(&self, reason: impl Into<String>) -> RemoteError {
        RemoteError { remote: self.name.clone(), reason: reason.into() }
    }

    /// Runs an operation on the runtime's thread and waits for it.
    fn run<T: Send + 'static>(
        &self,
        operation: impl Future<Output = Result<T, object_store::Error>> + Send + 'static,
    ) -> Result<T, RemoteError> {
        if self.failures.load(Ordering::Relaxed) >= FAILURES {
            return Err(self.failed(format!("not asked again after {FAILURES} failures in a row")));
        }
        let runtime = self.runtime.as_ref().filter(|_| self.process == std::process::id());
        let runtime = runtime.ok_or_else(|| self.failed("not available in a forked process"))?;
        let (sender, receiver) = sync_channel(1);
        let task = runtime.spawn(async move {
            // The receiver is gone once the time is up.
            let _ = sender.send(operation.await);
        });
        let outcome = match receiver.recv_timeout(OPERATION_LIMIT) {
            Ok(result) => result.map_err(|error| self.failed(error.to_string())),
            Err(RecvTimeoutError::Timeout) => Err(self.failed(format!("no answer within {} seconds", OPERATION_LIMIT.as_secs()))),
            Err(RecvTimeoutError::Disconnected) => Err(self.failed("the operation was abandoned")),
        };
        match &outcome {
            Ok(_) => self.failures.store(0, Ordering::Relaxed),
            Err(_) => {
                task.abort();
                self.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
        outcome
    }
}

impl Remote for ObjectRemote {
    fn fetch(&self, name: &str) -> Result<Option<Vec<u8>>, RemoteError> {
        let (store, path) = (self.store.clone(), self.prefix.clone().join(name));
        let fetched = self.run(async move {
            let found = match store.get(&path).await {
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                other => other?,
            };
            let size = found.meta.size;
            if size > MAX_ENTRY_BYTES { Ok(Some(Err(size))) } else { Ok(Some(Ok(found.bytes().await?))) }
        })?;
        match fetched {
            None => Ok(None),
            Some(Ok(bytes)) => Ok(Some(bytes.into())),
            Some(Err(size)) => Err(self.failed(format!("{name} has {size} bytes, more than any entry"))),
        }
    }

    fn push(&self, name: &str, bytes: &[u8]) -> Result<(), RemoteError> {
        let (store, path, payload) = (self.store.clone(), self.prefix.clone().join(name), bytes.to_vec());
        self.run(async move { store.put(&path, payload.into()).await.map(|_| ()) })
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}

impl Drop for ObjectRemote {
    fn drop(&mut self) {
        // Waiting for the thread is not allowed inside another runtime, and pointless in a forked child.
        if let Some(runtime) = self.runtime.take() {
            if self.process == std::process::id() {
                runtime.shutdown_background();
            } else {
                std::mem::forget(runtime);
            }
        }
    }
}

/// The URL without user name, password and query.
fn shown(url: &str) -> String {
    match Url::parse(url) {
        Ok(mut parsed) => {
            // A URL that cannot have a user has none to hide.
            let _ = parsed.set_username("");
            let _ = parsed.set_password(None);
            parsed.set_query(None);
            parsed.to_string()
        }
        Err(_) => "<malformed url>".to_owned(),
    }
}
