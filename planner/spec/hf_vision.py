"""Parameters of the vision towers that engines load beside a language model."""

from __future__ import annotations

from planner.spec.hf_fields import Fields


def _encoder_layer(hidden: int, intermediate: int) -> int:
    """Return a ViT layer's parameters: four projections, two MLP matrices, two LayerNorms, biases.

    >>> _encoder_layer(2, 3)
    49
    """
    attention = 4 * (hidden * hidden + hidden)
    mlp = 2 * hidden * intermediate + intermediate + hidden
    return attention + mlp + 4 * hidden


def siglip_tower(vision: Fields, text_hidden: int) -> int:
    """Return the parameters of Gemma 3's SigLIP tower and its projector.

    Patch convolution with bias, learned positions, encoder, final LayerNorm; the projector is one
    matrix to the language model's width and one norm.
    """
    hidden = vision.integer("hidden_size")
    patch = vision.integer("patch_size")
    patches = (vision.integer("image_size") // patch) ** 2
    embedding = vision.integer("num_channels", 3) * patch * patch * hidden + hidden
    layers = vision.integer("num_hidden_layers") * _encoder_layer(
        hidden, vision.integer("intermediate_size")
    )
    tower = embedding + patches * hidden + layers + 2 * hidden
    return tower + hidden * text_hidden + hidden


def llama4_tower(vision: Fields, text_hidden: int) -> int:
    """Return the parameters of Llama 4's vision tower, its pixel-shuffle MLP and projector.

    Patch matrix without bias, class token, learned positions, two LayerNorms around the encoder;
    then intermediate → input → output widths and the language model's, without biases.
    """
    hidden = vision.integer("hidden_size")
    intermediate = vision.integer("intermediate_size")
    patch = vision.integer("patch_size")
    positions = (vision.integer("image_size") // patch) ** 2 + 1
    embedding = vision.integer("num_channels", 3) * patch * patch * hidden + hidden
    layers = vision.integer("num_hidden_layers") * _encoder_layer(hidden, intermediate)
    tower = embedding + positions * hidden + layers + 4 * hidden
    middle = vision.integer("projector_input_dim")
    output = vision.integer("projector_output_dim")
    adapter = intermediate * middle + middle * output
    return tower + adapter + vision.integer("vision_output_dim") * text_hidden


def qwen3_tower(vision: Fields) -> int:
    """Return the parameters of Qwen 3.5's vision tower and its merger.

    Patch convolution over space and time with bias, learned positions, encoder; the merger joins
    `spatial_merge_size`² patches with one LayerNorm and two matrices with biases.
    """
    hidden = vision.integer("hidden_size")
    out = vision.integer("out_hidden_size")
    pixels = vision.integer("patch_size") ** 2 * vision.integer("temporal_patch_size", 2)
    embedding = vision.integer("in_channels", 3) * pixels * hidden + hidden
    positions = vision.integer("num_position_embeddings") * hidden
    layers = vision.integer("depth") * _encoder_layer(hidden, vision.integer("intermediate_size"))
    joined = vision.integer("spatial_merge_size", 2) ** 2 * hidden
    merger = 2 * hidden + joined * joined + joined + joined * out + out
    return embedding + positions + layers + merger


def pixtral_tower(vision: Fields, text_hidden: int) -> int:
    """Return the parameters of Pixtral's vision tower and the projector to the language model.

    Patch convolution without bias and a norm; layers of four projections, a gated MLP and two
    norms; the projector has a norm, a 2 × 2 patch merger and two matrices, all without biases.
    """
    hidden = vision.integer("hidden_size")
    patch = vision.integer("patch_size")
    heads = vision.integer("num_attention_heads") * vision.integer("head_dim", 64)
    layer = 4 * hidden * heads + 3 * hidden * vision.integer("intermediate_size") + 2 * hidden
    tower = vision.integer("num_channels", 3) * patch**2 * hidden + hidden
    tower += vision.integer("num_hidden_layers") * layer
    projector = hidden + 4 * hidden * hidden + hidden * text_hidden + text_hidden**2
    return tower + projector
