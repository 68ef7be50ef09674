import APNSRelay
import ArgumentParser
import Foundation

/// `apns-relay move`
struct Move: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Moves a queue from a file to a PostgreSQL database, or back.",
        discussion: """
            Stop the relays of both places first. The target must be an empty database, or a file that does not exist \
            yet. Pushes without an outcome, parked pushes, the outcomes that are kept, idempotency keys and the positions of \
            webhooks are moved; cursors of the feed stay valid. The payloads of settled pushes are not moved. While the move \
            runs, no relay can use either queue. When it has ended, relays can use only the target. If the command is \
            interrupted, run it again.
            """
    )

    @Option(help: ArgumentHelp("The queue to move: a path, or a URL (postgres://…).", valueName: "place"))
    var from: String

    @Option(help: ArgumentHelp("Where to move it: a path, or a URL (postgres://…).", valueName: "place"))
    var to: String?

    @Flag(help: "Give up an unfinished move, so that relays can use the queue given by --from again.")
    var cancel = false

    func validate() throws {
        if self.cancel == (self.to != nil) { throw ValidationError("Give either --to or --cancel.") }
    }

    func run() async throws {
        let source = try RelayProcess.QueuePlace(self.from)
        guard let to else {
            try await RelayProcess.cancelMove(of: source)
            return print("The move was given up. Relays can use \(source) again.")
        }
        let result = try await RelayProcess.move(from: source, to: try RelayProcess.QueuePlace(to)) { line in
            FileHandle.standardError.write(Data("\(line)\n".utf8))
        }
        print(result)
    }
}
