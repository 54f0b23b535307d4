"""Time limits of MongoDB transactions, for the code that runs them and the server that ends them."""

from __future__ import annotations

#: Seconds, including all retries; the driver alone would retry for two minutes.
TRANSACTION_SECONDS = 10
#: Seconds after which the server ends a transaction whose process died; it checks every half of that.
#: Callers that wait for its documents outlast that; the default of a minute would block them for 90 s.
ABANDONED_SECONDS = 5
#: MongoDB's name for that setting.
SERVER_PARAMETER = "transactionLifetimeLimitSeconds"
