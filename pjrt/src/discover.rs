//! Finding a plugin's file.

use crate::error::{Error, Result};
use crate::plugin::Plugin;
use std::fmt;
use std::path::{Path, PathBuf};

/// Environment variable that names the plugin: a path, a package, or a platform (`cpu`, `tpu`).
pub const PLUGIN_VARIABLE: &str = "CLUTCH_PJRT_PLUGIN";

/// A platform for which plugins are known by package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Platform {
    /// The host's processor.
    Cpu,
    /// Google TPU, present or compiled for ahead of time.
    Tpu,
}

impl Platform {
    /// The platform of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "cpu" => Some(Self::Cpu),
            "tpu" => Some(Self::Tpu),
            _ => None,
        }
    }

    /// Package folder and plugin file, best first.
    fn packages(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Cpu => &[("lammps_jax_pjrt_cpu", "pjrt_c_api_cpu_plugin.so"), ("fastatomstruct_xla_cpu", "libpjrt_cpu.so")],
            Self::Tpu => &[("libtpu", "libtpu.so")],
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Cpu => "install one with `pip install --no-deps lammps-jax-pjrt-cpu`, or set CLUTCH_PJRT_PLUGIN to a plugin's path",
            Self::Tpu => "install it with `pip install libtpu`, or set CLUTCH_PJRT_PLUGIN to a plugin's path",
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Cpu => "cpu",
            Self::Tpu => "tpu",
        })
    }
}

/// Where to look for a plugin.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// Folders that hold installed Python packages, in order of preference.
    pub site_packages: Vec<PathBuf>,
    /// The user's explicit choice: a path, a package, or a platform. Wins over everything else.
    pub explicit: Option<String>,
    /// Value of [`PLUGIN_VARIABLE`], if set.
    pub environment: Option<String>,
}

impl Discovery {
    /// Looks in `site_packages`, after the explicit choice and after [`PLUGIN_VARIABLE`] as it is set now.
    #[must_use]
    pub fn new(site_packages: Vec<PathBuf>, explicit: Option<String>) -> Self {
        let environment = std::env::var(PLUGIN_VARIABLE).ok().filter(|value| !value.is_empty());
        Self { site_packages, explicit, environment }
    }
}

/// What a user's string means.
enum Choice<'a> {
    Platform(Platform),
    Path(&'a Path),
    Package(&'a str),
}

impl<'a> Choice<'a> {
    fn parse(text: &'a str) -> Self {
        if let Some(platform) = Platform::parse(text) {
            return Self::Platform(platform);
        }
        if text.contains('/') || text.ends_with(".so") {
            return Self::Path(Path::new(text));
        }
        Self::Package(text)
    }
}

impl Plugin {
    /// The file of the plugin to use.
    ///
    /// In order: the explicit choice; the variable; the known packages of the platform (`Cpu` when none is given). A
    /// choice that only names a platform counts where `platform` is not given.
    ///
    /// # Errors
    /// [`Error::PluginFileMissing`] when a path is named that does not exist, else [`Error::PluginNotFound`] with
    /// every path that was tried and what to install.
    pub fn discover(platform: Option<Platform>, discovery: &Discovery) -> Result<PathBuf> {
        let mut platform = platform;
        for text in [&discovery.explicit, &discovery.environment].into_iter().flatten() {
            match Choice::parse(text) {
                Choice::Path(path) if path.is_file() => return Ok(path.to_owned()),
                Choice::Path(path) => return Err(Error::PluginFileMissing { path: path.to_owned() }),
                Choice::Package(package) => {
                    return find_package(package, platform, &discovery.site_packages);
                }
                Choice::Platform(named) => {
                    platform.get_or_insert(named);
                }
            }
        }
        let platform = platform.unwrap_or(Platform::Cpu);
        let mut searched = Vec::new();
        for (package, file) in platform.packages() {
            for folder in &discovery.site_packages {
                let path = folder.join(package).join(file);
                if path.is_file() {
                    return Ok(path);
                }
                searched.push(path);
            }
        }
        Err(Error::PluginNotFound { platform, searched, advice: platform.advice() })
    }
}

/// A package by its distribution or import name: known ones by their file, others by a shared library whose name
/// speaks of a plugin, directly in the package or below `jax_plugins`.
fn find_package(package: &str, platform: Option<Platform>, site_packages: &[PathBuf]) -> Result<PathBuf> {
    let import_name = package.replace('-', "_");
    let known = [Platform::Cpu, Platform::Tpu]
        .into_iter()
        .find_map(|platform| platform.packages().iter().find(|(name, _)| *name == import_name).map(|(_, file)| (platform, *file)));
    let mut searched = Vec::new();
    for site in site_packages {
        for folder in [site.join(&import_name), site.join("jax_plugins").join(&import_name)] {
            if let Some((_, file)) = known {
                let path = folder.join(file);
                if path.is_file() {
                    return Ok(path);
                }
                searched.push(path);
                continue;
            }
            if let Some(path) = plugin_in(&folder) {
                return Ok(path);
            }
            searched.push(folder);
        }
    }
    let advice = known.map_or("install that package, or name a plugin's path", |(platform, _)| platform.advice());
    let platform = known.map(|(platform, _)| platform).or(platform).unwrap_or(Platform::Cpu);
    Err(Error::PluginNotFound { platform, searched, advice })
}

/// The first file by name in `folder` that looks like a plugin.
fn plugin_in(folder: &Path) -> Option<PathBuf> {
    let mut candidates: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.ends_with(".so") && (name.contains("pjrt") || name.contains("plugin"))
        })
        .collect();
    candidates.sort();
    candidates.into_iter().next()
}
