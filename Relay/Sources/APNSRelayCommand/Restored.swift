import APNSRelay
import ArgumentParser

/// `apns-relay restored`
struct Restored: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Says that the queue was restored from a backup. Run it after each restore.",
        discussion: """
            The pushes that are due or in flight in a backup may have been sent since. This command parks them, so that you \
            can retry or drop them, unless storage.afterFailover is send. Relays notice most restores themselves, but not \
            that of a machine with the relay's own files. Running the command once more parks the pushes that have become \
            due since. Stop all relays before you restore the queue. Run this command before you start them. If relays that \
            share a database have started already, it can run beside them; a relay that uses a file must be stopped.
            """
    )

    @OptionGroup var settings: SettingsOptions

    func run() async throws {
        print(try await RelayProcess.restored(try self.settings.read()))
    }
}
