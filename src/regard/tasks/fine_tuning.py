"""A note on the learning rate of fine-tuning: small models learn with rates that ruin large ones."""

from regard.training.setup import Setup

SMALL_WIDTH = 256  # the recipes' learning rates were measured up to this width
HIGH_RATE = 1e-4


def check_rate(setup: Setup) -> None:
    """Says what is usual for a large initial model, if the learning rate is one for small models."""
    width, rate = getattr(setup.model, "width", 0), setup.train.learning_rate
    is_transformer = hasattr(setup.model, "heads")
    if setup.has_initial_model and is_transformer and width > SMALL_WIDTH and rate > HIGH_RATE:
        setup.say(
            f"note: a learning rate of {rate:g} is for small models, and the initial model has width {width:,}; "
            f"for a large pre-trained model, set train.learning_rate=5e-5 train.epochs=3"
        )
