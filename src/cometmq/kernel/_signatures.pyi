from cometmq.kernel.declines import KnownSigner as KnownSigner
