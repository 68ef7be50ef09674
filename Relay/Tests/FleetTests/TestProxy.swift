import Foundation
import RelayTestSupport
import Synchronization

/// Passes TCP connections on, and can behave as a network that loses or delays everything.
final class TestProxy: Sendable {
    private struct State {
        var isCut = false
        var isClosed = false
        var descriptors: Set<Int32> = []
    }

    let port: Int
    private let target: Int
    private let listener: Int32
    private let state = Mutex(State())
    private let condition = NSCondition()

    /// - Parameter target: the port on this machine that connections are passed on to.
    init(to target: Int) throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = Self.address(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(descriptor, pointer, length) == 0 && listen(descriptor, 64) == 0
                    && getsockname(descriptor, pointer, &length) == 0
            }
        }
        guard descriptor >= 0, isBound else { throw RelayTestFailure("no port for a proxy") }
        self.target = target
        self.listener = descriptor
        self.port = Int(UInt16(bigEndian: address.sin_port))
        Thread.detachNewThread { self.accept() }
    }

    /// Passes nothing on any more, and closes nothing.
    func cut() { self.change { $0.isCut = true } }

    /// Ends all connections, and passes nothing on any more.
    func reset() {
        self.cut()
        for descriptor in self.state.withLock({ $0.descriptors }) { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }

    /// Passes on again what was held back, and everything after it.
    func heal() { self.change { $0.isCut = false } }

    func close() {
        let descriptors = self.state.withLock { state in
            state.isClosed = true
            return state.descriptors
        }
        self.change { _ in }
        for descriptor in descriptors.union([self.listener]) { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }

    private func change(_ body: (inout State) -> Void) {
        self.state.withLock { body(&$0) }
        self.condition.lock()
        self.condition.broadcast()
        self.condition.unlock()
    }

    /// - Returns: whether the proxy is open.
    private func waitWhileCut() -> Bool {
        self.condition.lock()
        defer { self.condition.unlock() }
        while true {
            let (isCut, isClosed) = self.state.withLock { ($0.isCut, $0.isClosed) }
            if isClosed { return false }
            if !isCut { return true }
            self.condition.wait()
        }
    }

    private static func address(_ port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = UInt16(clamping: port).bigEndian
        return address
    }

    private func accept() {
        while true {
            let client = Foundation.accept(self.listener, nil, nil)
            guard client >= 0, self.add(client) else { break }
            Thread.detachNewThread { self.serve(client) }
        }
        Foundation.close(self.listener)
    }

    /// - Returns: whether the proxy is open.
    private func add(_ descriptor: Int32) -> Bool {
        self.state.withLock { state in
            if !state.isClosed { state.descriptors.insert(descriptor) }
            return !state.isClosed
        }
    }

    private func serve(_ client: Int32) {
        defer { self.end(client) }
        guard self.waitWhileCut() else { return }
        let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard server >= 0, self.add(server) else { return }
        defer { self.end(server) }
        var address = Self.address(self.target)
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(server, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isConnected else { return }
        let back = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            self.pass(from: server, to: client)
            back.signal()
        }
        self.pass(from: client, to: server)
        back.wait()
    }

    private func end(_ descriptor: Int32) {
        self.state.withLock { _ = $0.descriptors.remove(descriptor) }
        Foundation.close(descriptor)
    }

    /// Returns when one of the two connections has ended, after which both have.
    private func pass(from source: Int32, to target: Int32) {
        var buffer = [UInt8](repeating: 0, count: 16_384)
        while true {
            let count = recv(source, &buffer, buffer.count, 0)
            guard self.waitWhileCut(), count > 0 else { break }
            var sent = 0
            while sent < count {
                let written = buffer.withUnsafeBytes {
                    send(target, $0.baseAddress?.advanced(by: sent), count - sent, Int32(MSG_NOSIGNAL))
                }
                guard written > 0 else { break }
                sent += written
            }
            guard sent == count else { break }
        }
        shutdown(source, Int32(SHUT_RDWR))
        shutdown(target, Int32(SHUT_RDWR))
    }
}
