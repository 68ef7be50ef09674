"""A relay for the tests of its page: it serves the page's files, and a state that a test sets.

    python3 mock_relay.py [PORT]      serves realistic figures that move, for work on the page
"""
import json
import pathlib
import random
import re
import sys
import threading
import time
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

RELAY = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = RELAY / "Sources/CAPNSRelayFiles/page"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8"}
TOTALS = ("queued", "duplicates", "accepted", "rejected", "notProcessed", "notSent", "unknown", "retried", "parked",
          "late")
STATES = ("queued", "claimed", "written", "parked")


def page_files():
    """The page's files by path: (content type, text)."""
    files = [*PAGE.glob("*.*"), *PAGE.glob("kit/*")]
    texts = {f"/{file.relative_to(PAGE)}": (TYPES[file.suffix], file.read_text()) for file in files}
    texts["/"] = texts.pop("/index.html")
    return texts


class APIFailure(Exception):
    def __init__(self, status, code, message):
        super().__init__(message)
        self.status = status
        self.body = {"error": {"code": code, "message": message}}


def full_outcome(values):
    return {"outcome": "rejected", "status": None, "reason": None, "code": None, "message": None,
            "apnsUniqueID": None, "attempts": 1, "tokenInvalidSince": None, "advice": "none",
            "retryAfterSeconds": None, **values}


def reason_name(push):
    """The reason of a push's outcome, or the code if there is none."""
    return push["outcome"]["reason"] or push["outcome"]["code"]


class MockRelay:
    """Its attributes are what the API reports. `token` is the operator's; `plain_token` may not use the overview."""

    def __init__(self, token=None, port=0):
        self.token = token
        self.plain_token = None
        self.port = port
        self.server = None
        self.files = page_files()
        self.lock = threading.RLock()
        self.reset()
        self.start()

    def reset(self):
        with self.lock:
            self.version = "1.0.0"
            self.problems, self.read_at, self.samples = [], None, []
            self.reason = None
            self.capacity = 10_000_000
            self.clock = time.time
            self.routes = []
            self.totals = dict.fromkeys(TOTALS, 0)
            self.webhooks = []
            self.relays = []
            self.relay(isSelf=True, postsWebhooks=True)
            self.callers = None  # An overview of an older relay has no quotas.
            self.apps = None
            self.batches = []
            self.pushes = {}
            self.parked = []
            self.feed = []  # (position, id of a push)
            self.requests = []  # (method, path, token, time)
            self.faults = []  # (method, pattern of the path, response)

    # Life

    def start(self):
        relay = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self):
                relay.handle(self)

            do_GET = do_POST = do_PATCH = do_DELETE = handle_any

            def log_message(self, *arguments):
                pass

        ThreadingHTTPServer.daemon_threads = True
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    # State

    def route(self, app="fern", environment="production", lane="interactive", **values):
        route = {"app": app, "environment": environment, "lane": lane, "queued": 0, "claimed": 0, "written": 0,
                 "parked": 0, "oldestDue": None, "state": "idle", "reason": None, "pausedUntil": None, **values}
        with self.lock:
            self.routes.append(route)
        return route

    def push(self, state="queued", outcome=None, **values):
        """A push that the relay knows; `outcome` is the outcome's name, or a dictionary."""
        now = self.clock()
        if isinstance(outcome, str):
            outcome = {"outcome": outcome}
        if outcome is not None:
            outcome = full_outcome(outcome)
        push = {"id": str(uuid.uuid4()), "app": "fern", "environment": "production", "lane": "interactive",
                "token": uuid.uuid4().hex * 2, "caller": "shop", "state": state, "queuedAt": now - 60,
                "notBefore": now - 60, "deadline": now + 86_400, "attempts": 0, "outcome": outcome,
                "settledAt": now if state == "settled" else None, "idempotencyKey": None, "metadata": None,
                "batch": None, **values}
        with self.lock:
            self.pushes[push["id"]] = push
            if state == "parked":
                self.parked.append(push["id"])
        return push

    def settle(self, outcome="accepted", gap=1, **values):
        """A push with its outcome in the feed, `gap` positions after the last one."""
        with self.lock:
            push = self.push("settled", outcome, **values)
            position = (self.feed[-1][0] if self.feed else 0) + gap
            self.feed.append((position, push["id"]))
        return push

    def relay(self, id="0f1e2d3c4b5a6978", **values):
        """One of the relays that share the queue."""
        relay = {"id": id, "host": "relay-1", "process": 4711, "version": self.version,
                 "since": self.clock() - 86_400, "isSelf": False, "postsWebhooks": False, **values}
        with self.lock:
            self.relays.append(relay)
        return relay

    def batch(self, state="running", outcomes=None, **values):
        """A batch, the newest one."""
        now = self.clock()
        batch = {"id": str(uuid.uuid4()), "state": state, "app": "fern", "environment": "production", "caller": "shop",
                 "idempotencyKey": None, "metadata": None, "createdAt": now - 60, "notBefore": now - 60,
                 "deadline": now + 86_400, "pushesPerSecond": None, "lines": 0, "invalid": 0, "queued": 0,
                 "inFlight": 0, "parked": 0, "deadTokens": 0, **values}
        batch.setdefault("name", batch["idempotencyKey"])
        batch["outcomes"] = {"accepted": 0, "rejected": 0, "notProcessed": 0, "notSent": 0, "unknown": 0,
                             **(outcomes or {})}
        with self.lock:
            self.batches.insert(0, batch)
        return batch

    def webhook(self, name="shop", **values):
        webhook = {"name": name, "url": f"https://{name}.example/outcomes", "position": 0, "failures": 0,
                   "lastError": None, "nextAttempt": None, "request": None, **values}
        with self.lock:
            self.webhooks.append(webhook)
        return webhook

    def fail(self, method, pattern, response):
        """Responds to such requests with (status, body), or with what a function returns."""
        with self.lock:
            self.faults.append((method, pattern, response))

    def count(self, method, pattern):
        """How many such requests there were."""
        with self.lock:
            return sum(1 for request in self.requests if request[0] == method and re.fullmatch(pattern, request[1]))

    # Requests

    def handle(self, request):
        length = int(request.headers.get("content-length") or 0)
        body = request.rfile.read(length)
        path, _, query = request.path.partition("?")
        token = (request.headers.get("authorization") or "").removeprefix("Bearer ")
        with self.lock:
            self.requests.append((request.command, request.path, token, time.monotonic()))
            fault = next((f for m, p, f in self.faults if m == request.command and re.fullmatch(p, path)), None)
        if request.command == "GET" and path in self.files:
            kind, text = self.files[path]
            self.respond(request, 200, kind, text.encode())
            return
        if callable(fault):
            fault = fault()
        try:
            if fault:
                status, value = fault
            else:
                self.authorize(path, token)
                with self.lock:
                    parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
                    parameters = dict(urllib.parse.parse_qsl(query))
                    status, value = 200, self.api(request.command, parts, parameters, body)
        except APIFailure as failure:
            status, value = failure.status, failure.body
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.respond(request, status, "application/json", data)

    def respond(self, request, status, kind, data):
        try:
            request.send_response(status)
            headers = {"content-type": kind, "content-length": str(len(data)), "cache-control": "no-store",
                       "content-security-policy": POLICY, "x-content-type-options": "nosniff",
                       "referrer-policy": "no-referrer"}
            for name, value in headers.items():
                request.send_header(name, value)
            request.end_headers()
            request.wfile.write(data)
        except OSError:
            pass  # The browser has left.

    def authorize(self, path, token):
        if self.token is None or not path.startswith("/v1/"):
            return
        if token not in (self.token, self.plain_token) or token == "":
            raise APIFailure(401, "unauthorized", "A valid bearer token is required.")
        if token == self.plain_token and re.match(r"/v1/(overview|parked|webhooks)", path):
            raise APIFailure(403, "forbidden", "The caller shop needs the role operate for this.")

    def api(self, method, parts, parameters, body):
        match (method, *parts):
            case ("GET", "v1", "overview"):
                return self.overview()
            case ("POST", "v1", "pushes"):
                push = json.loads(body)
                stored = self.push(app=push["app"], token=push["token"], notBefore=push.get("notBefore", self.clock()))
                return {"queued": 1, "duplicates": 0, "pushes": [{"line": 1, "id": stored["id"]}], "errors": []}
            case ("POST", "v1", "batches"):
                batch = json.loads(body)
                devices = len(batch["tokens"])
                stored = self.batch(app=batch["app"], queued=devices, lines=devices, metadata=batch.get("metadata"),
                                    notBefore=batch.get("notBefore", self.clock()))
                return {"batch": stored, "duplicate": False, "stored": devices, "errors": []}
            case ("GET", "v1", "batches"):
                return {"batches": self.batches[:int(parameters.get("limit", 100))]}
            case (_, "v1", "batches", id):
                return self.change_batch(method, id, body)
            case ("GET", "v1", "pushes", id):
                return self.known(id)
            case ("DELETE", "v1", "pushes", id):
                return self.cancel(self.known(id))
            case ("GET", "v1", "outcomes"):
                entries, cursor = self.page(parameters, lambda push: True)
                return {"outcomes": [{**push, "cursor": f"{position}-9f2c41aa"} for position, push in entries],
                        "cursor": cursor, "end": len(entries) < int(parameters.get("limit", 100))}
            case ("GET", "v1", "dead-tokens"):
                entries, cursor = self.page(parameters, lambda push: push["outcome"]["tokenInvalidSince"] is not None)
                limit, batch = int(parameters.get("limit", 100)), parameters.get("batch")
                end = len(entries) < limit
                # As in the relay, the tokens of other batches are left out of a page.
                entries = [entry for entry in entries if batch in (None, entry[1]["batch"])]
                return {"end": end, "tokens": [
                    {"cursor": f"{position}-9f2c41aa", "app": push["app"], "environment": push["environment"],
                     "token": push["token"], "since": push["outcome"]["tokenInvalidSince"], "pushID": push["id"],
                     "settledAt": push["settledAt"]} for position, push in entries], "cursor": cursor}
            case ("GET", "v1", "parked"):
                after, limit = parameters.get("after"), int(parameters.get("limit", 100))
                start = self.parked.index(after) + 1 if after else 0
                ids = self.parked[start:start + limit]
                more = len(self.parked) > start + limit
                return {"pushes": [self.pushes[id] for id in ids], "next": ids[-1] if more else None}
            case ("GET", "v1", "parked", "groups"):
                return {"groups": self.parked_groups(), "complete": True}
            case ("POST", "v1", "parked", "retry"):
                return {"pushes": self.unpark_group(parameters, "queued"), "state": "queued"}
            case ("DELETE", "v1", "parked"):
                return {"pushes": self.unpark_group(parameters, "settled"), "state": "settled"}
            case ("POST", "v1", "parked", id, "retry"):
                self.unpark(id, "queued")
                return {"id": id, "state": "queued"}
            case ("DELETE", "v1", "parked", id):
                self.unpark(id, "settled")
                return {"id": id, "state": "settled"}
            case ("POST", "v1", "webhooks", name, "requests", id, "skip"):
                return self.skip_request(name, id)
        raise APIFailure(404, "notFound", "There is nothing here.")

    def known(self, id):
        if id not in self.pushes:
            raise APIFailure(404, "notFound", "No push has this id.")
        return self.pushes[id]

    def cancel(self, push):
        if push["state"] not in ("queued", "claimed"):
            raise APIFailure(409, push["state"], "The push is being sent.")
        outcome = full_outcome({"outcome": "not-sent", "code": "cancelled", "attempts": 0})
        push.update(state="settled", settledAt=self.clock(), outcome=outcome)
        return push

    def change_batch(self, method, id, body):
        batch = next((batch for batch in self.batches if batch["id"] == id), None)
        if batch is None:
            raise APIFailure(404, "notFound", "There is no batch with this id, or it is no longer kept.")
        if method == "DELETE":
            batch["outcomes"]["notSent"] += batch["queued"] + batch["parked"]
            batch.update(state="cancelled", queued=0, parked=0)
        if method == "PATCH":
            if batch["state"] == "cancelled":
                raise APIFailure(409, "conflict", "The batch was cancelled.")
            change = json.loads(body)
            if "paused" in change:
                batch["state"] = "paused" if change["paused"] else "running"
            if "pushesPerSecond" in change:
                batch["pushesPerSecond"] = change["pushesPerSecond"]
        return batch

    def parked_groups(self):
        groups = {}
        for id in self.parked:
            push = self.pushes[id]
            key = push["app"], reason_name(push)
            group = groups.setdefault(key, {"app": key[0], "reason": key[1], "pushes": 0, "oldest": push["queuedAt"]})
            group["pushes"] += 1
            group["oldest"] = min(group["oldest"], push["queuedAt"])
        return [groups[key] for key in sorted(groups, key=str)]

    def unpark_group(self, parameters, state):
        chosen = [id for id in self.parked if self.pushes[id]["app"] == parameters["app"]
                  and parameters.get("reason") in (None, reason_name(self.pushes[id]))]
        for id in chosen:
            self.unpark(id, state)
        return len(chosen)

    def unpark(self, id, state):
        if id not in self.parked:
            raise APIFailure(404, "notFound", "No parked push has this id.")
        self.parked.remove(id)
        self.pushes[id]["state"] = state

    def skip_request(self, name, id):
        for webhook in self.webhooks:
            request = webhook["request"]
            if webhook["name"] == name and request is not None and request["id"] == id:
                webhook.update(request=None, failures=0, lastError=None, nextAttempt=None)
                return {"id": id, "outcomes": request["outcomes"]}
        raise APIFailure(404, "notFound", "This is not the current request.")

    def page(self, parameters, matches):
        after, limit = int(parameters.get("after", "0").split("-")[0]), int(parameters.get("limit", 100))
        app = parameters.get("app")
        # A position after the end of the feed becomes the end, as in the relay.
        end = self.feed[-1][0] if self.feed else 0
        after = min(after, end)
        entries = [(position, self.pushes[id]) for position, id in self.feed if position > after]
        entries = [entry for entry in entries if matches(entry[1]) and app in (None, entry[1]["app"])][:limit]
        # A page that reaches the end of the feed has the end as its cursor.
        last = entries[-1][0] if len(entries) == limit else end
        return entries, f"{last}-9f2c41aa"

    def overview(self):
        queue = {state: sum(route[state] for route in self.routes) for state in STATES}
        queue["parked"] = max(queue["parked"], len(self.parked))
        due = [route["oldestDue"] for route in self.routes if route["oldestDue"] is not None]
        quotas = {"callers": self.callers, "apps": self.apps}
        quotas = {name: value for name, value in quotas.items() if value is not None}
        now, totals = self.clock(), dict(self.totals)
        if self.samples and any(totals[name] < value for name, value in self.samples[-1]["totals"].items()):
            self.samples = []  # It was restarted.
        history = self.samples = [sample for sample in self.samples if now - 300 <= sample["now"] < now]
        self.samples = [*history, {"now": now, "totals": totals}]
        return {**quotas, "now": now, "version": self.version, "ready": self.reason is None, "reason": self.reason,
                "problems": self.problems, "readAt": now if self.read_at is None else self.read_at, "history": history,
                "queue": {**queue, "capacity": self.capacity, "oldestDue": min(due, default=None)},
                "routes": self.routes, "totals": self.totals, "webhooks": self.webhooks,
                "relays": self.relays}


def fill(relay, seed=1):
    """Realistic figures. Returns a function that moves them by a number of seconds."""
    values = random.Random(seed)
    now = relay.clock()
    apps = [("fern", "production"), ("fern", "development"), ("grasscove", "production"), ("tidepool", "production")]
    for app, environment in apps:
        for lane in ("interactive", "bulk"):
            if lane == "bulk" and environment == "production":
                relay.route(app, environment, lane, queued=values.randrange(20_000, 90_000), claimed=120, written=380,
                            oldestDue=now - values.randrange(10, 99), state="sending")
            else:
                queued = values.randrange(0, 9)
                relay.route(app, environment, lane, queued=queued, written=queued * 3,
                            oldestDue=now - 0.4 if queued else None, state="sending" if queued else "idle")
    relay.routes[-1].update(
        state="paused", pausedUntil=now + 95, written=0, claimed=0, oldestDue=now - 424, queued=310_204,
        reason="403 InvalidProviderToken: APNs refuses the credentials. Check the key and its team.")
    relay.routes[-2]["parked"] = 4
    relay.totals.update(queued=48_201_442, duplicates=1_204, accepted=47_010_221, rejected=402_118, notProcessed=12,
                        notSent=3_402, unknown=7, retried=88_120, parked=4, late=2)
    reasons = [("accepted", 200, None)] * 14 + [("rejected", 410, "Unregistered"), ("rejected", 400, "BadDeviceToken")]
    for _ in range(400):
        outcome, status, reason = values.choice(reasons)
        invalid = now - values.randrange(90_000, 900_000) if status == 410 else None
        app, environment = values.choice(apps)
        relay.settle({"outcome": outcome, "status": status, "reason": reason, "tokenInvalidSince": invalid,
                      "advice": "removeToken" if invalid else "none"},
                     gap=values.randrange(1, 9), app=app, environment=environment, attempts=1,
                     lane=values.choice(["interactive", "bulk"]), token="%064x" % values.getrandbits(256))
    relay.settle({"outcome": "unknown", "code": "connectionLost", "message": "The connection closed after the request "
                  "was written."}, attempts=1, token="%064x" % values.getrandbits(256))
    relay.settle({"outcome": "not-sent", "code": "deadlineExceeded"}, lane="bulk")
    for reason in ("PayloadTooLarge", "TopicDisallowed", "TopicDisallowed", "BadCertificateEnvironment"):
        relay.push("parked", {"outcome": "rejected", "status": 403 if "a" in reason[:2] else 400, "reason": reason,
                              "attempts": 20}, attempts=20, queuedAt=now - values.randrange(4_000, 90_000),
                   app="tidepool", token="%064x" % values.getrandbits(256))
    relay.callers = [
        {"name": "shop", "unsettled": 412_000, "capacity": 500_000, "pushesPerSecond": 5_000, "available": 31_400},
        {"name": "news", "unsettled": 96_200, "capacity": 100_000, "pushesPerSecond": 200, "available": 0},
        {"name": "crew", "unsettled": 0, "capacity": None, "pushesPerSecond": None, "available": None}]
    relay.apps = [
        {"name": "fern", "unsettled": 320_050, "capacity": 1_000_000, "pushesPerSecond": 2_000},
        {"name": "tidepool", "unsettled": 310_208, "capacity": None, "pushesPerSecond": None}]
    relay.batch("finished", {"accepted": 9_811, "rejected": 183, "unknown": 6}, app="grasscove", lines=10_000,
                createdAt=now - 86_400, notBefore=now - 86_400, metadata={"campaign": 16}, name="Autumn preview")
    relay.batch("cancelled", {"accepted": 1_204, "notSent": 8_796}, app="grasscove", lines=10_000,
                createdAt=now - 7_000)
    relay.batch("paused", {"accepted": 120_400, "rejected": 2_210}, app="tidepool", queued=877_358, lines=1_000_000,
                invalid=32, pushesPerSecond=500, createdAt=now - 1_300, idempotencyKey="autumn-2026")
    running = relay.batch("running", {"accepted": 310_000, "rejected": 8_400, "notProcessed": 3, "notSent": 900},
                          app="fern", queued=1_680_300, inFlight=380, parked=17, lines=2_000_000, caller="news",
                          createdAt=now - 240, pushesPerSecond=2_000)
    relay.relay("8796a5b4c3d2e1f0", host="relay-2", since=now - 420)
    relay.webhook("shop", position=relay.feed[-1][0])
    relay.webhook("warehouse", position=relay.feed[-300][0], failures=4, lastError="503 Service Unavailable",
                  nextAttempt=now + 31, request={"id": "warehouse-1201", "outcomes": 500, "since": now - 900})

    def move(seconds):
        wave = 1 + 0.25 * values.random()
        amounts = {"queued": 1_480, "duplicates": 0.4, "accepted": 1_420, "rejected": 46, "retried": 3, "notSent": 0.3}
        with relay.lock:
            for name, amount in amounts.items():
                relay.totals[name] += int(amount * seconds * wave + values.random())
            sent = min(running["queued"], int(1_420 * seconds * wave))
            running["queued"] -= sent
            running["outcomes"]["accepted"] += sent
            for route in relay.routes[:-1]:
                if route["lane"] == "bulk" and route["queued"]:
                    route["queued"] = max(2_000, route["queued"] - int(values.random() * 400 * seconds))
    return move


if __name__ == "__main__":
    mock = MockRelay(port=int(sys.argv[1]) if len(sys.argv) > 1 else 8027)
    advance = fill(mock)
    print(mock.url, flush=True)
    while True:
        time.sleep(1)
        advance(1)
