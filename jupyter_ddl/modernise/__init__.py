"""Rewrites a program's old Keras and Horovod spellings in today's: `jupyter ddl modernise`.

| module | owns |
|---|---|
| codemods/ | the rewriting, one subject a module |
| rewrite | one text of Python: codemods in turn, then what is left over |
| leftovers | what stays old, and the sentence that says what is written today |
| magic_lines | IPython's own lines, which are no Python |
| program_files | .py and .ipynb files, and their difference |
| names | what a name in a program means |

Programs are read by libcst, which keeps comments and layout; it is installed with the extra `modernise`.

Runs on: a terminal. Nothing is executed, and nothing imported, of the program.
"""
