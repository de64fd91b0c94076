"""A tagger behind HTTP, by the standard library: python service.py MODEL.json [PORT]

POST a JSON list of sentences, which are lists of words, and get a list of their labels.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from sksstruct import Tagger

MAX_BYTES = 2**20


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection, in a separate thread."""

    protocol_version = "HTTP/1.1"
    # send each answer in one piece, without delay
    wbufsize, disable_nagle_algorithm = -1, True
    # close connections of clients that send nothing for so many seconds
    timeout = 30

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BYTES:
            # the rest of the request is not read
            self.close_connection = True
            return self.answer(413, {"error": f"send at most {MAX_BYTES} bytes"})
        try:
            sentences = json.loads(self.rfile.read(int(length)))
            labels = self.server.tagger.predict(sentences)
        except (TypeError, ValueError, RecursionError) as error:
            return self.answer(400, {"error": str(error)})
        return self.answer(200, [row.tolist() for row in labels])

    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Print nothing."""


def serve(tagger, port=0):
    """A server of a tagger, which all threads share."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.tagger = tagger
    return server


if __name__ == "__main__":
    model, *port = sys.argv[1:]
    with serve(Tagger.from_json(model), *map(int, port)) as server:
        print("port", server.server_port, flush=True)
        server.serve_forever()
