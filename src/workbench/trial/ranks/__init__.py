"""Several ranks that train one trial: what happens inside each rank's process. Law: training code is not changed.

``gang.start`` is the door. It averages gradients (``replicate``, ``buckets``), keeps buffers and BatchNorm those of one
process (``buffers``, ``norms``), gives each rank its part of a batch (``sharding``, ``orders``, ``samples``), reduces
reports (``reduce``, ``totals``), waits for the other ranks (``together``) and compares them (``agree``). Code that uses
``torch.distributed`` itself finds the usual variables and is left alone (``environment``). Decision 057.
"""
