"""How long a transaction of MongoDB may take, for those who run them and for the server that ends them."""

from __future__ import annotations

#: With all its tries, seconds; the driver alone would try for two minutes.
TRANSACTION_SECONDS = 10
#: The server ends one whose process died after so many, and half as long again until it looks: who waits for
#: its documents outlasts it. With the server's own minute nobody could subscribe to such a feed for 90 s.
ABANDONED_SECONDS = 5
#: MongoDB's name for that.
SERVER_PARAMETER = "transactionLifetimeLimitSeconds"
