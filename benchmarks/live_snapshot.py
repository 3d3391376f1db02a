"""How fast a served cluster becomes a snapshot, against merely downloading the same bytes.

    python benchmarks/live_snapshot.py [--nodes N] [--repetitions N]

Objects of the generated cluster (30 pods per node, 8 KB each) are served over loopback by a process of
its own, uncompressed and in pages, as an API server lists them. ``download`` reads the same pages and
forgets them; ``snapshot`` is the whole command, from its start to the written file. Peak memory is
told for pages of several sizes: it must not grow with their number. Of several runs the fastest counts.
"""

from __future__ import annotations

import argparse
import json
import mmap
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bench import cluster
from measurements import MIB, PROGRAM, Report, program

from kubectl_evictplan.live.resources import RESOURCES

PAGE_SIZES = (1000, 500, 250)
KINDS = {"nodes": b"Node", "pods": b"Pod", "leases": b"Lease"}
# Of the lists that are empty.
OTHER_KINDS = {
    resource.plural: resource.kind.encode()
    for resource in RESOURCES
    if resource.plural not in KINDS
}


class Server(BaseHTTPRequestHandler):
    """Lists what ``index`` has; every other list is empty."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    data: mmap.mmap
    # plural -> (start, end) of each object's JSON in the file.
    index: dict[str, list[tuple[int, int]]]

    def do_GET(self) -> None:
        """Answer with one page."""
        address = urlsplit(self.path)
        plural = address.path.rpartition("/")[2]
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        if plural == "version":
            self.answer([b'{"gitVersion":"v1.33.1"}'])
            return
        found = self.index.get(plural, [])
        start = int(query.get("continue", "0"))
        end = min(len(found), start + (int(query.get("limit", "0")) or len(found)))
        left = len(found) - end
        meta: dict[str, Any] = {"resourceVersion": "1000000"}
        if left:
            meta |= {"continue": str(end), "remainingItemCount": left}
        kind = {**OTHER_KINDS, **KINDS}[plural]
        head = b'{"kind":"%bList","metadata":%b,"items":[' % (kind, json.dumps(meta).encode())
        # Within a page the objects lie one behind the other, commas included.
        items = self.data[found[start][0] : found[end - 1][1]] if end > start else b""
        self.answer([head, items, b"]}"])

    def answer(self, parts: list[bytes]) -> None:
        """Send JSON."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(sum(map(len, parts))))
        self.end_headers()
        for part in parts:
            self.wfile.write(part)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def serve(path: Path) -> None:
    """Serve the cluster in that file until killed; print the port first."""
    with path.open("rb") as stream:
        Server.data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    Server.index = {plural: [] for plural in KINDS}
    marks = {b'"kind":"%b"' % kind: plural for plural, kind in KINDS.items()}
    position = Server.data.find(b"\n") + 1
    while (end := Server.data.find(b"\n", position)) >= 0:
        line_end = end - 1 if Server.data[end - 1 : end] == b"," else end
        head = Server.data[position : position + 60]
        plural = next((plural for mark, plural in marks.items() if mark in head), "")
        if plural:
            Server.index[plural].append((position, line_end))
        position = end + 1
    server = HTTPServer(("127.0.0.1", 0), Server)
    print(server.server_address[1], flush=True)
    server.serve_forever()


@contextmanager
def serving(path: Path) -> Iterator[str]:
    """Run the server in a process of its own; give its address."""
    command = [sys.executable, __file__, "--serve", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


def download(server: str, nodes: int, pods: int, page: int) -> None:
    """Read all pages of the three large lists and forget them; print their bytes."""
    import urllib3

    pool = urllib3.PoolManager()
    received = 0
    sizes = {
        "api/v1/pods": pods,
        "api/v1/nodes": nodes,
        "apis/coordination.k8s.io/v1/leases": nodes,
    }
    started = time.perf_counter()
    for path, count in sizes.items():
        for start in range(0, count, page):
            url = f"{server}/{path}?limit={page}&continue={start}"
            answer = pool.urlopen("GET", url, preload_content=False)
            while chunk := answer.read(1 << 16):
                received += len(chunk)
            answer.release_conn()
    seconds = time.perf_counter() - started
    print(
        json.dumps({"seconds": seconds, "cpu_seconds": time.process_time(), "mib": received / MIB})
    )


def downloaded(server: str, nodes: int, pods: int, page: int) -> Report:
    words = [sys.executable, __file__, "--download", server, str(nodes), str(pods), str(page)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    found: Report = json.loads(done.stdout)
    return found


def best(reports: list[Report]) -> Report:
    return min(reports, key=lambda report: report["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--download", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
    elif arguments.download:
        server, *numbers = arguments.download
        download(server, *map(int, numbers))
    else:
        report(arguments.nodes, arguments.repetitions)


def report(nodes: int, repetitions: int) -> None:
    path, pods = cluster(nodes), nodes * 30
    print(f"{pods:,} pods on {nodes:,} nodes, served over loopback; best of {repetitions}\n")
    with serving(path) as server, tempfile.TemporaryDirectory() as folder:
        print("page  pages  download: wall, CPU, rate      snapshot: wall, CPU, rate      peak")
        for page in PAGE_SIZES:
            bare = best([downloaded(server, nodes, pods, page) for _ in range(repetitions)])
            words = (*PROGRAM, "snapshot", "--force", "-o", f"{folder}/snapshot.json.gz")
            flags = ("-s", server, "--chunk-size", str(page), "--request-timeout", "0")
            whole = best([program(*words, *flags) for _ in range(repetitions)])
            cells = [f"{page:4}  {-(-pods // page):5}"]
            for one in (bare, whole):
                rate = bare["mib"] / one["seconds"]
                cells.append(
                    f"{one['seconds']:6.2f} s, {one['cpu_seconds']:5.2f} s, {rate:4.0f} MiB/s"
                )
            print("  ".join([*cells, f"{whole['peak_mib']:4.0f} MiB"]), flush=True)


if __name__ == "__main__":
    main()
