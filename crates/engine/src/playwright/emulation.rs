//! What a context is made with that the engine has no flag for: language, time zone, place, colours. The engine finds it in a
//! file in the instance's folder.

use std::{io, path::Path};

use serde_json::{Map, Value, json};

use crate::launcher::Spec;

/// Below an instance's folder.
const CONFIG: &str = "context.json";

/// What contexts that the engine makes are made with; nothing by default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Emulation {
    pub locale: Option<String>,
    pub timezone: Option<String>,
    /// Latitude and longitude in degrees.
    pub geolocation: Option<(f64, f64)>,
    /// By the engine's names for them.
    pub permissions: Vec<String>,
    /// `light`, `dark` or `no-preference`.
    pub color_scheme: Option<String>,
    pub device_scale_factor: Option<f64>,
    pub bypass_csp: bool,
}

impl Emulation {
    /// What the engine is to find in its file, if there is anything.
    fn config(&self) -> Option<Value> {
        let mut context = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                context.insert(name.to_owned(), value);
            }
        };
        set("locale", self.locale.clone().map(Value::from));
        set("timezoneId", self.timezone.clone().map(Value::from));
        let place = |(latitude, longitude)| json!({ "latitude": latitude, "longitude": longitude });
        set("geolocation", self.geolocation.map(place));
        set("permissions", (!self.permissions.is_empty()).then(|| json!(self.permissions)));
        set("colorScheme", self.color_scheme.clone().map(Value::from));
        set("deviceScaleFactor", self.device_scale_factor.map(Value::from));
        set("bypassCSP", self.bypass_csp.then_some(Value::Bool(true)));
        (!context.is_empty()).then(|| json!({ "browser": { "contextOptions": context } }))
    }

    /// Writes the engine's file into an instance's folder, if there is anything to write.
    pub(super) fn write(&self, instance: &Path) -> io::Result<()> {
        match self.config() {
            Some(config) => std::fs::write(instance.join(CONFIG), config.to_string()),
            None => Ok(()),
        }
    }

    /// Has the engine read what was written.
    pub(super) fn configure(&self, spec: Spec, instance: &Path) -> Spec {
        match self.config() {
            Some(_) => spec.arg("--config").arg(instance.join(CONFIG)),
            None => spec,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is set stands in the engine's file, by its names; without anything there is no file.
    #[test]
    fn what_the_engine_reads() {
        assert_eq!(Emulation::default().config(), None);
        let all = Emulation {
            locale: Some("de-CH".into()),
            timezone: Some("Europe/Zurich".into()),
            geolocation: Some((47.5, -8.5)),
            permissions: vec!["geolocation".into()],
            color_scheme: Some("dark".into()),
            device_scale_factor: Some(2.0),
            bypass_csp: true,
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
        assert_eq!(all.config(), Some(json!({ "browser": { "contextOptions": context } })));
    }
}
