"""The headers of every answer, of errors too."""

from __future__ import annotations

_POLICY = (
    ("default-src", "'none'"),
    ("script-src", "'self'"),
    ("style-src", "'self'"),
    ("img-src", "'self' data:"),
    ("connect-src", "'self'"),
    ("form-action", "'self'"),
    ("frame-ancestors", "'none'"),
    ("base-uri", "'none'"),
)
CONTENT_SECURITY_POLICY = "; ".join(f"{name} {value}" for name, value in _POLICY)
ALWAYS = (
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
#: What is stored may be secret, and is old in a second.
NO_STORE = ("cache-control", "private, no-store")
#: The name holds a digest of the content.
FOR_EVER = ("cache-control", "public, max-age=31536000, immutable")
