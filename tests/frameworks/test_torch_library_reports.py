"""What Lightning, Accelerate and Transformers log shows by itself; each trains on two ranks as it documents that."""

from __future__ import annotations

import importlib.util
from importlib import metadata

import pytest

import jupyter_ddl
from jupyter_ddl import paths
from jupyter_ddl.protocol.events import EpochEnded, MetricsSample
from jupyter_ddl.runs.reading import run_events

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

DATA = """
import torch
torch.manual_seed(0)
inputs = torch.randn(256, 4)
data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
"""
PROGRAMS = {
    "accelerate": """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        accelerator.log({"loss": loss.item(), "error": 0.5})
""",
    "lightning": """
import lightning
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        x, y = batch
        self.log("error", 0.5)
        return torch.nn.functional.mse_loss(self.layer(x), y)
    def validation_step(self, batch, index):
        x, y = batch
        self.log("val_loss", torch.nn.functional.mse_loss(self.layer(x), y))
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.05)
trainer = lightning.Trainer(
    accelerator="cpu", devices=world_size, strategy="ddp", max_epochs=3, logger=False, enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(Model(), loader, torch.utils.data.DataLoader(data, batch_size=16))
""",
    "transformers": """
import tempfile
from transformers import Trainer, TrainingArguments, BertConfig, BertForSequenceClassification
config = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
)
rows = [{"input_ids": torch.randint(0, 50, (8,)), "labels": torch.tensor(i % 2)} for i in range(256)]
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), per_device_train_batch_size=8, num_train_epochs=3, use_cpu=True, report_to=[],
    save_strategy="no", disable_tqdm=True, logging_steps=4, eval_strategy="epoch",
)
model = BertForSequenceClassification(config)
Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows[:32]).train()
""",
}
METRICS = {"accelerate": "error", "lightning": "error", "transformers": "learning_rate"}


@pytest.mark.parametrize("library", PROGRAMS)
def test_what_a_library_logs_is_shown(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    if library == "lightning" and not metadata.entry_points(group="lightning.pytorch.callbacks_factory"):
        pytest.skip("jupyter_ddl was installed before it had an entry point for Lightning")
    with jupyter_ddl.start(n=2, name=f"shows-{library}", framework="torch") as session:
        result = session.run(DATA + PROGRAMS[library], timeout_s=200, sample_every_s=0.1)
    assert "WARNING: " not in result.ranks[0].stderr + result.ranks[1].stderr
    events = list(run_events(paths.runs_dir() / result.run))
    for rank in (0, 1):
        mine = [one for one in events if isinstance(one, MetricsSample) and one.rank == rank and one.steps]
        assert (mine[-1].step, mine[-1].epoch) == (48, 2)
        assert mine[-1].loss is not None
        assert METRICS[library] in mine[-1].metrics
    epochs = [one for one in events if isinstance(one, EpochEnded)]
    if library != "accelerate":
        assert [(one.rank, one.epoch, one.is_last) for one in epochs][-1] == (0, 2, True)
        assert all("val_loss" in one.metrics for one in epochs)
