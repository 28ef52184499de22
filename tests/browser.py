"""A headless Chromium driven over a pipe, by the DevTools protocol: load a page, ask it things, look at it."""

import base64
import json
import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)


def find_chromium():
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page of one browser; `errors`: what its console complained of, `requests`: what it asked the network for."""

    def __init__(self, chromium, profile):
        from_us, to_them = os.pipe()
        from_them, to_us = os.pipe()
        # the browser reads from descriptor 3 and writes to 4
        line = [
            "bash",
            "-c",
            f'exec "$@" 3<&{from_us} 4>&{to_us}',
            "bash",
            chromium,
            *FLAGS,
            f"--user-data-dir={profile}",
        ]
        self.process = subprocess.Popen(
            line, pass_fds=(from_us, to_us), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(from_us)
        os.close(to_us)
        self.write, self.read = os.fdopen(to_them, "wb", 0), os.fdopen(from_them, "rb")
        self.buffer, self.number, self.session, self.events = b"", 0, None, []
        self.errors, self.requests = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.write.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(answer["error"]["message"])
                return answer["result"]

    def _message(self):
        while b"\0" not in self.buffer:
            part = self.read.read1(1 << 20)
            if not part:
                raise RuntimeError("the browser has gone")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        self._note(message)
        return message

    def _note(self, message):
        method, params = message.get("method"), message.get("params", {})
        self.events.append(method)
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def open(self, url, width=1100, height=900, scheme="light"):
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.errors, self.requests, self.events = [], [], []
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self.events:
            self._message()
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def picture(self, path):
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        self.session = None
        self.write.write(json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.write.close()
        self.read.close()
