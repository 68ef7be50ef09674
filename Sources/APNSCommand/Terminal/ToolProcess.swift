#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// What a command has of its process. Tests run commands in their own process, with other streams and variables.
struct ToolProcess: Sendable {
    @TaskLocal static var current = ToolProcess()

    var variables = ProcessInfo.processInfo.environment
    var input: Int32 = 0
    var output: Int32 = 1
    var error: Int32 = 2
    /// What keeps the streams open as long as anybody may write to them.
    var owner: (any Sendable)?
    /// Whether SIGINT and SIGTERM are for the command.
    var handlesSignals = true
    /// How wide the help is; nil: as the terminal.
    var columns: Int?
}
