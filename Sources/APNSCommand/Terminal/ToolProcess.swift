#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The parts of its process that a command uses. Tests run commands in their own process, with other streams and
/// variables.
struct ToolProcess: Sendable {
    @TaskLocal static var current = ToolProcess()

    var variables = ProcessInfo.processInfo.environment
    var input: Int32 = 0
    var output: Int32 = 1
    var error: Int32 = 2
    /// Keeps the streams open as long as any task may write to them.
    var owner: (any Sendable)?
    /// Whether the command handles SIGINT and SIGTERM.
    var handlesSignals = true
    /// The width of the help in columns; nil for the terminal's width.
    var columns: Int?
}
