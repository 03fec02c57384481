"""Gives programs that were written for IBM's DDL (WML CE, PowerAI) the module `ddl`, on ranks alone.

`import ddl` distributes the program. One that reads neither `ddl.rank()` nor `ddl.size()` is distributed as `--auto`
does; one that reads both divides its data itself, and its optimizers exchange their gradients (docs/ibm-ddl.md).

| module | owns |
|---|---|
| `serving` | what `import ddl` finds: this, or a module of the program's own |
| `uses` | whether this rank has imported it, and what the program has asked of it |
| `names` | the functions and classes that programs call |
| `wrapped_methods` | what `fit` and others of Keras then do |
| `loops` | updates outside of `fit`, and the optimizers of TensorFlow 1 |
| `session_hook` | the hook for sessions of TensorFlow 1 |
| `refusals` | what `import ddl` cannot distribute |

Source: IBM's documentation of WML CE ("Integration with TensorFlow"); the slides of B. Nelson and B. Nemanich, IBM, on
WML CE on Summit.

Runs on: every rank.
"""
