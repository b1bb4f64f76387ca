//! The text forms of descriptions: TOML for people, JSON for the registry.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Description;
use super::draft::{Draft, Setting};
use super::keys::{Spelling, keys};
use crate::error::DescriptionError;
use pario_types::format_size;

/// Writes a partition file in TOML, with every key.
impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in self.draft().spelled() {
            writeln!(f, "{} = {}", key.name, in_toml(&value))?;
        }
        Ok(())
    }
}

impl Description {
    /// A partition file in TOML that explains every key.
    pub fn documented(&self) -> String {
        let mut text = String::from("# A partition of Pario. Fixed when it is created:\n\n");
        let mut draft = self.draft();
        for structural in [true, false] {
            if !structural {
                text.push_str("# May change at each start; these are the defaults:\n\n");
            }
            for key in keys().iter().filter(|key| key.structural == structural) {
                let Some(value) = key.spell(&mut draft) else { continue };
                let _ = write!(
                    text,
                    "# {}\n# {}\n{} = {}\n\n",
                    key.doc,
                    key.allowed(),
                    key.name,
                    in_toml(&value)
                );
            }
        }
        text.truncate(text.trim_end().len());
        text + "\n"
    }
}

fn in_toml(value: &Spelling) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    match value {
        Spelling::Text(text) => quoted(text),
        Spelling::Size(size) => quoted(&format_size(*size)),
        Spelling::Number(number) => number.to_string(),
        Spelling::Switch(on) => on.to_string(),
        Spelling::List(all) => {
            let items: String = all.iter().map(|item| format!("    {},\n", quoted(item))).collect();
            format!("[\n{items}]")
        }
    }
}

impl Serialize for Description {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let spelled = self.draft().spelled();
        let mut map = serializer.serialize_map(Some(spelled.len()))?;
        for (key, value) in spelled {
            match value {
                Spelling::Text(text) => map.serialize_entry(key.name, &text)?,
                Spelling::Size(number) | Spelling::Number(number) => {
                    map.serialize_entry(key.name, &number)?
                }
                Spelling::Switch(on) => map.serialize_entry(key.name, &on)?,
                Spelling::List(all) => map.serialize_entry(key.name, &all)?,
            }
        }
        map.end()
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Raw {
    Switch(bool),
    Number(u64),
    Text(String),
    List(Vec<String>),
}

impl<'de> Deserialize<'de> for Description {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Description, D::Error> {
        let mut settings = Vec::new();
        for (key, raw) in BTreeMap::<String, Raw>::deserialize(deserializer)? {
            let values = match raw {
                Raw::Switch(on) => vec![on.to_string()],
                Raw::Number(number) => vec![number.to_string()],
                Raw::Text(text) => vec![text],
                Raw::List(all) => all,
            };
            settings.extend(values.into_iter().map(|value| Setting { line: None, key: key.clone(), value }));
        }
        let done = Draft::from_settings(settings).and_then(|draft| draft.finish(None));
        done.map_err(|fault: DescriptionError| D::Error::custom(fault))
    }
}
