import APNSPool
import ArgumentParser

/// The command-line tool `apns`.
@main
struct APNSTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apns",
        abstract: "Sends push notifications to Apple devices, and simulates APNs.",
        discussion: """
            Start with `apns demo`, which needs nothing: it runs a simulator of APNs and sends to it. Then, with a key \
            from the developer portal:

              apns send --key AuthKey_9UC9ZLQ8YW.p8 --team-id ABBM6U9RM5 \\
                --topic com.grasscove.Fern --title "Hey There" 740f4707bebcf74f

            Or without a key, against a simulator in another terminal:

              apns simulator --port 2197 --write-credentials ./sim
              set -a; . ./sim/apns.env; set +a
              apns send --title "Hey There" 740f4707bebcf74f

            Where a push does not go, `apns doctor` says why. All options of a connection can also stand in the             environment or in a file (--config); the command line goes before the environment, and that before the file.

            Completion of commands, options and files, here for bash (or zsh, fish):

              apns --generate-completion-script bash \
                > ~/.local/share/bash-completion/completions/apns

            \(ExitStatus.help)
            """,
        version: "0.1.0",
        subcommands: [
            SendCommand.self, BulkCommand.self, BroadcastCommand.self, ChannelsCommand.self, DoctorCommand.self,
            ProviderTokenCommand.self, SimulatorCommand.self, DemoCommand.self,
        ]
    )

    /// What the library's settings are called here.
    private static let options = [
        "authentication.keyFile": "--key", "authentication.keyID": "--key-id", "authentication.teamID": "--team-id",
        "trust.caFile": "--ca-file", "environment.host": "--endpoint", "environment.port": "--endpoint",
        "proxy.host": "--proxy", "proxy.port": "--proxy", "proxy.username": "--proxy", "proxy.password": "--proxy",
        "authentication.certificateFile": "--certificate", "authentication.pkcs12File": "--certificate",
        "authentication.passphrase": "--certificate-password-file",
    ]

    /// Nil: none sets it.
    static func option(for setting: String) -> String? { self.options[setting] }

    static func main() async {
        Standard.ignoreBrokenPipes()
        do {
            var command = try self.parseAsRoot()
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch let error as APNSConfigurationError {
            let option = self.options[error.setting].map { "\($0): " } ?? ""
            Standard.error.print("apns: \(option)\(error.message) (\(error.setting), \(error.code))")
            self.exit(withError: ExitStatus.configuration)
        } catch let error as InputOutputError {
            Standard.error.print("apns: \(error)")
            self.exit(withError: ExitStatus.inputOutput)
        } catch {
            self.exit(withError: error)
        }
    }
}
