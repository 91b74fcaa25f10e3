//! Import circles between the modules of each crate.
//!
//! The children of a module are its files and folders. One child imports from another if its production code names
//! anything in it, by `crate::`, by `super::`, or by a name that a module around both brings in by `use`. At the root of a
//! crate no circle is allowed. Further down the files of one folder may know one another; a circle that runs through a
//! folder is not one of a folder's files, and not allowed. A module and what it contains are one thing here, and may
//! always know one another.

mod source;

use anyhow::{Context as _, ensure};
use source::{Module, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// How many names are followed from one `use` to the next.
const MAX_IMPORTS: usize = 16;

/// Fails if any crate has a circle, and names each with what makes it.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let mut found = Vec::new();
    let mut crates: Vec<PathBuf> = children(&root.join("crates"))?;
    crates.push(root.join("xtask"));
    for path in crates.iter().filter(|path| path.join("src").is_dir()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let circles = Crate::read(&path.join("src"))?.circles();
        if !circles.is_empty() {
            found.push(format!("in {name}:"));
            found.extend(circles.iter().map(ToString::to_string));
        }
    }
    found.extend(siblings(&Crate::read(&root.join("crates/skill-cli/src"))?));
    let found = found.join("\n").replace(&format!("{}/", root.display()), "");
    ensure!(found.is_empty(), "imports that are not allowed\n\n{found}");
    Ok(())
}

/// What commands import from other commands: what several need is a module beside `command`.
fn siblings(cli: &Crate) -> Vec<String> {
    if !cli.is_module(&vec!["command".to_owned()]) {
        return vec!["the commands are not in `command` any more".to_owned()];
    }
    let graph = cli.graphs().remove(&vec!["command".to_owned()]).unwrap_or_default();
    let arrows = graph.iter().flat_map(|(from, to)| to.iter().map(move |(to, (file, _))| (from, to, file)));
    arrows.map(|(from, to, file)| format!("command {from} imports command {to}: {file}")).collect()
}

/// The modules of a crate.
#[derive(Default)]
struct Crate {
    modules: BTreeSet<Module>,
    /// Modules that have a folder.
    folders: BTreeSet<Module>,
    /// What is in each file, by its name.
    sources: Vec<(String, Source)>,
    /// What `use` brings into modules.
    imports: BTreeMap<(Module, String), Vec<String>>,
    /// Where macros are that the root exports.
    macros: BTreeMap<String, Module>,
}

/// Children of one module that import one another.
#[derive(Debug, PartialEq, Eq)]
struct Circle {
    inside: Module,
    members: Vec<String>,
    /// From which child to which, and the first file and path that says so.
    arrows: Vec<(String, String, String, String)>,
}

impl std::fmt::Display for Circle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inside: String = self.inside.iter().map(|name| format!("::{name}")).collect();
        writeln!(f, "in crate{inside}: {}", self.members.join(", "))?;
        for (from, to, file, path) in &self.arrows {
            writeln!(f, "    {from} -> {to}: {file} names {path}")?;
        }
        Ok(())
    }
}

impl Crate {
    fn read(src: &Path) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        list(src, &[], &mut files)?;
        Self::of(files)
    }

    /// From each module with the name and the text of its file.
    fn of(files: Vec<(Module, String, String)>) -> anyhow::Result<Self> {
        let mut read = Vec::new();
        for (module, file, text) in files {
            let source = Source::read(&module, &text).with_context(|| format!("cannot read {file}"))?;
            read.push((module, file, source));
        }
        let of_tests: BTreeSet<Module> =
            read.iter().flat_map(|(_, _, source)| &source.test_modules).cloned().collect();
        let is_of_tests = |module: &Module| of_tests.iter().any(|tests| module.starts_with(tests));
        let mut all = Self::default();
        for (module, file, source) in read.into_iter().filter(|(module, _, _)| !is_of_tests(module)) {
            all.folders.extend(module.split_last().map(|(_, above)| above.to_vec()));
            all.macros.extend(source.macros.iter().map(|name| (name.clone(), module.clone())));
            all.imports.extend(source.imports.clone());
            all.modules.insert(module);
            all.sources.push((file, source));
        }
        Ok(all)
    }

    /// What the children of each module import from one another.
    fn graphs(&self) -> BTreeMap<Module, Graph> {
        let mut graphs: BTreeMap<Module, Graph> = BTreeMap::new();
        for (file, source) in &self.sources {
            for (module, path) in &source.paths {
                let Some((inside, from, to)) = self.arrow(module, path, 0) else { continue };
                let arrows = graphs.entry(inside).or_default().entry(from).or_default();
                arrows.entry(to).or_insert_with(|| (file.clone(), path.join("::")));
            }
        }
        graphs
    }

    fn circles(&self) -> Vec<Circle> {
        let graphs = self.graphs();
        let all = graphs.iter().flat_map(|(inside, graph)| circles_of(inside, graph));
        all.filter(|circle| {
            circle.inside.is_empty()
                || circle.members.iter().any(|name| {
                    let member: Module = circle.inside.iter().chain([name]).cloned().collect();
                    self.folders.contains(&member)
                })
        })
        .collect()
    }

    /// The module in which the ways to `from` and to what the path names part, and the two children there.
    ///
    /// `None` where the path leads out of the crate, or to a module that contains the other.
    fn arrow(&self, from: &[String], path: &[String], n_imports: usize) -> Option<(Module, String, String)> {
        let (first, mut rest) = path.split_first()?;
        let mut at: Module = match first.as_str() {
            "crate" => Vec::new(),
            "self" => from.to_vec(),
            "super" => {
                let n_up = path.iter().take_while(|part| *part == "super").count();
                rest = path.get(n_up..)?;
                from.get(..from.len().checked_sub(n_up)?)?.to_vec()
            }
            _ => {
                rest = path;
                from.to_vec()
            }
        };
        // Inside a module that contains `from`, a name is that of a child or was brought in there.
        while from.starts_with(&at) {
            let (name, further) = rest.split_first()?;
            rest = further;
            let child: Module = at.iter().chain([name]).cloned().collect();
            if self.is_module(&child) {
                at = child;
            } else if let Some(path) =
                self.imports.get(&(at.clone(), name.clone())).filter(|_| n_imports < MAX_IMPORTS)
            {
                let path: Vec<String> = path.iter().chain(rest).cloned().collect();
                // The path is read in its module, and the arrow is from where it is used.
                let absolute = self.absolute(&at, &path)?;
                return self.arrow(from, &absolute, n_imports + 1);
            } else if let Some(module) = self.macros.get(name).filter(|_| at.is_empty()) {
                at.clone_from(module);
            } else {
                return None;
            }
        }
        let n_common = from.iter().zip(&at).take_while(|(a, b)| a == b).count();
        Some((from.get(..n_common)?.to_vec(), from.get(n_common)?.clone(), at.get(n_common)?.clone()))
    }

    /// The same path from the root of the crate on; `None` if it leads out of the crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let n_up = path.iter().take_while(|part| *part == "super").count();
        let (above, rest) = match path.first()?.as_str() {
            "crate" => return Some(path.to_vec()),
            "self" => (module, path.get(1..)?),
            "super" => (module.get(..module.len().checked_sub(n_up)?)?, path.get(n_up..)?),
            first => {
                let child: Module =
                    module.iter().map(String::as_str).chain([first]).map(str::to_owned).collect();
                let is_inside =
                    self.is_module(&child) || self.imports.contains_key(&(module.to_vec(), first.to_owned()));
                (is_inside.then_some(module)?, path)
            }
        };
        Some(std::iter::once("crate".to_owned()).chain(above.iter().chain(rest).cloned()).collect())
    }

    fn is_module(&self, module: &Module) -> bool {
        self.modules.contains(module) || self.folders.contains(module)
    }
}

/// From which child to which, with the first file and path that says so.
type Graph = BTreeMap<String, BTreeMap<String, (String, String)>>;

/// The strongly connected children: each reaches the others.
fn circles_of(inside: &Module, graph: &Graph) -> Vec<Circle> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|from| (from, reached_from(graph, from))).collect();
    let reaches = |from: &String, to: &String| reached.get(from).is_some_and(|reached| reached.contains(to));
    let mut circles: Vec<Circle> = Vec::new();
    for name in graph.keys().filter(|name| reaches(name, name)) {
        if circles.iter().any(|circle| circle.members.contains(name)) {
            continue;
        }
        let members: Vec<String> =
            graph.keys().filter(|other| reaches(name, other) && reaches(other, name)).cloned().collect();
        let mut arrows = Vec::new();
        for (from, to) in graph.iter().filter(|(from, _)| members.contains(from)) {
            for (to, (file, path)) in to.iter().filter(|(to, _)| members.contains(to)) {
                arrows.push((from.clone(), to.clone(), file.clone(), path.clone()));
            }
        }
        circles.push(Circle { inside: inside.clone(), members, arrows });
    }
    circles
}

fn reached_from<'a>(graph: &'a Graph, from: &String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = graph.get(from).into_iter().flat_map(BTreeMap::keys).collect();
    while let Some(name) = open.pop() {
        if reached.insert(name) {
            open.extend(graph.get(name).into_iter().flat_map(BTreeMap::keys));
        }
    }
    reached
}

/// The module, the name and the text of each file.
fn list(folder: &Path, above: &[String], files: &mut Vec<(Module, String, String)>) -> anyhow::Result<()> {
    for path in children(folder)? {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let module: Module = above.iter().cloned().chain([stem.clone()]).collect();
        if path.is_dir() {
            // Programs in `bin/` are crates of their own.
            if !(above.is_empty() && stem == "bin") {
                list(&path, &module, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") && !stem.ends_with("_tests") {
            let is_of_folder = stem == "mod" || above.is_empty() && ["lib", "main"].contains(&stem.as_str());
            let module = if is_of_folder { above.to_vec() } else { module };
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            files.push((module, path.display().to_string(), text));
        }
    }
    Ok(())
}

/// What is in a directory, by name.
fn children(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<PathBuf>>>()?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of files with these names and texts, as lines.
    #[track_caller]
    fn check(files: &[(&str, &str)], expect: &[&str]) {
        let files = files.iter().map(|(path, text)| {
            let module = path.split('/').filter(|name| *name != "lib").map(str::to_owned).collect();
            (module, (*path).to_owned(), (*text).to_owned())
        });
        let circles: Vec<String> =
            Crate::of(files.collect()).unwrap().circles().iter().map(ToString::to_string).collect();
        let lines: Vec<&str> = circles.iter().flat_map(|circle| circle.lines()).map(str::trim).collect();
        assert_eq!(lines, expect);
    }

    #[test]
    fn modules_of_the_root_must_not_import_one_another() {
        check(&[("a", "use crate::b::B;"), ("b", "use crate::c::C;"), ("c", "")], &[]);
        check(
            &[
                ("a", "use crate::b::{self, B};"),
                ("b/x", "fn f() { crate::c::f() }"),
                ("c", "use super::a;"),
                ("d", "use crate::a::A;"),
            ],
            &[
                "in crate: a, b, c",
                "a -> b: a names crate::b",
                "b -> c: b/x names crate::c::f",
                "c -> a: c names super::a",
            ],
        );
    }

    #[test]
    fn commands_must_not_import_one_another() {
        let siblings = |files: &[(&str, &str)]| {
            let files = files.iter().map(|(path, text)| {
                (path.split('/').map(str::to_owned).collect(), (*path).to_owned(), (*text).to_owned())
            });
            super::siblings(&Crate::of(files.collect()).unwrap())
        };
        let (train, eval) = (("command/train", "use crate::shared::f;"), ("command/eval/mod", ""));
        assert!(siblings(&[train, eval, ("shared", "")]).is_empty());
        let one = ("command/eval/deep", "use crate::command::train::run;");
        assert_eq!(
            siblings(&[train, one, ("shared", "")]),
            ["command eval imports command train: command/eval/deep"]
        );
        assert_eq!(siblings(&[("shared", "")]).len(), 1);
    }

    #[test]
    fn names_that_the_root_brings_in_are_those_of_their_modules() {
        let root = ("lib", "pub use b::inner::B as Other; pub use a::A;");
        check(
            &[root, ("a", "use crate::Other;"), ("b/inner", "use super::super::A;")],
            &["in crate: a, b", "a -> b: a names crate::Other", "b -> a: b/inner names super::super::A"],
        );
        check(
            &[
                ("a", "#[macro_export] macro_rules! made { () => { $crate::b::f() } }"),
                ("b", "crate::made!();"),
            ],
            &["in crate: a, b", "a -> b: a names crate::b::f", "b -> a: b names crate::made"],
        );
    }

    #[test]
    fn a_circle_of_a_folder_is_one_of_its_files_alone() {
        let above = ("a", "pub(crate) use one::One; mod one; mod two;");
        check(&[above, ("a/one", "use super::two::f;"), ("a/two", "use super::One;")], &[]);
        check(
            &[above, ("a/one/deep", "use crate::a::two::f;"), ("a/two", "use super::One;")],
            &[
                "in crate::a: one, two",
                "one -> two: a/one/deep names crate::a::two::f",
                "two -> one: a/two names super::One",
            ],
        );
    }

    #[test]
    fn parents_children_and_tests_may_know_one_another() {
        check(
            &[("lib", "mod a;"), ("a", "use b::f; fn g() {}"), ("a/b", "use super::g; use crate::X;")],
            &[],
        );
        let tests = "#[cfg(test)] mod tests { use crate::b::B; }";
        check(
            &[
                ("a", tests),
                ("b", "use crate::a::A;"),
                ("lib", "#[cfg(test)] mod c;"),
                ("c", "use crate::b;"),
            ],
            &[],
        );
        check(&[("a", "use std::b::B; use b::B;"), ("b", "use crate::a::A;")], &[]);
    }
}
