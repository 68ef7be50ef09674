// `import APNSPool` is all that a user needs: notifications, tokens and outcomes come with it.
@_exported public import APNSModel
