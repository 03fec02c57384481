"""Shows how a loop of PyTorch's trains, and checks that the ranks train one model, each on its own data.

| module | owns |
|---|---|
| `installation` | what is hooked when a program imports torch |
| `hooks` | the hooks: DataLoader, backward, optimizer, process groups |
| `steps` | which batches make a step, and how long it took |
| `exchange` | how long a step waited for the other ranks |
| `source` | the figures, as the sampler takes them |
| `logged` | what libraries log on this rank |
| `libraries`, `lightning_callback`, `transformers_callback` | how Lightning, Accelerate and Transformers are asked |
| `batches` | a batch's samples, and what its bytes tell |
| `weights` | checksums of an optimizer's parameters |
| `notes` | what ranks write down for each other |
| `judgement` | what the notes of all ranks say |
| `checks` | when ranks look, and what they do then |

Nothing here enters a collective, and nothing imports torch before the program does.

Runs on: every rank.
"""
