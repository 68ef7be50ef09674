import NATSPushQueue

extension NATSOptions {
    /// Reads the settings `nats.*`; nil if no brokers are set.
    init?(_ settings: inout SettingsReader) {
        var publishesOutcomes = false
        settings.bool("nats.outcomes", into: &publishesOutcomes)
        guard let servers = settings.list("nats.servers") else {
            if publishesOutcomes { settings.fail("nats.outcomes", "it needs brokers: set nats.servers") }
            return nil
        }
        self.init(servers: servers, publishesOutcomes: publishesOutcomes)
        for server in servers where !["nats://", "tls://"].contains(where: { server.hasPrefix($0) }) {
            settings.fail("nats.servers", "an address begins with nats:// or tls://, such as nats://10.0.0.1:4222")
        }
        self.stream = settings.text("nats.stream") ?? self.stream
        settings.int("nats.replicas", 1...5, into: &self.replicas)
        if self.replicas.isMultiple(of: 2) {
            settings.fail(
                "nats.replicas",
                "it must be 1, 3 or 5: \(self.replicas) brokers survive no more failures than \(self.replicas - 1)"
            )
        }
        var bytes = 0
        settings.int("nats.maxBytes", 1_048_576...(1 << 50), into: &bytes)
        if bytes > 0 { self.maximumBytes = Int64(bytes) }
        self.credentialsFile = settings.text("nats.credentialsFile")
        var tls = TLS()
        tls.caFile = settings.text("nats.caFile")
        tls.certificateFile = settings.text("nats.certificateFile")
        tls.keyFile = settings.text("nats.keyFile")
        tls.expectedHost = settings.text("nats.expectedHost")
        if (tls.certificateFile == nil) != (tls.keyFile == nil) {
            settings.fail("nats.certificateFile", "a client certificate needs both this and nats.keyFile")
        }
        if tls != TLS() || servers.contains(where: { $0.hasPrefix("tls://") }) { self.tls = tls }
        if let fault = self.fault { settings.fail("nats.stream", fault) }
    }
}
