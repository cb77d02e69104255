//! Reports in a browser without a screen: Debian's Chromium.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::program::{sample, stdout};

/// A report of two VMs under three schedulers, in this folder.
pub fn report(folder: &Path) -> String {
    let path = folder.join("report.html").to_str().unwrap().to_owned();
    let (web, mail) = (format!("web={}", sample("web.parquet")), format!("mail={}@32g", sample("mail.parquet")));
    let compare = ["compare", "--vm", &web, "--vm", &mail, "--pacing", "closed", "--per-vm", "--end", "20s"];
    stdout(&[&compare[..], &["--schedulers", "deadline,cats,bfq", "--report", &path]].concat());
    std::fs::read_to_string(path).unwrap()
}

/// A report of a sweep with pairs, in this folder.
pub fn sweep_report(folder: &Path) -> String {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    for name in ["web.parquet", "mail.parquet", "oltp.parquet"] {
        std::fs::copy(sample(name), path(name)).unwrap();
    }
    std::fs::write(path("none.parquet"), "PAR1 and no more").unwrap();
    let plan = "traces = ['*.parquet']\ndrives = ['cheetah-15k4', 'nvme-ssd']\npacing = 'closed'\nmap = 'remap'\n\
                schedulers = ['fifo', 'cats', { name = 'deadline', fifo_batch = [1, 16] }]\n\
                windows = [{ end = '5s' }]\n[pairs]\n";
    std::fs::write(path("plan.toml"), plan).unwrap();
    stdout(&["sweep", &path("plan.toml"), "--out", &path("sweep")]);
    stdout(&["report", &path("sweep"), "-o", &path("sweep.html")]);
    std::fs::read_to_string(path("sweep.html")).unwrap()
}

/// Opens a page of that width, with scripts that are added to its end. The last one leaves JSON in the attribute
/// `data-found` of the page. Returns it, and what the console says.
pub fn opened(folder: &Path, page: &str, width: u32, scripts: &[&str]) -> (Value, String) {
    let path = folder.join(format!("opened-{width}.html"));
    let added: String = scripts.iter().map(|script| format!("<script>{script}</script>")).collect();
    std::fs::write(&path, page.replace("</body>", &format!("{added}</body>"))).unwrap();
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"]);
    browser.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    browser.args(["--virtual-time-budget=20000", "--dump-dom", &format!("--window-size={width},900")]);
    let output = browser.arg(format!("file://{}", path.display())).output();
    let output = output.expect("there is no chromium; `make browser` installs it");
    let dom = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let found = dom.split("data-found=\"").nth(1).and_then(|rest| rest.split('"').next());
    let found = found.unwrap_or_else(|| panic!("the script did not end: {said}")).replace("&quot;", "\"");
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    (serde_json::from_str(&found).unwrap(), said)
}
