"""Sends pushes. It stands for your own application: replace it by yours."""

import ssl
import time
from dataclasses import dataclass

import httpx
import jwt


@dataclass
class Response:
    status: int
    apns_id: str
    body: dict


class PushSender:
    # APNs wants a new provider token at least once an hour, and at most every 20 minutes.
    TOKEN_AGE = 40 * 60
    RETRIED = {429, 500, 503}

    def __init__(self, endpoint, key, key_id, team_id, ca_file=None, pause=1.0):
        """ca_file: the simulator's ca.pem; None for APNs. pause: seconds before a retry."""
        self._http = httpx.Client(base_url=endpoint, http2=True, verify=ssl.create_default_context(cafile=ca_file))
        self._key, self._key_id, self._team_id = key, key_id, team_id
        self._token, self._token_time = None, 0
        self._pause = pause

    def send(self, device_token, payload, topic, push_type="alert", attempts=1, **headers):
        """Sends until a response is final. More headers: collapse_id="x" becomes apns-collapse-id."""
        headers = {f"apns-{name.replace('_', '-')}": str(value) for name, value in headers.items()}
        headers |= {"apns-topic": topic, "apns-push-type": push_type, "authorization": f"bearer {self._jwt()}"}
        for attempt in range(1, attempts + 1):
            response = self._http.post(f"/3/device/{device_token}", json=payload, headers=headers)
            if response.status_code not in self.RETRIED or attempt == attempts:
                break
            time.sleep(self._pause)
        body = response.json() if response.content else {}
        return Response(response.status_code, response.headers["apns-id"], body)

    def _jwt(self):
        if time.time() - self._token_time > self.TOKEN_AGE:
            self._token_time = time.time()
            claims = {"iss": self._team_id, "iat": int(self._token_time)}
            self._token = jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": self._key_id})
        return self._token
