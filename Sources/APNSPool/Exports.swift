// `import APNSPool` is all that a user needs: notifications, tokens and outcomes come with it.
@_exported public import APNSModel
// What `APNSClient.status` is made of.
@_exported public import struct SupervisedPool.PoolStatus
