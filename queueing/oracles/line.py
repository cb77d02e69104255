"""Solves closed networks of two classes with LINE. From this folder:

    python3 -m venv line && line/bin/pip install line-solver==VERSION
    line/bin/python line.py > line.toml

VERSION is the one that line.toml names. The tests in tests/oracle.rs compare the answers stored there.
"""
import importlib.metadata
import warnings

warnings.filterwarnings("ignore")
from line_solver import (  # noqa: E402
    CTMC, MVA, ClosedClass, Delay, Exp, GlobalConstants, Network, Queue, SchedStrategy, VerboseLevel,
)

GlobalConstants.set_verbose(VerboseLevel.SILENT)

# Name, clients, mean think times, then the station: order of service, servers, mean service times.
# Priority is of the first class.
NETWORKS = [
    ("sharing", [3, 2], [4.0, 6.0], "ps", 1, [1.0, 2.5]),
    ("sharing by two", [3, 2], [4.0, 6.0], "ps", 2, [1.0, 2.5]),
    ("first come", [3, 2], [4.0, 6.0], "fcfs", 1, [0.5, 4.0]),
    ("first come, two servers", [3, 2], [4.0, 6.0], "fcfs", 2, [0.5, 4.0]),
    ("priority", [4, 6], [5.0, 8.0], "priority", 1, [1.0, 0.5]),
    ("random", [3, 2], [4.0, 6.0], "random", 1, [0.5, 4.0]),
]
STRATEGIES = {
    "ps": SchedStrategy.PS, "fcfs": SchedStrategy.FCFS, "priority": SchedStrategy.HOL, "random": SchedStrategy.SIRO,
}


def solve(clients, think, order, servers, service):
    model = Network("network")
    delay, station = Delay(model, "Think"), Queue(model, "Station", STRATEGIES[order])
    station.set_number_of_servers(servers)
    classes = [ClosedClass(model, f"C{k}", clients[k], delay, k) for k in range(2)]
    for k in range(2):
        delay.set_service(classes[k], Exp.fit_mean(think[k]))
        station.set_service(classes[k], Exp.fit_mean(service[k]))
    routing = model.init_routing_matrix()
    for k in range(2):
        routing.set(classes[k], classes[k], Network.serial_routing(delay, station))
    model.link(routing)
    table = CTMC(model).avg_table()
    rows = table[table["Station"] == "Station"]
    return list(rows["Tput"]), list(rows["QLen"])


print(f'# Made by line.py with line-solver {importlib.metadata.version("line-solver")} (its solver CTMC).')
for name, clients, think, order, servers, service in NETWORKS:
    throughput, population = solve(clients, think, order, servers, service)
    print(f'\n[[networks]]\nname = "{name}"\nclients = {clients}\nthink = {think}')
    print(f'order = "{order}"\nservers = {servers}\nservice = {service}')
    print(f"throughput = {[float(f'{x:.9g}') for x in throughput]}")
    print(f"population = {[float(f'{x:.9g}') for x in population]}")
