// The examples of the catalog of APNSSimulator and of Docs/Testing.md. `make format` copies what stands between `// example` and `// end of
// example` from the page.
// swift-format-ignore-file

import APNSModel
import APNSSimulator

// example Sources/APNSSimulator/Documentation.docc/APNSSimulator.md
func startSimulator() async throws -> Simulator {
    let simulator = try await Simulator.start()
    simulator.setToken("00fa11ce", .unregistered(sinceMilliseconds: 1_700_000_000_000))
    simulator.inject(.serviceUnavailable(count: 5))
    return simulator
}
// end of example

// example Docs/Testing.md 9
func startFaultySimulator() async throws -> Simulator {
    var configuration = Simulator.Configuration()
    configuration.seed = 42
    configuration.faults = FaultScript([
        .share(0.1, of: .serviceUnavailable),
        Fault(.goAway(reason: "Shutdown"), when: .nth(500)),
        Fault(.delay(.logNormal(median: .milliseconds(30), spread: 0.5)), when: .always),
        Fault(.respond(.tooManyRequests), when: .deviceToken("00fa11ce")),
    ])
    return try await Simulator.start(configuration)
}
// end of example
