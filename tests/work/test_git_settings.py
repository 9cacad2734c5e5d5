"""Which settings of git count against whoever changes them."""

from __future__ import annotations

import pytest

from pytest_iterctl.work.git_settings import dangerous, suspicious

HARMLESS = {
    "user.email": "agent@localhost",
    "pull.rebase": "true",
    "branch.main.merge": "refs/heads/main",
    "alias.co": "checkout",
    "core.pager": "cat",
    "core.editor": "true",
    "pager.branch": "false",
    "core.hookspath": ".husky/_",
    "filter.lfs.clean": "git-lfs clean -- %f",
    "remote.upstream.url": "git@example.org:a/b.git",
    "remote.upstream.fetch": "+refs/heads/*:refs/remotes/upstream/*",
    "submodule.inner.url": "https://example.org/inner.git",
    "submodule.inner.update": "rebase",
    "core.sparsecheckout": "true",
    "extensions.worktreeconfig": "true",
    "http.postbuffer": "1048576",
    "diff.algorithm": "histogram",
    "merge.conflictstyle": "zdiff3",
    "commit.gpgsign": "false",
    "safe.directory": "*",
}
DANGEROUS = {
    "core.hooksPath": "hooks",
    "CORE.FSMONITOR": "./x",
    "alias.st": " !id",
    "core.pager": "sh -c id",
    "core.editor": "./x",
    "filter.lfs.clean": "./x",
    "submodule.inner.update": "!./x",
    "remote.origin.url": "ext::sh -c id",
    "remote.origin.uploadpack": "./x",
    "credential.https://example.org.helper": "!x",
    "includeIf.gitdir:/x/.path": "x",
    "url.x.pushInsteadOf": "y",
    "gpg.ssh.defaultKeyCommand": "./x",
    "merge.any.driver": "./x",
    "mergetool.any.cmd": "./x",
    "protocol.ext.allow": "always",
    "http.sslVerify": "false",
    "gc.pruneExpire": "now",
    "core.logAllRefUpdates": "false",
    "extensions.refStorage": "reftable",
    "core.bare": "true",
    "pager.log": "./x",
    "trailer.sign.cmd": "./x",
    "hook.x.command": "./x",
}


@pytest.mark.parametrize("key", HARMLESS)
def test_harmless_settings(key: str) -> None:
    assert not dangerous(key, (HARMLESS[key],))
    assert suspicious({}, {key: (HARMLESS[key],)}) == ()


@pytest.mark.parametrize("key", DANGEROUS)
def test_dangerous_settings(key: str) -> None:
    values = (DANGEROUS[key],)
    assert suspicious({}, {key: values}) == (key,)
    assert suspicious({key: values}, {key: values}) == ()


def test_what_a_user_had_must_not_go_or_lead_elsewhere() -> None:
    before = {"remote.origin.url": ("here",), "core.hookspath": ("hooks",), "user.name": ("me",)}
    assert suspicious(before, {}) == ("core.hookspath", "remote.origin.url")
    assert suspicious(before, before | {"remote.origin.url": ("there",)}) == ("remote.origin.url",)
