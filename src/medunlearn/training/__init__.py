"""One loop for everything that trains: pretraining, fine-tuning, unlearning, the retrained model."""
