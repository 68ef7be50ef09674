/// How to reach the brokers, and where the queue is in them.
package struct NATSOptions: Sendable, Hashable {
    /// The TLS settings. All files are PEM.
    package struct TLS: Sendable, Hashable {
        /// The certificates of the authorities to trust; nil for those of the system.
        package var caFile: String?
        /// The client's certificate chain, with `keyFile`; nil if the broker asks for none.
        package var certificateFile: String?
        package var keyFile: String?
        /// The name that the broker's certificate must have; nil for the host in the address.
        package var expectedHost: String?

        package init(
            caFile: String? = nil,
            certificateFile: String? = nil,
            keyFile: String? = nil,
            expectedHost: String? = nil
        ) {
            self.caFile = caFile
            self.certificateFile = certificateFile
            self.keyFile = keyFile
            self.expectedHost = expectedHost
        }
    }

    /// The addresses of the brokers, such as `nats://10.0.0.1:4222`. An address can contain a user and a password.
    package var servers: [String]
    /// The name of the stream. Queues with different names are independent. Letters, digits, `-` and `_`.
    package var stream: String
    /// The number of brokers that store the stream: 1, 3 or 5. Used when the stream is created. With one, a power
    /// failure can lose what the broker has not synced to its disk. With three, the queue survives the loss of one.
    package var replicas: Int
    /// The most bytes of the stream; nil for the limits of the broker. Used when the stream is created.
    package var maximumBytes: Int64?
    package var tls: TLS?
    /// A file with a user's JWT and key, as `nsc` writes it.
    package var credentialsFile: String?
    /// Whether the outcomes are published to a stream of their own, for other programs.
    package var publishesOutcomes: Bool
    package init(
        servers: [String],
        stream: String = "APNS_RELAY",
        replicas: Int = 1,
        maximumBytes: Int64? = nil,
        tls: TLS? = nil,
        credentialsFile: String? = nil,
        publishesOutcomes: Bool = false
    ) {
        self.servers = servers
        self.stream = stream
        self.replicas = replicas
        self.maximumBytes = maximumBytes
        self.tls = tls
        self.credentialsFile = credentialsFile
        self.publishesOutcomes = publishesOutcomes
    }

    /// The subject of the journal's records.
    var subject: String { "\(self.stream).journal" }

    /// The stream of the journal's snapshots.
    var snapshotStream: String { "\(self.stream)_SNAPSHOT" }

    /// The beginning of the subjects of snapshots.
    var snapshotSubject: String { "\(self.stream).snapshot" }

    /// The stream of outcomes for other programs.
    package var outcomesStream: String { "\(self.stream)_OUTCOMES" }

    /// The beginning of the subjects of outcomes.
    var outcomesSubject: String { "\(self.stream).outcomes" }

    /// The subject of an outcome. What would have a meaning in a subject becomes `_`.
    func outcomesSubject(app: String, kind: String) -> String {
        let name = app.map { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") ? $0 : "_" }
        return "\(self.outcomesSubject).\(name.isEmpty ? "_" : String(name)).\(kind)"
    }

    /// What is wrong with the stream's name or the servers; nil if both can be used.
    package var fault: String? {
        let isValid = self.stream.utf8.allSatisfy { byte in
            byte == 0x2D || byte == 0x5F || (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte)
                || (0x61...0x7A).contains(byte)
        }
        guard isValid, !self.stream.isEmpty else {
            return "The stream's name \"\(self.stream)\" is not allowed. Use letters, digits, - and _."
        }
        guard !self.servers.isEmpty else { return "No broker is set. Set at least one address." }
        return nil
    }
}
