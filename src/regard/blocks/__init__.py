"""Building blocks of all models. They depend on torch only.

Tensor names end in their shape, one letter per dimension, with the same letters in the whole project:

    B batch            H heads               V vocabulary
    T query length     K head width          P patches
    S key length       D width               M width of the memory, if it differs from D
    L layers           F feed-forward width  E any other width
    N tokens of a batch, flattened           W beam width
    Y rows of an image                       X columns of an image
                                             A width of additive scores
                                             C channels of a convolution or an image

A `1` is a dimension that broadcasts; any other digit is its size. Masks are named for what True means:
`allowed_BHTS`, `is_padding_BS`.
"""
