//! Finding plugins.

use clutch_pjrt::{Discovery, Error, Fault, Platform, Plugin};
use pretty_assertions::assert_eq;
use std::path::{Path, PathBuf};

const NEW_CPU: &str = "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so";
const OLD_CPU: &str = "fastatomstruct_xla_cpu/libpjrt_cpu.so";
const TPU: &str = "libtpu/libtpu.so";

fn install(site: &Path, file: &str) -> PathBuf {
    let path = site.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "").unwrap();
    path
}

fn search(sites: &[&Path]) -> Discovery {
    Discovery { site_packages: sites.iter().map(|path| path.to_path_buf()).collect(), ..Discovery::default() }
}

#[test]
fn the_platform_chooses_the_package() {
    let site = tempfile::tempdir().unwrap();
    let discovery = search(&[site.path()]);
    let tpu = install(site.path(), TPU);
    let old = install(site.path(), OLD_CPU);
    assert_eq!(Plugin::discover(Some(Platform::Cpu), &discovery).unwrap(), old);
    let new = install(site.path(), NEW_CPU);
    assert_eq!(Plugin::discover(Some(Platform::Cpu), &discovery).unwrap(), new);
    assert_eq!(Plugin::discover(None, &discovery).unwrap(), new);
    assert_eq!(Plugin::discover(Some(Platform::Tpu), &discovery).unwrap(), tpu);
}

#[test]
fn earlier_folders_win_and_the_better_package_wins_over_folders() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let discovery = search(&[first.path(), second.path()]);
    install(first.path(), OLD_CPU);
    let new = install(second.path(), NEW_CPU);
    assert_eq!(Plugin::discover(None, &discovery).unwrap(), new);
    let earlier = install(first.path(), NEW_CPU);
    assert_eq!(Plugin::discover(None, &discovery).unwrap(), earlier);
}

#[test]
fn explicit_choices_win_over_the_variable_and_the_variable_over_the_default() {
    let site = tempfile::tempdir().unwrap();
    install(site.path(), NEW_CPU);
    let tpu = install(site.path(), TPU);
    let old = install(site.path(), OLD_CPU);
    let other = install(site.path(), "other/plugin.so");
    let mut discovery = search(&[site.path()]);
    discovery.environment = Some("tpu".to_owned());
    assert_eq!(Plugin::discover(None, &discovery).unwrap(), tpu);
    assert_eq!(Plugin::discover(Some(Platform::Cpu), &discovery).unwrap(), site.path().join(NEW_CPU));
    discovery.environment = Some(other.display().to_string());
    assert_eq!(Plugin::discover(Some(Platform::Cpu), &discovery).unwrap(), other);
    discovery.explicit = Some("fastatomstruct-xla-cpu".to_owned());
    assert_eq!(Plugin::discover(None, &discovery).unwrap(), old);
    discovery.explicit = Some(tpu.display().to_string());
    assert_eq!(Plugin::discover(None, &discovery).unwrap(), tpu);
}

#[test]
fn packages_of_other_vendors_are_searched_for_a_plugin() {
    let site = tempfile::tempdir().unwrap();
    install(site.path(), "jax_plugins/xla_thing/helper.so");
    let path = install(site.path(), "jax_plugins/xla_thing/xla_thing_plugin.so");
    let mut discovery = search(&[site.path()]);
    discovery.explicit = Some("xla-thing".to_owned());
    assert_eq!(Plugin::discover(None, &discovery).unwrap(), path);
}

#[test]
fn failures_say_what_was_searched_and_what_to_install() {
    let site = tempfile::tempdir().unwrap();
    let mut discovery = search(&[site.path()]);
    let error = Plugin::discover(None, &discovery).unwrap_err();
    match &error {
        Error::PluginNotFound { platform: Platform::Cpu, searched, .. } => {
            assert_eq!(*searched, [site.path().join(NEW_CPU), site.path().join(OLD_CPU)]);
        }
        other => panic!("{other:?}"),
    }
    assert!(error.to_string().contains("pip install --no-deps lammps-jax-pjrt-cpu"), "{error}");
    assert_eq!(error.fault(), Fault::Installation);
    let error = Plugin::discover(Some(Platform::Tpu), &discovery).unwrap_err();
    assert!(error.to_string().contains("pip install libtpu"), "{error}");
    discovery.explicit = Some("no-such-package".to_owned());
    let error = Plugin::discover(None, &discovery).unwrap_err();
    assert!(error.to_string().contains("no_such_package"), "{error}");
    discovery.explicit = Some("missing/plugin.so".to_owned());
    assert!(matches!(Plugin::discover(None, &discovery).unwrap_err(), Error::PluginFileMissing { .. }));
    let error = Plugin::discover(None, &Discovery::default()).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}
