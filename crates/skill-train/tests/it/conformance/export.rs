//! Files that the real trainers take, which the checkers have to accept.

use crate::recorded::{self, Counted};
use skill_train::export::{Kind, llama_factory, trl};

#[test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
fn conformance_of_export_checks() {
    let folder = recorded::path("exports");
    let mut counted = Counted::new("exports");
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let what = path.display();
            match path.file_name().unwrap().to_str().unwrap() {
                llama_factory::INFO_FILE => {
                    let info = std::fs::read_to_string(&path).unwrap();
                    let beside = |name: &str| std::fs::read_to_string(path.with_file_name(name)).ok();
                    assert!(!llama_factory::check(&info, beside).unwrap().is_empty(), "{what}");
                }
                name if name.ends_with(".jsonl") => {
                    let checked = trl::check(&std::fs::read_to_string(&path).unwrap()).unwrap();
                    assert_eq!(checked.kind == Kind::Prompts, !checked.columns.is_empty(), "{what}");
                }
                #[cfg(feature = "parquet")]
                name if name.ends_with(".parquet") => {
                    let checked = skill_train::export::verl::check(&std::fs::read(&path).unwrap()).unwrap();
                    assert!(checked.n_rows > 0, "{what}");
                }
                // Rows of LLaMA-Factory are read with their description; Parquet needs its feature.
                _ => continue,
            }
            counted.add();
        }
    }
}
