#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use super::*;

const NET: &str = include_str!("../../../nets/noorshams2014.toml");

/// The error of the shipped net with one piece of text replaced.
fn broken(from: &str, to: &str) -> String {
    assert!(NET.contains(from), "{from}");
    parse(&NET.replacen(from, to, 1), "x.toml").unwrap_err().to_string()
}

#[test]
fn shipped_nets_are_sound() {
    let net = parse(NET, "noorshams2014.toml").unwrap();
    assert_eq!((net.places.len(), net.transitions.len(), net.places[0].colors[0].initial), (4, 3, 30));
    parse(include_str!("../../../nets/pepsy-bcmp2.toml"), "pepsy-bcmp2.toml").unwrap();
}

#[test]
fn each_mistake_is_named_with_its_line_and_remedy() {
    let cases = [
        ("mean = 20", "mean = -20", "at line 18: service of color read in place clients: mean is -20: give"),
        ("mean = 20", "mean = nan", "at line 18: service of color read in place clients: mean is NaN: give"),
        ("take = [\"clients.read\"]", "take = []", "at line 41: mode read of transition send takes no token"),
        ("[\"clients.read\"]", "[\"client.read\"]", "at line 41: there is no place client: did you mean clients?"),
        ("[\"clients.read\"]", "[\"clients.raed\"]", "at line 41: there is no color raed: did you mean read?"),
        ("[\"clients.read\"]", "[\"clients.token\"]", "at line 41: mode read of transition send moves color token"),
        ("[\"clients.read\"]", "[\"clients\"]", "at line 41: \"clients\" names no tokens: write"),
        ("queue = \"storage\"", "queue = \"store\"", "at line 32: there is no queue store: did you mean storage?"),
        (
            ", service = { gamma = { mean = 1, shape = 4 } }",
            "",
            "at line 34: color read of queueing place storage has no",
        ),
        ("initial = 1 }", "initial = 0 }", "can never fire: no token of color token ever comes to place scheduler"),
        ("weight = 2", "weight = 0", "at line 48: mode read of transition schedule has weight 0"),
        ("discipline = \"is\"", "discipline = \"lifo\"", "at line 8: unknown variant `lifo`"),
        ("name = \"complete\"", "name = \"schedule\"", "transition number 3 is called \"schedule\": give it a name"),
    ];
    for (from, to, expected) in cases {
        let error = broken(from, to);
        assert!(error.contains(expected), "{from} -> {to}: {error}");
    }
}

#[test]
fn tokens_that_nothing_takes_are_refused_as_unbounded() {
    let gathers = NET.replacen("put = [\"clients.read\"", "put = [\"scheduler.read\", \"clients.read\"", 1);
    let gathers = gathers.replacen("initial = 1 }]", "initial = 1 }, { color = \"read\" }]", 1);
    let error = parse(&gathers, "x.toml").unwrap_err().to_string();
    assert!(error.contains("at line 55: mode read of transition complete puts color read into place sched"), "{error}");
}

#[test]
fn tokens_that_multiply_are_refused_as_unbounded() {
    let error = broken("put = [\"waiting.read\"]", "put = [\"waiting.read\", \"scheduler.token\"]");
    assert!(error.contains("the net is unbounded"), "{error}");
    let halved = broken("put = [\"clients.read\"", "put = [\"2 clients.read\"");
    assert!(halved.contains("unbounded") && halved.contains("complete"), "{halved}");
}

#[test]
fn requests_that_a_client_makes_without_waiting_are_no_growth_if_they_leave() {
    // A client thinks, sends a request and thinks again. Requests are served and leave.
    let text = r#"
        name = "open"
        colors = ["client", "request"]
        queues = [{ name = "think", discipline = "is" }, { name = "cpu" }]
        places = [
            { name = "think", queue = "think", colors = [
                { color = "client", initial = 1, service = { exponential = { mean = 2 } } }] },
            { name = "cpu", queue = "cpu", colors = [{ color = "request", service = { exponential = { mean = 1 } } }] },
        ]
        transitions = [
            { name = "send", modes = [{ name = "m", take = ["think.client"], put = ["think.client", "cpu.request"] }] },
            { name = "leave", modes = [{ name = "m", take = ["cpu.request"] }] },
        ]"#;
    assert!(parse(text, "x.toml").is_ok(), "{:?}", parse(text, "x.toml"));
    // A request that is served makes two: where nothing takes the second, that is growth whatever the times.
    let multiplies =
        text.replace("take = [\"cpu.request\"] }", "take = [\"cpu.request\"], put = [\"2 cpu.request\"] }");
    let error = parse(&multiplies, "x.toml").unwrap_err().to_string();
    assert!(error.contains("the net is unbounded") && error.contains("leave (mode m)"), "{error}");
}

#[test]
fn a_subnet_stands_for_its_places() {
    let text = r#"
        name = "loop"
        colors = ["job"]
        queues = [{ name = "cpu" }]
        places = [
            { name = "idle", colors = [{ color = "job", initial = 2 }] },
            { name = "part", subnet = "server" },
        ]
        transitions = [
            { name = "in", modes = [{ name = "one", take = ["idle.job"], put = ["part.job"] }] },
            { name = "out", modes = [{ name = "one", take = ["part.job"], put = ["idle.job"] }] },
        ]
        [[subnets]]
        name = "server"
        places = [
            { name = "input", queue = "cpu", colors = [{ color = "job", service = { exponential = { mean = 1 } } }] },
            { name = "output", colors = [{ color = "job" }] },
        ]
        transitions = [{ name = "serve", modes = [{ name = "one", take = ["input.job"], put = ["output.job"] }] }]
    "#;
    let net = parse(text, "x").unwrap();
    let names: Vec<&str> = net.places.iter().map(|place| place.name.as_str()).collect();
    assert_eq!(names, ["idle", "part/input", "part/output"]);
    assert_eq!(net.transitions[0].modes[0].outputs[0].place, 1);
    assert_eq!(net.transitions[1].modes[0].inputs[0].place, 2);
    let lacking = parse(&text.replace("\"output\"", "\"exit\""), "x").unwrap_err().to_string();
    assert!(lacking.contains("at line 13: subnet server has no place output"), "{lacking}");
}
