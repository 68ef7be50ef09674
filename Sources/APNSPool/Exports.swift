// `import APNSPool` is all that a user needs: notifications, tokens and outcomes come with it.
@_exported public import APNSModel
// What `APNSClient`'s `status`, `prewarm` and `invalidTokens` are made of.
@_exported public import struct SupervisedPool.EventStream
@_exported public import struct SupervisedPool.PoolError
@_exported public import struct SupervisedPool.PoolStatus
