@_spi(Relay) import APNSPool
import Foundation
import Logging
package import PushQueue
import ServiceLifecycle

/// A file in which a relay remembers how far it has seen its queue come, so that it notices at its next start if a backup of
/// the queue was restored.
///
/// It must not be restored together with the queue.
package struct ProgressFile: Sendable {
    package let path: String

    package init(path: String) {
        self.path = path
    }

    /// Reads the file.
    ///
    /// - Returns: nil if there is no file or it is empty.
    /// - Throws: `QueueError` (`unusable`) if it is another file or none at all, or cannot be read.
    package func read() throws(QueueError) -> QueueProgress? {
        try self.check()
        guard let bytes = try? Data(contentsOf: URL(fileURLWithPath: self.path)) else { return nil }
        return Self.progress(in: bytes)
    }

    /// Replaces the file, or the one to which a symbolic link leads.
    ///
    /// - Throws: `QueueError` if another file has taken its place; an error of the file system.
    func write(_ progress: QueueProgress) throws {
        try self.check()
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let file = URL(fileURLWithPath: OutputFile(self.path).path)
        try encoder.encode(progress).write(to: file, options: .atomic)
    }

    /// Refuses a file that must not be overwritten.
    private func check() throws(QueueError) {
        let refusal = OutputFile(self.path).refusal(purpose: "the progress of a queue") {
            Self.progress(in: Data($0)) != nil
        }
        if let refusal { throw QueueError(code: .unusable, message: "storage.progressFile: \(refusal)") }
    }

    private static func progress(in bytes: Data) -> QueueProgress? {
        try? JSONDecoder().decode(QueueProgress.self, from: bytes)
    }
}

/// Writes the progress of a queue to its file each second, and once more at the end.
struct ProgressService: Service {
    let file: ProgressFile
    let queue: any PushQueue
    let logger: Logger

    func run() async throws {
        var writer = await cancelWhenGracefulShutdown {
            var writer = Writer()
            repeat { self.write(&writer) } while (try? await Task.sleep(for: .seconds(1))) != nil
            return writer
        }
        self.write(&writer)
    }

    private struct Writer {
        var written: QueueProgress?
        /// The last error, which is logged once.
        var problem: String?
    }

    private func write(_ writer: inout Writer) {
        guard let progress = self.queue.progress, progress != writer.written else { return }
        do {
            try self.file.write(progress)
            writer = Writer(written: progress)
        } catch {
            let problem = (error as? QueueError)?.message ?? error.localizedDescription
            guard problem != writer.problem else { return }
            writer.problem = problem
            self.logger.warning(
                """
                The progress of the queue cannot be stored, so this relay does not notice at its next start if a backup of \
                the queue was restored. Set storage.progressFile to a file that it may write
                """,
                metadata: ["file": "\(self.file.path)", "error": "\(problem)"]
            )
        }
    }
}
