import Foundation

extension NATSServer {
    /// Sends a request in NATS' own protocol, and returns the response. Blocks.
    package func request(_ subject: String, _ body: String = "") throws -> String {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw Failure(text: "no socket") }
        defer { close(descriptor) }
        var limit = timeval(tv_sec: 5, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = UInt16(clamping: self.port).bigEndian
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        let request =
            "CONNECT {\"verbose\":false}\r\nSUB _INBOX.test 1\r\n"
            + "PUB \(subject) _INBOX.test \(body.utf8.count)\r\n\(body)\r\n"
        let bytes = Array(request.utf8)
        guard isConnected, send(descriptor, bytes, bytes.count, 0) == bytes.count else {
            throw Failure(text: "the broker on port \(self.port) cannot be reached")
        }
        var received = ""
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { throw Failure(text: "no response to \(subject): \(received)") }
            received += String(decoding: buffer[..<count], as: UTF8.self)
            // MSG subject sid length, and the body on a line of its own.
            guard let head = received.range(of: "MSG _INBOX.test 1 "),
                let end = received.range(of: "\r\n", range: head.upperBound..<received.endIndex),
                let length = Int(received[head.upperBound..<end.lowerBound].trimmingCharacters(in: .whitespaces))
            else { continue }
            let rest = received[end.upperBound...].utf8
            if rest.count >= length { return String(decoding: rest.prefix(length), as: UTF8.self) }
        }
    }

    /// Changes the size that a stream may have. Blocks.
    package func setMaximumBytes(of stream: String, to bytes: Int) throws {
        let info = try JSONSerialization.jsonObject(with: Data(try self.request("$JS.API.STREAM.INFO.\(stream)").utf8))
        guard let members = info as? [String: Any], var config = members["config"] as? [String: Any] else {
            throw Failure(text: "the broker says nothing about \(stream): \(info)")
        }
        config["max_bytes"] = bytes
        let body = String(decoding: try JSONSerialization.data(withJSONObject: config), as: UTF8.self)
        let response = try self.request("$JS.API.STREAM.UPDATE.\(stream)", body)
        guard !response.contains("\"error\"") else { throw Failure(text: response) }
    }

    /// The number of the first message that a stream still has. Blocks.
    package func firstSequence(of stream: String) throws -> UInt64? {
        let info = try self.request("$JS.API.STREAM.INFO.\(stream)")
        return info.firstMatch(of: /"first_seq":(\d+)/).flatMap { UInt64($0.1) }
    }

    /// Deletes a stream. Blocks.
    package func delete(_ stream: String) throws {
        let response = try self.request("$JS.API.STREAM.DELETE.\(stream)")
        guard response.contains(#""success":true"#) else { throw Failure(text: response) }
    }

    /// Whether all three brokers of a cluster have all messages of a stream; false while nobody responds, as during an
    /// election. Blocks.
    package func isCurrent(_ stream: String) -> Bool {
        guard let info = try? self.request("$JS.API.STREAM.INFO.\(stream)") else { return false }
        return info.matches(of: /"current":true/).count == 2 && !info.contains(#""offline":true"#)
    }

    /// The name of the broker that leads a stream; nil if there is none now, or nobody responds. Blocks.
    package func leader(of stream: String) -> String? {
        let response = try? self.request("$JS.API.STREAM.INFO.\(stream)")
        return response?.firstMatch(of: /"leader":"([^"]+)"/).map { String($0.1) }
    }
}
