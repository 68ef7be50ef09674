import APNSTransport
import NIOCore
import Synchronization

@testable import APNSPool

/// The port that a client's connections reach, whatever its settings say. A server can so seem to disappear and to come
/// back, and still keep its port, which the server of another test might otherwise get.
final class AddressSwitch: Sendable {
    private let port: Atomic<Int>

    init(_ port: Int) { self.port = Atomic(port) }

    /// Sends the connections that are opened from now on to another port of this machine.
    func point(to port: Int) { self.port.store(port, ordering: .relaxed) }

    /// Lets a client's connections follow the switch, in addition to the other adjustments in the configuration.
    func apply(to configuration: inout APNSClientConfiguration) {
        let adjust = configuration.adjustConnection
        configuration.adjustConnection = { connection in
            adjust?(&connection)
            connection.nameResolver = NameResolver { _, _ in
                let port = self.port.load(ordering: .relaxed)
                guard let address = try? SocketAddress(ipAddress: "127.0.0.1", port: port) else {
                    return .failure(WireError(.nameResolutionFailed, "no address with the port \(port)"))
                }
                return .success([address])
            }
        }
    }
}
