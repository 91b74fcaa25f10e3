//! The entries of the files, and what they mean.

use crate::webshop::catalogue::{Product, option_value};
use crate::webshop::price::Price;
use crate::webshop::python::strip;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;
use skill_core::member::kind_of;

/// A product as `items_shuffle*.json` has it; what is not needed is not kept.
#[derive(Debug, Deserialize)]
pub(super) struct ProductEntry {
    asin: Option<Value>,
    name: Option<Value>,
    full_description: Option<Value>,
    small_description: Option<Value>,
    pricing: Option<Value>,
    category: Option<Value>,
    query: Option<Value>,
    product_category: Option<Value>,
    customization_options: Option<Value>,
}

impl ProductEntry {
    pub(super) fn asin(&self) -> Result<&str, String> {
        match &self.asin {
            Some(Value::String(asin)) => Ok(asin),
            Some(other) => Err(format!("`asin` is {}; expected a string", kind_of(other))),
            None => Err("has no `asin`".to_owned()),
        }
    }

    /// The product with these attributes.
    ///
    /// # Errors
    ///
    /// A field that is missing, of another shape, or a price that cannot be read.
    pub(super) fn product(&self, attributes: Vec<String>) -> Result<Product, String> {
        let asin = self.asin()?;
        let of_product = |message: String| format!("product {asin} {message}");
        let text = |name: &str, value: &Option<Value>| text(name, value.as_ref()).map_err(of_product);
        let pricing = match &self.pricing {
            None => "",
            Some(Value::String(pricing)) => pricing,
            Some(other) => {
                return Err(of_product(format!("has {} for `pricing`; expected a string", kind_of(other))));
            }
        };
        let price =
            Price::parse(pricing).map_err(|error| of_product(format!("`pricing` ({pricing:?}) {error}")))?;
        Ok(Product {
            asin: asin.to_owned(),
            title: text("name", &self.name)?,
            description: text("full_description", &self.full_description)?,
            bullets: bullets(self.small_description.as_ref()).map_err(of_product)?,
            category: text("category", &self.category)?,
            query: strip(&text("query", &self.query)?.to_lowercase()).to_owned(),
            product_category: text("product_category", &self.product_category)?,
            price,
            options: options(self.customization_options.as_ref()).map_err(of_product)?,
            attributes,
        })
    }
}

fn text(name: &str, value: Option<&Value>) -> Result<String, String> {
    match value {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(format!("has {} for `{name}`; expected a string", kind_of(other))),
        None => Err(format!("has no `{name}`")),
    }
}

/// A list of strings, or one string.
fn bullets(value: Option<&Value>) -> Result<Vec<String>, String> {
    match value {
        Some(Value::String(text)) => Ok(vec![text.clone()]),
        Some(list) => strings(list).ok_or_else(|| {
            "has something else than a string or a list of strings for `small_description`".to_owned()
        }),
        None => Err("has no `small_description`".to_owned()),
    }
}

/// Option names and values in lower case; of two names that are equal then, the later values hold.
fn options(value: Option<&Value>) -> Result<IndexMap<String, Vec<String>>, String> {
    let members = match value {
        None => return Ok(IndexMap::new()),
        Some(Value::Object(members)) => members,
        // What is empty in Python counts as no options.
        Some(Value::String(text)) if text.is_empty() => return Ok(IndexMap::new()),
        Some(Value::Array(list)) if list.is_empty() => return Ok(IndexMap::new()),
        Some(other) => {
            return Err(format!("has {} for `customization_options`; expected an object", kind_of(other)));
        }
    };
    let mut options = IndexMap::new();
    for (name, contents) in members {
        let values = match contents {
            Value::Null => continue,
            Value::Array(contents) => contents.iter().map(value_of).collect::<Option<Vec<_>>>(),
            _ => None,
        };
        let values = values
            .ok_or_else(|| format!("has an option `{name}` that is not a list of objects with a `value`"))?;
        options.insert(name.to_lowercase(), values);
    }
    Ok(options)
}

fn value_of(content: &Value) -> Option<String> {
    content.get("value")?.as_str().map(option_value)
}

/// What `items_ins_v2*.json` says of a product.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttributeEntry {
    /// What the product is said to be.
    pub attributes: Option<Vec<String>>,
    /// An instruction that was made by rule; its goals name options and a price too.
    pub instruction: Option<String>,
    /// The attributes that the instruction names.
    pub instruction_attributes: Option<Vec<String>>,
}

impl AttributeEntry {
    pub(in crate::webshop) fn from_json(value: &Value) -> Result<Self, String> {
        if !value.is_object() {
            return Err(format!("is {}; expected an object", kind_of(value)));
        }
        let list = |name: &str| match value.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(other) => strings(other)
                .map(Some)
                .ok_or_else(|| format!("has something else than a list of strings for `{name}`")),
        };
        let instruction = match value.get("instruction") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => {
                return Err(format!("has {} for `instruction`; expected a string", kind_of(other)));
            }
        };
        Ok(Self {
            attributes: list("attributes")?,
            instruction,
            instruction_attributes: list("instruction_attributes")?,
        })
    }
}

/// What a person was asked to find, from `items_human_ins.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct HumanInstruction {
    /// The text.
    pub instruction: String,
    /// The attributes that it names.
    pub attributes: Vec<String>,
    /// The options that it names.
    pub options: GoalOptions,
}

/// The options that a goal asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GoalOptions {
    /// Values alone, as in the instructions of people.
    Values(Vec<String>),
    /// Values with the names of their options, as in instructions made by rule.
    Named(Vec<(String, String)>),
}

impl GoalOptions {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Values(values) => values.len(),
            Self::Named(pairs) => pairs.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads a list of values or an object of named ones.
    ///
    /// # Errors
    ///
    /// Another shape.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let found = match value {
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect::<Option<_>>()
                .map(Self::Named),
            other => strings(other).map(Self::Values),
        };
        found.ok_or_else(|| "options are a list of strings or an object of strings".to_owned())
    }

    /// The shape that [`Self::from_json`] reads.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Values(values) => values.iter().cloned().collect(),
            Self::Named(pairs) => Value::Object(
                pairs.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect(),
            ),
        }
    }
}

impl HumanInstruction {
    pub(in crate::webshop) fn list_from_json(value: &Value) -> Result<Vec<Self>, String> {
        let Some(list) = value.as_array() else {
            return Err(format!("is {}; expected a list of instructions", kind_of(value)));
        };
        let with_number = |(number, value): (usize, &Value)| {
            Self::from_json(value)
                .map_err(|message| format!("has an instruction {} that {message}", number + 1))
        };
        list.iter().enumerate().map(with_number).collect()
    }

    fn from_json(value: &Value) -> Result<Self, String> {
        let instruction = value.get("instruction").and_then(Value::as_str);
        let attributes = value.get("instruction_attributes").and_then(strings);
        let options = value.get("instruction_options").ok_or("has no `instruction_options`")?;
        Ok(Self {
            instruction: instruction.ok_or("has no text for `instruction`")?.to_owned(),
            attributes: attributes.ok_or("has no list of strings for `instruction_attributes`")?,
            options: GoalOptions::from_json(options)
                .map_err(|message| format!("has wrong `instruction_options`: {message}"))?,
        })
    }
}

/// A list of strings.
pub(super) fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| Some(text.as_str()?.to_owned())).collect()
}
