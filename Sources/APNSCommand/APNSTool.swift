@_spi(Relay) import APNSModel
import APNSPool
import ArgumentParser

/// The command-line tool `apns`.
@main
struct APNSTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apns",
        abstract: "Sends push notifications to Apple devices, and simulates APNs.",
        discussion: """
            Start with `apns demo`, which needs no key: it runs a simulator of APNs and sends pushes to it. Then send \
            a push with a key from the developer portal:

              apns send --key AuthKey_9UC9ZLQ8YW.p8 --team-id ABBM6U9RM5 \\
                --topic com.grasscove.Fern --title "Hey There" 740f4707bebcf74f

            Or, without a key, run a simulator in another terminal and send to it:

              apns simulator --port 2197 --write-credentials ./sim
              set -a; . ./sim/apns.env; set +a
              apns send --title "Hey There" 740f4707bebcf74f

            If pushes fail, run `apns doctor` to find out why. You can also set each connection option \
            in the environment or in a file (--config). The command line overrides the environment, and the \
            environment overrides the file.

            Install the completion of commands, options and files for bash (or zsh, fish):

              apns --generate-completion-script bash \\
                > ~/.local/share/bash-completion/completions/apns

            \(ExitStatus.help)
            """,
        version: "0.1.0",
        subcommands: [
            SendCommand.self, BulkCommand.self, BroadcastCommand.self, ChannelsCommand.self, DoctorCommand.self,
            ProviderTokenCommand.self, SimulatorCommand.self, DemoCommand.self,
        ]
    )

    static func main() async {
        Standard.ignoreBrokenPipes()
        let status = await self.status(of: Array(CommandLine.arguments.dropFirst()))
        self.exit(withError: ExitCode(status))
    }

    /// Runs a command.
    ///
    /// - Parameter arguments: The arguments without the tool's name.
    /// - Returns: The exit status.
    static func status(of arguments: [String]) async -> Int32 {
        var running: any ParsableCommand.Type = self
        do {
            if let error = self.unknownCommand(in: arguments, of: &running) { throw error }
            if let error = self.textOfKey(in: arguments) { throw error }
            var command = try self.parseAsRoot(arguments)
            running = type(of: command)
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
            return ExitStatus.success.rawValue
        } catch let error as APNSSettingsError {
            for fault in error.faults { Standard.error.print("apns: \(fault)") }
            return ExitStatus.status(of: error.faults.map(\.code)).rawValue
        } catch let error as APNSConfigurationError {
            Standard.error.print("apns: \(error.setting): \(error.message)")
            return ExitStatus.status(of: [error.code]).rawValue
        } catch let error as InputOutputError {
            Standard.error.print("apns: \(error)")
            return ExitStatus.inputOutput.rawValue
        } catch let error as UsageError {
            // The parser does not know which command ran, and would print the usage of `apns` itself.
            Standard.error.print("Error: \(error.message)\n\(self.usage(of: running))")
            return ExitStatus.usage.rawValue
        } catch {
            // An error of the parser: help, version, or an unsupported option.
            let text = self.fullMessage(for: error, columns: ToolProcess.current.columns)
            let code = self.exitCode(for: error)
            if !text.isEmpty { (code.isSuccess ? Standard.output : Standard.error).print(text) }
            return code.rawValue
        }
    }

    /// An error for the first argument that should be a command but is not. The parser would report an option after it
    /// instead.
    ///
    /// - Parameter parent: Set to the command that received the argument.
    private static func unknownCommand(
        in arguments: [String],
        of parent: inout any ParsableCommand.Type
    ) -> UsageError? {
        for name in arguments {
            let commands = parent.configuration.subcommands
            guard !commands.isEmpty, !name.hasPrefix("-"), name != "help" else { return nil }
            let names = commands.map { $0.configuration.commandName ?? "" }
            guard let index = names.firstIndex(of: name) else {
                let nearest = NearestKey.of(name, among: names).map { " Did you mean '\($0)'?" } ?? ""
                return UsageError(
                    "'\(name)' is not a command.\(nearest) Commands: \(names.joined(separator: ", "))."
                )
            }
            parent = commands[index]
        }
        return nil
    }

    /// An error for the text of a private key instead of the path of its file. The parser would show the text in an error,
    /// because it begins with dashes.
    private static func textOfKey(in arguments: [String]) -> UsageError? {
        guard let index = arguments.firstIndex(where: { $0.contains("PRIVATE KEY-----") }) else { return nil }
        let words = [arguments[index].prefix { $0 != "=" }, arguments[..<index].last.map { $0[...] } ?? ""]
        let option = words.first { $0.hasPrefix("--") && !$0.contains(" ") } ?? "An argument"
        return UsageError(
            "\(option): it is the text of a private key. Other users of this machine can see it there. Give the path of "
                + "the key's file instead, or set the text in APNS_PRIVATE_KEY."
        )
    }

    private static func usage(of command: any ParsableCommand.Type) -> String {
        let usage = self.usageString(for: command)
        let path = usage.split(separator: " ").prefix { $0.allSatisfy { $0.isLetter || $0 == "-" } && $0.first != "-" }
        return "Usage: \(usage)\n  See '\(path.joined(separator: " ")) --help' for more information."
    }
}
