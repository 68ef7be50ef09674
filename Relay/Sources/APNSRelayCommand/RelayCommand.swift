import APNSRelay
import ArgumentParser

@main
struct RelayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apns-relay",
        abstract: "Takes pushes over HTTP, keeps them in a file or a database, and sends them to APNs.",
        discussion: """
            Every push that the relay accepted ends in exactly one outcome, and none is silently sent twice, even if \
            the process is killed. Settings come from environment variables (APNS_RELAY_…) and from a JSON file. \
            Operating.md lists them, in the folder Relay of the repository and of /usr/share/doc/apns-relay.
            """,
        version: Relay.version,
        subcommands: [Serve.self, Submit.self, Doctor.self, Migrate.self, Restored.self],
        defaultSubcommand: Serve.self
    )
}

struct SettingsOptions: ParsableArguments {
    @Option(name: .long, help: ArgumentHelp("A JSON file with settings.", valueName: "file"))
    var config: String?

    func read() throws -> RelaySettings {
        try RelaySettings(try RelayProcess.sources(file: self.config))
    }
}

/// `apns-relay serve`
struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Runs the relay until SIGTERM or Ctrl-C.")

    @OptionGroup var settings: SettingsOptions

    func run() async throws {
        try await RelayProcess.serve(file: self.settings.config)
    }
}
