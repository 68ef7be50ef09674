import CLibpq
public import PushQueue

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// How to connect to the database.
public struct ConnectionSettings: Sendable, Hashable {
    private var parameters: [Parameter]

    private struct Parameter: Sendable, Hashable {
        var name: String
        var value: String
    }

    /// Parses a connection string.
    ///
    /// A server on another machine must prove its identity with a certificate (`sslmode=verify-full`), unless the string or
    /// the environment names another `sslmode`. A lost server is noticed after 15 seconds, unless the string says otherwise.
    ///
    /// - Parameter string: a URI (`postgres://…`) or `name=value` pairs, as libpq describes them. Its environment
    ///   variables, service files and password files apply.
    /// - Throws: `QueueError` (`unusable`) if it is not a connection string.
    public init(_ string: String) throws(QueueError) {
        var error: UnsafeMutablePointer<CChar>?
        guard let options = PQconninfoParse(string, &error) else {
            let message = error.map { String(cString: $0).split(separator: "\n").joined(separator: " ") } ?? "no memory"
            PQfreemem(error)
            throw QueueError(code: .unusable, message: "it is not a connection string of libpq: \(message)")
        }
        defer { PQconninfoFree(options) }
        var parameters: [Parameter] = []
        var option = options
        while let name = option.pointee.keyword {
            if let value = option.pointee.val {
                parameters.append(Parameter(name: String(cString: name), value: String(cString: value)))
            }
            option += 1
        }
        self.parameters = parameters
        for (name, value) in Self.defaults { self.setDefault(name, value) }
        if !self.isLocal, !self.usesService { self.setDefault("sslmode", "verify-full", variable: "PGSSLMODE") }
    }

    private static let defaults = [
        ("application_name", "apns-relay"), ("connect_timeout", "5"), ("client_encoding", "UTF8"),
        ("target_session_attrs", "read-write"), ("tcp_user_timeout", "15000"), ("keepalives_idle", "10"),
        ("keepalives_interval", "2"), ("keepalives_count", "3"),
    ]

    private subscript(name: String) -> String? { self.parameters.first { $0.name == name }?.value }

    private mutating func setDefault(_ name: String, _ value: String, variable: String? = nil) {
        guard self[name] == nil, variable.flatMap({ getenv($0) }) == nil else { return }
        self.parameters.append(Parameter(name: name, value: value))
    }

    private var usesService: Bool { self["service"] != nil || getenv("PGSERVICE") != nil }

    /// Whether every server is on this machine.
    private var isLocal: Bool {
        let hosts = self["hostaddr"] ?? self["host"] ?? getenv("PGHOST").map { String(cString: $0) } ?? ""
        return hosts.split(separator: ",").allSatisfy { host in
            host.hasPrefix("/") || host.hasPrefix("@") || ["localhost", "127.0.0.1", "::1"].contains(host)
        }
    }

    /// Where the database is, without the password.
    public var description: String {
        ["host", "port", "dbname", "user", "service", "sslmode"]
            .compactMap { name in self[name].map { "\(name)=\($0)" } }
            .joined(separator: " ")
    }

    /// Opens a connection. Blocks.
    func connect() throws(PostgresFailure) -> Connection {
        let connection = try Connection(self.parameters.map { ($0.name, $0.value) })
        try connection.runScript(Self.session, until: .now.advanced(by: .seconds(10)))
        return connection
    }

    /// What must not depend on the settings of the server, the database or the role.
    private static let session = """
        SET synchronous_commit = on; SET default_transaction_isolation = 'read committed'; \
        SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '10s'; SET TimeZone = 'UTC'; \
        SET client_min_messages = 'error'
        """
}
