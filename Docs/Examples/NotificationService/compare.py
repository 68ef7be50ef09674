"""Compares the responses of the service and its store with the simulator's ledger: compare.py FOLDER DEVICES TOKEN

TOKEN is the device that got a message before the load. Each response must have one outcome. Each living device must have
accepted the announcement once, and a message for each 200. The store must hold all devices but the dead ones.
"""
import collections
import json
import pathlib
import sqlite3
import sys

folder, devices, ada = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
faults = []

accepted = collections.Counter()
for line in (folder / "ledger").read_text().splitlines():
    push = json.loads(line)
    if push.get("isProcessed"):
        accepted[push["deviceToken"]] += 1

expected = collections.Counter({ada: 2})
statuses = collections.Counter()
for line in (folder / "results").read_text().splitlines():
    status, number = line.split()
    statuses[status] += 1
    if status == "000":
        continue
    outcomes = json.loads((folder / "out" / number).read_text())["outcomes"]
    # A message that follows the dead token's announcement finds no device.
    if len(outcomes) != (0 if status == "404" and not outcomes else 1):
        faults.append(f"user {number}: {status} with {len(outcomes)} outcomes")
    expected[f"{int(number):064x}"] += sum(outcome["outcome"] == "accepted" for outcome in outcomes)
if sum(statuses.values()) != devices or set(statuses) - {"000", "200", "404"}:
    faults.append(f"the responses are {dict(statuses)}")

dead = {f"{number:064x}" for number in range(100, devices + 1, 100)}
back = {f"{number:064x}" for number in range(99, devices + 1, 100)}
living = {f"{number:064x}" for number in range(1, devices + 1)} - dead - back
expected.update(living)
for token in sorted(set(expected) | set(accepted)):
    if expected[token] != accepted[token]:
        faults.append(f"{token}: {accepted[token]} pushes accepted, but callers were told of {expected[token]}")

store = {row[0] for row in sqlite3.connect(folder / "devices.sqlite").execute("SELECT token FROM device")}
if store != living | back | {ada}:
    faults.append(f"the store holds {len(store & dead)} dead tokens and lacks {len((living | back | {ada}) - store)} others")
counts = json.loads((folder / "counts").read_text())["recipients"]
if counts != {"accepted": len(living) + 1, "rejected": len(dead) + len(back)}:
    faults.append(f"the announcement's outcomes are {counts}")

for fault in faults[:20]:
    print("error:", fault, file=sys.stderr)
if faults:
    sys.exit(f"{len(faults)} errors")
print(f"messages    {dict(sorted(statuses.items()))} (000: connection refused)")
print(f"announced   {counts}")
print(f"simulator   {accepted.total()} accepted, as many as callers were told")
print(f"removed     {len(dead)} dead tokens; kept {len(back)} that were registered again")
