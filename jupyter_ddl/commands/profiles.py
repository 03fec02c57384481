"""Lists profiles."""

from __future__ import annotations

from jupyter_ddl.launch.profiles.places import profile_folders
from jupyter_ddl.launch.profiles.reading import all_profiles
from jupyter_ddl.protocol.aligned_rows import aligned


def listing() -> str:
    """Return the profiles as lines: name, launcher, description, file.

    Raises:
        InvalidInput: a file of profiles breaks a rule.
    """
    found = sorted(all_profiles().items())
    if not found:
        return f"No profiles. Files of them are looked for in {', '.join(map(str, profile_folders()))}."
    rows = [("profile", "launcher", "description", "file")]
    rows += [(name, one.profile.launcher, one.profile.description, one.file) for name, one in found]
    return "\n".join(aligned(rows))
