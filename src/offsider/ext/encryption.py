"""Encrypts the last argument of a job: ``config.use(Encryption(...))`` in clients and in workers.

1. A push is encrypted once, after codec and unique lock, and before the check of its size. The payload has ``encrypt``,
   so Sidekiq's pages show ``[encrypted data]``; the envelope is ours, because that of Sidekiq Enterprise is not public.
2. AES-256-GCM authenticates class and jid together with the text: it belongs to no other job.
3. A worker decrypts it for the run and for ``retry_in`` and ``on_exhausted``. The stored bytes stay.
4. Results, steps and cursors of such a job are encrypted too.
5. The name of a unique lock is an HMAC with a key that never changes.
"""

from __future__ import annotations

import base64
import hmac
import inspect
import json
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from offsider.core.errors import ConfigurationError, DecryptionFailed, InvalidArguments, InvalidOptions
from offsider.core.payload import encode_text

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError as error:
    raise ConfigurationError(
        'offsider.ext.encryption needs cryptography: pip install "offsider[encryption]"'
    ) from error

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.payload import JobPayload
    from offsider.runtime.context import JobContext
    from offsider.runtime.middleware import Middleware, Push

ENCRYPT = "encrypt"
_PREFIX = "offsider"
_KEY_ID = re.compile(r"[A-Za-z0-9_.-]{1,50}")
_KEY_BYTES, _NONCE_BYTES = 32, 12


class Encryption:
    """Extension that encrypts the last argument of jobs with the option ``encrypt=True``.

    ::

        config.use(Encryption({"2026-11": key}, current="2026-11"))

    To rotate, add a key everywhere, make it the current one, and remove the old one when no job has it any more.

    Args:
        keys: id of a key -> 32 bytes, or their base64 text, as `new_key` returns it.
        current: id of the key that encrypts.
        digest_key: for the names of unique locks; the same forever. Needed by jobs that are unique and encrypted.

    Raises:
        ConfigurationError: a key or an id is invalid, or ``current`` is not among them.
    """

    name = "encryption"

    def __init__(self, keys: Mapping[str, bytes | str], *, current: str, digest_key: bytes | str | None = None) -> None:
        for key_id in keys:
            if not _KEY_ID.fullmatch(key_id):
                raise ConfigurationError(
                    f"Encryption(keys=…): {key_id!r} is no id of a key; use up to 50 letters, digits, _ . and -"
                )
        self._ciphers = {key_id: AESGCM(_key(key, f"keys[{key_id!r}]")) for key_id, key in keys.items()}
        if current not in self._ciphers:
            raise ConfigurationError(f"Encryption(current={current!r}) is not among its keys: {', '.join(keys)}")
        self._current = current
        self._digest_key = None if digest_key is None else _key(digest_key, "digest_key")

    @staticmethod
    def new_key() -> str:
        """Return a random key as base64 text."""
        return base64.b64encode(os.urandom(_KEY_BYTES)).decode()

    def install(self, config: Config) -> None:
        """Add the option, and the middleware that decrypts."""
        config.encryption = self
        config.add_job_option(ENCRYPT, check_switch)
        config.server_middleware.add(_Decrypting(self))

    def seal(self, push: Push) -> None:
        """Encrypt the last argument of a push. Raises InvalidArguments without one."""
        payload = cast("dict[str, Any]", push.payload)
        args: list[Any] = payload["args"]
        if not args:
            raise InvalidArguments(f"{payload['class']}: encrypt=True needs a positional argument, the last one")
        declared = getattr(push.job, "signature", None)
        if declared is not None and any(each.default is not each.empty for each in _by_position(declared)):
            raise InvalidOptions(
                f"{payload['class']}: encrypt=True encrypts the last argument, so none by position can be left out: "
                "take the defaults away, or make these parameters keyword-only"
            )
        payload["args"] = [*args[:-1], self.seal_value(args[-1], push.payload)]

    def opened(self, payload: JobPayload) -> JobPayload:
        """Return a payload with its last argument decrypted. Raises DecryptionFailed."""
        args = payload.get("args")
        if not payload.get(ENCRYPT) or not args:
            return payload
        return cast("JobPayload", {**payload, "args": [*args[:-1], self.open_value(args[-1], payload)]})

    def seal_value(self, value: Any, payload: Mapping[str, Any], what: str = "") -> str:
        """Encrypt a value of a job: an argument, or ``what`` else."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._ciphers[self._current].encrypt(nonce, encode_text(value).encode(), _about(payload, what))
        return f"{_PREFIX}:{self._current}:{base64.b64encode(nonce + sealed).decode()}"

    def is_sealed(self, value: object) -> bool:
        """Return whether a value has the form of an encrypted one, and the id of a known key."""
        parts = value.split(":") if isinstance(value, str) else ()
        return len(parts) == 3 and parts[0] == _PREFIX and parts[1] in self._ciphers

    def open_value(self, sealed: object, payload: Mapping[str, Any], what: str = "") -> Any:
        """Decrypt what `seal_value` has returned.

        Raises:
            DecryptionFailed: its key is unknown; it is not encrypted, or changed, or of another job.
        """
        name, jid = payload.get("class", ""), payload.get("jid", "")
        prefix, _, rest = sealed.partition(":") if isinstance(sealed, str) else ("", "", "")
        key_id, _, encoded = rest.partition(":")
        subject = f"{name} JID-{jid}: its {what or 'last argument'}"
        if prefix != _PREFIX:
            raise DecryptionFailed(f"{subject} is not encrypted, but the job has encrypt: another program pushed it")
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise DecryptionFailed(
                f"{subject} is encrypted with the key {key_id!r}, which Encryption(keys=…) of this worker does not have"
            )
        try:
            raw = base64.b64decode(encoded, validate=True)
            return json.loads(cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], _about(payload, what)))
        except (ValueError, InvalidTag):
            raise DecryptionFailed(
                f"{subject} cannot be decrypted with the key {key_id!r}: it was changed, belongs to another job, or "
                "the key is another one"
            ) from None

    def digest(self, text: str) -> str:
        """Return the name of a unique lock. Raises InvalidOptions without a ``digest_key``."""
        if self._digest_key is None:
            raise InvalidOptions("a job that is encrypted and unique needs Encryption(digest_key=…)")
        return hmac.digest(self._digest_key, text.encode(), "sha256").hex()


class _Decrypting:
    """Server middleware that decrypts the argument for the run, and hides it again from the middleware around it."""

    def __init__(self, encryption: Encryption) -> None:
        self._encryption = encryption

    def concerns(self, job: JobContext) -> bool:
        return ENCRYPT in job.payload

    def __call__(self, job: JobContext) -> Middleware:
        sealed = job.payload
        job.payload = self._encryption.opened(sealed)
        try:
            yield
        finally:
            job.payload = sealed


def _by_position(signature: Any) -> list[inspect.Parameter]:
    """Return the parameters that take positional arguments; one that takes any number counts as left out."""
    found: list[inspect.Parameter] = []
    for each in cast("list[inspect.Parameter]", signature.parameters):
        if each.kind is each.VAR_POSITIONAL:
            found.append(each.replace(kind=each.POSITIONAL_ONLY, default=None))
        elif each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD):
            found.append(each)
    return found


def check_switch(value: object) -> None:
    """Raise ValueError unless the value is a bool."""
    if not isinstance(value, bool):
        raise ValueError(f"{ENCRYPT} must be True or False, got {value!r}")  # noqa: TRY004  # as all checks


def _about(payload: Mapping[str, Any], what: str) -> bytes:
    return f"{payload.get('class', '')}\n{payload.get('jid', '')}\n{what}".encode()


def _key(given: bytes | str, what: str) -> bytes:
    try:
        key = base64.b64decode(given, validate=True) if isinstance(given, str) else given
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise ConfigurationError(
            f"Encryption: {what} must have {_KEY_BYTES} bytes, or be their base64 text; Encryption.new_key() makes one"
        )
    return key
