"""Accelerate, Lightning and Transformers train on the ranks as they are documented, and a cell with them runs again."""

from __future__ import annotations

import ast
import importlib.util

import pytest

import jupyter_ddl

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

DATA = """
import torch
torch.manual_seed(0)
inputs = torch.randn(64, 4)
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
        accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
        optimizer.step()
size, steps, trained = accelerator.num_processes, 3 * len(loader), accelerator.unwrap_model(model)
accelerator.end_training()
""",
    "lightning": """
import lightning
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layer(x), y)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.05)
trainer = lightning.Trainer(
    accelerator="cpu", devices=world_size, strategy="ddp", max_epochs=3, logger=False, enable_checkpointing=False,
    enable_progress_bar=False,
)
trained = Model()
trainer.fit(trained, loader)
size, steps = trainer.world_size, trainer.global_step
""",
    "transformers": """
import tempfile
from transformers import Trainer, TrainingArguments, BertConfig, BertForSequenceClassification
config = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
)
rows = [{"input_ids": torch.randint(0, 50, (8,)), "labels": torch.tensor(i % 2)} for i in range(64)]
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), per_device_train_batch_size=8, num_train_epochs=3, use_cpu=True, report_to=[],
    save_strategy="no", disable_tqdm=True,
)
trainer = Trainer(model=BertForSequenceClassification(config), args=arguments, train_dataset=rows)
steps, size, trained = trainer.train().global_step, arguments.world_size, trainer.model
""",
}
FOUND = "\n(size, steps, sum(one.double().sum().item() for one in trained.parameters()))"


@pytest.mark.parametrize("library", PROGRAMS)
def test_a_program_trains_one_model_on_all_ranks_and_runs_again(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    with jupyter_ddl.start(n=2, name=f"with-{library}", framework="torch") as session:
        for _ in range(2):
            result = session.run(DATA + PROGRAMS[library] + FOUND, timeout_s=200)
            found = [ast.literal_eval(result.ranks[rank].value or "") for rank in range(2)]
            assert found[0][:2] == (2, 12)
            assert found[0] == found[1]
