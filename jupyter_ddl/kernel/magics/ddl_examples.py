"""Has the examples below the help of each command of `%ddl`.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_ddl.commands.examples import Examples

EXAMPLES: Mapping[str, Examples] = {
    "start": (
        ("%ddl start -n 2", "two ranks: each has a GPU, or half of the cores"),
        ("%ddl start -H nodea:4,nodeb:4", "eight ranks on two hosts, over SSH"),
        ("%ddl start --profile gpu --idle-stop 30m", "at a place of the site's, until no cell has run for 30 minutes"),
    ),
    "restart": (
        ("%ddl restart", "as many ranks, without their variables"),
        ("%ddl restart -n 4 --env TF_CPP_MIN_LOG_LEVEL=2", "four, with a variable for TensorFlow"),
    ),
    "submit": (("%ddl submit -N 4 --gpus-per-node 4 --time 2:00", "a job of four nodes; %ddl attach uses its ranks"),),
    "jobs": (("%ddl jobs", "yours"), ("%ddl jobs --cancel 4711", "end one")),
    "profiles": (("%ddl profiles", "those of the site and yours"),),
    "status": (
        ("%ddl status", "a row for each rank"),
        ("%ddl status --topology", "and how the GPUs of each host are joined"),
    ),
    "stacks": (("%ddl stacks -r 3", "where rank 3 is now"),),
    "profile": (("%ddl profile -r 0,1", "where the time of two ranks goes"),),
    "interrupt": (("%ddl interrupt", "the cell ends; ranks and variables stay"),),
    "stop": (("%ddl stop", "end the ranks"),),
    "doctor": (("%ddl doctor", "check this machine"),),
    "attach": (
        ("%ddl attach", "ranks that another kernel started"),
        ("%ddl attach 4711", "those of a batch job"),
    ),
    "auto": (("%ddl auto on", "each cell without a magic runs on the ranks"),),
    "push": (("%ddl push x y", "set x and y on all ranks"),),
    "pull": (("%ddl pull loss -r 0", "set loss here to rank 0's"),),
    "runs": (
        ("%ddl runs -n 5", "the five newest"),
        ("%ddl runs --rename a3f1 'larger batch'", "name one"),
    ),
    "show": (("%ddl show a3f1", "the output of the run whose id ends so"),),
    "dashboard": (("%ddl dashboard", "the newest run's"),),
    "tensorboard": (("%ddl tensorboard", "the newest run"), ("%ddl tensorboard logs/fit", "a folder of yours")),
    "logs": (("%ddl logs -r 0 --tail 20", "the last lines of rank 0"), (r"%ddl logs --grep nan\b", "lines with nan")),
    "timeline": (("%ddl timeline --steps 100-130", "of the newest run, these steps one by one"),),
}

OF_CELLS: Examples = (
    ("%%distributed", "run the cell on all ranks"),
    ("%%distributed --auto", "a cell of Keras that was written for one GPU"),
    ("%%distributed --timeout 600 --on-stall abort", "end what takes longer, or waits for a rank that does not come"),
)
