// `VirtualDevice`, `PushHint` and the others come with `import APNSSimulator`.
@_exported public import APNSDevices
