#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use super::*;

/// One customer goes round a terminal and a processor.
const FILE: &str = r#"<net qpme-version="2.1.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <colors><color id="c" name="job" real-color="red"/></colors>
  <queues>
    <queue id="q0" name="think" strategy="IS" number-of-servers="1"/>
    <queue id="q1" name="cpu" strategy="FCFS" number-of-servers="2"/>
  </queues>
  <places>
    <place id="p0" name="think" queue-ref="q0" xsi:type="queueing-place" departure-discipline="NORMAL"><color-refs>
      <color-ref id="r0" color-id="c" initial-population="3" distribution-function="Exponential" lambda="0.05"/>
    </color-refs></place>
    <place id="p1" name="cpu" queue-ref="q1" xsi:type="queueing-place" departure-discipline="FIFO"><color-refs>
      <color-ref id="r1" color-id="c" distribution-function="Gamma" alpha="4" lambda="2"/>
    </color-refs></place>
  </places>
  <transitions>
    <transition id="t0" name="go" weight="1" priority="0" xsi:type="immediate-transition">
      <modes><mode id="m0" name="m" firing-weight="1"/></modes>
      <connections><connection source-id="r0" target-id="m0" count="1"/>
        <connection source-id="m0" target-id="r1" count="1"/></connections>
    </transition>
    <transition id="t1" name="back" weight="1" priority="0" xsi:type="immediate-transition">
      <modes><mode id="m1" name="m" firing-weight="1"/></modes>
      <connections><connection source-id="r1" target-id="m1" count="1"/>
        <connection source-id="m1" target-id="r0" count="1"/></connections>
    </transition>
  </transitions>
</net>"#;

#[test]
fn a_file_becomes_the_net_that_it_describes() {
    let net = parse(FILE, "x.qpe").unwrap();
    assert_eq!(net.queues[1], Queue { name: "cpu".to_owned(), discipline: Discipline::Fcfs, servers: 2 });
    assert_eq!((net.places[0].colors[0].initial, net.places[1].departure), (3, Departure::Fifo));
    assert_eq!(net.places[0].colors[0].service, Some(Distribution::Exponential { mean: 20.0 }));
    assert_eq!(net.places[1].colors[0].service, Some(Distribution::Gamma { mean: 2.0, shape: 4.0 }));
    assert_eq!(net.transitions[0].modes[0].outputs, [Arc { place: 1, color: 0, count: 1 }]);
}

#[test]
fn what_is_not_supported_is_refused_by_name_and_line() {
    let cases = [
        ("\"FCFS\"", "\"LCFS\"", "at line 5: queue cpu has strategy LCFS"),
        ("\"Gamma\"", "\"Beta\"", "at line 12: distribution-function Beta is not read"),
        ("\"queueing-place\"", "\"subnet-place\"", "at line 8: place think is a subnet-place"),
        ("color-id=\"c\"", "color-id=\"d\"", "at line 9: color-id \"d\" is no id of the file"),
        ("lambda=\"0.05\"", "lambda=\"fast\"", "at line 9: lambda is \"fast\""),
        ("lambda=\"0.05\"", "lambda=\"0\"", "mean is inf: give a finite number"),
        ("initial-population=\"3\"", "maximum-capacity=\"3\"", "at line 9: a color of place think has a maximum-cap"),
        ("<places>", "<places", "it is not XML"),
    ];
    for (from, to, expected) in cases {
        let error = parse(&FILE.replacen(from, to, 1), "x.qpe").unwrap_err().to_string();
        assert!(error.contains(expected), "{from} -> {to}: {error}");
    }
}

#[test]
fn parts_of_the_same_name_are_told_apart() {
    let net = parse(&FILE.replace("name=\"think\" strategy", "name=\"cpu\" strategy"), "x.qpe").unwrap();
    assert_eq!([&net.queues[0].name, &net.queues[1].name], ["cpu", "cpu (2)"]);
    assert_eq!(net.places[1].kind, PlaceKind::Queueing(1));
}
