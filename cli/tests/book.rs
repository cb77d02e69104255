//! Links of the book that `make book` builds: each leads to a page, an anchor or another file of the book, or to a file
//! of the repository. `make test-full` builds the book first.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// How the address of a file in the repository goes on behind that of the repository.
const OF_FILE: &str = "/blob/HEAD/";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The HTML files of a folder and of those below it, with their texts.
fn pages(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}: `make book`", folder.display()))
    {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|ending| ending == "html") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.insert(path, text);
        }
    }
    found
}

/// The values of an attribute in HTML as mdBook writes it.
fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    let begin = format!(" {attribute}=\"");
    html.split(&begin).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0)).collect()
}

/// The path without `..`.
fn resolved(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut so_far, component| {
        match component {
            Component::ParentDir => _ = so_far.pop(),
            component => so_far.push(component),
        }
        so_far
    })
}

/// Why a link of a page leads nowhere. Links to other hosts are not followed.
fn broken(page: &Path, link: &str, pages: &BTreeMap<PathBuf, String>) -> Option<String> {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    if let Some((_, file)) = file.split_once(OF_FILE) {
        return (!root().join(file).exists()).then(|| "the repository has no such file".to_owned());
    }
    if file.contains("://") || file.starts_with("javascript:") {
        return None;
    }
    let target = if file.is_empty() { page.to_owned() } else { resolved(&page.parent().unwrap().join(file)) };
    if !target.exists() || !target.starts_with(book()) {
        return Some("the book has no such file".to_owned());
    }
    let anchor = anchor.filter(|anchor| !anchor.is_empty())?;
    let has = pages.get(&target).is_some_and(|html| values(html, "id").contains(&anchor));
    (!has).then(|| "no heading has this anchor".to_owned())
}

fn book() -> PathBuf {
    root().join("target/book")
}

#[test]
fn every_link_of_the_book_leads_somewhere() {
    let pages = pages(&book());
    let (mut wrong, mut inside, mut outside) = (Vec::new(), 0, 0);
    for (page, html) in &pages {
        for link in values(html, "href").into_iter().chain(values(html, "src")) {
            *if link.contains(OF_FILE) { &mut outside } else { &mut inside } += 1;
            let why = broken(page, link, &pages);
            wrong.extend(why.map(|why| format!("{}: {link}: {why}", page.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(pages.len() > 35 && inside > 1000 && outside > 10, "{} pages, {inside}, {outside} links", pages.len());
}
