import APNSPool
import ArgumentParser

/// `apns demo`
struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Sends to a simulator with faults, and shows that no push is lost.",
        discussion: """
            Runs a simulator of APNs in this process, and a client with a pool of 2 connections and 2 more on demand. \
            While pushes are in flight, the simulator responds to some with 503, sends a GOAWAY, and drops a \
            connection without notice. In the end, every push is accepted exactly once.

            Send ten thousand pushes:

              apns demo

            Send half a million, and log the client's events on standard error:

              apns demo --pushes 500000 --verbose

            The last line says how many were accepted. Exit status: 0 if all were accepted, otherwise 1.
            """
    )

    @Option(parsing: .unconditional, help: ArgumentHelp("How many pushes; default 10000.", valueName: "n"))
    var pushes: String = "10000"

    @Option(parsing: .unconditional, help: ArgumentHelp("Pushes in flight at once; default 1000.", valueName: "n"))
    var inFlight: String = "1000"

    @Flag(help: "Log the client's events on standard error.")
    var verbose = false

    func validate() throws {
        _ = try self.demo()
    }

    private func demo() throws -> Demo {
        Demo(
            pushes: try wholeNumber(self.pushes, "--pushes", Demo.fewest...5_000_000),
            inFlight: try wholeNumber(self.inFlight, "--in-flight", 1...10_000),
            isVerbose: self.verbose
        )
    }

    func run() async throws {
        let demo = try self.demo()
        let report = try await demo.run()
        Standard.output.print(demo.table(report).text)
        Standard.output.print("\nTo see pushes on a page: apns simulator --control 8026\n")
        Standard.output.print(report.verdict(pushes: demo.pushes))
        if !report.isGood(pushes: demo.pushes) { throw ExitCode(1) }
    }
}
