//! Context options for which the engine has no flag: language, time zone, location, colours. The engine reads them from a
//! file in the instance's folder.

use std::{io, path::Path};

use greenroom_core::settings::{Geolocation, Pool};
use serde_json::{Map, Value, json};

use crate::launcher::ProcessSpec;

/// Below an instance's folder.
const CONFIG: &str = "context.json";

/// The content of the engine's file, if there is any.
fn config(pool: &Pool) -> Option<Value> {
    let mut context = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            context.insert(name.to_owned(), value);
        }
    };
    set("locale", pool.locale.clone().map(Value::from));
    set("timezoneId", pool.timezone.clone().map(Value::from));
    let position =
        |position: Geolocation| json!({ "latitude": position.latitude(), "longitude": position.longitude() });
    set("geolocation", pool.geolocation.map(position));
    let permissions: Vec<_> = pool.permissions.iter().map(|permission| permission.as_str()).collect();
    set("permissions", (!permissions.is_empty()).then(|| json!(permissions)));
    set("colorScheme", pool.color_scheme.map(|scheme| scheme.as_str().into()));
    set("deviceScaleFactor", pool.device_scale_factor.map(|scale| scale.factor().into()));
    set("bypassCSP", pool.bypass_csp.then_some(Value::Bool(true)));
    (!context.is_empty()).then(|| json!({ "browser": { "contextOptions": context } }))
}

/// Writes the engine's file into an instance's folder, if there is anything to write.
pub(super) fn write(pool: &Pool, instance: &Path) -> io::Result<()> {
    match config(pool) {
        Some(config) => std::fs::write(instance.join(CONFIG), config.to_string()),
        None => Ok(()),
    }
}

/// Makes the engine read the file.
pub(super) fn configure(spec: ProcessSpec, pool: &Pool, instance: &Path) -> ProcessSpec {
    match config(pool) {
        Some(_) => spec.arg("--config").arg(instance.join(CONFIG)),
        None => spec,
    }
}

#[cfg(test)]
mod tests {
    use greenroom_core::settings::{ColorScheme, Permission, Scale};

    use super::*;

    /// Options that are set are in the engine's file, under its names; without any there is no file.
    #[test]
    fn set_options_are_in_the_engines_file() {
        assert_eq!(config(&Pool::declared_defaults()), None);
        let all = Pool {
            locale: Some("de-CH".into()),
            timezone: Some("Europe/Zurich".into()),
            geolocation: Geolocation::new(47.5, -8.5),
            permissions: vec![Permission::Geolocation],
            color_scheme: Some(ColorScheme::Dark),
            device_scale_factor: Scale::new(2.0),
            bypass_csp: true,
            ..Pool::declared_defaults()
        };
        let context = json!({
            "locale": "de-CH",
            "timezoneId": "Europe/Zurich",
            "geolocation": { "latitude": 47.5, "longitude": -8.5 },
            "permissions": ["geolocation"],
            "colorScheme": "dark",
            "deviceScaleFactor": 2.0,
            "bypassCSP": true,
        });
        assert_eq!(config(&all), Some(json!({ "browser": { "contextOptions": context } })));
    }
}
