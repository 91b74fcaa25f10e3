//! What the server says of itself.

use crate::client::{Client, Place};
use serde_json::{Value, json};
use skill_mcp::McpOptions;

/// Every property of a schema, with where it is.
fn properties<'a>(schema: &'a Value, place: &str, found: &mut Vec<(String, &'a Value)>) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                let place = format!("{place}/{name}");
                if name == "properties" {
                    let own = value.as_object().unwrap().iter();
                    found.extend(own.map(|(property, value)| (format!("{place}/{property}"), value)));
                }
                properties(value, &place, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| properties(value, place, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test]
async fn the_server_says_what_it_is_and_every_tool_what_it_takes_and_gives() {
    let mut client = Place::new().client().await;
    assert_eq!(client.hello["serverInfo"]["name"], "skillrl");
    assert_eq!(client.hello["capabilities"], json!({"tools": {}}));
    let tools = client.ask("tools/list", json!({})).await["result"]["tools"].take();
    let mut said = format!("{}\n", client.hello["instructions"].as_str().unwrap());
    for tool in tools.as_array().unwrap() {
        let (name, description) = (tool["name"].as_str().unwrap(), tool["description"].as_str().unwrap());
        said.push_str(&format!("\n## {name}\n{}\n{description}\n", tool["annotations"]));
        for schema in ["inputSchema", "outputSchema"] {
            let schema = &tool[schema];
            assert_eq!(schema["type"], "object", "{name}");
            let mut found = Vec::new();
            properties(schema, name, &mut found);
            for (place, property) in found {
                let is_described = property["description"].is_string();
                assert!(is_described, "{place} does not say what it is: {property}");
            }
        }
    }
    insta::assert_snapshot!(said);
    client.leave().await;
}

#[tokio::test]
async fn a_server_that_only_reads_offers_nothing_else() {
    let place = Place::new();
    let mut client = Client::begin(McpOptions { is_read_only: true, ..place.options() }).await;
    let tools = client.ask("tools/list", json!({})).await["result"]["tools"].take();
    let is_read_only = |tool: &Value| tool["annotations"]["readOnlyHint"] == true;
    assert_eq!(tools.as_array().unwrap().len(), 8);
    assert!(tools.as_array().unwrap().iter().all(is_read_only), "{tools}");
    for tool in ["start_run", "measure", "stop_run"] {
        let answer = client.ask("tools/call", json!({"name": tool, "arguments": {"run": "x"}})).await;
        assert_eq!(answer["error"]["message"], format!("unknown tool `{tool}`"));
    }
    client.leave().await;
}
