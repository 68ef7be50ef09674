import Logging

/// Log lines on standard error, for people: `warning: connection lost, backing off fault=… connection=0`.
struct PlainLogHandler: LogHandler {
    var logLevel = Logger.Level.warning
    var metadata = Logger.Metadata()
    var metadataProvider: Logger.MetadataProvider?
    /// The process of the command that created this handler. Log lines also come from tasks outside the command.
    private let process = ToolProcess.current

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var all = self.metadata
        if let provided = self.metadataProvider?.get() { all.merge(provided) { $1 } }
        if let own = event.metadata { all.merge(own) { $1 } }
        var line = "\(event.level): \(event.message)"
        for (key, value) in all.sorted(by: { $0.key < $1.key }) { line += " \(key)=\(value)" }
        if let error = event.error { line += " error=\(error)" }
        Standard(descriptor: self.process.error).print(line.replacing("\n", with: " "))
    }
}

extension Logger {
    /// - Parameter isVerbose: whether to log every connection event; otherwise only events that need attention.
    static func plain(isVerbose: Bool) -> Logger {
        var handler = PlainLogHandler()
        handler.logLevel = isVerbose ? .debug : .warning
        return Logger(label: "apns", factory: { _ in handler })
    }
}
