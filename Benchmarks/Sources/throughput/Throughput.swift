import ArgumentParser

@main
struct Throughput: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "throughput",
        abstract: "Measures how fast, and at what cost, pushes go through the client.",
        discussion: """
            Without a subcommand it measures once; 'throughput help measure' lists the options of that.
            """,
        subcommands: [Measure.self, Sweep.self, Goals.self, Page.self, Probe.self, Soak.self, Outages.self],
        defaultSubcommand: Measure.self
    )
}
