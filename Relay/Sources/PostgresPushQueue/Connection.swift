import CLibpq

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Why a statement has no result.
enum PostgresFailure: Error {
    /// There is no connection any more. If the statement was sent before, its effect is unknown.
    case away(String)
    /// The server has refused the statement, or has rolled it back.
    case refused(state: String, message: String, detail: String?)

    var message: String {
        switch self {
        case .away(let message), .refused(_, let message, _): message
        }
    }
}

/// The owner of a `PGconn`. One thread uses it.
final class Connection {
    private let pointer: OpaquePointer
    /// The names of the prepared statements by their texts.
    private var prepared: [String: String] = [:]

    /// Connects. Blocks.
    ///
    /// - Parameter parameters: libpq's connection parameters.
    init(_ parameters: [(name: String, value: String)]) throws(PostgresFailure) {
        let names = parameters.map { strdup($0.name) }
        let values = parameters.map { strdup($0.value) }
        defer { for string in names + values { free(string) } }
        let pointer = PQconnectdbParams(
            names.map { UnsafePointer($0) } + [nil],
            values.map { UnsafePointer($0) } + [nil],
            0
        )
        guard let pointer else { throw .away("There is no memory for a connection.") }
        self.pointer = pointer
        guard PQstatus(pointer) == CONNECTION_OK else { throw .away(self.message) }
        PQsetnonblocking(pointer, 1)
    }

    deinit { PQfinish(self.pointer) }

    private var message: String {
        let text = PQerrorMessage(self.pointer).map { String(cString: $0) } ?? ""
        return text.split(separator: "\n").joined(separator: " ")
    }

    private var socket: Int32 { PQsocket(self.pointer) }

    /// Whether the server has not closed the connection while it was idle.
    var isOpen: Bool {
        var poll = pollfd(fd: self.socket, events: Int16(POLLIN), revents: 0)
        guard systemPoll(&poll, 1, 0) > 0 else { return PQstatus(self.pointer) == CONNECTION_OK }
        return PQconsumeInput(self.pointer) == 1 && PQstatus(self.pointer) == CONNECTION_OK
    }

    /// Ends later statements that take longer than 30 s.
    func limitStatements() throws(PostgresFailure) { try self.runScript("SET statement_timeout = '30s'") }

    /// Runs several statements without parameters, and without preparing them.
    ///
    /// - Returns: the rows of the last one, with their values as text.
    @discardableResult
    func runScript(_ sql: String, until deadline: ContinuousClock.Instant = .longWait) throws(PostgresFailure) -> Rows {
        guard PQsendQuery(self.pointer, sql) == 1 else { throw .away(self.message) }
        return try self.result(until: deadline)
    }

    /// Runs a statement in a transaction of its own.
    ///
    /// - Parameter deadline: when the connection counts as lost if the server has not responded. The connection must not be
    ///   used after that.
    func run(
        _ sql: String,
        _ parameters: Parameters = Parameters(),
        until deadline: ContinuousClock.Instant = .longWait
    ) throws(PostgresFailure) -> Rows {
        try self.send(self.prepare(sql, parameters.types, until: deadline), parameters)
        return try self.result(until: deadline)
    }

    /// Sends a prepared statement, or throws an error and sends nothing.
    ///
    /// - Parameter name: what ``prepare(_:_:until:)`` returned.
    func send(_ name: String, _ parameters: Parameters) throws(PostgresFailure) {
        let isSent = parameters.buffer.withUnsafeBytes { buffer in
            let start = buffer.baseAddress?.assumingMemoryBound(to: CChar.self)
            // An empty value needs an address, too: without one, it is NULL.
            let values = parameters.ranges.map { range -> UnsafePointer<CChar>? in
                range.flatMap { start?.advanced(by: $0.lowerBound) ?? Self.noBytes }
            }
            let lengths = parameters.ranges.map { Int32(clamping: $0?.count ?? 0) }
            let formats = [Int32](repeating: 1, count: values.count)
            let count = Int32(clamping: values.count)
            return PQsendQueryPrepared(self.pointer, name, count, values, lengths, formats, 1)
        }
        guard isSent == 1 else { throw .away(self.message) }
    }

    // Never freed, and never written to.
    nonisolated(unsafe) private static let noBytes = UnsafePointer<CChar>(strdup(""))

    /// Prepares a statement, unless this connection has done so. Returns its name.
    func prepare(
        _ sql: String,
        _ types: [Oid],
        until deadline: ContinuousClock.Instant
    ) throws(PostgresFailure) -> String {
        if let name = self.prepared[sql] { return name }
        let name = "apns_\(self.prepared.count)"
        guard PQsendPrepare(self.pointer, name, sql, Int32(clamping: types.count), types) == 1 else {
            throw .away(self.message)
        }
        _ = try self.result(until: deadline)
        self.prepared[sql] = name
        return name
    }

    // MARK: Results

    /// Sends what is buffered, and waits for the last result, or for the first error.
    func result(until deadline: ContinuousClock.Instant) throws(PostgresFailure) -> Rows {
        while true {
            let left = PQflush(self.pointer)
            guard left >= 0 else { throw .away(self.message) }
            if left == 0 { break }
            // The server may send something first, and wait until it is read.
            try self.wait(for: POLLIN | POLLOUT, until: deadline)
        }
        var last: Result<Rows, PostgresFailure>?
        while true {
            while PQisBusy(self.pointer) == 1 { try self.wait(for: POLLIN, until: deadline) }
            guard let result = PQgetResult(self.pointer) else { break }
            let checked = Result { () throws(PostgresFailure) in try self.check(result) }
            if case .failure = last { continue }
            last = checked
        }
        guard let last else { throw .away(self.message) }
        return try last.get()
    }

    /// Waits for the socket, and reads what has arrived.
    private func wait(for events: Int32, until deadline: ContinuousClock.Instant) throws(PostgresFailure) {
        let left = ContinuousClock.now.duration(to: deadline)
        guard left > .zero else { throw .away("the server has not responded in time") }
        var descriptor = pollfd(fd: self.socket, events: Int16(events), revents: 0)
        // At most a second, so that a changed clock of the system does no harm.
        let milliseconds = min(max(left.milliseconds, 1), 1_000)
        guard systemPoll(&descriptor, 1, Int32(milliseconds)) > 0 else { return }
        guard PQconsumeInput(self.pointer) == 1 else { throw .away(self.message) }
    }

    private func check(_ result: OpaquePointer) throws(PostgresFailure) -> Rows {
        let rows = Rows(result)
        switch PQresultStatus(result) {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK: return rows
        default: break
        }
        // Without a state, the connection is broken. With one of an administrator's command, it will be.
        let state = Self.field(result, "C")
        guard let state, PQstatus(self.pointer) == CONNECTION_OK, !state.hasPrefix("57P") else {
            throw .away(self.message)
        }
        throw .refused(
            state: state,
            message: Self.field(result, "M") ?? self.message,
            detail: Self.field(result, "D")
        )
    }

    private static func field(_ result: OpaquePointer, _ code: Character) -> String? {
        let code = Int32(code.asciiValue ?? 0)
        return PQresultErrorField(result, code).map { String(cString: $0) }
    }
}

extension ContinuousClock.Instant {
    /// Longer than any migration takes, for statements whose duration nobody waits for.
    static var longWait: ContinuousClock.Instant { .now.advanced(by: .seconds(3_600)) }
}

/// `poll` of the C library, for the methods whose scope has another name for it.
private func systemPoll(_ descriptors: UnsafeMutablePointer<pollfd>, _ count: nfds_t, _ milliseconds: Int32) -> Int32 {
    poll(descriptors, count, milliseconds)
}
