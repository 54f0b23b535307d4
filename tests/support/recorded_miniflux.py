"""Miniflux as it really answered, see ``tests/imports/recorded/README.md``."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final

from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Request, Response

from tests.support.other_readers import NAME, PASSWORD, TOKEN, answer

FOLDER: Final = Path(__file__).parents[1] / "imports" / "recorded"
VERSIONS: Final = ("2.2.6", "2.3.4")
#: Where the recorded feeds were; ``host:port`` as settings name it.
FARM: Final = "127.0.0.4:8901"
_LONG: Final = "tag:google.com,2005:reader/item/"
_AUTH: Final = f"{NAME}/adaeeffe3aa749a4c694a093010e102bf8f83786"


class RecordedMiniflux:
    """Answers with recorded rows, in the pages that a request names.

    Attributes:
        stored_entries, stored_feeds: rows of its own database.
        bodies: address of a feed → what it served when it was recorded; one is gone.
        opml: its export.
    """

    def __init__(self, version: str) -> None:
        found = json.loads(gzip.decompress((FOLDER / f"miniflux-{version}.json.gz").read_bytes()))
        assert found["version"] == version
        self._version, self._found = version, found
        self.stored_entries: list[dict[str, Any]] = found["stored_entries"]
        self.stored_feeds: list[dict[str, str]] = found["stored_feeds"]
        self.bodies = {url: text.encode() for url, text in found["served"].items()}
        self.opml: bytes = found["opml"].encode()

    @property
    def entries(self) -> bytes:
        """Its answer to ``/v1/entries`` as a file."""
        return json.dumps({"total": len(self._found["entries"]), "entries": self._found["entries"]}).encode()

    def list_starred(self) -> list[dict[str, Any]]:
        return [row for row in self._found["entries"] if row["starred"]]

    def __call__(self, request: Request) -> Response:
        if request.path.startswith("/v1/"):
            if request.headers.get("X-Auth-Token") != TOKEN:
                return answer({"error_message": "Access Unauthorized"}, 401)
            return self._list_entries(request.args) if request.path == "/v1/entries" else self._list_feeds()
        if request.path == "/accounts/ClientLogin":
            if (request.form["Email"], request.form["Passwd"]) != (NAME, PASSWORD):
                return answer({"error_message": "Access Unauthorized"}, 401)
            return Response(f"SID={_AUTH}\nLSID={_AUTH}\nAuth={_AUTH}\n", content_type="text/plain")
        if request.headers.get("Authorization") != f"GoogleLogin auth={_AUTH}":
            return answer({"error_message": "Access Unauthorized"}, 401)
        name = request.path.removeprefix("/reader/api/0/")
        if name == "token":
            return Response(_AUTH, content_type="text/plain")
        if name == "stream/items/ids":
            return self._list_ids(request.args)
        if name == "stream/items/contents":
            return self._list_contents(request.form.getlist("i"), request.form.get("T", ""))
        return answer(self._found[name])

    def _list_feeds(self) -> Response:
        return answer(self._found["feeds"])

    def _list_entries(self, given: MultiDict[str, str]) -> Response:
        limit = int(given["limit"])
        if self._version >= "2.3" and limit > 1000:
            return answer({"error_message": "limit value should be \\u003c= 1000"}, 400)
        assert (given["order"], given["direction"]) == ("id", "desc")
        rows = [e for e in self._found["entries"] if e["starred"] or given.get("starred") != "true"]
        rows = [e for e in rows if e["id"] < int(given.get("before_entry_id", 1 << 40))]
        return answer({"total": len(rows), "entries": rows[:limit]})

    def _list_ids(self, given: MultiDict[str, str]) -> Response:
        assert given["output"] == "json"
        ids = self._found[given["s"].removeprefix("user/-/state/com.google/")]
        begin = int(given.get("c", 0))
        page = ids[begin : begin + int(given["n"])]
        more = {"continuation": str(begin + len(page))} if begin + len(page) < len(ids) else {}
        return answer({"itemRefs": [{"id": one} for one in page], **more})

    def _list_contents(self, ids: list[str], token: str) -> Response:
        assert token == _AUTH
        wanted = {self._read_id(one) for one in ids}
        rows = [row for row in self._found["contents"]["items"] if self._read_id(row["id"]) in wanted]
        if not rows:
            return answer({"error_message": "googlereader: no items returned from the database"}, 400)
        return answer({**self._found["contents"], "items": rows})

    def _read_id(self, one: str) -> int:
        """Return the number of an entry; 2.2.6 reads digits as hexadecimal ones."""
        if one.startswith(_LONG):
            return int(one.removeprefix(_LONG), 16)
        return int(one, 16 if self._version < "2.3" else 10)
