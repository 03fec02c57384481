"""Programs of Accelerate, Lightning and Transformers as these document them; each logs what it measures.

After one `steps`, `size` and `trained` are its number of steps and of processes, and its model.
"""

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
trained = Model()
trainer.fit(trained, loader, torch.utils.data.DataLoader(data, batch_size=16))
size, steps = trainer.world_size, trainer.global_step
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
trainer = Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows[:32])
steps, size, trained = trainer.train().global_step, arguments.world_size, trainer.model
""",
}
# With STAGE: 0 for whole weights on all ranks, 1 to 3 for parts of what the optimizer has, and of more.
DEEPSPEED = """
import deepspeed
deepspeed.init_distributed("gloo")
model = torch.nn.Linear(4, 1)
config = {
    "train_micro_batch_size_per_gpu": 8,
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
    "zero_optimization": {"stage": STAGE},
}
engine, _, loader, _ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(), training_data=data, config=config
)
for epoch in range(3):
    for x, y in loader:
        engine.backward(torch.nn.functional.mse_loss(engine(x), y))
        engine.step()
size, steps = engine.world_size, engine.global_steps
with deepspeed.zero.GatheredParameters(list(model.parameters())):
    trained = torch.nn.Linear(4, 1)
    trained.load_state_dict(model.state_dict())
"""
