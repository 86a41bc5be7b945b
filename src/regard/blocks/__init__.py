"""The parts every model is made of. They need torch and nothing else.

Names end in their shape, one letter a dimension, the same letters in the whole project:

    B batch            H heads               V vocabulary
    T query length     K head width          P patches
    S key length       D width               M width of the memory, where it is not D
    L layers           F feed-forward width  E any other width
    N tokens of a batch in a row             W width of a beam
                                             A width in which additive scores are formed
                                             C channels of a convolution

A `1` is a dimension that broadcasts, another digit one of that size. Masks are named for what True means:
`allowed_BHTS`, `is_padding_BS`.
"""
