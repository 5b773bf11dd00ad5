"""The training loop for pretraining, fine-tuning, unlearning, and the retrained model."""
