import APNSSimulator

/// How the harness' own simulator behaves.
struct ServerBehaviour: Sendable, Equatable {
    /// Each response is kept back so many milliseconds.
    var rtt = 0.0
    /// The mean of a further, exponentially distributed delay, in milliseconds.
    var serviceTime = 0.0
    /// Streams on a connection.
    var streamLimit = 1000
    /// The address to listen on.
    var host = "127.0.0.1"
    /// The push, counted from 1, at which it stops answering.
    var stallAt: Int?
    /// For how long.
    var stallSeconds = 60.0
    /// Whether it has the faults of a soak.
    var hasSoakFaults = false

    /// What the server's process is started with.
    var arguments: [String] {
        var arguments = [
            "--rtt", "\(rtt)", "--service-time", "\(serviceTime)", "--stream-limit", "\(streamLimit)", "--listen", host,
        ]
        if let stallAt { arguments += ["--stall-at", "\(stallAt)", "--stall-seconds", "\(stallSeconds)"] }
        if hasSoakFaults { arguments.append("--soak-faults") }
        return arguments
    }

    var simulator: Simulator.Configuration {
        var configuration = Simulator.Configuration()
        configuration.host = host
        configuration.certificateNames = ["localhost", host]
        configuration.maxConcurrentStreams = UInt32(streamLimit)
        // Other load tools open all their streams before they know the server's limit.
        configuration.initialMaxConcurrentStreams = configuration.maxConcurrentStreams
        configuration.environment = .production
        configuration.recording = .counts
        configuration.responseDelay = .milliseconds(rtt)
        if serviceTime > 0 {
            configuration.faults.faults.append(
                Fault(.delay(.exponential(mean: .milliseconds(serviceTime))), when: .always)
            )
        }
        if let stallAt {
            configuration.faults.faults.append(
                Fault(.pause(.seconds(stallSeconds), everywhere: true), when: .nth(stallAt))
            )
        }
        if hasSoakFaults {
            configuration.faults.faults += SoakFaults.all
            configuration.seed = SoakFaults.seed
        }
        return configuration
    }
}
