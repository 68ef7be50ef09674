import APNSPool
import Foundation
import Logging
import ServiceLifecycle

@main
struct Outbox {
    static func main() async {
        let logger = Logger(label: "outbox")
        do {
            try await serve(logger)
        } catch {
            logger.critical("\(error)")
            exit(1)
        }
    }

    static func serve(_ logger: Logger) async throws {
        let client = try APNSClient(configuration: APNSClientConfiguration(settings: [.environment()]))
        let folder = URL(filePath: "outbox", directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        // The group stops the last service first, so the client comes before the services that send with it.
        let group = ServiceGroup(
            services: [client, FolderService(folder: folder, sender: client, logger: logger)],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger
        )
        try await group.run()
    }
}

/// Sends the push of each JSON file in a folder, and removes the file when the push has a final outcome.
struct FolderService: Service {
    struct Entry: Decodable {
        var deviceToken: String
        var title: String
    }

    let folder: URL
    let sender: any PushSender
    let logger: Logger

    func run() async throws {
        while !Task.isShuttingDownGracefully {
            try await self.sendFiles()
            try? await cancelWhenGracefulShutdown { try await Task.sleep(for: .seconds(1)) }
        }
    }

    func sendFiles() async throws {
        let files = try FileManager.default.contentsOfDirectory(at: self.folder, includingPropertiesForKeys: nil)
        for file in files where file.pathExtension == "json" && !Task.isShuttingDownGracefully {
            guard let entry = try? JSONDecoder().decode(Entry.self, from: Data(contentsOf: file)) else {
                self.logger.error("\(file.lastPathComponent) is not a push: it needs deviceToken and title")
                try FileManager.default.moveItem(at: file, to: file.appendingPathExtension("invalid"))
                continue
            }
            let notification = PushNotification(topic: "com.grasscove.Fern", alert: Alert(title: entry.title))
            let outcome = await self.sender.deliver(notification, to: entry.deviceToken)
            if let error = outcome.error { self.logger.warning("\(file.lastPathComponent): \(error)") }
            // The file stays for the next round if the push did not arrive and may be sent again.
            if !outcome.canResend { try FileManager.default.removeItem(at: file) }
        }
    }
}
