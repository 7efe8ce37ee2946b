"""The one place where a principal's rights are asked for."""

from __future__ import annotations

from kektordb.errors import PermissionDeniedError
from kektordb.model.view import Principal, Scope


def require(principal: Principal, right: str, *, to: str) -> None:
    if right not in principal.rights:
        raise PermissionDeniedError(
            f"this principal may not {to}", hint=f"it needs the right {right!r}", right=right, operation=to
        )


def is_own(principal: Principal, scope: Scope) -> bool:
    """A row that is open to every user is not one user's to change."""
    return principal.user is None or scope.user is not None


def require_own(principal: Principal, scope: Scope, *, to: str) -> None:
    if not is_own(principal, scope):
        require(principal, "share", to=f"{to} a memory that every user reads")


def own_scope(principal: Principal, share: tuple[str, ...]) -> Scope:
    """What the principal's writes are stamped with; each part in `share` is left open, which needs a right."""
    if share:
        require(principal, "share", to="write for others")
    return Scope(
        user=None if "user" in share else principal.user,
        agent=None if "agent" in share else principal.agent,
        session=None if "session" in share else principal.session,
    )
