#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A network between client and server whose router delays every packet, including those of the TCP handshake. It needs
/// the namespace `server` and the router's program, which `ci/lib/network-namespaces` provides.
final class RoutedNetwork {
    /// Where the server listens.
    static let serverAddress = "10.77.1.2"

    private static let routerProgram = ProcessInfo.processInfo.environment["NETWORK_LAB_ROUTER"]
    static let isAvailable = routerProgram != nil

    private let router: ChildProcess

    /// - Parameter roundTrip: the added round trip in milliseconds. With 0, only the router's own delay remains.
    init(roundTrip: Double) throws {
        guard let program = Self.routerProgram else {
            throw ProcessError("NETWORK_LAB_ROUTER is not set: run this by ci/lib/network-namespaces")
        }
        router = try ChildProcess(
            program: program,
            ["client1", "server1", "/run/netns/server", "both delay \(roundTrip / 2)"]
        )
        guard router.line() == "ok", router.line() == "ready" else {
            router.end()
            throw ProcessError("the router did not start")
        }
        // The devices' queues are long enough that they drop no packet.
        let addresses = """
            ip link set client1 txqueuelen 10000 up
            ip addr add 10.77.1.1/24 dev client1
            ip -n server link set server1 txqueuelen 10000 up
            ip -n server addr add \(Self.serverAddress)/32 dev server1
            ip -n server route add 10.77.1.0/24 dev server1
            """
        guard ChildProcess.status(of: ["sh", "-ec", addresses]) == 0 else {
            router.end()
            throw ProcessError("the network's devices could not be configured")
        }
    }

    /// Ends the router, and its devices with it.
    func end() { router.end() }
}
