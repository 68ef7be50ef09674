import ArgumentParser

/// ``ServerBehaviour`` as arguments.
struct SimulatorOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The simulator's answers are kept back so long, as by the network.", valueName: "MS"))
    var rtt = 0.0

    @Option(
        help: ArgumentHelp(
            "The simulator takes so long for a push on average, exponentially distributed, beside --rtt.",
            valueName: "MS"
        )
    )
    var serviceTime = 0.0

    @Option(help: ArgumentHelp("Streams that the simulator allows on a connection.", valueName: "N"))
    var streamLimit = 1000

    @Option(help: ArgumentHelp("The address where the simulator listens.", visibility: .hidden))
    var listen = "127.0.0.1"

    @Option(help: ArgumentHelp("The simulator stops answering at the N-th push.", valueName: "N", visibility: .hidden))
    var stallAt: Int?

    @Option(help: ArgumentHelp("For so long.", valueName: "SECONDS", visibility: .hidden))
    var stallSeconds = 60.0

    @Flag(help: ArgumentHelp("The simulator has the faults of 'soak'.", visibility: .hidden))
    var soakFaults = false

    func validate() throws {
        guard (0...60_000).contains(rtt) else { throw ValidationError("--rtt must be 0 to 60000 ms") }
        guard (0...60_000).contains(serviceTime) else { throw ValidationError("--service-time must be 0 to 60000 ms") }
        guard (1...1000).contains(streamLimit) else { throw ValidationError("--stream-limit must be 1 to 1000") }
        if let stallAt, stallAt < 1 { throw ValidationError("--stall-at must be 1 or more") }
        guard (0...3600).contains(stallSeconds) else { throw ValidationError("--stall-seconds must be 0 to 3600") }
    }

    var behaviour: ServerBehaviour {
        ServerBehaviour(
            rtt: rtt,
            serviceTime: serviceTime,
            streamLimit: streamLimit,
            host: listen,
            stallAt: stallAt,
            stallSeconds: stallSeconds,
            hasSoakFaults: soakFaults
        )
    }
}
