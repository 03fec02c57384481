"""Profiles: places that a site or a user named in TOML, and what a start or a job takes from them.

| module | what is in it |
|---|---|
| `job_defaults` | what a profile says of a batch job |
| `limits` | what a profile allows |
| `loaded_modules` | the variables that `module load` and lines of setup change |
| `places` | the files that profiles are in, and whom they are trusted from |
| `profile` | a profile: its keys and their types |
| `reading` | a file's profiles; all of a user's profiles |
| `site_limits` | what the machine's own profile allows all starts on this host |
| `start_options` | what a profile says of a start |
"""
