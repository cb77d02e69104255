//! Links and commands of the documentation: every relative link leads to a file, every anchor to a heading, and every
//! `cargo` or `make` command to a target that exists.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::MetadataCommand;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The Markdown files of the root and of `docs/`.
fn documents() -> Vec<PathBuf> {
    let mut found = markdown_in(root());
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        found.extend(markdown_in(&folder));
        let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        folders.extend(entries.filter(|path| path.is_dir()));
    }
    found.sort();
    found
}

fn markdown_in(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.is_file() && path.extension().is_some_and(|ending| ending == "md")).collect()
}

/// The lines outside fenced blocks of code.
fn prose(text: &str) -> Vec<&str> {
    let mut in_fence = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        in_fence ^= fence;
        if !in_fence && !fence {
            lines.push(line);
        }
    }
    lines
}

/// The text without the parts between backquotes.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect()
}

/// Targets of `[text](target)`.
fn links(text: &str) -> Vec<String> {
    let prose = without_code(&prose(text).join("\n"));
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// The anchors of all headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for line in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = title.trim().chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let before = times.entry(anchor.clone()).or_default();
        anchors.insert(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
        *before += 1;
    }
    anchors
}

/// Why a link of a document leads nowhere.
fn broken(document: &Path, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() { document.to_owned() } else { document.parent().unwrap().join(file) };
    if !target.exists() {
        return Some("there is no such file".to_owned());
    }
    let anchor = anchor?;
    let anchors = anchors(&std::fs::read_to_string(&target).unwrap());
    (!anchors.contains(anchor)).then(|| format!("no heading has this anchor; there are {anchors:?}"))
}

#[test]
fn every_relative_link_leads_to_a_file_and_every_anchor_to_a_heading() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    for document in documents() {
        for link in links(&std::fs::read_to_string(&document).unwrap()) {
            checked += 1;
            let reason = broken(&document, &link);
            wrong.extend(reason.map(|reason| format!("{}: {link}: {reason}", document.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 20, "only {checked} links were found");
}

#[test]
fn the_book_has_every_page_once() {
    let docs = root().join("docs");
    let summary = docs.join("SUMMARY.md");
    let mut listed: Vec<PathBuf> =
        links(&std::fs::read_to_string(&summary).unwrap()).iter().map(|link| docs.join(link)).collect();
    listed.sort();
    let pages = documents().into_iter().filter(|page| page.starts_with(&docs) && *page != summary);
    assert_eq!(listed, pages.collect::<Vec<_>>());
}

#[test]
fn anchors_are_githubs() {
    let text = "# M/D/1, `cats` & co.\n## Figure 1, ms: ours\n```\n# no heading\n```\n## Same\n## Same\n";
    assert_eq!(anchors(text), ["md1-cats--co", "figure-1-ms-ours", "same", "same-1"].map(str::to_owned).into());
    assert_eq!(links("[a](b.md#c) `[d](e)` [f](\n```\n[g](h)\n```\n"), ["b.md#c"]);
}

/// The targets of each package, as `test NAME`, `example NAME`, `bench NAME`.
fn targets() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let targets = |package: &cargo_metadata::Package| {
        package.targets.iter().map(|target| format!("{} {}", target.kind[0], target.name)).collect()
    };
    metadata.packages.iter().map(|package| (package.name.to_string(), targets(package))).collect()
}

/// The first target or package that a `cargo` command names and that does not exist.
fn missing(command: &str, targets: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().take_while(|word| *word != "--").collect();
    let after = |options: &[&str]| -> Vec<&str> {
        words.windows(2).filter(|pair| options.contains(&pair[0])).map(|pair| pair[1]).collect()
    };
    let mut packages = after(&["-p", "--package"]);
    if words.contains(&"--workspace") {
        packages.extend(targets.keys().map(String::as_str));
    }
    if let Some(unknown) = packages.iter().find(|package| !targets.contains_key(**package)) {
        return Some(format!("package {unknown}"));
    }
    ["test", "example", "bench"].iter().find_map(|kind| {
        let named = after(&[&format!("--{kind}")]);
        let exists =
            |name: &&&str| packages.iter().any(|package| targets[*package].contains(&format!("{kind} {name}")));
        named.iter().find(|name| !exists(name)).map(|name| format!("{kind} {name}"))
    })
}

#[test]
fn every_cargo_and_make_command_names_targets_that_exist() {
    let targets = targets();
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    let rules: BTreeSet<&str> = makefile.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect();
    let mut wrong = Vec::new();
    let mut checked = 0;
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        for code in text.split('`').skip(1).step_by(2) {
            let missing = match code.split_whitespace().next() {
                Some("cargo") => missing(code, &targets),
                Some("make") => {
                    let rule = code.split_whitespace().nth(1);
                    rule.filter(|rule| !rules.contains(rule)).map(|rule| format!("rule {rule}"))
                }
                _ => continue,
            };
            checked += 1;
            wrong.extend(missing.map(|missing| format!("{}: `{code}`: no {missing}", document.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 50, "only {checked} commands were found");
}
