import APNSRelay
import ArgumentParser

/// `apns-relay migrate`
struct Migrate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Creates the queue's schema in the PostgreSQL database of the settings.",
        discussion: """
            A relay does this when it starts, unless storage.migrate is false. The role needs the right to \
            create a schema in the database, or must own the schema apns.
            """
    )

    @OptionGroup var settings: SettingsOptions

    @Flag(help: "Print the SQL that creates the schema in an empty database, and change nothing.")
    var sql = false

    func run() async throws {
        if self.sql { return print(RelayProcess.migrationScript) }
        print(try RelayProcess.migrate(try self.settings.read()))
    }
}
